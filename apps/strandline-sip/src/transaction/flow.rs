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
}

impl Protocol {
    /// All that there are.
    pub const ALL: [Self; 4] = [Self::Udp, Self::Tcp, Self::Sctp, Self::Tls];

    /// What it takes arrives, in order, or the sender is told: nothing is retransmitted over it.
    #[must_use]
    pub const fn is_reliable(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// The name that it has in Via.
    #[must_use]
    pub const fn in_via(self) -> Transport<'static> {
        match self {
            Self::Udp => Transport::Udp,
            Self::Tcp => Transport::Tcp,
            Self::Sctp => Transport::Sctp,
            Self::Tls => Transport::Tls,
        }
    }

    /// The value that it has as a URI's `transport`.
    #[must_use]
    pub const fn in_uri(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Sctp => "sctp",
            Self::Tls => "tls",
        }
    }

    /// The protocol that a URI's `transport` names, in any case.
    #[must_use]
    pub fn from_uri(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|protocol| protocol.in_uri().as_bytes().eq_ignore_ascii_case(name))
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
}

impl Flow {
    /// A way to a peer to which there may be no connection yet.
    #[must_use]
    pub const fn to(protocol: Protocol, peer: SocketAddr) -> Self {
        Self { protocol, connection: 0, peer }
    }
}
