//! Lengths and protocol numbers that several modules use.

/// Length of the common header in bytes: ports, verification tag, checksum (RFC 9260 section 3.1).
pub const COMMON_HEADER_LEN: usize = 12;

/// Length of a chunk header in bytes: type, flags and length (RFC 9260 section 3.2).
pub const CHUNK_HEADER_LEN: usize = 4;

/// Length in bytes of a DATA chunk before its user data, chunk header included (RFC 9260 section 3.3.1).
pub const DATA_CHUNK_HEADER_LEN: usize = 16;

/// Length in bytes of an I-DATA chunk before its user data, chunk header included (RFC 8260 section 2.1).
pub const I_DATA_CHUNK_HEADER_LEN: usize = 20;

/// Length in bytes of the type and length fields of a parameter or error cause (RFC 9260 section 3.2.1).
pub const TLV_HEADER_LEN: usize = 4;

/// Maximum length of a packet in bytes: the largest multiple of four that an IP payload length can express.
pub const PACKET_LEN_MAX: usize = 65_532;

/// SCTP's number in the IPv4 protocol and IPv6 next header fields.
pub const IP_PROTOCOL: u8 = 132;

/// UDP port registered for SCTP over UDP (RFC 6951 section 4.1).
pub const UDP_ENCAPSULATION_PORT: u16 = 9899;

/// Returns `len` rounded up to the next multiple of four: the length of a chunk, parameter or cause with its
/// padding.
///
/// `len` comes from a 16-bit field or from a packet's length, so the sum cannot overflow.
#[inline]
#[must_use]
pub const fn padded(len: usize) -> usize {
    (len + 3) & !3
}
