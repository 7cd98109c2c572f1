//! Builds a packet in place, in the buffer that it is sent from.

use crate::checksum::crc32c;
use crate::consts::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN, PACKET_LEN_MAX, padded};
use crate::encode::Encode;
use crate::number::VerificationTag;

/// Offset of the checksum within the common header.
const CHECKSUM_AT: core::ops::Range<usize> = 8..COMMON_HEADER_LEN;

/// Writes one packet: the common header, then the chunks, each padded with zeros, and finally the checksum.
///
/// The packet is at most as long as the buffer, rounded down to a multiple of four. A buffer shorter than the
/// common header takes nothing; [`finish`](Self::finish) then returns 0.
#[derive(Debug)]
pub struct PacketBuilder<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> PacketBuilder<'a> {
    /// Begins a packet in `buffer` with the given common header fields.
    #[inline]
    #[must_use]
    pub fn new(buffer: &'a mut [u8], source_port: u16, destination_port: u16, tag: VerificationTag) -> Self {
        let limit = buffer.len().min(PACKET_LEN_MAX) & !3;
        let buffer = buffer.get_mut(..limit).unwrap_or_default();
        let Some(header) = buffer.first_chunk_mut::<COMMON_HEADER_LEN>() else {
            return Self { buffer: &mut [], len: 0 };
        };
        let [s0, s1] = source_port.to_be_bytes();
        let [d0, d1] = destination_port.to_be_bytes();
        let [t0, t1, t2, t3] = tag.0.to_be_bytes();
        *header = [s0, s1, d0, d1, t0, t1, t2, t3, 0, 0, 0, 0];
        Self { buffer, len: COMMON_HEADER_LEN }
    }

    /// Returns the bytes left for further chunks, their headers and padding included; a multiple of four.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.buffer.len() - self.len
    }

    /// Returns the length of the packet so far in bytes, common header included.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the packet has no chunk yet.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len <= COMMON_HEADER_LEN
    }

    /// Appends `chunk`. Returns false and writes nothing if it doesn't fit.
    #[inline]
    #[must_use]
    pub fn push(&mut self, chunk: &impl Encode) -> bool {
        let Some(value) = self.push_raw(chunk.kind(), chunk.flags(), chunk.value_len()) else { return false };
        chunk.encode_value(value);
        true
    }

    /// Appends a chunk with a value of `value_len` bytes and returns the value for the caller to fill. The
    /// caller must write every byte, since the buffer's old content is still there. The padding after the
    /// value is zeroed. Returns `None` if the chunk doesn't fit.
    #[inline]
    #[must_use]
    pub fn push_raw(&mut self, kind: u8, flags: u8, value_len: usize) -> Option<&mut [u8]> {
        let length = u16::try_from(CHUNK_HEADER_LEN.checked_add(value_len)?).ok()?;
        let end = self.len + padded(usize::from(length));
        let chunk = self.buffer.get_mut(self.len..end)?;
        let (header, value) = chunk.split_first_chunk_mut::<CHUNK_HEADER_LEN>()?;
        let [l0, l1] = length.to_be_bytes();
        *header = [kind, flags, l0, l1];
        let (value, padding) = value.split_at_mut_checked(value_len)?;
        if !padding.is_empty() {
            padding.fill(0);
        }
        self.len = end;
        Some(value)
    }

    /// Writes the checksum and returns the packet's length in bytes, a multiple of four.
    #[inline]
    #[must_use]
    pub fn finish(self) -> usize {
        let Self { buffer, len } = self;
        let Some(packet) = buffer.get_mut(..len) else { return 0 };
        let checksum = crc32c(packet);
        if let Some(field) = packet.get_mut(CHECKSUM_AT) {
            field.copy_from_slice(&checksum.to_le_bytes());
        }
        len
    }

    /// As [`finish`](Self::finish), but leaves the checksum zero. For a lower layer that protects the packet
    /// itself or computes the checksum.
    #[inline]
    #[must_use]
    pub const fn finish_with_zero_checksum(self) -> usize {
        self.len
    }
}

/// Writes the checksum of a whole packet, whatever its checksum field has held.
pub fn write_checksum(packet: &mut [u8]) {
    if let Some(field) = packet.get_mut(CHECKSUM_AT) {
        field.fill(0);
    }
    let checksum = crc32c(packet);
    if let Some(field) = packet.get_mut(CHECKSUM_AT) {
        field.copy_from_slice(&checksum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
