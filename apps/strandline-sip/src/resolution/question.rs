//! The input of a server lookup.

use crate::codec::{Host, SipUri};
use crate::transaction::Protocol;

/// A host name, and what its URI says about reaching it (RFC 3263 section 4). Equal questions have equal
/// answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name in lowercase, without a final dot.
    pub name: Box<str>,
    /// The port, if given. Only addresses are then looked up.
    pub port: Option<u16>,
    /// The transport, if given or implied by the port. Otherwise DNS may choose it.
    pub protocol: Option<Protocol>,
    /// True if only TLS is acceptable.
    pub secure: bool,
}

impl Question {
    /// The question for a URI whose target (its `maddr`, or its host) is `host`. `None` if the target is an
    /// address, or the transport is not supported.
    #[must_use]
    pub fn of(uri: &SipUri<'_>, host: &Host<'_>) -> Option<Self> {
        let protocol = match uri.transport() {
            // RFC 3261 section 26.2.2: `sips` means TLS, whatever the `transport` parameter says.
            Some(_) if uri.secure => Some(Protocol::Tls),
            Some(name) => Some(Protocol::from_name(name)?),
            // Section 4.1: a port without transport means UDP, or TLS over TCP for `sips`.
            None => uri.port.map(|_| if uri.secure { Protocol::Tls } else { Protocol::Udp }),
        };
        Self::new(host, uri.port, protocol, uri.secure)
    }

    /// The question for a response whose connection is gone. It is sent to the `host` of the Via (section 5).
    #[must_use]
    pub fn of_response(host: &Host<'_>, port: Option<u16>, protocol: Protocol) -> Option<Self> {
        Self::new(host, port, Some(protocol), protocol.is_secure())
    }

    fn new(host: &Host<'_>, port: Option<u16>, protocol: Option<Protocol>, secure: bool) -> Option<Self> {
        let Host::Name(name) = host else { return None };
        let name = core::str::from_utf8(name).ok()?;
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into();
        // RFC 7118 section 5: WebSocket clients can't be located.
        protocol.is_none_or(|protocol| !protocol.is_websocket()).then_some(Self {
            name,
            port,
            protocol,
            secure,
        })
    }

    /// Returns true if only TLS connections are acceptable.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure || self.protocol == Some(Protocol::Tls)
    }
}
