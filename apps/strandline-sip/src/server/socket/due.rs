//! When connections are looked at.

use std::collections::VecDeque;

/// How often a connection is looked at. That costs a look-up, so it isn't done more often than it has to.
const LOOK_SECS: u32 = 30;

/// When connections are to be looked at, in that order.
#[derive(Debug, Default)]
pub(super) struct Watch {
    due: VecDeque<(u32, u64)>,
}

impl Watch {
    pub(super) fn add(&mut self, now_secs: u32, id: u64) {
        self.due.push_back((now_secs.saturating_add(LOOK_SECS), id));
    }

    /// The next one that is due.
    pub(super) fn next(&mut self, now_secs: u32) -> Option<u64> {
        let (due, id) = *self.due.front()?;
        if due > now_secs {
            return None;
        }
        self.due.pop_front();
        Some(id)
    }

    /// Forgets those that are gone, if there are more than `most`.
    pub(super) fn forget(&mut self, most: usize, stands: impl Fn(u64) -> bool) {
        if self.due.len() > most {
            self.due.retain(|(_, id)| stands(*id));
        }
    }
}
