//! Watching packets as they leave and arrive: for captures, and for measuring the time between them.

use std::fmt::{self, Debug};
use std::net::{IpAddr, SocketAddr};

use strandline_proto::event::AssociationId as EngineId;
use strandline_proto::stats::{PathStatus, SentAgain, Status};
use strandline_proto::zone;
use strandline_wire::{Chunk, Packet, RawChunk, StreamId, Tsn, print};
use tokio::time::Instant;

use crate::engine::Engine;

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
    engine: View<'a>,
}

/// The engine that sent the packet, or is about to take it in.
#[derive(Clone, Copy)]
struct View<'a>(&'a Engine);

impl Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("engine")
    }
}

/// DATA of a packet that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedData {
    /// Its Transmission Sequence Number.
    pub tsn: Tsn,
    /// The stream.
    pub stream: StreamId,
    /// Bytes of user data.
    pub bytes: usize,
}

/// A SACK that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedSack {
    /// All up to this one has arrived.
    pub cumulative: Tsn,
    /// The receive window, bytes.
    pub a_rwnd: u32,
    /// First and last of each block beyond a gap, counted from `cumulative`.
    pub gaps: Vec<(u16, u16)>,
    /// How many TSNs it says came twice.
    pub duplicates: usize,
}

/// The association of a packet that was seen: as it was after the packet's burst was built, or before the packet was taken in.
#[derive(Debug, Clone, Copy)]
pub struct ObservedAssociation<'a> {
    engine: View<'a>,
    id: EngineId,
}

impl ObservedAssociation<'_> {
    /// State, ports, streams, windows and counters.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.engine.0.status(self.id)
    }

    /// Each of the peer's addresses with its state, window, round trip time and MTU.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatus> {
        self.engine.0.paths(self.id).unwrap_or_default()
    }

    /// Why a chunk of the packet was sent again; see [`Endpoint::sent_again`](strandline_proto::endpoint::Endpoint::sent_again).
    #[must_use]
    pub fn sent_again(&self, tsn: Tsn) -> Option<SentAgain> {
        self.engine.0.sent_again(self.id, tsn)
    }
}

impl<'a> ObservedPacket<'a> {
    /// SCTP source and destination port; `None` for what is too short to be a packet.
    #[must_use]
    pub fn ports(&self) -> Option<(u16, u16)> {
        let packet = Packet::parse(self.bytes).ok()?;
        Some((packet.source_port(), packet.destination_port()))
    }

    /// The association that it belongs to, found by addresses and ports: none before there is one, or if another shard has it.
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

    /// Its DATA chunks, in their order.
    pub fn data(&self) -> impl Iterator<Item = ObservedData> {
        self.chunks().filter_map(|chunk| match chunk {
            Chunk::Data(data) => {
                Some(ObservedData { tsn: data.tsn, stream: data.stream, bytes: data.payload.len() })
            }
            _ => None,
        })
    }

    /// Its SACK chunk, if it has one.
    #[must_use]
    pub fn sack(&self) -> Option<ObservedSack> {
        self.chunks().find_map(|chunk| match chunk {
            Chunk::Sack(sack) => Some(ObservedSack {
                cumulative: sack.cumulative_tsn(),
                a_rwnd: sack.a_rwnd(),
                gaps: sack.gap_blocks().map(|block| (block.start, block.end)).collect(),
                duplicates: sack.duplicates().len(),
            }),
            _ => None,
        })
    }

    /// The chunks' types, as numbered in RFC 9260 section 3.2, in their order.
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

/// Shows packets of one size, the last of which may be shorter, as they leave or arrive now. `local` as far as is known.
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
