//! How many bytes a second the connections of a peer may carry, in each direction.
//!
//! Bytes are given times, one after the other, at the rate of the limit: a connection carries some when the time of
//! the last one has come, so that all connections of a peer take turns. Datagrams do not wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::now;

/// How far the times of bytes may be ahead, so that short transfers do not wait.
const AHEAD: Duration = Duration::from_millis(100);

/// A limit in bytes per second that a reload can change; 0: none.
pub(crate) type RateLimit = Arc<AtomicU64>;

/// The bytes of a peer.
#[derive(Debug)]
pub(crate) struct PeerRate {
    limit: RateLimit,
    sent: Mutex<Option<Instant>>,
    received: Mutex<Option<Instant>>,
}

/// The direction of bytes, as this side sees the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Sent,
    Received,
}

impl PeerRate {
    pub(crate) fn new(limit: RateLimit) -> Self {
        Self { limit, sent: Mutex::default(), received: Mutex::default() }
    }

    /// Counts bytes that a connection is about to carry, and returns how long it must wait.
    fn count(&self, direction: Direction, bytes: usize, now: Instant) -> Duration {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return Duration::ZERO;
        }
        let mut next = self.next(direction);
        let time = next.unwrap_or(now).max(now) + duration(bytes, limit);
        *next = Some(time);
        time.saturating_duration_since(now).saturating_sub(AHEAD)
    }

    /// Counts bytes that a connection is about to carry, and waits for as long as the limit demands.
    pub(crate) async fn wait(&self, direction: Direction, bytes: usize) {
        let pause = self.count(direction, bytes, now());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    /// Counts a datagram. Returns false, and counts nothing, if it is beyond the limit.
    pub(crate) fn admits(&self, direction: Direction, bytes: usize, now: Instant) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return true;
        }
        let mut next = self.next(direction);
        let time = next.unwrap_or(now).max(now);
        if time.saturating_duration_since(now) > AHEAD {
            return false;
        }
        *next = Some(time + duration(bytes, limit));
        true
    }

    fn next(&self, direction: Direction) -> std::sync::MutexGuard<'_, Option<Instant>> {
        let next = match direction {
            Direction::Sent => &self.sent,
            Direction::Received => &self.received,
        };
        next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the time that so many bytes take at a rate in bytes per second, which is not 0.
fn duration(bytes: usize, rate: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / rate as f64)
}

#[cfg(test)]
mod tests;
