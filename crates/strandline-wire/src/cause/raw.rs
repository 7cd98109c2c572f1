//! An error cause as it is framed (RFC 9260 section 3.3.10), whatever its code.

use core::fmt;

use crate::error::CauseError;
use crate::tlv::{RawTlv, tlv_list};

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

tlv_list! {
    /// A list of error causes: a view of bytes that have not been checked yet. They begin with a cause's code: the
    /// value of an ERROR or ABORT, or what a [`TlvWriter`](crate::TlvWriter) has written.
    Causes of RawCause by CauseIter, type in code, |RawTlv { kind, value, .. }| RawCause { code: kind, value }
}
