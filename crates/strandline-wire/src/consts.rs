//! Sizes and numbers of the formats that several modules need.

/// Bytes of the common header: ports, verification tag, checksum (RFC 9260 section 3.1).
pub const COMMON_HEADER_LEN: usize = 12;

/// Bytes of a chunk's type, flags and length (RFC 9260 section 3.2).
pub const CHUNK_HEADER_LEN: usize = 4;

/// Bytes of a DATA chunk before its user data, chunk header included (RFC 9260 section 3.3.1).
pub const DATA_CHUNK_HEADER_LEN: usize = 16;

/// Bytes of a parameter's or error cause's type and length (RFC 9260 section 3.2.1).
pub const TLV_HEADER_LEN: usize = 4;

/// The most that one packet takes: the largest multiple of four that an IP payload length can name, in bytes.
pub const PACKET_LEN_MAX: usize = 65_532;

/// SCTP's number in the IPv4 protocol and IPv6 next header fields.
pub const IP_PROTOCOL: u8 = 132;

/// UDP port registered for SCTP over UDP (RFC 6951 section 4.1).
pub const UDP_ENCAPSULATION_PORT: u16 = 9899;

/// `len` rounded up to the next multiple of four: what a chunk, parameter or cause takes with its padding.
///
/// `len` comes from a 16-bit field or a packet's length, so that the sum cannot overflow.
#[inline]
#[must_use]
pub const fn padded(len: usize) -> usize {
    (len + 3) & !3
}
