//! What tells by time that a chunk is lost (RFC 8985 section 6.2), as far as the packets of one path show it. Wherever they leave
//! open what the sender may know, a loss is believed.

use core::time::Duration;

use strandline_proto::time::Time;
use strandline_wire::Tsn;

/// One path.
#[derive(Debug, Default)]
pub(super) struct Late {
    /// Of what was acknowledged, the chunk that was sent last, and how long its answer took.
    latest: Option<(Time, Tsn)>,
    rtt: Duration,
    /// The smallest round-trip time of chunks that were sent once.
    rtt_min: Option<Duration>,
    /// There was one since all had been acknowledged: before that it may be forgotten.
    measured: bool,
    /// Of what the answer being looked at acknowledges, what was sent last, and whether that had been sent before: only that one measures
    /// (step 1).
    fresh: Option<((Time, Tsn), bool)>,
    /// All before this has to be acknowledged before the recovery ends.
    pub(super) recovers_until: Option<Tsn>,
}

/// Sent before, in order of transmission: those of one moment in the order of TSNs (section 6.1).
fn is_before((at, tsn): (Time, Tsn), (later_at, later_tsn): (Time, Tsn)) -> bool {
    at < later_at || (at == later_at && tsn.is_before(later_tsn))
}

impl Late {
    /// Steps 1 and 2. What was sent more than once may be answered for an earlier time: that counts, but makes no answer slower.
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

    /// An answer has been looked at.
    pub(super) fn settle(&mut self) {
        self.measured |= self.fresh.take().is_some_and(|(_, resent)| !resent);
    }

    /// Steps 4 and 5: a chunk that was sent at that time is lost. The reordering window is a quarter of the smallest round-trip time at
    /// least; there is none in a recovery, nor with many packets acknowledged behind the gap.
    pub(super) fn finds(&self, now: Time, at: Time, tsn: Tsn, many_acknowledged: bool) -> bool {
        let overtaken = self.latest.is_some_and(|latest| is_before((at, tsn), latest));
        let window = match self.rtt_min {
            Some(min) if self.measured && !many_acknowledged && self.recovers_until.is_none() => min / 4,
            _ => return overtaken,
        };
        overtaken && at + self.rtt + window <= now
    }

    /// Nothing is outstanding.
    pub(super) fn rest(&mut self) {
        *self = Self { rtt_min: self.rtt_min, ..Self::default() };
    }

    pub(super) fn on_cumulative(&mut self, cumulative: Tsn) {
        if self.recovers_until.is_some_and(|until| cumulative.next().is_at_or_after(until)) {
            self.recovers_until = None;
        }
    }
}
