//! How much of a message goes into the next chunk (RFC 9260 section 6.9).
//!
//! Messages are fragmented when they are sent, not when they are queued, so that packets are filled to the last byte
//! whatever the path MTU is then and whatever else the packet carries. Only a message that does not fit an empty
//! packet is fragmented; one that does waits for the next packet instead.

use strandline_wire::DATA_CHUNK_HEADER_LEN;

/// Minimum length in bytes of a fragment that fills up a packet: below it the header costs more than it helps.
pub(super) const FRAGMENT_MIN: usize = 64;

/// Maximum payload of a chunk, whose length field includes its header. Rounded down to a multiple of 4, so that no
/// fragment needs padding.
const PAYLOAD_MAX: usize = (u16::MAX as usize - DATA_CHUNK_HEADER_LEN) & !3;

/// The part of a message that has no TSN yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest {
    /// Its length in bytes.
    pub(super) len: usize,
    /// True if another part of the message was already sent.
    pub(super) begun: bool,
}

/// Returns the user data in bytes that a DATA chunk in `space` bytes can carry.
pub(super) const fn payload_room(space: usize) -> usize {
    let room = (space & !3).saturating_sub(DATA_CHUNK_HEADER_LEN);
    if room < PAYLOAD_MAX { room } else { PAYLOAD_MAX }
}

/// True if the rest of the message needs several chunks even in empty packets.
pub(super) const fn is_divided(rest: Rest, packet_space: usize) -> bool {
    rest.begun || rest.len > payload_room(packet_space)
}

/// Returns the bytes of user data of the next chunk. `None` means that it is sent in the next packet.
pub(super) const fn payload_len(rest: Rest, space: usize, packet_space: usize) -> Option<usize> {
    let room = payload_room(if space < packet_space { space } else { packet_space });
    if rest.len <= room {
        return Some(rest.len);
    }
    let empty_packet = space >= packet_space;
    let worthwhile = room >= FRAGMENT_MIN || (empty_packet && room > 0);
    if worthwhile && is_divided(rest, packet_space) { Some(room) } else { None }
}
