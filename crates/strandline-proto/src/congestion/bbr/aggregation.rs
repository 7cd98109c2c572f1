//! Acknowledgements that come in bunches (draft-ietf-ccwg-bbr section 5.5.9). A host that gets the processor
//! now and then, or a link that collects packets, acknowledges together what arrived in many round trips. To
//! send meanwhile, as much more than the path holds has to be in flight.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

/// Half of ExtraAckedFilterLen, in rounds. The largest value of the present and of the previous half counts.
const HALF_ROUNDS: u32 = 5;

/// Minimum length of such a half. A host may stand still for hundreds of rounds of a local network.
const HALF_MIN: Duration = Duration::from_millis(100);

/// The largest excess counts as what the path delivers in this time.
const EXCESS_MAX: Duration = Duration::from_millis(100);

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// How much more is acknowledged at once than the bandwidth explains.
#[derive(Debug, Clone)]
pub(super) struct Aggregation {
    /// Start of the interval, and the bytes acknowledged in it.
    since: Time,
    acked: u64,
    /// Largest excess in this half of the filter, and in the one before, in bytes.
    excess: [u64; 2],
    /// Start of this half, as a time and as a round number.
    half_at: Time,
    half_round: u32,
}

/// The state of the model at an acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Time,
    /// In bytes per second.
    pub(super) bandwidth: u64,
    pub(super) rounds: u32,
    /// True after Startup. Before, the bandwidth is too low, and only the latest round counts.
    pub(super) steady: bool,
}

impl Aggregation {
    pub(super) const fn new(now: Time) -> Self {
        Self { since: now, acked: 0, excess: [0; 2], half_at: now, half_round: 0 }
    }

    /// Records that `acked` bytes were acknowledged with a window of `cwnd` bytes (BBRUpdateACKAggregation).
    pub(super) fn on_ack(&mut self, acked: u32, cwnd: u32, moment: Moment) {
        let Moment { now, bandwidth, rounds, steady } = moment;
        let mut expected = bytes_in(bandwidth, now.since(self.since));
        if self.acked <= expected {
            (self.acked, self.since, expected) = (0, now, 0);
        }
        self.acked += u64::from(acked);
        let (half_rounds, half_min) = if steady { (HALF_ROUNDS, HALF_MIN) } else { (1, Duration::ZERO) };
        if rounds.wrapping_sub(self.half_round) >= half_rounds && now.since(self.half_at) >= half_min {
            (self.half_at, self.half_round) = (now, rounds);
            self.excess = [0, self.excess[0]];
        }
        let most = u64::from(cwnd).min(bytes_in(bandwidth, EXCESS_MAX));
        let [excess, _] = &mut self.excess;
        *excess = self.acked.saturating_sub(expected).min(most).max(*excess);
    }

    /// Begins a new interval, because the present one contains acknowledgements that came late.
    pub(super) fn interrupt(&mut self, now: Time) {
        (self.acked, self.since) = (0, now);
    }

    /// Returns the largest excess of late, in bytes.
    pub(super) fn excess(&self) -> u64 {
        let [now, before] = self.excess;
        now.max(before)
    }
}

fn bytes_in(rate: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(rate) * time.as_nanos() / NANOS_PER_SECOND).unwrap_or(u64::MAX)
}
