//! Where handshakes of clients come from: which go on, and which may begin. One source must not keep out the others.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use crate::header::Cid;

/// Sources whose rate is known at most.
const KNOWN_MAX: usize = 4096;

/// Fraction of the rate that each source has for itself.
const SHARE_DIVISOR: f64 = 8.0;

/// Minimum time between two searches for sources that need not be known any more. A flood from ever new addresses would
/// otherwise cause one for each datagram.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A customer: an IPv4 address, or an IPv6 network of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    V4(u32),
    V6(u64),
}

impl Source {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self::V4(v4.to_bits()),
            IpAddr::V6(v6) => Self::V6((v6.to_bits() >> 64) as u64),
        }
    }
}

/// Handshakes in progress, and how many may begin.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Those in progress of each source, the oldest first.
    open: HashMap<Source, VecDeque<Cid>>,
    count: usize,
    /// What all may begin now.
    common: Allowance,
    /// What single sources may begin although others leave little.
    own: HashMap<Source, Allowance>,
    swept_at: Option<Instant>,
    per_sec: f64,
}

/// Handshakes that may begin now, and when this was computed.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    count: f64,
    at: Instant,
}

impl Allowance {
    fn refill(&mut self, now: Instant, per_sec: f64) {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        *self = Self { count: (self.count + per_sec * since).min(per_sec.max(1.0)), at: now };
    }
}

impl Sources {
    pub(crate) fn new(per_sec: u32, now: Instant) -> Self {
        let per_sec = f64::from(per_sec);
        let common = Allowance { count: per_sec, at: now };
        Self { open: HashMap::new(), count: 0, common, own: HashMap::new(), swept_at: None, per_sec }
    }

    /// Returns the number of handshakes in progress.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns whether a handshake may begin, and counts it. While less than half of the common allowance is
    /// left, a source may begin an eighth of the rate.
    pub(crate) fn may_begin(&mut self, source: Source, now: Instant) -> bool {
        let (per_sec, share) = (self.per_sec, self.per_sec / SHARE_DIVISOR);
        self.common.refill(now, per_sec);
        if self.own.len() >= KNOWN_MAX {
            self.sweep(now);
        }
        let full = Allowance { count: share.max(1.0), at: now };
        if self.own.len() < KNOWN_MAX {
            self.own.entry(source).or_insert(full);
        }
        let mut unknown = full;
        let own = self.own.get_mut(&source).unwrap_or(&mut unknown);
        own.refill(now, share);
        if self.common.count < 1.0 || (own.count < 1.0 && self.common.count <= per_sec / 2.0) {
            return false;
        }
        self.common.count -= 1.0;
        own.count = (own.count - 1.0).max(0.0);
        true
    }

    /// Forgets the sources that have their whole share again.
    fn sweep(&mut self, now: Instant) {
        if self.swept_at.is_some_and(|at| now.saturating_duration_since(at) < SWEEP_INTERVAL) {
            return;
        }
        self.swept_at = Some(now);
        let share = self.per_sec / SHARE_DIVISOR;
        self.own.retain(|_, own| {
            own.refill(now, share);
            own.count < share.max(1.0)
        });
    }

    /// Returns the handshake that has to make room for another: the oldest of the source with the most.
    pub(crate) fn oldest_of_largest(&self) -> Option<Cid> {
        self.open.values().max_by_key(|open| open.len())?.front().copied()
    }

    pub(crate) fn add(&mut self, source: Source, cid: Cid) {
        self.open.entry(source).or_default().push_back(cid);
        self.count += 1;
    }

    /// Forgets a handshake, which has ended or succeeded. Does nothing if it was forgotten before.
    pub(crate) fn remove(&mut self, source: Source, cid: Cid) {
        let Some(open) = self.open.get_mut(&source) else { return };
        let before = open.len();
        open.retain(|other| *other != cid);
        self.count -= before - open.len();
        if open.is_empty() {
            self.open.remove(&source);
        }
    }
}
