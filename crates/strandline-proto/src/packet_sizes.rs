//! Sizes of packets that networks carry, in bytes.

/// Length of an IPv4 header without options (RFC 791 section 3.1).
pub(crate) const IPV4_HEADER_LEN: u16 = 20;

/// Length of an IPv6 header (RFC 8200 section 3).
pub(crate) const IPV6_HEADER_LEN: u16 = 40;

/// Length of a UDP header (RFC 768).
pub(crate) const UDP_HEADER_LEN: u16 = 8;

/// Size of an IPv4 packet that every host reassembles (RFC 1122 section 3.3.2).
pub(crate) const IPV4_REASSEMBLY_MIN: u16 = 576;

/// Size of an IPv4 packet from which the search for the path MTU begins: BASE_PLPMTU (RFC 8899 section 5.1.2).
pub(crate) const IPV4_BASE_PLPMTU: u16 = 1200;

/// Size of an IPv6 packet that every link carries (RFC 8200 section 5).
pub(crate) const IPV6_MTU_MIN: u16 = 1280;

/// MTU of an Ethernet frame (RFC 894), which most paths carry.
pub(crate) const ETHERNET_MTU: u16 = 1500;

/// Maximum length of SCTP packets with control chunks, and of packets that share a burst: what every IPv6 path carries
/// in UDP, and nearly every IPv4 path.
pub(crate) const CONTROL_PACKET_LEN_MAX: usize = (IPV6_MTU_MIN - IPV6_HEADER_LEN - UDP_HEADER_LEN) as usize;
