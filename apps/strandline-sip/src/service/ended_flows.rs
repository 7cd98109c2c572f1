//! Flows that ended together with their bindings, of phones that may come back: the same instance registers with the
//! same reg-id over a new connection, and requests within dialogs follow it there, as with
//! [`replaced_flows`](super::replaced_flows).
//!
//! The worker with a connection learns of its end itself. The others see that the binding has vanished from those of
//! that worker.

use std::collections::{HashMap, VecDeque};

use super::replaced_flows::Before;

/// Maximum number of users whose flows are remembered. Those that ended first are forgotten first.
const USERS_MAX: usize = 65_536;
/// Maximum number of flows of a user.
const EACH_MAX: usize = 4;

/// Ended flows by the users that were reached over them.
#[derive(Debug, Default)]
pub(super) struct EndedFlows {
    of: HashMap<Box<[u8]>, (u64, Vec<Before>)>,
    /// Users in the order of their last flows, each with the number of its note.
    order: VecDeque<(Box<[u8]>, u64)>,
    notes: u64,
}

impl EndedFlows {
    /// Remembers a flow of a user.
    pub(super) fn note(&mut self, aor: &[u8], flow: Before) {
        self.notes += 1;
        let (last, flows) = self.of.entry(aor.into()).or_default();
        *last = self.notes;
        if flows.len() == EACH_MAX {
            flows.remove(0);
        }
        flows.push(flow);
        self.order.push_back((aor.into(), self.notes));
        if self.order.len() > USERS_MAX
            && let Some((oldest, number)) = self.order.pop_front()
            && self.of.get(&oldest).is_some_and(|(last, _)| *last == number)
        {
            self.of.remove(&oldest);
        }
    }

    /// Takes the flows of a user for which `is_back` holds.
    pub(super) fn take(&mut self, aor: &[u8], is_back: impl Fn(&Before) -> bool) -> Vec<Before> {
        if self.of.is_empty() {
            return Vec::new();
        }
        let Some((_, flows)) = self.of.get_mut(aor) else { return Vec::new() };
        let back = flows.extract_if(.., |flow| is_back(flow)).collect();
        if flows.is_empty() {
            self.of.remove(aor);
        }
        back
    }
}

#[cfg(test)]
mod tests;
