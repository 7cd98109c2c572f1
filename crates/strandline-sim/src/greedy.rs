//! A host that takes more credit for its streams than it is granted (docs/stream-credit.md section 4.2): it
//! reads larger limits than its peers have told.

use strandline_wire::chunk::kind;
use strandline_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN, Packet};

use crate::attacker::fix_checksum;
use crate::network::Carried;

/// What is added to each limit, in bytes.
const GREED: u32 = 20 << 10;

/// Length of the cumulative TSN of a STREAM CREDIT chunk and of an entry, and where an entry has the limit.
const CUMULATIVE_LEN: usize = 4;
const ENTRY_LEN: usize = 12;
const LIMIT_AT: usize = 8;

/// The reason with which an association ends whose peer sends more than it was granted.
pub(crate) const OVERDRAWN: &str = "data beyond the credit of its stream";

/// Returns the packet with larger limits; `None` if it has none, or is authenticated.
pub(crate) fn inflate(datagram: &Carried) -> Option<Carried> {
    let packet = Packet::parse(&datagram.bytes).ok()?;
    let kinds: Vec<u8> = packet.chunks().flatten().map(|chunk| chunk.kind).collect();
    let whole = packet.checksum() != 0 && packet.verify_checksum();
    if !whole || !kinds.contains(&kind::STREAM_CREDIT) || kinds.contains(&kind::AUTH) {
        return None;
    }
    let mut bytes = datagram.bytes.to_vec();
    let mut at = COMMON_HEADER_LEN;
    while let Some([of, _, high, low]) =
        bytes.get(at..at + CHUNK_HEADER_LEN).and_then(|header| header.first_chunk())
    {
        let (of, len) = (*of, usize::from(u16::from_be_bytes([*high, *low])));
        if of == kind::STREAM_CREDIT {
            let mut entry = at + CHUNK_HEADER_LEN + CUMULATIVE_LEN;
            while entry + ENTRY_LEN <= at + len {
                let limit = bytes.get_mut(entry + LIMIT_AT..entry + ENTRY_LEN)?;
                let told = u32::from_be_bytes(*limit.first_chunk()?);
                limit.copy_from_slice(&told.wrapping_add(GREED).to_be_bytes());
                entry += ENTRY_LEN;
            }
        }
        at += len.max(CHUNK_HEADER_LEN).next_multiple_of(4);
    }
    fix_checksum(&mut bytes);
    Some(Carried { bytes: bytes.into(), ..datagram.clone() })
}
