//! Errors of accept loops: what kind each is, how long to pause, and when to log.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::time::Instant;

/// The pause after an error that more descriptors or memory would cure.
const PAUSE: Duration = Duration::from_millis(50);
/// The time between two log lines of one loop.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Errors of `accept(2)` (Linux) that say that the process or the system is short of something.
const EXHAUSTED: [i32; 4] = [12, 23, 24, 105];

/// What an accept loop does about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptError {
    /// Wait this long before the next attempt. Zero if the error is about one connection only.
    pub pause: Duration,
    /// The process or the system is out of descriptors or memory: the loop should close connections that matter less.
    pub is_exhausted: bool,
    /// Log this error, and the number of errors that were not logged since the last line. `None` if a line was logged a short
    /// time ago.
    pub log: Option<u64>,
}

/// Tells an accept loop what to do about its errors. Each loop has its own.
#[derive(Debug, Default)]
pub struct AcceptErrors {
    logged: Option<Instant>,
    unlogged: u64,
}

impl AcceptErrors {
    /// Classifies an error of `accept`, or of what prepares an accepted connection.
    pub fn on_error(&mut self, error: &io::Error) -> AcceptError {
        let of_one = matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted);
        if of_one {
            return AcceptError { pause: Duration::ZERO, is_exhausted: false, log: None };
        }
        let is_exhausted = is_exhausted(error);
        let now = Instant::now();
        let is_due = self.logged.is_none_or(|logged| now.duration_since(logged) >= LOG_EVERY);
        if is_due {
            self.logged = Some(now);
        } else {
            self.unlogged += 1;
        }
        let log = is_due.then(|| std::mem::take(&mut self.unlogged));
        AcceptError { pause: PAUSE, is_exhausted, log }
    }
}

/// Returns whether descriptors or memory are used up: `EMFILE`, `ENFILE`, `ENOBUFS`, `ENOMEM`.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code))
}

#[cfg(test)]
mod tests;
