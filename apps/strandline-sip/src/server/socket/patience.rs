//! How long connections are waited for, and how much is kept for them.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Questions that may go unanswered before a silent peer counts as gone, and the time between them.
const PROBES: u32 = 4;
const PROBE: Duration = Duration::from_secs(15);

/// How long connections are waited for, and how much is kept for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until the first whole message on one that was accepted.
    pub first_message: Duration,
    /// While nothing comes on one over which nobody is reached; for ever without it.
    pub idle: Option<Duration>,
    /// Until a silent peer is asked by TCP whether it is there.
    pub keep_alive: Duration,
    /// While nothing of what is written is taken.
    pub write: Duration,
    /// Bytes of half messages, and of what waits to be written, of all connections.
    pub buffered_bytes_max: usize,
}

impl Default for Patience {
    /// 30 s; 30 min, which is longer than session timers (RFC 4028) let a call be silent; 5 min; 30 s; 256 MiB.
    fn default() -> Self {
        Self {
            first_message: Duration::from_secs(30),
            idle: Some(Duration::from_secs(1800)),
            keep_alive: Duration::from_secs(300),
            write: Duration::from_secs(30),
            buffered_bytes_max: 256 << 20,
        }
    }
}

impl Patience {
    /// Lets the system find out whose peer doesn't answer any more. What is accepted from a listening socket has it from there.
    ///
    /// # Errors
    /// If the system doesn't know these options.
    pub(in crate::server) fn apply<'a>(&self, socket: impl Into<SockRef<'a>>) -> io::Result<()> {
        let socket = socket.into();
        let keep_alive =
            TcpKeepalive::new().with_time(self.keep_alive).with_interval(PROBE).with_retries(PROBES);
        socket.set_tcp_keepalive(&keep_alive)?;
        // With a shorter one a single question that is lost would end the connection.
        socket.set_tcp_user_timeout(Some(self.keep_alive + PROBE * PROBES))
    }
}
