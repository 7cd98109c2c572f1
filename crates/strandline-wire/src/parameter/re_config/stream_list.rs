//! List of the stream numbers of a reset request.

use core::fmt;

use super::super::raw::RawParameter;
use crate::error::ParameterError;
use crate::number::StreamId;

/// Length of one stream number in bytes.
const ELEMENT_LEN: usize = 2;

/// Stream numbers, in the order in which they are listed. An empty list means all streams.
#[derive(Copy, Clone, PartialEq, Eq, Default)]
pub struct StreamList<'a> {
    streams: &'a [[u8; ELEMENT_LEN]],
}

impl<'a> StreamList<'a> {
    /// Returns the list that these bytes encode, two for each stream number. An odd byte at the end is ignored.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { streams: bytes.as_chunks().0 }
    }

    /// Parses the list behind the fixed fields of a parameter.
    pub(super) fn parse(raw: &RawParameter<'_>, bytes: &'a [u8]) -> Result<Self, ParameterError> {
        match bytes.as_chunks() {
            (streams, []) => Ok(Self { streams }),
            _ => Err(ParameterError::NotAMultiple {
                kind: raw.kind,
                element: ELEMENT_LEN,
                found: raw.value.len(),
            }),
        }
    }

    /// Returns the stream numbers. A peer may list any numbers, and a number several times.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = StreamId> + Clone + use<'a> {
        self.streams.iter().map(|&bytes| StreamId(u16::from_be_bytes(bytes)))
    }

    /// Returns whether the list is empty, which means all streams.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) const fn as_bytes(&self) -> &'a [u8] {
        self.streams.as_flattened()
    }
}

impl fmt::Debug for StreamList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
