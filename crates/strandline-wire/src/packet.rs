//! The packet: common header and chunks (RFC 9260 sections 3 and 3.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ source port                   │ destination port              │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ verification tag                                              │
//! ├───────────────────────────────────────────────────────────────┤
//! │ checksum (CRC32c, its least significant byte first)           │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ chunks, each padded to a multiple of four                     ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use crate::checksum::crc32c_parts;
use crate::chunk::RawChunk;
use crate::consts::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN};
use crate::error::{FramingError, PacketError};
use crate::number::VerificationTag;
use crate::tlv::after;

/// A view of a received packet's bytes.
#[derive(Debug, Copy, Clone)]
pub struct Packet<'a> {
    header: &'a [u8; COMMON_HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses `bytes`, which are one whole packet. Verifies neither the checksum nor any chunk.
    ///
    /// # Errors
    /// If there are fewer than 12 bytes.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        match bytes.split_first_chunk() {
            Some((header, body)) => Ok(Self { header, body }),
            None => Err(PacketError::TooShort { len: bytes.len() }),
        }
    }

    /// Bytes of the packet, common header included.
    #[must_use]
    pub fn size(&self) -> usize {
        COMMON_HEADER_LEN + self.body.len()
    }

    /// Is the checksum right? It is computed with its own field taken as zero (RFC 9260 section 6.8).
    #[must_use]
    pub fn verify_checksum(&self) -> bool {
        let mut header = *self.header;
        header[8..].fill(0);
        crc32c_parts(&[&header, self.body]) == self.checksum()
    }

    /// Returns the Source Port Number.
    #[inline]
    #[must_use]
    pub const fn source_port(&self) -> u16 {
        let [a, b, ..] = *self.header;
        u16::from_be_bytes([a, b])
    }

    /// Returns the Destination Port Number.
    #[inline]
    #[must_use]
    pub const fn destination_port(&self) -> u16 {
        let [_, _, a, b, ..] = *self.header;
        u16::from_be_bytes([a, b])
    }

    /// Returns the Verification Tag.
    #[inline]
    #[must_use]
    pub const fn verification_tag(&self) -> VerificationTag {
        let [_, _, _, _, a, b, c, d, ..] = *self.header;
        VerificationTag(u32::from_be_bytes([a, b, c, d]))
    }

    /// Returns the checksum field as a CRC32c value.
    #[inline]
    #[must_use]
    pub const fn checksum(&self) -> u32 {
        let [.., a, b, c, d] = *self.header;
        u32::from_le_bytes([a, b, c, d])
    }

    /// Returns the type of the first chunk, which may turn out to be malformed, or `None` if there is none.
    #[inline]
    #[must_use]
    pub const fn first_kind(&self) -> Option<u8> {
        self.body.first().copied()
    }

    /// Returns the bytes from the first chunk of this type to the end of the packet, or `None` if there is none.
    #[must_use]
    pub fn from_chunk(&self, kind: u8) -> Option<&'a [u8]> {
        let mut chunks = self.chunks();
        loop {
            let rest = chunks.rest;
            if chunks.next()?.ok()?.kind == kind {
                return Some(rest);
            }
        }
    }

    /// Returns an iterator over the chunks in order. It ends after the first chunk with an invalid length.
    #[inline]
    #[must_use]
    pub const fn chunks(&self) -> Chunks<'a> {
        Chunks { rest: self.body }
    }
}

/// Iterator over a packet's chunks. Each step consumes at least four bytes; after an error the iterator ends.
///
/// The padding of the last chunk may be missing: it carries nothing, and a receiver ignores it (RFC 9260
/// section 3.2).
#[derive(Debug, Clone, Default)]
pub struct Chunks<'a> {
    rest: &'a [u8],
}

impl<'a> Chunks<'a> {
    #[inline]
    fn split(&self) -> Result<RawChunk<'a>, FramingError> {
        let Some((&[kind, flags, l0, l1], _)) = self.rest.split_first_chunk::<CHUNK_HEADER_LEN>() else {
            return Err(FramingError::HeaderTruncated { remaining: self.rest.len() });
        };
        let length = u16::from_be_bytes([l0, l1]);
        let Some(bytes) = self.rest.get(..usize::from(length)) else {
            return Err(FramingError::LengthBeyondEnd {
                kind: kind.into(),
                length,
                remaining: self.rest.len(),
            });
        };
        RawChunk::framed(kind, flags, bytes).ok_or(FramingError::LengthTooSmall { kind: kind.into(), length })
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<RawChunk<'a>, FramingError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.split();
        self.rest = after(self.rest, item.as_ref().ok().map(|chunk| chunk.as_bytes().len()));
        Some(item)
    }
}

impl core::iter::FusedIterator for Chunks<'_> {}

#[cfg(test)]
mod tests;
