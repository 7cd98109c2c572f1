//! Authenticated chunks (RFC 4895) as a receiver must treat them. Nobody else has the keys: what an AUTH chunk covers is
//! authentic if a host has sent the same bytes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use strandline_proto::authentication::ChunkTypes;
use strandline_wire::chunk::kind;
use strandline_wire::{Chunk, Packet, RawChunk, UnrecognisedAction};

use crate::network::Carried;

/// Hashes of what the AUTH chunks cover in the packets that hosts have sent.
#[derive(Debug, Default)]
pub(crate) struct Authentic(BTreeSet<u64>);

fn hash_of_covered(datagram: &Carried) -> Option<u64> {
    let packet = Packet::parse(&datagram.bytes).ok()?;
    let covered = packet.from_chunk(kind::AUTH)?;
    let mut hasher = DefaultHasher::new();
    (packet.verification_tag().0, covered).hash(&mut hasher);
    Some(hasher.finish())
}

impl Authentic {
    /// Records a packet that a host sends.
    pub(crate) fn record(&mut self, datagram: &Carried) {
        self.0.extend(hash_of_covered(datagram));
    }

    /// True if the packet has an AUTH chunk, and what it covers was sent like that.
    pub(crate) fn verifies(&self, datagram: &Carried) -> bool {
        hash_of_covered(datagram).is_some_and(|hash| self.0.contains(&hash))
    }
}

/// Returns the chunks of a packet that a receiver processes (section 6.3): not those that it wants authenticated and that
/// follow no right AUTH chunk, nor anything after a wrong one. `wanted` are the chunk types that need one; `None` if the
/// association does not use authentication, and AUTH is an unknown chunk.
pub(crate) fn admitted<'a>(
    packet: &Packet<'a>,
    wanted: Option<ChunkTypes>,
    verifies: bool,
) -> Vec<RawChunk<'a>> {
    let mut admitted = Vec::new();
    let mut verified = false;
    for chunk in packet.chunks().flatten() {
        match (chunk.kind, wanted) {
            (kind::AUTH, Some(_)) if verifies && !verified => verified = true,
            (kind::AUTH, Some(_)) => break,
            (kind, Some(wanted)) if wanted.contains(kind) && !verified => {}
            _ if stops(&chunk) => break,
            _ => admitted.push(chunk),
        }
    }
    admitted
}

/// True if the chunk is unknown, and by its type nothing after it is processed (RFC 9260 section 3.2).
fn stops(chunk: &RawChunk<'_>) -> bool {
    use UnrecognisedAction::{Stop, StopAndReport};
    matches!(chunk.parse(), Ok(Chunk::Unknown(_) | Chunk::Auth(_)))
        && matches!(chunk.unrecognised_action(), Stop | StopAndReport)
}

#[cfg(test)]
mod tests;
