//! What is to be known of a store, counted by the threads that use it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::Damage;

/// Counted by the threads that use a store, and read by others.
#[derive(Debug, Default)]
pub struct StoreStats {
    commits: AtomicU64,
    failures: AtomicU64,
    commit_micros: AtomicU64,
    /// Bytes of changes that are not durable.
    backlog_bytes: AtomicU64,
    is_failing: AtomicBool,
    feed_failing: AtomicBool,
    feed_micros: AtomicU64,
    changes_followed: AtomicU64,
    damaged_rows: AtomicU64,
    missing_rows: AtomicU64,
}

/// What was counted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreFigures {
    /// Commits that are durable.
    pub commits: u64,
    /// Commits that failed.
    pub failures: u64,
    /// Time that those took that are durable.
    pub commit_time: Duration,
    /// Bytes of changes that are not durable.
    pub backlog_bytes: u64,
    /// The last commit failed, or the last look at other nodes.
    pub is_failing: bool,
    /// When changes of other nodes were looked for last, since the start; zero if there is nothing to follow.
    pub followed_at: Duration,
    /// Changes of other nodes so far, each of one user.
    pub changes_followed: u64,
    /// Rows of the store that were damaged when they were read.
    pub damaged_rows: u64,
    /// Rows of journals that were missing.
    pub missing_rows: u64,
}

impl StoreStats {
    /// What was counted so far.
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

    /// Something could not be read.
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
