//! Watching packets as they leave and arrive: for captures, and for measuring the time between them.

use std::fmt::{self, Debug};
use std::net::{IpAddr, SocketAddr};

use strandline_wire::{Packet, print};
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

impl ObservedPacket<'_> {
    /// SCTP source and destination port; `None` for what is too short to be a packet.
    #[must_use]
    pub fn ports(&self) -> Option<(u16, u16)> {
        let packet = Packet::parse(self.bytes).ok()?;
        Some((packet.source_port(), packet.destination_port()))
    }

    /// The chunks' types, as numbered in RFC 9260 section 3.2, in their order.
    pub fn chunk_types(&self) -> impl Iterator<Item = u8> {
        let packet = Packet::parse(self.bytes).ok();
        packet
            .into_iter()
            .flat_map(|packet| packet.chunks())
            .map_while(|chunk| chunk.ok().map(|chunk| chunk.kind))
    }
}

/// One line in the manner of tcpdump.
impl fmt::Display for ObservedPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = match self.direction {
            Direction::Sent => "to",
            Direction::Received => "from",
        };
        write!(f, "{arrow} {} {}", self.peer, print::line(self.bytes))
    }
}

/// Sees every packet of a stack. It is called by whoever sends or receives, with a lock held: it should be quick and
/// must not call the stack.
pub trait PacketObserver: Debug + Send + Sync {
    /// One packet.
    fn packet(&self, packet: &ObservedPacket<'_>);
}
