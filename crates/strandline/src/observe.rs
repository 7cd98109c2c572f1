//! Observers of packets sent and received, for captures and for measuring the time between packets.

use std::fmt::{self, Debug};
use std::net::{IpAddr, SocketAddr};

use strandline_proto::event::AssociationId as EngineId;
use strandline_proto::stats::{PathStatus, SentAgain, Status};
use strandline_proto::zone;
use strandline_wire::{Chunk, Packet, RawChunk, StreamId, Tsn, print};
use tokio::time::Instant;

use crate::engine::Engine;

/// The direction of an observed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Sent by this stack.
    Sent,
    /// Received by this stack.
    Received,
}

/// A packet seen by a [`PacketObserver`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ObservedPacket<'a> {
    /// When the packet was given to the carrier, or was taken from it.
    pub at: Instant,
    /// The packet's direction.
    pub direction: Direction,
    /// The peer: IP address and encapsulation port (0 for raw IP).
    pub peer: SocketAddr,
    /// The address on this side, if known.
    pub local: Option<IpAddr>,
    /// The SCTP packet.
    pub bytes: &'a [u8],
    engine: View<'a>,
}

/// The engine that sent the packet, or is about to process it.
#[derive(Clone, Copy)]
struct View<'a>(&'a Engine);

impl Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("engine")
    }
}

/// A DATA chunk of an observed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedData {
    /// The chunk's TSN.
    pub tsn: Tsn,
    /// The chunk's stream.
    pub stream: StreamId,
    /// User data, bytes.
    pub bytes: usize,
}

/// The SACK chunk of an observed packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedSack {
    /// The cumulative TSN ack: all TSNs up to this one have arrived.
    pub cumulative: Tsn,
    /// The advertised receive window (a_rwnd), bytes.
    pub a_rwnd: u32,
    /// The gap ack blocks: first and last TSN of each, as offsets from `cumulative`.
    pub gaps: Vec<(u16, u16)>,
    /// Number of duplicate TSNs reported.
    pub duplicates: usize,
}

/// The association of an observed packet: its state after the packet's burst was built, or before the received
/// packet was processed.
#[derive(Debug, Clone, Copy)]
pub struct ObservedAssociation<'a> {
    engine: View<'a>,
    id: EngineId,
}

impl ObservedAssociation<'_> {
    /// Returns the state, ports, streams, windows and counters.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.engine.0.status(self.id)
    }

    /// Returns the state, congestion window, round-trip time and MTU of the path to each of the peer's
    /// addresses.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatus> {
        self.engine.0.paths(self.id).unwrap_or_default()
    }

    /// Returns why a chunk of the packet was retransmitted; see
    /// [`Endpoint::sent_again`](strandline_proto::endpoint::Endpoint::sent_again).
    #[must_use]
    pub fn sent_again(&self, tsn: Tsn) -> Option<SentAgain> {
        self.engine.0.sent_again(self.id, tsn)
    }
}

impl<'a> ObservedPacket<'a> {
    /// Returns the SCTP source and destination port; `None` if the bytes are too short for a packet.
    #[must_use]
    pub fn ports(&self) -> Option<(u16, u16)> {
        let packet = Packet::parse(self.bytes).ok()?;
        Some((packet.source_port(), packet.destination_port()))
    }

    /// Returns the packet's association, found by addresses and ports; `None` before it exists, or if it is on
    /// another shard.
    #[must_use]
    pub fn association(&self) -> Option<ObservedAssociation<'a>> {
        let (source, destination) = self.ports()?;
        let (local, remote) = match self.direction {
            Direction::Sent => (source, destination),
            Direction::Received => (destination, source),
        };
        let id = self.engine.0.find(local, zone::key(self.peer), remote)?;
        Some(ObservedAssociation { engine: self.engine, id })
    }

    /// Returns the packet's DATA chunks in order.
    pub fn data(&self) -> impl Iterator<Item = ObservedData> {
        self.chunks().filter_map(|chunk| match chunk {
            Chunk::Data(data) => {
                Some(ObservedData { tsn: data.tsn, stream: data.stream, bytes: data.payload.len() })
            }
            _ => None,
        })
    }

    /// Returns the packet's SACK or NR-SACK chunk, if it has one.
    #[must_use]
    pub fn sack(&self) -> Option<ObservedSack> {
        self.chunks().find_map(|chunk| match chunk {
            Chunk::Sack(sack) => Some(ObservedSack {
                cumulative: sack.cumulative_tsn(),
                a_rwnd: sack.a_rwnd(),
                gaps: sack.gap_blocks().map(|block| (block.start, block.end)).collect(),
                duplicates: sack.duplicates().len(),
            }),
            Chunk::NrSack(sack) => Some(ObservedSack {
                cumulative: sack.cumulative_tsn(),
                a_rwnd: sack.a_rwnd(),
                gaps: sack.gap_blocks().map(|block| (block.start, block.end)).collect(),
                duplicates: sack.duplicates().len(),
            }),
            _ => None,
        })
    }

    /// Returns the types of the chunks in order, as numbered in RFC 9260 section 3.2.
    pub fn chunk_types(&self) -> impl Iterator<Item = u8> {
        self.raw_chunks().map(|chunk| chunk.kind)
    }

    fn chunks(&self) -> impl Iterator<Item = Chunk<'a>> {
        self.raw_chunks().map_while(|chunk| chunk.parse().ok())
    }

    fn raw_chunks(&self) -> impl Iterator<Item = RawChunk<'a>> {
        let packet = Packet::parse(self.bytes).ok();
        packet.into_iter().flat_map(|packet| packet.chunks()).map_while(Result::ok)
    }
}

/// Formats the packet on one line in the style of tcpdump.
impl fmt::Display for ObservedPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arrow = match self.direction {
            Direction::Sent => "to",
            Direction::Received => "from",
        };
        write!(f, "{arrow} {} {}", self.peer, print::line(self.bytes))
    }
}

/// Observes every packet of a stack. It is called on the thread that sends or receives, with a lock held: it
/// should be quick and must not call the stack.
pub trait PacketObserver: Debug + Send + Sync {
    /// Called for each packet.
    fn packet(&self, packet: &ObservedPacket<'_>);
}

/// Passes packets of one size, the last of which may be shorter, to the observer as they are sent or received
/// now. `local` is the address on this side, if known.
pub(crate) fn show(
    observer: &dyn PacketObserver,
    engine: &Engine,
    direction: Direction,
    (peer, local): (SocketAddr, Option<IpAddr>),
    packets: &[u8],
    segment_size: usize,
) {
    let at = Instant::now();
    for bytes in packets.chunks(segment_size.max(1)) {
        observer.packet(&ObservedPacket { at, direction, peer, local, bytes, engine: View(engine) });
    }
}

#[cfg(test)]
mod tests;
