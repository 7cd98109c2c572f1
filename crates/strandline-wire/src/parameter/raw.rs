//! A parameter as it is framed (RFC 9260 section 3.2.1), whatever its type.

use core::fmt;

use crate::action::UnrecognisedAction;
use crate::error::ParameterError;
use crate::tlv::{RawTlv, tlv_list};

/// One parameter, framed but not interpreted.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct RawParameter<'a> {
    /// Parameter Type.
    pub kind: u16,
    /// Parameter Value, without padding.
    pub value: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> RawParameter<'a> {
    /// Type, length and value as they stood on the wire, without padding: what reports of unrecognised
    /// parameters and unresolvable addresses carry back.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What the type asks of a receiver that doesn't know it.
    #[must_use]
    pub const fn unrecognised_action(&self) -> UnrecognisedAction {
        UnrecognisedAction::of_parameter(self.kind)
    }

    /// The value, if it has exactly `N` bytes.
    pub(super) fn exactly<const N: usize>(&self) -> Result<&'a [u8; N], ParameterError> {
        self.value.try_into().map_err(|_| ParameterError::WrongLength {
            kind: self.kind,
            expected: N,
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
    /// A list of parameters: a view of bytes that have not been checked yet. They begin with a parameter's type: a
    /// chunk's value after its fixed fields, or what a [`TlvWriter`](crate::TlvWriter) has written.
    Parameters of RawParameter by ParameterIter, type in kind, |RawTlv { kind, value, bytes }| RawParameter { kind, value, bytes }
}
