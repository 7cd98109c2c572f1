//! AUTH chunks of packets to send (RFC 4895 section 6.2).
//!
//! A packet is built without one, in a buffer that is shorter by [`reserve`]. [`seal`] then moves the first chunk that
//! the peer wants to have authenticated, and all that follow it, behind an AUTH chunk.

use strandline_wire::{COMMON_HEADER_LEN, padded, write_checksum};

use super::check::FIELDS_LEN;
use super::{Auth, Session, auth_of};
use crate::association::Association;
use crate::association::features::Extensions;
use crate::authentication::ChunkTypes;
use crate::outbound::interleaving::wire_bytes;
use strandline_wire::chunk::kind;

/// Chunk types that are never sent together with others, so that packets of these need no room for an AUTH chunk.
const ALONE: [u8; 2] = [kind::ASCONF, kind::ASCONF_ACK];

/// Returns the authentication of an association whose peer demands some.
fn demanded(association: &Association) -> Option<(&Auth, &Session)> {
    if !association.features.has(Extensions::AUTHENTICATION) {
        return None;
    }
    let auth = auth_of(association)?;
    let session = auth.session.as_ref()?;
    (!session.peer_chunks.is_empty()).then_some((auth, session))
}

/// Returns the number of bytes that a packet without chunks of [`ALONE`] must leave for an AUTH chunk; 0 without
/// authentication.
#[inline]
pub(crate) fn reserve(association: &Association) -> usize {
    if association.features.has(Extensions::AUTHENTICATION) { reserve_agreed(association) } else { 0 }
}

#[cold]
#[inline(never)]
fn reserve_agreed(association: &Association) -> usize {
    let bundled = |(_, session): &(&Auth, &Session)| !session.peer_chunks.is_within(&ALONE);
    demanded(association).filter(bundled).map_or(0, |(_, session)| FIELDS_LEN + session.algorithm.mac_len())
}

/// Returns the number of bytes that a packet of chunks of these types must leave.
pub(crate) fn reserve_for(association: &Association, kinds: &[u8]) -> usize {
    let demands =
        |(_, session): &(&Auth, &Session)| kinds.iter().any(|kind| session.peer_chunks.contains(*kind));
    demanded(association).filter(demands).map_or(0, |(_, session)| FIELDS_LEN + session.algorithm.mac_len())
}

/// Returns how long a packet with lost chunks of `bytes` user data and headers was, at most: with the larger headers of
/// I-DATA, and the AUTH chunk.
pub(crate) fn lost_len(association: &Association, bytes: u32) -> u32 {
    let kinds = [kind::DATA, kind::I_DATA];
    wire_bytes(&association.outbound, bytes).saturating_add(reserve_for(association, &kinds) as u32)
}

/// Returns the number of bytes that a packet with a chunk of this type, in answer to a State Cookie, must leave.
pub(crate) fn reserve_of(auth: Option<&Auth>, kind: u8) -> usize {
    let session = auth.and_then(|auth| auth.session.as_ref());
    let session = session.filter(|session| session.peer_chunks.contains(kind));
    session.map_or(0, |session| FIELDS_LEN + session.algorithm.mac_len())
}

/// As [`seal`], for a packet in answer to a State Cookie that makes no association. The peer knows its keys since the
/// INIT ACK.
pub(crate) fn seal_answer(auth: Option<&Auth>, buffer: &mut [u8], len: usize, checksum: bool) -> usize {
    let session = auth.and_then(|auth| Some((auth, auth.session.as_ref()?)));
    let sealed = session.and_then(|(auth, session)| insert(auth, session, buffer, len));
    finish(buffer, sealed.unwrap_or(len), checksum)
}

/// Inserts an AUTH chunk into a packet of `len` bytes, if the peer wants a chunk of it to have one, and
/// writes the checksum if `checksum`. Returns the new length. The buffer has [`reserve`] bytes more than the
/// packet.
#[inline(never)]
pub(crate) fn seal(association: &Association, buffer: &mut [u8], len: usize, checksum: bool) -> usize {
    let sealed = demanded(association).and_then(|(auth, session)| insert(auth, session, buffer, len));
    finish(buffer, sealed.unwrap_or(len), checksum)
}

/// Writes the checksum of a packet, if `checksum`, and returns its length.
fn finish(buffer: &mut [u8], len: usize, checksum: bool) -> usize {
    if len > 0
        && checksum
        && let Some(packet) = buffer.get_mut(..len)
    {
        write_checksum(packet);
    }
    len
}

/// Inserts the chunk. Returns `None` if none is needed.
fn insert(auth: &Auth, session: &Session, buffer: &mut [u8], len: usize) -> Option<usize> {
    let at = first_of(buffer.get(..len)?, session.peer_chunks)?;
    let active = auth.ring.active();
    let (_, key) = session.keys.iter().find(|(id, _)| *id == active)?;
    let (algorithm, mac_len) = (session.algorithm, session.algorithm.mac_len());
    let auth_len = FIELDS_LEN + mac_len;
    let end = len + auth_len;
    if end > buffer.len() {
        debug_assert!(false, "the builder leaves room");
        return None;
    }
    buffer.copy_within(at..len, at + auth_len);
    let (fields, rest) = buffer.get_mut(at..end)?.split_at_mut_checked(FIELDS_LEN)?;
    let (place, rest) = rest.split_at_mut_checked(mac_len)?;
    let ([l0, l1], [k0, k1]) = ((auth_len as u16).to_be_bytes(), active.0.to_be_bytes());
    let [h0, h1] = algorithm.identifier().to_be_bytes();
    fields.copy_from_slice(&[kind::AUTH, 0, l0, l1, k0, k1, h0, h1]);
    let mac = key.mac(algorithm, fields, rest);
    place.copy_from_slice(mac.get(..mac_len)?);
    Some(end)
}

/// Returns the offset of the first chunk of one of these types.
fn first_of(packet: &[u8], kinds: ChunkTypes) -> Option<usize> {
    let mut at = COMMON_HEADER_LEN;
    while let Some([kind, _, l0, l1]) = packet.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        if kinds.contains(*kind) {
            return Some(at);
        }
        at += padded(usize::from(u16::from_be_bytes([*l0, *l1]))).max(4);
    }
    None
}
