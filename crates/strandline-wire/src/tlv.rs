//! Type-length-value encoding, which parameters (RFC 9260 section 3.2.1) and error causes (section 3.3.10)
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

/// A parameter or error cause that is framed but not interpreted.
pub(crate) struct RawTlv<'a> {
    /// Parameter type or cause code.
    pub(crate) kind: u16,
    /// The value after type and length, without padding.
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
    /// Returns an iterator over `bytes`, which begin with a type field.
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
        self.rest = after(self.rest, item.as_ref().ok().map(|tlv| tlv.bytes.len()));
        Some(item)
    }
}

impl core::iter::FusedIterator for Tlvs<'_> {}

/// Returns the bytes of `list` after its first element, which is `len` bytes long; empty if the element's
/// length is invalid. The padding of the last element may be missing, or outside the chunk's length (RFC 9260
/// section 3.2).
#[inline]
pub(crate) fn after(list: &[u8], len: Option<usize>) -> &[u8] {
    len.and_then(|len| list.get(padded(len)..)).unwrap_or(&[])
}

/// Implements what parameters and error causes have in common: the encoding of a `$Raw`, and a list `$List`
/// of them with its iterator `$Iter`. The field `$kind` holds the type or cause code; `$of_tlv` turns a
/// [`RawTlv`] into a `$Raw`.
macro_rules! tlv_list {
    ($(#[$doc:meta])* $List:ident of $Raw:ident by $Iter:ident, type in $kind:ident, $of_tlv:expr) => {
        impl $crate::encode::EncodeTlv for $Raw<'_> {
            fn kind(&self) -> u16 {
                self.$kind
            }
            fn value_len(&self) -> usize {
                self.value.len()
            }
            fn encode_value(&self, out: &mut [u8]) {
                $crate::encode::put(out, self.value);
            }
        }

        $(#[$doc])*
        #[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
        pub struct $List<'a> {
            bytes: &'a [u8],
        }

        impl<'a> $List<'a> {
            /// Returns a list over `bytes`.
            #[must_use]
            pub const fn new(bytes: &'a [u8]) -> Self {
                Self { bytes }
            }

            /// Returns the list's bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &'a [u8] {
                self.bytes
            }

            /// Returns whether the list has no bytes.
            #[must_use]
            pub const fn is_empty(&self) -> bool {
                self.bytes.is_empty()
            }

            /// Returns an iterator over the elements. It ends after the first element with an invalid length.
            #[must_use]
            pub const fn iter(&self) -> $Iter<'a> {
                $Iter { tlvs: $crate::tlv::Tlvs::new(self.bytes) }
            }
        }

        impl<'a> IntoIterator for $List<'a> {
            type Item = Result<$Raw<'a>, $crate::error::FramingError>;
            type IntoIter = $Iter<'a>;

            fn into_iter(self) -> $Iter<'a> {
                self.iter()
            }
        }

        #[doc = concat!("Iterator over [`", stringify!($List), "`].")]
        /// Iterator over a list. Each step consumes at least four bytes; after an error the iterator ends.
        #[derive(Debug, Clone)]
        pub struct $Iter<'a> {
            tlvs: $crate::tlv::Tlvs<'a>,
        }

        impl<'a> Iterator for $Iter<'a> {
            type Item = Result<$Raw<'a>, $crate::error::FramingError>;

            fn next(&mut self) -> Option<Self::Item> {
                Some(self.tlvs.next()?.map($of_tlv))
            }
        }

        impl core::iter::FusedIterator for $Iter<'_> {}
    };
}

pub(crate) use tlv_list;

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
    /// Returns a writer into `buffer`, whose length is the limit.
    #[must_use]
    pub const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, len: 0 }
    }

    /// Appends one element after padding the one before it. Returns false and writes nothing if the element
    /// doesn't fit into the buffer or its length doesn't fit into 16 bits.
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

    /// Returns the bytes written so far, without the last element's padding.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nothing has been written yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes written, without the last element's padding: the padding of the chunk takes its
    /// place.
    #[must_use]
    pub fn finish(self) -> &'a [u8] {
        let Self { buffer, len } = self;
        buffer.get(..len).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests;
