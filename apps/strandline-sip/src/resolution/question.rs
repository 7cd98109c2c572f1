//! What has to be looked for.

use crate::codec::{Host, SipUri};
use crate::transaction::Protocol;

/// A host by its name, and what a URI says of how it is reached (RFC 3263 section 4). Two that are the same have the same
/// answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Question {
    /// The name, in small letters and without a dot at its end.
    pub name: Box<str>,
    /// The port, if one is named: then there is nothing to ask but the addresses.
    pub port: Option<u16>,
    /// The transport, if one is named or follows from the port; else DNS may choose.
    pub protocol: Option<Protocol>,
    /// Nothing but TLS will do.
    pub secure: bool,
}

impl Question {
    /// The question for a URI whose target (its `maddr`, or its host) is `host`; `None` if that is an address, or the transport is none
    /// of ours.
    #[must_use]
    pub fn of(uri: &SipUri<'_>, host: &Host<'_>) -> Option<Self> {
        let protocol = match uri.transport() {
            // RFC 3261 section 26.2.2: `sips` is TLS, whatever else it says.
            Some(_) if uri.secure => Some(Protocol::Tls),
            Some(name) => Some(Protocol::from_name(name)?),
            // Section 4.1: a port without a transport means UDP, or TLS over TCP.
            None => uri.port.map(|_| if uri.secure { Protocol::Tls } else { Protocol::Udp }),
        };
        Self::new(host, uri.port, protocol, uri.secure)
    }

    /// Where an answer goes whose connection is gone: to whoever calls itself `host` in Via (section 5).
    #[must_use]
    pub fn of_response(host: &Host<'_>, port: Option<u16>, protocol: Protocol) -> Option<Self> {
        Self::new(host, port, Some(protocol), protocol.is_secure())
    }

    fn new(host: &Host<'_>, port: Option<u16>, protocol: Option<Protocol>, secure: bool) -> Option<Self> {
        let Host::Name(name) = host else { return None };
        let name = core::str::from_utf8(name).ok()?;
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase().into();
        // RFC 7118 section 5: nobody is located who speaks WebSocket.
        protocol.is_none_or(|protocol| !protocol.is_websocket()).then_some(Self {
            name,
            port,
            protocol,
            secure,
        })
    }

    /// May the answer lead to a connection with TLS only?
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure || self.protocol == Some(Protocol::Tls)
    }
}
