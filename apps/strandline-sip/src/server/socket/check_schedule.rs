//! The schedule for checking connections.

use std::collections::VecDeque;

/// Interval between checks of a connection, in seconds. Each check costs a lookup.
const LOOK_SECS: u32 = 30;

/// The connections to check, in the order of their due times.
#[derive(Debug, Default)]
pub(super) struct Watch {
    due: VecDeque<(u32, u64)>,
}

impl Watch {
    pub(super) fn add(&mut self, now_secs: u32, id: u64) {
        self.due.push_back((now_secs.saturating_add(LOOK_SECS), id));
    }

    /// Takes the next connection that is due.
    pub(super) fn next(&mut self, now_secs: u32) -> Option<u64> {
        let (due, id) = *self.due.front()?;
        if due > now_secs {
            return None;
        }
        self.due.pop_front();
        Some(id)
    }

    /// Removes entries of closed connections if there are more than `most` entries.
    pub(super) fn forget(&mut self, most: usize, stands: impl Fn(u64) -> bool) {
        if self.due.len() > most {
            self.due.retain(|(_, id)| stands(*id));
        }
    }
}
