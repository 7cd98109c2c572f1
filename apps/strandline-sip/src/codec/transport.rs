//! Transports as Via names them (RFC 3261 section 20.42, RFC 4168, RFC 7118).

use core::fmt;

/// A transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport<'a> {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// SCTP (RFC 4168).
    Sctp,
    /// TLS over SCTP (RFC 4168).
    TlsSctp,
    /// WebSocket (RFC 7118).
    Ws,
    /// WebSocket over TLS (RFC 7118).
    Wss,
    /// Any other.
    Other(&'a [u8]),
}

impl<'a> Transport<'a> {
    /// Returns the transport with this name, in any case.
    #[inline]
    #[must_use]
    pub fn from_bytes(name: &'a [u8]) -> Self {
        match name {
            b"UDP" => return Self::Udp,
            b"TCP" => return Self::Tcp,
            _ => {}
        }
        let known = [Self::Udp, Self::Tcp, Self::Tls, Self::Sctp, Self::TlsSctp, Self::Ws, Self::Wss];
        let found = known.into_iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name));
        found.unwrap_or(Self::Other(name))
    }

    /// The transport without a borrowed name. `None` if it is unknown, because only then the name is needed.
    pub(crate) const fn without_name(self) -> Option<Transport<'static>> {
        match self {
            Self::Udp => Some(Transport::Udp),
            Self::Tcp => Some(Transport::Tcp),
            Self::Tls => Some(Transport::Tls),
            Self::Sctp => Some(Transport::Sctp),
            Self::TlsSctp => Some(Transport::TlsSctp),
            Self::Ws => Some(Transport::Ws),
            Self::Wss => Some(Transport::Wss),
            Self::Other(_) => None,
        }
    }

    /// The name as it stands in Via.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        match self {
            Self::Udp => b"UDP",
            Self::Tcp => b"TCP",
            Self::Tls => b"TLS",
            Self::Sctp => b"SCTP",
            Self::TlsSctp => b"TLS-SCTP",
            Self::Ws => b"WS",
            Self::Wss => b"WSS",
            Self::Other(name) => name,
        }
    }

    /// Returns true if the transport is reliable. UDP is not, and unknown transports are assumed not to be.
    #[must_use]
    pub const fn is_reliable(&self) -> bool {
        !matches!(self, Self::Udp | Self::Other(_))
    }
}

impl fmt::Display for Transport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_bytes().escape_ascii(), f)
    }
}
