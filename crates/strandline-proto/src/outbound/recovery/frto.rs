//! F-RTO: detects spurious time-outs (RFC 5682 section 3.1, the SACK variant, on TSNs). Only the first packet is
//! retransmitted. Once that is acknowledged two packets of new data follow, and the next SACK decides. If it
//! acknowledges data sent only before the time-out, that was not lost, so nothing else is retransmitted and the old
//! window is restored. If it acknowledges only newer data, the time-out was genuine.
//!
//! As in Linux, data that was sent once and is acknowledged together with the first packet already decides: a
//! receiver that had it while the first packet was missing would have reported it. A SACK that acknowledges
//! everything proves nothing (step 2a). `spurious` detects whether the first packet itself arrived twice.

use crate::number::Tsn;
use crate::time::Time;

/// Number of packets of new data that test a time-out (step 2b).
pub(crate) const FRTO_PACKETS: u8 = 2;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// No time-out is being tested.
    #[default]
    Off,
    /// The first packet was retransmitted.
    First,
    /// The first packet was acknowledged; the next SACK decides.
    Next,
}

/// The test of the latest time-out of a path.
#[derive(Debug, Default)]
pub(crate) struct Frto {
    step: Step,
    /// Highest TSN sent before the time-out.
    high: Tsn,
    /// True if the current SACK acknowledges for the first time data that was sent only before the time-out.
    original: bool,
    /// True if it acknowledges data that was first sent after the time-out.
    newer: bool,
    /// True if it acknowledges retransmitted data.
    again: bool,
    /// The latest retransmission since the time-out that was acknowledged. The first transmission may have arrived
    /// instead, so that no conclusion is drawn for now.
    held: Option<(Time, Tsn)>,
}

/// The conclusion from a SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing yet, or no time-out is being tested.
    Wait,
    /// Send new data (step 2b).
    SendNew,
    /// The time-out was genuine. Contains the last retransmission that arrived (steps 2a, 3a).
    Genuine(Option<(Time, Tsn)>),
    /// The time-out was spurious (step 3b).
    Spurious,
}

impl Frto {
    /// Begins the test: the first packet is retransmitted after a time-out (step 1).
    pub(crate) fn begin(&mut self, last_sent: Tsn) {
        *self = Self { step: Step::First, high: last_sent, ..Self::default() };
    }

    /// Ends the test.
    pub(crate) fn end(&mut self) {
        self.step = Step::Off;
    }

    fn is_on(&self) -> bool {
        self.step != Step::Off
    }

    /// Records that chunks that were sent once are acknowledged for the first time: from `first` to `last`.
    pub(crate) fn on_acked(&mut self, first: Tsn, last: Tsn) {
        if self.is_on() {
            self.original |= !first.is_after(self.high);
            self.newer |= last.is_after(self.high);
        }
    }

    /// Records that a chunk that was retransmitted at `at` is acknowledged for the first time. `in_time` is true if
    /// that is not sooner than any answer can arrive. Returns true if nothing may be concluded from it for now.
    pub(crate) fn holds(&mut self, at: Time, tsn: Tsn, in_time: bool) -> bool {
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

    /// Ends the processing of a SACK. `can_send_new` is true if there is new data, and room for it.
    pub(crate) fn decide(&mut self, cumulative: Tsn, can_send_new: bool) -> Decision {
        let (original, newer, again) = (self.original, self.newer, self.again);
        (self.original, self.newer, self.again) = (false, false, false);
        let all = cumulative.is_at_or_after(self.high);
        match self.step {
            Step::Off => Decision::Wait,
            Step::First if all => self.genuine(),
            Step::First if !again => Decision::Wait,
            Step::First | Step::Next if original => {
                self.end();
                Decision::Spurious
            }
            Step::First if can_send_new || self.held.is_none() => {
                self.step = Step::Next;
                Decision::SendNew
            }
            Step::Next if !(newer || again || all) => Decision::Wait,
            Step::First | Step::Next => self.genuine(),
        }
    }

    fn genuine(&mut self) -> Decision {
        self.end();
        Decision::Genuine(self.held.take())
    }
}

#[cfg(test)]
mod tests;
