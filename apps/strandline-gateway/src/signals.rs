//! The signals that a gateway heeds: SIGINT and SIGTERM end it, SIGHUP reloads its configuration, SIGUSR2 restarts it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Streams of the signals.
pub(crate) struct Signals {
    pub(crate) interrupt: Signal,
    pub(crate) terminate: Signal,
    pub(crate) hangup: Signal,
    pub(crate) restart: Signal,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            restart: signal(SignalKind::user_defined2())?,
        })
    }
}
