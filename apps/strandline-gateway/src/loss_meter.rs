//! The share of an association's packets that are lost, from its counters at some moments. No I/O.

use std::time::Duration;

/// Packets that a share is computed from, at least.
const PACKETS_MIN: u64 = 200;
/// Packets after which a new interval begins, and the longest one that counts.
const PACKETS: u64 = 1000;
const INTERVAL: Duration = Duration::from_secs(30);

/// Counters since the start of an association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counters {
    at: Duration,
    sent: u64,
    lost: u64,
}

/// The losses of an association's own packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct LossMeter {
    begun: Counters,
    /// Of the last complete interval, and when it ended.
    complete: Option<(f64, Duration)>,
}

impl LossMeter {
    /// Takes the counters at a time, and returns the share of lost packets; `None` if too few were sent lately.
    pub(crate) fn note(&mut self, at: Duration, sent: u64, lost: u64) -> Option<f64> {
        let now = Counters { at, sent, lost };
        let packets = sent.saturating_sub(self.begun.sent);
        let share = (packets >= PACKETS_MIN)
            .then(|| lost.saturating_sub(self.begun.lost) as f64 / packets as f64)
            .map(|share| share.min(1.0));
        let is_old = at.saturating_sub(self.begun.at) >= INTERVAL;
        if packets >= PACKETS || is_old {
            self.complete = share.map(|share| (share, at));
            self.begun = now;
        }
        let recent = self.complete.filter(|(_, ended)| at.saturating_sub(*ended) < INTERVAL);
        share.or(recent.map(|(share, _)| share))
    }
}

#[cfg(test)]
mod tests;
