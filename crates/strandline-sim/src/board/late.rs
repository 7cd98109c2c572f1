//! Loss detection by time (RFC 8985 section 6.2), as far as the packets of one path show it. Wherever they leave open
//! what the sender may know, a loss is assumed.

use core::time::Duration;

use strandline_proto::time::Time;
use strandline_wire::Tsn;

/// The state of one path.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// The acknowledged chunk that was sent last, and how long its answer took.
    latest: Option<(Time, Tsn)>,
    rtt: Duration,
    /// The smallest round-trip time that chunks sent once may have shown.
    rtt_min: Option<Duration>,
    /// True if there was a measurement since everything had been acknowledged. Earlier ones may be forgotten.
    measured: bool,
    /// The chunk that was sent last among those acknowledged by the current answer, and whether it was a
    /// retransmission: only this chunk is a measurement (step 1).
    fresh: Option<((Time, Tsn), bool)>,
    /// The recovery ends when everything before this is acknowledged.
    pub(super) recovers_until: Option<Tsn>,
}

/// True if the first was sent before the second, in order of transmission: chunks of one instant in the order of TSNs
/// (section 6.1).
fn is_before((at, tsn): (Time, Tsn), (later_at, later_tsn): (Time, Tsn)) -> bool {
    at < later_at || (at == later_at && tsn.is_before(later_tsn))
}

impl Late {
    /// Steps 1 and 2. The answer to a retransmitted chunk may belong to an earlier transmission: it counts, but makes
    /// no answer slower.
    pub(super) fn on_acknowledged(&mut self, now: Time, sent: (Time, Tsn), resent: bool) {
        let rtt = now.since(sent.0);
        if !resent {
            self.rtt_min = Some(self.rtt_min.map_or(rtt, |min| min.min(rtt)));
        }
        if self.fresh.is_none_or(|(fresh, _)| is_before(fresh, sent)) {
            self.fresh = Some((sent, resent));
        }
        if self.latest.is_none_or(|latest| is_before(latest, sent)) {
            self.rtt = if resent && self.latest.is_some() { rtt.min(self.rtt) } else { rtt };
            self.latest = Some(sent);
        }
    }

    /// Records the answer to a chunk that was sent once, and that an earlier SACK may have had no room to report. The
    /// sender may take it for a measurement, or know that it is late.
    pub(super) fn may_measure(&mut self, now: Time, at: Time) {
        let rtt = now.since(at);
        self.rtt_min = Some(self.rtt_min.map_or(rtt, |min| min.min(rtt)));
    }

    /// Ends the processing of an answer.
    pub(super) fn settle(&mut self) {
        self.measured |= self.fresh.take().is_some_and(|(_, resent)| !resent);
    }

    /// Steps 4 and 5: true if a chunk that was sent at `at` is lost. The reordering window is at least a quarter of
    /// the smallest round-trip time. There is none in a recovery, nor with many packets acknowledged beyond the gap.
    pub(super) fn finds(&self, now: Time, at: Time, tsn: Tsn, many_acknowledged: bool) -> bool {
        let overtaken = self.latest.is_some_and(|latest| is_before((at, tsn), latest));
        let window = match self.rtt_min {
            Some(min) if self.measured && !many_acknowledged && self.recovers_until.is_none() => min / 4,
            _ => return overtaken,
        };
        overtaken && at + self.rtt + window <= now
    }

    /// Resets the state when nothing is outstanding.
    pub(super) fn rest(&mut self) {
        *self = Self { rtt_min: self.rtt_min, ..Self::default() };
    }

    pub(super) fn on_cumulative(&mut self, cumulative: Tsn) {
        if self.recovers_until.is_some_and(|until| cumulative.next().is_at_or_after(until)) {
            self.recovers_until = None;
        }
    }
}
