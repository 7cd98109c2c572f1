//! CRC32c (RFC 9260 section 6.8 and appendix A), computed with carry-less multiplication where the processor
//! has it.

/// Returns the CRC32c of `bytes`.
///
/// ```
/// assert_eq!(strandline_wire::checksum::crc32c(b"123456789"), 0xe306_9283);
/// ```
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Returns the CRC32c of the concatenation of `parts`.
#[inline]
#[must_use]
pub fn crc32c_parts(parts: &[&[u8]]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    for part in parts {
        digest.update(part);
    }
    // The low half holds the 32-bit CRC, so the truncation loses nothing.
    (digest.finalize() & 0xffff_ffff) as u32
}
