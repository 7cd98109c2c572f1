//! A log of the bytes sent up to past points in time.

#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use crate::time::Time;

/// Number of recorded points: `EACH` in a minimum round-trip time, `MOMENTS_MAX` in all. With a queue a round trip is
/// longer than the minimum.
const EACH: u32 = 64;
const MOMENTS_MAX: usize = 256;

/// Bytes sent up to recorded points in time.
#[derive(Debug, Clone, Default)]
pub(super) struct SentLog {
    /// The points, each with the number of bytes sent before it.
    moments: VecDeque<(Time, u64)>,
    sent: u64,
}

impl SentLog {
    /// Records that `bytes` are sent now.
    pub(super) fn on_sent(&mut self, now: Time, bytes: u32, min_rtt: Duration) {
        let apart = if min_rtt == Duration::MAX { Duration::ZERO } else { min_rtt / EACH };
        if self.moments.back().is_none_or(|(at, _)| *at < now && now.since(*at) >= apart) {
            if self.moments.len() >= MOMENTS_MAX {
                self.moments.pop_front();
            }
            self.moments.push_back((now, self.sent));
        }
        self.sent += u64::from(bytes);
    }

    /// Returns an upper bound of the bytes sent after `after` and until `until`. Returns `u64::MAX` if `after`
    /// precedes the log.
    pub(super) fn between(&self, after: Time, until: Time) -> u64 {
        let from = self.moments.partition_point(|(at, _)| *at <= after);
        let to = self.moments.partition_point(|(at, _)| *at <= until);
        let Some(&(_, sent_before)) = from.checked_sub(1).and_then(|before| self.moments.get(before)) else {
            return u64::MAX;
        };
        let sent_until = self.moments.get(to).map_or(self.sent, |(_, sent)| *sent);
        sent_until.saturating_sub(sent_before)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.moments.capacity() * size_of::<(Time, u64)>()
    }

    /// Clears the log and frees its memory.
    pub(super) fn release(&mut self) {
        self.moments = VecDeque::new();
    }
}
