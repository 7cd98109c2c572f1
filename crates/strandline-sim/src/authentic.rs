//! Authenticated chunks (RFC 4895) as a receiver must treat them. Nobody else has the keys: what an AUTH
//! chunk covers is authentic if a host has sent the same bytes.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use strandline_proto::authentication::ChunkTypes;
use strandline_proto::config::ExtensionsConfig;
use strandline_proto::stats::AgreedExtensions;
use strandline_wire::chunk::kind;
use strandline_wire::{Chunk, Packet, RawChunk, UnrecognisedAction};

use crate::network::Carried;

/// What hosts have sent.
#[derive(Debug, Default)]
pub(crate) struct Authentic {
    /// Hashes of what the AUTH chunks of packets cover.
    covered: BTreeSet<u64>,
    /// Hashes of packets with an INIT or INIT ACK.
    set_ups: BTreeSet<u64>,
}

fn hash_of_covered(datagram: &Carried) -> Option<u64> {
    let packet = Packet::parse(&datagram.bytes).ok()?;
    let covered = packet.from_chunk(kind::AUTH)?;
    Some(hash_of((packet.verification_tag().0, covered)))
}

/// Returns the initiator's tag in a packet with an INIT or INIT ACK, and the hash of the packet.
fn hash_of_set_up(datagram: &Carried) -> Option<(u32, u64)> {
    let packet = Packet::parse(&datagram.bytes).ok()?;
    let tag = match packet.chunks().next()?.ok()?.parse().ok()? {
        Chunk::Init(init) => init.initiate_tag,
        Chunk::InitAck(_) => packet.verification_tag(),
        _ => return None,
    };
    packet.verify_checksum().then(|| (tag.0, hash_of(&datagram.bytes)))
}

fn hash_of(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

impl Authentic {
    /// Records a packet that a host sends.
    pub(crate) fn record(&mut self, datagram: &Carried) {
        self.covered.extend(hash_of_covered(datagram));
        self.set_ups.extend(hash_of_set_up(datagram).map(|(_, hash)| hash));
    }

    /// True if the packet has an AUTH chunk, and what it covers was sent like that.
    pub(crate) fn verifies(&self, datagram: &Carried) -> bool {
        hash_of_covered(datagram).is_some_and(|hash| self.covered.contains(&hash))
    }

    /// Returns the initiator's tag if an attacker has altered an INIT or INIT ACK. The keys of the two sides may differ
    /// then (section 6.1), so that neither accepts what the other authenticates.
    pub(crate) fn forged(&self, datagram: &Carried) -> Option<u32> {
        hash_of_set_up(datagram).filter(|(_, hash)| !self.set_ups.contains(hash)).map(|(tag, _)| tag)
    }
}

/// Returns the Shared Key Identifier of a packet with an AUTH chunk.
pub(crate) fn key_of(packet: &Packet<'_>) -> Option<u16> {
    packet.chunks().flatten().find_map(|chunk| match chunk.parse() {
        Ok(Chunk::Auth(auth)) => Some(auth.key),
        _ => None,
    })
}

/// True if the packet has an AUTH chunk with the null key, which everybody has who has seen the set-up.
pub(crate) fn has_null_key(datagram: &Carried) -> bool {
    Packet::parse(&datagram.bytes).is_ok_and(|packet| key_of(&packet) == Some(0))
}

/// Returns the chunk types whose authentication a host demands: ASCONF and ASCONF-ACK always (RFC 5061 section 4.1).
pub(crate) fn wanted(extensions: &ExtensionsConfig) -> Option<ChunkTypes> {
    let demanded = extensions.authentication.map(|settings| settings.chunks);
    if extensions.dynamic_addresses {
        return Some(demanded.unwrap_or_default().with(kind::ASCONF).with(kind::ASCONF_ACK));
    }
    demanded
}

/// Returns the chunks of a packet that a receiver processes (section 6.3): not those that it wants
/// authenticated and that follow no right AUTH chunk, nor anything after a wrong one, or after such an ASCONF
/// or ASCONF-ACK. `wanted` are the chunk types that need one; `None` if the association does not use
/// authentication, and AUTH is an unknown chunk.
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
            // RFC 5061 section 5.2 rule D5: nothing after it is processed either.
            (kind @ (kind::ASCONF | kind::ASCONF_ACK), Some(wanted))
                if wanted.contains(kind) && !verified =>
            {
                break;
            }
            (kind, Some(wanted)) if wanted.contains(kind) && !verified => {}
            _ if stops(&chunk) => break,
            _ => admitted.push(chunk),
        }
    }
    admitted
}

/// Leaves out the chunks of extensions that the association has not agreed on: they are unknown, so that
/// nothing after some of them is processed.
pub(crate) fn keep_agreed(chunks: &mut Vec<RawChunk<'_>>, agreed: AgreedExtensions) {
    let unknown = |chunk: &RawChunk<'_>| match chunk.kind {
        kind::NR_SACK => !agreed.nr_sack,
        kind::I_DATA => !agreed.interleaving,
        kind::STREAM_CREDIT | kind::STREAM_BLOCKED => !agreed.stream_credit,
        _ => false,
    };
    let ends = |chunk: &RawChunk<'_>| unknown(chunk) && matches!(chunk.kind, kind::NR_SACK | kind::I_DATA);
    if let Some(end) = chunks.iter().position(ends) {
        chunks.truncate(end);
    }
    chunks.retain(|chunk| !unknown(chunk));
}

/// True if the chunk is unknown, and by its type nothing after it is processed (RFC 9260 section 3.2).
fn stops(chunk: &RawChunk<'_>) -> bool {
    use UnrecognisedAction::{Stop, StopAndReport};
    matches!(chunk.parse(), Ok(Chunk::Unknown(_) | Chunk::Auth(_)))
        && matches!(chunk.unrecognised_action(), Stop | StopAndReport)
}

#[cfg(test)]
mod tests;
