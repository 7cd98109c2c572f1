//! Counters of a store, updated by the threads that use it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::Damage;

/// Counters updated by the threads that use a store, and read by others.
#[derive(Debug, Default)]
pub struct StoreStats {
    commits: AtomicU64,
    failures: AtomicU64,
    commit_micros: AtomicU64,
    /// Size of the changes that are not yet durable, in bytes.
    backlog_bytes: AtomicU64,
    is_failing: AtomicBool,
    feed_failing: AtomicBool,
    feed_micros: AtomicU64,
    changes_followed: AtomicU64,
    damaged_rows: AtomicU64,
    missing_rows: AtomicU64,
}

/// A snapshot of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreFigures {
    /// Number of durable commits.
    pub commits: u64,
    /// Number of failed commits.
    pub failures: u64,
    /// Total duration of the durable commits.
    pub commit_time: Duration,
    /// Size of the changes that are not yet durable, in bytes.
    pub backlog_bytes: u64,
    /// True if the last commit failed, or the last check of other nodes.
    pub is_failing: bool,
    /// Time since the start at which changes of other nodes were last checked; zero if there are no other
    /// nodes.
    pub followed_at: Duration,
    /// Number of changes of other nodes so far; each concerns one user.
    pub changes_followed: u64,
    /// Number of damaged rows found while reading.
    pub damaged_rows: u64,
    /// Number of missing journal rows.
    pub missing_rows: u64,
}

impl StoreStats {
    /// A snapshot of the counters.
    #[must_use]
    pub fn figures(&self) -> StoreFigures {
        StoreFigures {
            commits: self.commits.load(Relaxed),
            failures: self.failures.load(Relaxed),
            commit_time: Duration::from_micros(self.commit_micros.load(Relaxed)),
            backlog_bytes: self.backlog_bytes.load(Relaxed),
            is_failing: self.is_failing.load(Relaxed) || self.feed_failing.load(Relaxed),
            followed_at: Duration::from_micros(self.feed_micros.load(Relaxed)),
            changes_followed: self.changes_followed.load(Relaxed),
            damaged_rows: self.damaged_rows.load(Relaxed),
            missing_rows: self.missing_rows.load(Relaxed),
        }
    }

    /// Adds the damage found while reading.
    pub fn on_damage(&self, damage: &Damage) {
        self.damaged_rows.fetch_add(damage.rows, Relaxed);
        self.missing_rows.fetch_add(damage.missing, Relaxed);
    }

    pub(super) fn on_commit(&self, took: Duration) {
        self.commits.fetch_add(1, Relaxed);
        self.commit_micros.fetch_add(took.as_micros() as u64, Relaxed);
        self.is_failing.store(false, Relaxed);
    }

    pub(super) fn on_failure(&self) {
        self.failures.fetch_add(1, Relaxed);
        self.is_failing.store(true, Relaxed);
    }

    pub(super) fn set_backlog(&self, bytes: usize) {
        self.backlog_bytes.store(bytes as u64, Relaxed);
    }

    pub(super) fn on_followed(&self, since_start: Duration, changes: usize) {
        self.feed_micros.store(since_start.as_micros() as u64, Relaxed);
        self.changes_followed.fetch_add(changes as u64, Relaxed);
        self.feed_failing.store(false, Relaxed);
    }

    pub(super) fn on_not_followed(&self) {
        self.feed_failing.store(true, Relaxed);
    }
}

/// Reads the clock.
#[allow(clippy::disallowed_methods, reason = "these threads wait for disks and networks")]
pub(super) fn now() -> std::time::Instant {
    std::time::Instant::now()
}
