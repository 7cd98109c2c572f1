//! Where messages come from and go to.

use core::net::SocketAddr;

use crate::codec::Transport;

/// How messages are carried.
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
    /// All that there are.
    pub const ALL: [Self; 6] = [Self::Udp, Self::Tcp, Self::Sctp, Self::Tls, Self::Ws, Self::Wss];

    /// What it takes arrives, in order, or the sender is told: nothing is retransmitted over it.
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// What it carries is sealed by TLS.
    #[must_use]
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// Connections are opened by phones only: there is no way to one but its own connection (RFC 7118).
    #[must_use]
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }

    /// The port where nothing names one (RFC 3261 section 19.1.2, RFC 7118 section 5.5).
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp | Self::Sctp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }

    /// The name that it has in Via.
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

    /// Its name, in small letters.
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

    /// The value that it has as a URI's `transport`: `ws` with and without TLS (RFC 7118 section 5.2).
    #[must_use]
    pub const fn in_uri(self) -> &'static str {
        match self {
            Self::Wss => Self::Ws.name(),
            other => other.name(),
        }
    }

    /// The protocol of this name, in any case: also what a URI's `transport` names.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.name().as_bytes().eq_ignore_ascii_case(name))
    }
}

/// A way to a peer: a connection or an association, or an address to send datagrams to (a flow in RFC 5626's sense).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    /// How messages are carried.
    pub protocol: Protocol,
    /// Which connection or association, as whoever does the I/O numbers them; 0 for none: any to this peer will do, and if
    /// there is none, one is opened.
    pub connection: u64,
    /// The peer.
    pub peer: SocketAddr,
    /// The domain that the peer's certificate has to prove (RFC 5922), as whoever located it numbers them; 0 for none: it has to
    /// prove its address.
    pub domain: u32,
}

impl Flow {
    /// A way to a peer to which there may be no connection yet.
    #[must_use]
    pub const fn to(protocol: Protocol, peer: SocketAddr) -> Self {
        Self { protocol, connection: 0, peer, domain: 0 }
    }

    /// The link of a peer with a link-local IPv6 address (RFC 4007), as its interface is numbered; 0 for others.
    #[must_use]
    pub const fn zone(&self) -> u32 {
        match self.peer {
            SocketAddr::V6(peer) if peer.ip().is_unicast_link_local() => peer.scope_id(),
            _ => 0,
        }
    }
}
