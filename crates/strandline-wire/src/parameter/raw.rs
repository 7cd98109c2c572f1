//! Framing of parameters (RFC 9260 section 3.2.1), whatever their type.

use core::fmt;

use crate::action::UnrecognisedAction;
use crate::error::ParameterError;
use crate::tlv::{RawTlv, tlv_list};

/// A parameter that is framed but not interpreted.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct RawParameter<'a> {
    /// The Parameter Type field.
    pub kind: u16,
    /// The Parameter Value, without padding.
    pub value: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> RawParameter<'a> {
    /// Returns type, length and value as received, without padding. Reports of unrecognised parameters and
    /// unresolvable addresses carry these bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the action that the type asks of a receiver that doesn't know it.
    #[must_use]
    pub const fn unrecognised_action(&self) -> UnrecognisedAction {
        UnrecognisedAction::of_parameter(self.kind)
    }

    /// Returns the value if it has exactly `N` bytes.
    ///
    /// # Errors
    /// [`ParameterError::WrongLength`] otherwise.
    pub(super) fn exactly<const N: usize>(&self) -> Result<&'a [u8; N], ParameterError> {
        self.value.try_into().map_err(|_| ParameterError::WrongLength {
            kind: self.kind,
            expected: N,
            found: self.value.len(),
        })
    }

    /// Returns the value's first `N` bytes, and the rest.
    ///
    /// # Errors
    /// [`ParameterError::TooShort`] if there are fewer than `N` bytes.
    pub(super) fn at_least<const N: usize>(&self) -> Result<(&'a [u8; N], &'a [u8]), ParameterError> {
        self.value.split_first_chunk().ok_or(ParameterError::TooShort {
            kind: self.kind,
            minimum: N,
            found: self.value.len(),
        })
    }
}

impl fmt::Debug for RawParameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawParameter").field("kind", &self.kind).field("value", &self.value).finish()
    }
}

tlv_list! {
    /// A list of parameters: a view of bytes that have not been checked yet. The bytes begin with a parameter
    /// type, as after the fixed fields of a chunk or in the output of a [`TlvWriter`](crate::TlvWriter).
    Parameters of RawParameter by ParameterIter, type in kind, |RawTlv { kind, value, bytes }| RawParameter { kind, value, bytes }
}
