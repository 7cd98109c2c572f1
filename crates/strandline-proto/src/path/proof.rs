//! Verifies that packets longer than the smallest path MTU arrive where no DATA shows it: SACKs with many gap blocks,
//! whose loss is never reported. They may be that long only while an answered HEARTBEAT of that length proves it (RFC
//! 8899 section 4.3).

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::path_index::PathIndex;
use crate::time::Time;

/// Lifetime of an answer.
const LIFE: Duration = Duration::from_secs(10);
/// Number of unanswered HEARTBEATs after which the size counts as too long.
const LOST_MAX: u8 = 3;
/// Minimum time to wait for an answer.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// The next action of a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Do nothing now.
    Rest,
    /// Send a HEARTBEAT of the full length.
    Send,
    /// Give up, because several HEARTBEATs went unanswered.
    GiveUp,
}

/// The proof of one path.
#[derive(Debug)]
pub(crate) struct Proof {
    path: PathIndex,
    /// Nonce of the outstanding HEARTBEAT; 0 if there is none.
    nonce: u64,
    sent_at: Time,
    /// Until when long packets are known to arrive.
    until: Time,
    lost: u8,
    /// True if a long packet was wanted since the latest HEARTBEAT.
    wanted: bool,
}

impl Proof {
    pub(crate) fn new(path: PathIndex) -> Self {
        Self { path, nonce: 0, sent_at: Time::ZERO, until: Time::ZERO, lost: 0, wanted: false }
    }

    /// Returns the path that the proof belongs to.
    pub(crate) fn path(&self) -> PathIndex {
        self.path
    }

    /// True if a long packet was wanted, so that [`step`](Self::step) may have something to do.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(crate) fn holds(&self, now: Time) -> bool {
        now < self.until
    }

    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// Returns what to do now. An answer is awaited for `rto`. A proof is renewed before it expires.
    pub(crate) fn step(&mut self, now: Time, rto: Duration) -> Step {
        if !self.wanted || now + LIFE / 2 < self.until {
            return Step::Rest;
        }
        if self.nonce != 0 {
            if now < self.sent_at + rto.max(WAIT_MIN) {
                return Step::Rest;
            }
            self.nonce = 0;
            self.lost += 1;
            if self.lost >= LOST_MAX {
                *self = Self::new(self.path);
                return Step::GiveUp;
            }
        }
        Step::Send
    }

    pub(crate) fn on_sent(&mut self, now: Time, nonce: u64) {
        self.nonce = nonce;
        self.sent_at = now;
        self.wanted = false;
    }

    /// Processes an answer with `nonce`. Returns when the HEARTBEAT was sent, or `None` if no such one is
    /// outstanding.
    pub(crate) fn on_answer(&mut self, now: Time, nonce: u64) -> Option<Time> {
        if self.nonce == 0 || nonce != self.nonce {
            return None;
        }
        self.nonce = 0;
        self.lost = 0;
        self.until = now + LIFE;
        Some(self.sent_at)
    }

    /// Revokes the proof, because long packets seem to be lost.
    pub(crate) fn revoke(&mut self) {
        self.until = Time::ZERO;
    }
}
