//! Decides whether datagrams that the kernel has coalesced (UDP GRO) are received as one train while the packet
//! filter is attached. The filter judges a train by its first message. That saves the kernel and the server
//! most of the time for REGISTERs, and would drop messages of calls that no filter may drop. No I/O, no clock.

use std::time::Duration;

use crate::codec::Datagram;

use super::gate::may_be_dropped;

/// Minimum interval between two decisions.
const LOOK: Duration = Duration::from_millis(100);
/// Number of datagrams from which an interval says something.
const DATAGRAMS_MIN: u64 = 16;
/// The share of REGISTERs below which trains are refused at once.
const MOSTLY: f64 = 0.9;
/// The share of REGISTERs from which they are received again, and in how many intervals in a row.
const MOSTLY_AGAIN: f64 = 0.95;
const LOOKS_AGAIN: u32 = 3;
/// How long no message of a call may have been in a train with a message that the filter may drop. It counts only
/// while the filter is not attached: with it, trains are refused, and nothing can be learned.
const UNMIXED: Duration = Duration::from_secs(10);
/// Number of trains after which earlier ones lose half of their weight in the mean length.
const RECENT: f64 = 256.0;

/// What was received lately, and the decision.
#[derive(Debug, Default)]
pub(super) struct Trains {
    /// Since the last decision: all datagrams, and those that are REGISTERs.
    datagrams: u64,
    registers: u64,
    /// True if a message of a call came in a train behind a message that the filter may drop.
    is_mixed: bool,
    /// How long the filter was not attached since such a train came, until that is forgotten.
    mixed_since: Option<Duration>,
    looked: Duration,
    /// Intervals in a row with enough REGISTERs.
    looks: u32,
    are_mostly_registers: bool,
    judged: Judged,
}

/// Recent trains whose first message the filter may drop, and the number of datagrams in them.
#[derive(Debug, Default)]
struct Judged {
    trains: f64,
    datagrams: f64,
}

impl Trains {
    /// Counts the datagrams of a train.
    pub(super) fn count<'a>(&mut self, train: impl Iterator<Item = &'a [u8]>) {
        let mut is_judged = false;
        let mut len = 0_u32;
        for datagram in train {
            let is_register = datagram.starts_with(b"REGISTER");
            if len == 0 {
                is_judged = may_be_dropped(datagram);
            } else if is_judged && !is_register && Datagram::of(datagram) != Datagram::KeepAlive {
                self.is_mixed = true;
            }
            len += 1;
            self.datagrams += 1;
            self.registers += u64::from(is_register);
        }
        if is_judged {
            self.judged.add(f64::from(len));
        }
    }

    /// Mean number of datagrams in the trains that the filter drops. Whether it drops one has nothing to do with
    /// its length, so those received are like those dropped.
    pub(super) fn dropped_len(&self) -> f64 {
        if self.judged.trains > 0.0 { self.judged.datagrams / self.judged.trains } else { 1.0 }
    }

    /// Returns true if trains may be received while the filter is attached, by what was decided last.
    pub(super) fn are_allowed(&self) -> bool {
        self.are_mostly_registers && self.mixed_since.is_none()
    }

    /// Decides anew, if that is due.
    pub(super) fn look(&mut self, now: Duration, is_filtered: bool) {
        if std::mem::take(&mut self.is_mixed) {
            self.mixed_since = Some(Duration::ZERO);
        }
        let elapsed = now.saturating_sub(self.looked);
        if elapsed < LOOK {
            return;
        }
        self.looked = now;
        if let Some(since) = self.mixed_since.filter(|_| !is_filtered) {
            let since = since + elapsed;
            self.mixed_since = (since < UNMIXED).then_some(since);
        }
        if self.datagrams < DATAGRAMS_MIN {
            return;
        }
        let registers = self.registers as f64 / self.datagrams as f64;
        (self.datagrams, self.registers) = (0, 0);
        self.looks = if registers >= MOSTLY_AGAIN { self.looks + 1 } else { 0 };
        self.are_mostly_registers =
            self.looks >= LOOKS_AGAIN || (self.are_mostly_registers && registers >= MOSTLY);
    }
}

impl Judged {
    fn add(&mut self, datagrams: f64) {
        if self.trains >= RECENT {
            (self.trains, self.datagrams) = (self.trains / 2.0, self.datagrams / 2.0);
        }
        self.trains += 1.0;
        self.datagrams += datagrams;
    }
}

#[cfg(test)]
mod tests;
