//! Handling of accept-loop errors: their kind, the pause after them, when to log them, and what becomes of a
//! listening socket that has failed.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use tokio::time::Instant;

/// Pause after an error for lack of descriptors, memory or watches.
const PAUSE: Duration = Duration::from_millis(50);
/// Minimum time between two log lines of one kind.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Minimum and maximum time before an attempt to listen again.
const AGAIN_MIN: Duration = Duration::from_millis(200);
const AGAIN_MAX: Duration = Duration::from_secs(30);
/// Maximum of that time if attempts succeed, but the socket fails again and again.
const REPEATED_MAX: Duration = Duration::from_secs(5);
/// Time after which a socket that listens again is not expected to fail again.
const STEADY: Duration = Duration::from_secs(10);
/// Connections that wait to be accepted: the kernel's default limit (net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// Errors of `accept(2)` and `epoll_ctl(2)` (Linux) that mean that the process, the user or the system lacks
/// descriptors, memory or watches.
const EXHAUSTED: [i32; 5] = [12, 23, 24, 28, 105];

/// The way in which an accept loop handles an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptError {
    /// Time to wait before the next attempt. Zero if the error concerns only one connection.
    pub pause: Duration,
    /// Whether descriptors, memory or epoll watches are [used up](is_exhausted): the loop should then close less
    /// important connections.
    pub is_exhausted: bool,
    /// Whether to log this error, with the number of errors not logged since the last line. `None` if a line
    /// was logged recently.
    pub log: Option<u64>,
}

/// Decides how an accept loop handles its errors. Each loop has its own.
#[derive(Debug, Default)]
pub struct AcceptErrors {
    shortages: LogLimit,
    failures: LogLimit,
    /// The newest line about the socket says that it has failed.
    is_failure_logged: bool,
    /// When the socket listened again, and the time before the first attempt to that end.
    opened: Option<Instant>,
    pause: Duration,
}

/// Limits how often one kind of event is logged: at most every ten seconds.
#[derive(Debug, Default)]
pub struct LogLimit {
    logged: Option<Instant>,
    unlogged: u64,
}

impl LogLimit {
    /// Returns the number of events that were not logged since the last line if this one is to be logged, and counts
    /// it otherwise.
    pub fn log(&mut self) -> Option<u64> {
        let now = Instant::now();
        let is_due = self.logged.is_none_or(|logged| now.duration_since(logged) >= LOG_EVERY);
        if is_due {
            self.logged = Some(now);
        } else {
            self.unlogged += 1;
        }
        is_due.then(|| std::mem::take(&mut self.unlogged))
    }
}

impl AcceptErrors {
    /// Handles an error of `accept`: logs it, unless a line was logged lately, and pauses until the next attempt may
    /// succeed.
    ///
    /// # Errors
    /// Returns an error that [is fatal](is_fatal): the loop ends.
    pub async fn recover(&mut self, error: io::Error) -> io::Result<()> {
        if is_fatal(&error) {
            return Err(error);
        }
        self.pause_after(&error).await;
        Ok(())
    }

    /// As [`recover`](Self::recover), after an error of the preparation of an accepted connection, which is never
    /// fatal.
    pub async fn pause_after(&mut self, error: &io::Error) {
        let found = self.on_error(error);
        if let Some(unlogged) = found.log {
            tracing::warn!(%error, unlogged, "accepting a connection failed");
        }
        tokio::time::sleep(found.pause).await;
    }

    /// Classifies an error of `accept` that is not [fatal](is_fatal), or one of the preparation of an accepted
    /// connection. For loops that free something before they pause.
    pub fn on_error(&mut self, error: &io::Error) -> AcceptError {
        let of_one = matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted);
        if of_one {
            return AcceptError { pause: Duration::ZERO, is_exhausted: false, log: None };
        }
        AcceptError { pause: PAUSE, is_exhausted: is_exhausted(error), log: self.shortages.log() }
    }

    /// Makes a socket whose `accept` has failed [fatally](is_fatal) listen at its address again, however long that
    /// takes: another process that has the socket, or an administrator (`ss --kill`), has shut it down. `register`
    /// makes of the socket what the runtime accepts with; a new registration is needed, since the old one has seen the
    /// end. Pauses and logs as [`open_again`](Self::open_again).
    pub async fn listen_again<S: AsFd, L>(
        &mut self,
        error: &io::Error,
        socket: S,
        at: SocketAddr,
        register: impl Fn(&S) -> io::Result<L>,
    ) -> L {
        let listen = || std::future::ready(listen_at(&socket, at).and_then(|()| register(&socket)));
        self.open_again(error, "accepting TCP connections", at, listen).await
    }

    /// Calls `open` until it succeeds, because a socket at an address has failed while it was `doing` this. The
    /// pauses grow, also if the socket fails again and again. `error` and failures are logged, unless a line was
    /// logged lately: the next one has their number.
    pub async fn open_again<L, F: Future<Output = io::Result<L>>>(
        &mut self,
        error: &io::Error,
        doing: &'static str,
        at: SocketAddr,
        open: impl Fn() -> F,
    ) -> L {
        if let Some(unlogged) = self.log_failure() {
            tracing::error!(%error, unlogged, %at, "{doing} failed");
        }
        let is_repeated = self.opened.take().is_some_and(|opened| Instant::now() - opened < STEADY);
        let first = if is_repeated { (self.pause * 2).min(REPEATED_MAX) } else { AGAIN_MIN };
        self.pause = first;
        let mut pause = first;
        loop {
            // A socket that fails each time does not keep the processor busy.
            tokio::time::sleep(pause).await;
            match open().await {
                Ok(socket) => {
                    if std::mem::take(&mut self.is_failure_logged) {
                        tracing::warn!(%at, "listening again");
                    }
                    self.opened = Some(Instant::now());
                    return socket;
                }
                Err(error) => {
                    if let Some(unlogged) = self.log_failure() {
                        tracing::error!(%error, unlogged, %at, "listening again failed; it is tried once more");
                    }
                }
            }
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    fn log_failure(&mut self) -> Option<u64> {
        let log = self.failures.log();
        self.is_failure_logged |= log.is_some();
        log
    }
}

fn listen_at(socket: &impl AsFd, at: SocketAddr) -> io::Result<()> {
    // The kernel has taken back a port that it had chosen, whatever the socket's address still says. Others stay.
    match rustix::net::bind(socket, &at) {
        Ok(()) | Err(Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::net::listen(socket, BACKLOG)?)
}

/// Returns whether descriptors, memory, or the user's epoll watches (fs.epoll.max_user_watches) are used up: `EMFILE`,
/// `ENFILE`, `ENOBUFS`, `ENOMEM`, `ENOSPC`.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code))
}

/// Errors of `accept(2)` (Linux) that mean that the listening socket itself is unusable: `EBADF`, `EFAULT`, `EINVAL`,
/// `ENOTSOCK`. `EOPNOTSUPP` isn't one: like other errors of the network it may be that of a connection which waited.
const FATAL: [i32; 4] = [9, 14, 22, 88];

/// Returns whether no later call of `accept` can succeed before the socket [listens
/// again](AcceptErrors::listen_again).
#[must_use]
pub fn is_fatal(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| FATAL.contains(&code))
}

#[cfg(test)]
mod tests;
