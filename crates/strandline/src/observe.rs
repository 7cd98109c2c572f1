//! Watching packets as they leave and arrive: for captures, and for measuring the time between them.

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

use tokio::time::Instant;

/// Which way a packet went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It was sent by this stack.
    Sent,
    /// It arrived here.
    Received,
}

/// A packet that was seen.
#[derive(Debug, Clone, Copy)]
pub struct ObservedPacket<'a> {
    /// When: after it was given to the carrier, or when it was taken from it.
    pub at: Instant,
    /// Which way.
    pub direction: Direction,
    /// The peer: IP address and encapsulation port (0 for raw IP).
    pub peer: SocketAddr,
    /// The address on this side, as far as is known.
    pub local: Option<IpAddr>,
    /// The SCTP packet.
    pub bytes: &'a [u8],
}

/// Sees every packet of a stack. It is called by whoever sends or receives, with a lock held: it should be quick and
/// must not call the stack.
pub trait PacketObserver: Debug + Send + Sync {
    /// One packet.
    fn packet(&self, packet: &ObservedPacket<'_>);
}
