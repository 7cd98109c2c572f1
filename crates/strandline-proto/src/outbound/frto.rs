//! F-RTO: whether a time-out was for nothing (RFC 5682 section 3.1, its variant with SACK, on TSNs). Only the first packet
//! goes again. Once that is acknowledged two packets of new data ask further, and what the next SACK acknowledges decides:
//! data that went only before the time-out was not lost, so that nothing else goes again and the window is what it was; if
//! there is only newer data, the time-out was right.
//!
//! As in Linux, data that went once and is acknowledged together with the first packet decides already: a receiver that had
//! it while the first packet was missing would have said so. If that SACK acknowledges all, it proves nothing (step 2a).
//! `spurious` finds out whether the first packet itself came twice.

use crate::number::Tsn;
use crate::time::Time;

/// Packets of new data that ask (step 2b).
pub(crate) const ASKING_PACKETS: u8 = 2;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// No time-out is in question.
    #[default]
    Off,
    /// The first packet went again.
    First,
    /// It was acknowledged; the next SACK decides.
    Next,
}

/// The question about the latest time-out of a path.
#[derive(Debug, Default)]
pub(super) struct Frto {
    step: Step,
    /// Sent before the time-out: all up to here.
    high: Tsn,
    /// What the SACK being taken in acknowledges for the first time: data of before the time-out that was sent only then,
    original: bool,
    /// data that was sent after it,
    newer: bool,
    /// what was sent again;
    again: bool,
    /// and of the latter, since the time-out, what was sent last: it may have been the first transmission that arrived, so that
    /// nothing follows from it for now.
    held: Option<(Time, Tsn)>,
}

/// What follows from a SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing yet, or there is no question.
    Wait,
    /// New data is to go (step 2b).
    Ask,
    /// It was right: of what was sent again this is the last that arrived (steps 2a, 3a).
    Right(Option<(Time, Tsn)>),
    /// It was needless (step 3b).
    Needless,
}

impl Frto {
    /// The first packet goes again after a time-out (step 1).
    pub(super) fn begin(&mut self, last_sent: Tsn) {
        *self = Self { step: Step::First, high: last_sent, ..Self::default() };
    }

    /// The time-out is in question no more.
    pub(super) fn end(&mut self) {
        self.step = Step::Off;
    }

    fn is_on(&self) -> bool {
        self.step != Step::Off
    }

    /// Chunks that were sent once are acknowledged for the first time: from `first` to `last`.
    pub(super) fn on_acked(&mut self, first: Tsn, last: Tsn) {
        if self.is_on() {
            self.original |= !first.is_after(self.high);
            self.newer |= last.is_after(self.high);
        }
    }

    /// A chunk that was sent again at `at` is acknowledged for the first time. `in_time`: not sooner than any answer can come.
    /// True if nothing may be concluded from it for now.
    pub(super) fn holds(&mut self, at: Time, tsn: Tsn, in_time: bool) -> bool {
        if !self.is_on() {
            return false;
        }
        self.again = true;
        let later = |(last_at, last): (Time, Tsn)| at > last_at || (at == last_at && tsn.is_after(last));
        if in_time && self.held.is_none_or(later) {
            self.held = Some((at, tsn));
        }
        true
    }

    /// A SACK has been taken in. `can_ask`: there is new data, and room for it.
    pub(super) fn decide(&mut self, cumulative: Tsn, can_ask: bool) -> Decision {
        let (original, newer, again) = (self.original, self.newer, self.again);
        (self.original, self.newer, self.again) = (false, false, false);
        let all = cumulative.is_at_or_after(self.high);
        match self.step {
            Step::Off => Decision::Wait,
            Step::First if all => self.right(),
            Step::First if !again => Decision::Wait,
            Step::First | Step::Next if original => {
                self.end();
                Decision::Needless
            }
            Step::First if can_ask || self.held.is_none() => {
                self.step = Step::Next;
                Decision::Ask
            }
            Step::Next if !(newer || again || all) => Decision::Wait,
            Step::First | Step::Next => self.right(),
        }
    }

    fn right(&mut self) -> Decision {
        self.end();
        Decision::Right(self.held.take())
    }
}

#[cfg(test)]
mod tests;
