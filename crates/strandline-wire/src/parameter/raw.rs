//! A parameter as it is framed (RFC 9260 section 3.2.1), whatever its type.

use core::fmt;

use crate::action::UnrecognisedAction;
use crate::encode::{EncodeTlv, put};
use crate::error::{FramingError, ParameterError};
use crate::tlv::{RawTlv, Tlvs};

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

impl EncodeTlv for RawParameter<'_> {
    fn kind(&self) -> u16 {
        self.kind
    }
    fn value_len(&self) -> usize {
        self.value.len()
    }
    fn encode_value(&self, out: &mut [u8]) {
        put(out, self.value);
    }
}

/// A list of parameters: a view of bytes that have not been checked yet.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct Parameters<'a> {
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// Over `bytes`, which begin with a parameter's type: a chunk's value after its fixed fields, or what a
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

    /// No parameter at all?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The parameters in order. Ends after the first whose length can't be true.
    #[must_use]
    pub const fn iter(&self) -> ParameterIter<'a> {
        ParameterIter { tlvs: Tlvs::new(self.bytes) }
    }
}

impl<'a> IntoIterator for Parameters<'a> {
    type Item = Result<RawParameter<'a>, FramingError>;
    type IntoIter = ParameterIter<'a>;

    fn into_iter(self) -> ParameterIter<'a> {
        self.iter()
    }
}

/// Iterator over [`Parameters`]. Each step consumes at least four bytes; after an error it is at its end.
#[derive(Debug, Clone)]
pub struct ParameterIter<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Iterator for ParameterIter<'a> {
    type Item = Result<RawParameter<'a>, FramingError>;

    fn next(&mut self) -> Option<Self::Item> {
        let tlv = self.tlvs.next()?;
        Some(tlv.map(|RawTlv { kind, value, bytes }| RawParameter { kind, value, bytes }))
    }
}

impl core::iter::FusedIterator for ParameterIter<'_> {}
