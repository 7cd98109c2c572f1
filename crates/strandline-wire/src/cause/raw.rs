//! An error cause as it is framed (RFC 9260 section 3.3.10), whatever its code.

use core::fmt;

use crate::encode::{EncodeTlv, put};
use crate::error::{CauseError, FramingError};
use crate::tlv::{RawTlv, Tlvs};

/// One error cause, framed but not interpreted.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct RawCause<'a> {
    /// Cause Code.
    pub code: u16,
    /// Cause-Specific Information, without padding.
    pub value: &'a [u8],
}

impl<'a> RawCause<'a> {
    /// The information, if it has exactly `N` bytes.
    pub(super) fn exactly<const N: usize>(&self) -> Result<&'a [u8; N], CauseError> {
        self.value.try_into().map_err(|_| CauseError::WrongLength {
            code: self.code,
            expected: N,
            found: self.value.len(),
        })
    }

    /// The information's first `N` bytes and the rest, if there are so many.
    pub(super) fn at_least<const N: usize>(&self) -> Result<(&'a [u8; N], &'a [u8]), CauseError> {
        self.value.split_first_chunk().ok_or(CauseError::TooShort {
            code: self.code,
            minimum: N,
            found: self.value.len(),
        })
    }
}

impl fmt::Debug for RawCause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCause").field("code", &self.code).field("value", &self.value).finish()
    }
}

impl EncodeTlv for RawCause<'_> {
    fn kind(&self) -> u16 {
        self.code
    }
    fn value_len(&self) -> usize {
        self.value.len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, self.value);
    }
}

/// A list of error causes: a view of bytes that have not been checked yet.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct Causes<'a> {
    bytes: &'a [u8],
}

impl<'a> Causes<'a> {
    /// Over `bytes`, which begin with a cause's code: the value of an ERROR or ABORT, or what a
    /// [`TlvWriter`](crate::TlvWriter) has written.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The bytes themselves.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// No cause at all?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The causes in order. Ends after the first whose length can't be true.
    #[must_use]
    pub const fn iter(&self) -> CauseIter<'a> {
        CauseIter { tlvs: Tlvs::new(self.bytes) }
    }
}

impl<'a> IntoIterator for Causes<'a> {
    type Item = Result<RawCause<'a>, FramingError>;
    type IntoIter = CauseIter<'a>;

    fn into_iter(self) -> CauseIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Causes`]. Each step consumes at least four bytes; after an error it is at its end.
#[derive(Debug, Clone)]
pub struct CauseIter<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Iterator for CauseIter<'a> {
    type Item = Result<RawCause<'a>, FramingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let tlv = self.tlvs.next()?;
        Some(tlv.map(|RawTlv { kind, value, .. }| RawCause { code: kind, value }))
    }
}

impl core::iter::FusedIterator for CauseIter<'_> {}
