//! Chunks written into a packet one at a time, as DATA or I-DATA.

use strandline_wire::{DATA_CHUNK_HEADER_LEN, I_DATA_CHUNK_HEADER_LEN, IData, PacketBuilder};

use super::Outbound;
use super::bundle::Urgency;
use super::interleaving::{self, EXTRA_LEN, interleaves, numbers_of};
use super::stream_credit;
use crate::number::Tsn;
use crate::path_index::PathIndex;
use crate::time::Time;

/// A chunk that was written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) tsn: Tsn,
    /// Its bytes as congestion control counts them: those of a DATA chunk (section 7.2).
    pub(crate) bytes: u32,
    /// True if it asks for an immediate acknowledgement.
    pub(crate) immediate: bool,
}

/// Returns the bytes of a chunk with a payload of `len` bytes, as congestion control counts them.
#[inline]
const fn chunk_len(len: usize) -> u32 {
    (DATA_CHUNK_HEADER_LEN + len.next_multiple_of(4)) as u32
}

/// Writes the next chunk of new data, as [`next_new`](Outbound::next_new) returns it.
#[inline]
pub(crate) fn write_new(
    outbound: &mut Outbound,
    now: Time,
    path: PathIndex,
    packet_space: usize,
    urgency: Urgency,
    packet: &mut PacketBuilder<'_>,
) -> Option<Written> {
    if interleaves(outbound) {
        return write_new_i_data(outbound, now, path, packet_space, urgency, packet);
    }
    let mut data = outbound.next_new(now, path, packet.remaining(), packet_space)?;
    let bytes = chunk_len(data.payload.len());
    data.immediate |= urgency.at(bytes);
    let pushed = packet.push(&data);
    debug_assert!(pushed, "next_new keeps to the space it is given");
    Some(Written { tsn: data.tsn, bytes, immediate: data.immediate })
}

#[inline(never)]
fn write_new_i_data(
    outbound: &mut Outbound,
    now: Time,
    path: PathIndex,
    packet_space: usize,
    urgency: Urgency,
    packet: &mut PacketBuilder<'_>,
) -> Option<Written> {
    let most = stream_credit::admit(outbound, packet_space.saturating_sub(I_DATA_CHUNK_HEADER_LEN))?;
    let space = (packet.remaining(), packet_space);
    let mut data = interleaving::next_new(outbound, now, path, space, most)?;
    let bytes = chunk_len(data.payload.len());
    data.immediate |= urgency.at(bytes);
    let pushed = packet.push(&data);
    debug_assert!(pushed, "next_new keeps to the space it is given");
    Some(Written { tsn: data.tsn, bytes, immediate: data.immediate })
}

/// Writes the next chunk to be retransmitted, as [`next_retransmission`](Outbound::next_retransmission) returns it. It
/// asks for an immediate acknowledgement if `immediate`.
pub(crate) fn write_again(
    outbound: &mut Outbound,
    now: Time,
    path: PathIndex,
    immediate: bool,
    packet: &mut PacketBuilder<'_>,
) -> Option<Written> {
    let extra = if interleaves(outbound) { EXTRA_LEN } else { 0 };
    let room = packet.remaining().saturating_sub(extra);
    let numbers = match extra {
        0 => None,
        _ => lowest_marked(outbound).and_then(|tsn| numbers_of(outbound, tsn)),
    };
    let mut data = outbound.next_retransmission(now, path, room)?;
    data.immediate |= immediate;
    let pushed = match numbers {
        None => packet.push(&data),
        Some((mid, fsn)) => packet.push(&IData::of(data, mid, fsn)),
    };
    debug_assert!(pushed, "next_retransmission keeps to the space it is given");
    Some(Written { tsn: data.tsn, bytes: chunk_len(data.payload.len()), immediate: data.immediate })
}

/// Returns the lowest TSN that is marked for retransmission.
fn lowest_marked(outbound: &mut Outbound) -> Option<Tsn> {
    let outstanding = &mut outbound.busy.as_deref_mut()?.sent.outstanding;
    let index = outstanding.first_marked()?;
    Some(outstanding.tsn(index))
}
