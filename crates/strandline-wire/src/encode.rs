//! How elements write themselves into a buffer.

/// A chunk that [`PacketBuilder::push`](crate::PacketBuilder::push) can write.
pub trait Encode {
    /// Chunk type.
    fn kind(&self) -> u8;

    /// Chunk flags.
    fn flags(&self) -> u8 {
        0
    }

    /// Bytes of the chunk's value: without chunk header and padding.
    fn value_len(&self) -> usize;

    /// Writes the value; `out` has exactly [`value_len`](Self::value_len) bytes, of any content.
    fn encode_value(&self, out: &mut [u8]);
}

/// A parameter or error cause that [`TlvWriter::push`](crate::TlvWriter::push) can write.
pub trait EncodeTlv {
    /// Parameter type or cause code.
    fn kind(&self) -> u16;

    /// Bytes of the value: without type, length and padding.
    fn value_len(&self) -> usize;

    /// Writes the value; `out` has exactly [`value_len`](Self::value_len) bytes, of any content.
    fn encode_value(&self, out: &mut [u8]);
}

/// Copies `bytes` to the beginning of `out`. Both have the same length wherever `value_len` is true to
/// `encode_value`; a difference would be this crate's own fault, so that release builds copy what fits.
#[inline]
pub(crate) fn put(out: &mut [u8], bytes: &[u8]) {
    debug_assert_eq!(out.len(), bytes.len());
    if let Some(out) = out.get_mut(..bytes.len()) {
        out.copy_from_slice(bytes);
    }
}
