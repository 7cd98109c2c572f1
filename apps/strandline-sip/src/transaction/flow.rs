//! Transport protocols and the flows over which messages travel.

use core::net::SocketAddr;

use crate::codec::{SIP_PORT, SIPS_PORT, Transport};

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Protocol {
    /// UDP.
    Udp = 0,
    /// TCP.
    Tcp = 1,
    /// SCTP (RFC 4168).
    Sctp = 2,
    /// TLS over TCP.
    Tls = 3,
    /// WebSocket (RFC 7118).
    Ws = 4,
    /// WebSocket over TLS.
    Wss = 5,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 6] = [Self::Udp, Self::Tcp, Self::Sctp, Self::Tls, Self::Ws, Self::Wss];

    /// Returns true if the protocol delivers in order or reports a failure. Nothing is retransmitted over
    /// such a protocol.
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Returns true if TLS protects the protocol.
    #[must_use]
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// Returns true for WebSocket. Only clients open WebSocket connections, so a client can be reached only
    /// over its own connection (RFC 7118).
    #[must_use]
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    /// The default port (RFC 3261 section 19.1.2, RFC 7118 section 5.5).
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp | Self::Sctp => SIP_PORT,
            Self::Tls => SIPS_PORT,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }

    /// The protocol's name in Via.
    #[must_use]
    pub const fn in_via(self) -> Transport<'static> {
        match self {
            Self::Udp => Transport::Udp,
            Self::Tcp => Transport::Tcp,
            Self::Sctp => Transport::Sctp,
            Self::Tls => Transport::Tls,
            Self::Ws => Transport::Ws,
            Self::Wss => Transport::Wss,
        }
    }

    /// The name, in lowercase.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Sctp => "sctp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The value of a URI's `transport` parameter: `ws` with and without TLS (RFC 7118 section 5.2).
    #[must_use]
    pub const fn in_uri(self) -> &'static str {
        match self {
            Self::Wss => Self::Ws.name(),
            other => other.name(),
        }
    }

    /// Returns the protocol with this name, in any case. Also accepts the values of a URI's `transport`
    /// parameter.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// A flow to a peer (RFC 5626): a connection, an association, or an address for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The transport protocol.
    pub protocol: Protocol,
    /// The connection or association, as numbered by the I/O layer. 0 stands for any connection to this peer,
    /// or a new one if there is none.
    pub connection: u64,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The domain that the peer's certificate must prove (RFC 5922), as numbered by the locator. 0: the
    /// certificate must prove the address.
    pub domain: u32,
}

impl Flow {
    /// A flow to a peer, without a particular connection.
    #[must_use]
    pub const fn to(protocol: Protocol, peer: SocketAddr) -> Self {
        Self { protocol, connection: 0, peer, domain: 0 }
    }

    /// The interface index (zone) of a peer with a link-local IPv6 address (RFC 4007); 0 for other addresses.
    #[must_use]
    pub const fn zone(&self) -> u32 {
        match self.peer {
            SocketAddr::V6(peer) if peer.ip().is_unicast_link_local() => peer.scope_id(),
            _ => 0,
        }
    }
}
