//! Type, length, value: the format that parameters (RFC 9260 section 3.2.1) and error causes (section 3.3.10)
//! share.
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type or cause code            │ length = 4 + bytes of value   │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ value, padded with zeros to a multiple of four outside length ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use crate::consts::{TLV_HEADER_LEN, padded};
use crate::encode::EncodeTlv;
use crate::error::FramingError;

/// One parameter or error cause, framed but not interpreted.
pub(crate) struct RawTlv<'a> {
    /// Parameter type or cause code.
    pub(crate) kind: u16,
    /// What follows type and length, without padding.
    pub(crate) value: &'a [u8],
    /// Type, length and value, without padding.
    pub(crate) bytes: &'a [u8],
}

/// Iterator over a list of parameters or causes. Ends at the end of the bytes or after the first error; each
/// step consumes at least four bytes.
#[derive(Debug, Clone)]
pub(crate) struct Tlvs<'a> {
    rest: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// Over `bytes`, which begin with a type field.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn split(&self) -> Result<RawTlv<'a>, FramingError> {
        let Some((&[k0, k1, l0, l1], _)) = self.rest.split_first_chunk::<TLV_HEADER_LEN>() else {
            return Err(FramingError::HeaderTruncated { remaining: self.rest.len() });
        };
        let kind = u16::from_be_bytes([k0, k1]);
        let length = u16::from_be_bytes([l0, l1]);
        let Some(bytes) = self.rest.get(..usize::from(length)) else {
            return Err(FramingError::LengthBeyondEnd { kind, length, remaining: self.rest.len() });
        };
        let Some(value) = bytes.get(TLV_HEADER_LEN..) else {
            return Err(FramingError::LengthTooSmall { kind, length });
        };
        Ok(RawTlv { kind, value, bytes })
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<RawTlv<'a>, FramingError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = self.split();
        // The last one's padding may be outside the chunk's length (RFC 9260 section 3.2), hence `unwrap_or`.
        self.rest = match &item {
            Ok(tlv) => self.rest.get(padded(tlv.bytes.len())..).unwrap_or(&[]),
            Err(_) => &[],
        };
        Some(item)
    }
}

impl core::iter::FusedIterator for Tlvs<'_> {}

/// Writes parameters or error causes one after another into a buffer.
///
/// ```
/// use strandline_wire::{Parameter, Parameters, TlvWriter};
/// let mut buffer = [0; 64];
/// let mut writer = TlvWriter::new(&mut buffer);
/// assert!(writer.push(&Parameter::Ipv4Address([192, 0, 2, 1].into())));
/// assert!(writer.push(&Parameter::EcnCapable));
/// let parameters = Parameters::new(writer.finish());
/// assert_eq!(parameters.as_bytes(), [0, 5, 0, 8, 192, 0, 2, 1, 0x80, 0, 0, 4]);
/// ```
#[derive(Debug)]
pub struct TlvWriter<'a> {
    buffer: &'a mut [u8],
    len: usize,
}

impl<'a> TlvWriter<'a> {
    /// Into `buffer`, whose length is the limit.
    #[must_use]
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    /// Appends one element after padding the one before it. False if it doesn't fit into the buffer or its
    /// length into 16 bits; nothing is written then.
    #[must_use]
    pub fn push(&mut self, item: &impl EncodeTlv) -> bool {
        let start = padded(self.len);
        let Ok(length) = u16::try_from(TLV_HEADER_LEN.saturating_add(item.value_len())) else { return false };
        let end = start + usize::from(length);
        let Some(out) = self.buffer.get_mut(self.len..end) else { return false };
        let (padding, element) = out.split_at_mut(start - self.len);
        let Some((header, value)) = element.split_first_chunk_mut::<TLV_HEADER_LEN>() else { return false };
        padding.fill(0);
        let ([k0, k1], [l0, l1]) = (item.kind().to_be_bytes(), length.to_be_bytes());
        *header = [k0, k1, l0, l1];
        item.encode_value(value);
        self.len = end;
        true
    }

    /// Bytes so far, without padding of the last element.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Nothing pushed yet?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What was written, without padding of the last element: the chunk's own padding takes its place.
    #[must_use]
    pub fn finish(self) -> &'a [u8] {
        let Self { buffer, len } = self;
        buffer.get(..len).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests;
