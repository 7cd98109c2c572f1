//! Timeouts and buffer limits of connections.

use std::io;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// Number of unanswered keep-alive probes after which a silent peer counts as gone, and the interval between
/// them.
const PROBES: u32 = 4;
const PROBE: Duration = Duration::from_secs(15);

/// Timeouts and buffer limits of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Time until the first complete message on an accepted connection.
    pub first_message: Duration,
    /// Time without input on a connection over which no user is reached; `None` for no limit.
    pub idle: Option<Duration>,
    /// Time without input after which TCP probes the peer.
    pub keep_alive: Duration,
    /// Time in which the peer must accept output.
    pub write: Duration,
    /// Maximum size of incomplete messages and waiting output of all connections, in bytes.
    pub buffered_bytes_max: usize,
}

impl Default for ConnectionLimits {
    /// 30 s; 30 min, which is longer than a call may be silent with session timers (RFC 4028); 5 min; 30 s;
    /// 256 MiB.
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

impl ConnectionLimits {
    /// Enables TCP keep-alive, so that the system detects dead peers. Accepted connections inherit it from
    /// the listening socket.
    ///
    /// # Errors
    /// Returns an error if the system doesn't support these options.
    pub(in crate::server) fn apply<'a>(&self, socket: impl Into<SockRef<'a>>) -> io::Result<()> {
        let socket = socket.into();
        let keep_alive =
            TcpKeepalive::new().with_time(self.keep_alive).with_interval(PROBE).with_retries(PROBES);
        socket.set_tcp_keepalive(&keep_alive)?;
        // With a shorter timeout, one lost probe would end the connection.
        socket.set_tcp_user_timeout(Some(self.keep_alive + PROBE * PROBES))
    }
}
