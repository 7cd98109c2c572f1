//! What ICMP messages say about packets that were sent (RFC 9260 section 10, RFC 6951 section 5.5).

use std::net::SocketAddr;

/// An ICMP message, or a local error of the same meaning, about one SCTP packet that was sent.
///
/// Anybody can forge one. The quoted bytes hold the verification tag by which the receiver must check it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpReport<'a> {
    /// Where the packet had been sent to: address and encapsulation port (0 for raw IP).
    pub destination: SocketAddr,
    /// What the message says.
    pub kind: IcmpKind,
    /// The start of the SCTP packet, as much as was quoted; may be empty.
    pub quoted: &'a [u8],
}

/// Kinds of ICMP messages that SCTP acts on. Others are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// Fragmentation needed or Packet Too Big, or the packet did not fit the local interface.
    PacketTooBig {
        /// Size in bytes of the largest IP packet that the next hop takes; 0 if it was not told.
        mtu: u32,
    },
    /// Protocol unreachable, or unrecognised next header. With UDP encapsulation also port unreachable; over raw IP
    /// port unreachable is ignored (RFC 9260 section 10, ICMP3).
    ProtocolUnreachable,
    /// Host or network unreachable.
    HostUnreachable,
    /// The system itself refuses to send there: no route, an address family that the socket lacks, no such source address, a
    /// local firewall. No ICMP message.
    NoRoute,
}

/// ICMP type Destination Unreachable (RFC 792).
const V4_UNREACHABLE: u8 = 3;
/// ICMPv6 types (RFC 4443).
const V6_UNREACHABLE: u8 = 1;
const V6_TOO_BIG: u8 = 2;
const V6_PARAMETER_PROBLEM: u8 = 4;

impl IcmpKind {
    /// From an ICMP message; `None` if SCTP ignores it.
    pub(crate) fn from_v4(kind: u8, code: u8, mtu: u32, encapsulated: bool) -> Option<Self> {
        if kind != V4_UNREACHABLE {
            return None;
        }
        match code {
            2 => Some(Self::ProtocolUnreachable),
            3 => encapsulated.then_some(Self::ProtocolUnreachable),
            4 => Some(Self::PacketTooBig { mtu }),
            // Net, host, route, isolation, prohibition: nothing gets there at present.
            0 | 1 | 5..=15 => Some(Self::HostUnreachable),
            _ => None,
        }
    }

    /// From an ICMPv6 message; `None` if SCTP ignores it.
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
