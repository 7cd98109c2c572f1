//! Traits of elements that encode themselves into a buffer.

/// A chunk that [`PacketBuilder::push`](crate::PacketBuilder::push) can write.
pub trait Encode {
    /// Returns the chunk type.
    fn kind(&self) -> u8;

    /// Returns the chunk flags.
    fn flags(&self) -> u8 {
        0
    }

    /// Returns the length of the chunk's value in bytes, chunk header and padding excluded.
    fn value_len(&self) -> usize;

    /// Writes the value. `out` has exactly [`value_len`](Self::value_len) bytes and may hold any content.
    fn encode_value(&self, out: &mut [u8]);
}

/// A parameter or error cause that [`TlvWriter::push`](crate::TlvWriter::push) can write.
pub trait EncodeTlv {
    /// Returns the parameter type or cause code.
    fn kind(&self) -> u16;

    /// Returns the length of the value in bytes, type, length and padding excluded.
    fn value_len(&self) -> usize;

    /// Writes the value. `out` has exactly [`value_len`](Self::value_len) bytes and may hold any content.
    fn encode_value(&self, out: &mut [u8]);
}

/// Copies `bytes` to the beginning of `out`. Both have the same length unless `value_len` and `encode_value`
/// of an element disagree. That would be a bug of this crate; release builds then copy as much as fits.
#[inline]
pub(crate) fn put(out: &mut [u8], bytes: &[u8]) {
    debug_assert_eq!(out.len(), bytes.len());
    if let Some(out) = out.get_mut(..bytes.len()) {
        out.copy_from_slice(bytes);
    }
}
