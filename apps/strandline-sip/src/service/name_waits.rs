//! Contacts with both a host name and a flow: a request waits for DNS only for a short time, and is then sent
//! over the flow (RFC 5626 section 5.3, RFC 3261 section 16.6).

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::resolution::Question;
use crate::transaction::{ServerId, Time};

use super::context::BranchId;

/// Time for which a request waits for DNS before it is sent over the flow of the contact. It is T1, the
/// round-trip time that RFC 3261 section 17.1.1.1 assumes: working name servers answer sooner, and a caller
/// doesn't notice the delay.
const WAIT: Duration = Duration::from_millis(500);
/// Time for which requests don't wait for a name after DNS did not answer in time. Afterwards the name is
/// queried again.
pub(super) const SILENT: Duration = Duration::from_secs(30);
/// Maximum number of branches that wait for a limited time. Further ones wait until DNS has answered or
/// failed.
const WAITS_MAX: usize = 20_000;

/// A branch that waits for the servers of a name.
#[derive(Debug)]
pub(super) struct Wait {
    until: Time,
    pub(super) branch: BranchId,
    pub(super) server: ServerId,
    pub(super) question: Arc<Question>,
}

/// Branches that wait for DNS and have a flow to fall back to, the oldest first.
#[derive(Debug, Default)]
pub(super) struct NameWaits(VecDeque<Wait>);

impl NameWaits {
    /// Limits the time for which a branch waits.
    pub(super) fn push(&mut self, now: Time, branch: BranchId, server: ServerId, question: &Arc<Question>) {
        if self.0.len() < WAITS_MAX {
            let question = Arc::clone(question);
            self.0.push_back(Wait { until: now + WAIT, branch, server, question });
        }
    }

    /// The end of the first wait.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.0.front().map(|wait| wait.until)
    }

    /// Removes and returns a wait that has ended.
    pub(super) fn pop(&mut self, now: Time) -> Option<Wait> {
        let is_due = self.0.front().is_some_and(|wait| wait.until <= now);
        if is_due { self.0.pop_front() } else { None }
    }
}
