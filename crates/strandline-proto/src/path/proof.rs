//! Whether packets longer than the smallest path MTU arrive where no DATA shows it: for SACKs with many gap blocks, whose loss
//! nobody reports. They may be that long only while an answered HEARTBEAT of that length proves it (RFC 8899 section 4.3).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::PathIndex;

use crate::time::Time;

/// How long an answer holds.
const LIFE: Duration = Duration::from_secs(10);
/// Packets that ask again, before the size counts as too long.
const LOST_MAX: u8 = 3;
/// An answer is waited for so long, at least.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// What a packet that asks is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing is to be asked now.
    Rest,
    /// Ask.
    Ask,
    /// Several went unanswered.
    GiveUp,
}

/// The proof of one path.
#[derive(Debug)]
pub(crate) struct Proof {
    path: PathIndex,
    /// Of the packet that asks; 0 if none is on its way.
    nonce: u64,
    asked_at: Time,
    /// Until when long packets are known to arrive.
    until: Time,
    lost: u8,
    /// A long packet was wanted since the latest question.
    wanted: bool,
}

impl Proof {
    pub(crate) fn new(path: PathIndex) -> Self {
        Self { path, nonce: 0, asked_at: Time::ZERO, until: Time::ZERO, lost: 0, wanted: false }
    }

    /// The path that it is about.
    pub(crate) fn path(&self) -> PathIndex {
        self.path
    }

    /// Another packet is to ask now, or several have gone unanswered.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(crate) fn holds(&self, now: Time) -> bool {
        now < self.until
    }

    pub(crate) fn want(&mut self) {
        self.wanted = true;
    }

    /// What to do now; an answer is waited for for `rto`. A proof is renewed before it ends.
    pub(crate) fn step(&mut self, now: Time, rto: Duration) -> Step {
        if !self.wanted || now + LIFE / 2 < self.until {
            return Step::Rest;
        }
        if self.nonce != 0 {
            if now < self.asked_at + rto.max(WAIT_MIN) {
                return Step::Rest;
            }
            self.nonce = 0;
            self.lost += 1;
            if self.lost >= LOST_MAX {
                *self = Self::new(self.path);
                return Step::GiveUp;
            }
        }
        Step::Ask
    }

    pub(crate) fn on_asked(&mut self, now: Time, nonce: u64) {
        self.nonce = nonce;
        self.asked_at = now;
        self.wanted = false;
    }

    /// When the packet that `nonce` answers had been sent.
    pub(crate) fn on_answer(&mut self, now: Time, nonce: u64) -> Option<Time> {
        if self.nonce == 0 || nonce != self.nonce {
            return None;
        }
        self.nonce = 0;
        self.lost = 0;
        self.until = now + LIFE;
        Some(self.asked_at)
    }

    /// Something suggests that long packets get lost.
    pub(crate) fn doubt(&mut self) {
        self.until = Time::ZERO;
    }
}
