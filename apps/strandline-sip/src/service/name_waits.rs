//! Contacts that have both a host name and a flow: a request waits for DNS for a short time only, and goes over the flow then
//! (RFC 5626 section 5.3, RFC 3261 section 16.6).

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::resolution::Question;
use crate::transaction::{ServerId, Time};

use super::contexts::BranchId;

/// How long a request waits for DNS before it goes over the flow of the contact. It is T1, the round trip that RFC 3261 section
/// 17.1.1.1 assumes: name servers that work answer sooner, and a caller doesn't notice it.
const WAIT: Duration = Duration::from_millis(500);
/// How long requests don't wait for a name after DNS has not answered in time. The name is asked for again after that.
pub(super) const SILENT: Duration = Duration::from_secs(30);
/// Limit of branches that wait; more of them wait until DNS has answered or given up.
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
    /// Limits how long a branch waits.
    pub(super) fn push(&mut self, now: Time, branch: BranchId, server: ServerId, question: &Arc<Question>) {
        if self.0.len() < WAITS_MAX {
            let question = Arc::clone(question);
            self.0.push_back(Wait { until: now + WAIT, branch, server, question });
        }
    }

    /// When the first wait ends.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.0.front().map(|wait| wait.until)
    }

    /// Removes a wait that is over.
    pub(super) fn pop(&mut self, now: Time) -> Option<Wait> {
        let is_due = self.0.front().is_some_and(|wait| wait.until <= now);
        if is_due { self.0.pop_front() } else { None }
    }
}
