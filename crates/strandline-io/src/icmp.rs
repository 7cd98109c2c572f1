//! ICMP messages about sent packets, as SCTP uses them (RFC 9260 section 10, RFC 6951 section 5.5).

use std::net::SocketAddr;

/// An ICMP message, or a local error of the same meaning, about one SCTP packet that was sent.
///
/// Anyone can forge an ICMP message. The receiver must check it by the verification tag in the quoted bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpReport<'a> {
    /// Destination of the packet: address and encapsulation port (0 for raw IP).
    pub destination: SocketAddr,
    /// The message's meaning.
    pub kind: IcmpKind,
    /// The start of the SCTP packet, as much as was quoted; may be empty.
    pub quoted: &'a [u8],
}

/// Kinds of ICMP messages that SCTP acts on. Others are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// Fragmentation Needed or Packet Too Big, or the packet didn't fit the local interface.
    PacketTooBig {
        /// Length in bytes of the largest IP packet that the next hop accepts; 0 if not reported.
        mtu: u32,
    },
    /// Protocol unreachable, or unrecognised next header. With UDP encapsulation also port unreachable; over
    /// raw IP port unreachable is ignored (RFC 9260 section 10, ICMP3).
    ProtocolUnreachable,
    /// Host or network unreachable.
    HostUnreachable,
    /// The local system refuses to send to the destination: no route, an address family that the socket
    /// lacks, no such source address, a local firewall. Not from an ICMP message.
    NoRoute,
}

/// ICMP type Destination Unreachable (RFC 792).
const V4_UNREACHABLE: u8 = 3;
/// ICMPv6 types (RFC 4443).
const V6_UNREACHABLE: u8 = 1;
const V6_TOO_BIG: u8 = 2;
const V6_PARAMETER_PROBLEM: u8 = 4;

impl IcmpKind {
    /// Returns the meaning of an ICMP message; `None` if SCTP ignores it.
    pub(crate) fn from_v4(kind: u8, code: u8, mtu: u32, encapsulated: bool) -> Option<Self> {
        if kind != V4_UNREACHABLE {
            return None;
        }
        match code {
            2 => Some(Self::ProtocolUnreachable),
            3 => encapsulated.then_some(Self::ProtocolUnreachable),
            4 => Some(Self::PacketTooBig { mtu }),
            // Net, host, route, isolation, prohibition: the destination can't be reached at present.
            0 | 1 | 5..=15 => Some(Self::HostUnreachable),
            _ => None,
        }
    }

    /// Returns the meaning of an ICMPv6 message; `None` if SCTP ignores it.
    pub(crate) fn from_v6(kind: u8, code: u8, mtu: u32, encapsulated: bool) -> Option<Self> {
        match (kind, code) {
            (V6_TOO_BIG, _) => Some(Self::PacketTooBig { mtu }),
            (V6_PARAMETER_PROBLEM, 1) => Some(Self::ProtocolUnreachable),
            (V6_UNREACHABLE, 4) => encapsulated.then_some(Self::ProtocolUnreachable),
            (V6_UNREACHABLE, 0..=3 | 5 | 6) => Some(Self::HostUnreachable),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
