//! Framing of chunks (RFC 9260 section 3.2), whatever their type.
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type          │ flags         │ length = 4 + value            │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! ╎ value, padded with zeros to a multiple of four outside length ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use core::fmt;

use crate::action::UnrecognisedAction;
use crate::consts::CHUNK_HEADER_LEN;
use crate::encode::{Encode, put};
use crate::error::ChunkError;

/// A chunk that is framed but not interpreted.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct RawChunk<'a> {
    /// The Chunk Type field.
    pub kind: u8,
    /// The Chunk Flags field.
    pub flags: u8,
    /// The Chunk Value, without padding.
    pub value: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> RawChunk<'a> {
    /// Frames a chunk from its `bytes`, as many as its length field says. Returns `None` if they are shorter
    /// than the chunk header.
    #[inline]
    pub(crate) fn framed(kind: u8, flags: u8, bytes: &'a [u8]) -> Option<Self> {
        let value = bytes.get(CHUNK_HEADER_LEN..)?;
        Some(Self { kind, flags, value, bytes })
    }

    /// Returns header and value as received, without padding. Reports of unrecognised chunks carry these
    /// bytes.
    #[inline]
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the action that the type asks of a receiver that doesn't know it.
    #[inline]
    #[must_use]
    pub const fn unrecognised_action(&self) -> UnrecognisedAction {
        UnrecognisedAction::of(self.kind)
    }

    /// Returns the value if it has exactly `N` bytes.
    ///
    /// # Errors
    /// [`ChunkError::WrongLength`] otherwise.
    #[inline]
    pub(crate) fn exactly<const N: usize>(&self) -> Result<&'a [u8; N], ChunkError> {
        self.value.try_into().map_err(|_| ChunkError::WrongLength {
            kind: self.kind,
            expected: N,
            found: self.value.len(),
        })
    }

    /// Returns the value's first `N` bytes, and the rest.
    ///
    /// # Errors
    /// [`ChunkError::TooShort`] if there are fewer than `N` bytes.
    #[inline]
    pub(crate) fn at_least<const N: usize>(&self) -> Result<(&'a [u8; N], &'a [u8]), ChunkError> {
        self.value.split_first_chunk().ok_or(ChunkError::TooShort {
            kind: self.kind,
            minimum: N,
            found: self.value.len(),
        })
    }
}

impl fmt::Debug for RawChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawChunk")
            .field("kind", &self.kind)
            .field("flags", &self.flags)
            .field("value", &self.value)
            .finish()
    }
}

impl Encode for RawChunk<'_> {
    fn kind(&self) -> u8 {
        self.kind
    }
    fn flags(&self) -> u8 {
        self.flags
    }
    fn value_len(&self) -> usize {
        self.value.len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, self.value);
    }
}
