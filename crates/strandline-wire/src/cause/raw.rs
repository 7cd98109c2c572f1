//! Framing of error causes (RFC 9260 section 3.3.10), whatever their code.

use core::fmt;

use crate::error::CauseError;
use crate::tlv::{RawTlv, tlv_list};

/// An error cause that is framed but not interpreted.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct RawCause<'a> {
    /// The Cause Code field.
    pub code: u16,
    /// The Cause-Specific Information, without padding.
    pub value: &'a [u8],
}

impl<'a> RawCause<'a> {
    /// Returns the cause-specific information if it has exactly `N` bytes.
    ///
    /// # Errors
    /// [`CauseError::WrongLength`] otherwise.
    pub(super) fn exactly<const N: usize>(&self) -> Result<&'a [u8; N], CauseError> {
        self.value.try_into().map_err(|_| CauseError::WrongLength {
            code: self.code,
            expected: N,
            found: self.value.len(),
        })
    }

    /// Returns the first `N` bytes of the cause-specific information, and the rest.
    ///
    /// # Errors
    /// [`CauseError::TooShort`] if there are fewer than `N` bytes.
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
    /// A list of error causes: a view of bytes that have not been checked yet. The bytes begin with a cause
    /// code, as in the value of an ERROR or ABORT chunk or in the output of a
    /// [`TlvWriter`](crate::TlvWriter).
    Causes of RawCause by CauseIter, type in code, |RawTlv { kind, value, .. }| RawCause { code: kind, value }
}
