//! Where a request is to go (RFC 3261 sections 16.4 and 16.5).

use core::net::SocketAddr;

use crate::codec::{Essentials, Host, Message, Route, SipUri, Uri};
use crate::transaction::{Flow, Protocol};

use super::Service;
use super::token::Token;

/// A request's way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way<'a> {
    /// The request URI, or what a strict router has put in its place.
    pub(super) uri: Uri<'a>,
    /// The request URI as text if it must be replaced.
    pub(super) replaced: Option<&'a [u8]>,
    /// How many Routes from the top are ours.
    pub(super) ours: usize,
    /// The last Route has become the request URI.
    pub(super) last_taken: bool,
    /// The token that the first of ours holds.
    pub(super) token: Option<Token>,
    /// The flow that another node asks for.
    pub(super) asked: Option<Flow>,
    /// The flow of a phone that has registered elsewhere, from its Path.
    pub(super) phone: Option<Flow>,
    /// The next Route that isn't ours.
    pub(super) next: Option<Route<'a>>,
}

impl Way<'_> {
    /// Nothing but the request URI tells where it goes.
    pub(super) const fn is_without_routes(&self) -> bool {
        self.next.is_none() && self.token.is_none() && self.asked.is_none() && self.phone.is_none()
    }
}

impl Service {
    pub(super) fn is_ours(&self, uri: &SipUri<'_>) -> bool {
        self.settings.is_here(&uri.host, uri.port_or_default())
            || (uri.is_loose_router() && self.settings.is_domain(&uri.host, uri.port))
    }

    /// Looks at the Routes of a request.
    pub(super) fn way<'a>(
        &self,
        message: &Message<'a>,
        essentials: &Essentials<'a>,
    ) -> Result<Way<'a>, crate::codec::Error> {
        let uri = essentials.routable_uri()?;
        let mut way = Way {
            uri,
            replaced: None,
            ours: 0,
            last_taken: false,
            token: None,
            asked: None,
            phone: None,
            next: None,
        };
        let mut last = None;
        let mut above = true;
        for route in message.routes() {
            let route = route?;
            last = Some(route);
            if !above {
                continue;
            }
            match route.uri()? {
                Uri::Sip(uri) if way.ours < 2 && self.is_ours(&uri) => {
                    way.ours += 1;
                    let Some(user) = uri.user else { continue };
                    way.token = way.token.or_else(|| self.tokens.read(user));
                    if way.token.is_none() && self.nodes.is_some() {
                        way.asked = self.tokens.read_flow(user);
                    }
                    if way.ours == 1 && way.token.is_none() && way.asked.is_none() {
                        way.phone = self.tokens.read_path(user);
                    }
                }
                _ => {
                    way.next = Some(route);
                    above = false;
                }
            }
        }
        self.repair(&mut way, last)?;
        Ok(way)
    }

    /// A strict router has put our Route in place of the request URI, and that at the end of the Routes (section 16.4).
    fn repair<'a>(&self, way: &mut Way<'a>, last: Option<Route<'a>>) -> Result<(), crate::codec::Error> {
        let (Uri::Sip(uri), Some(last)) = (&way.uri, last) else { return Ok(()) };
        if !uri.is_loose_router() || !self.is_ours(uri) || way.ours > 0 {
            return Ok(());
        }
        let token = uri.user.and_then(|user| self.tokens.read(user));
        if uri.user.is_some() && token.is_none() {
            return Ok(());
        }
        way.token = token;
        way.uri = last.uri()?;
        way.replaced = Some(last.uri_bytes());
        way.last_taken = true;
        if way.next.is_some_and(|next| next.uri_bytes().as_ptr() == last.uri_bytes().as_ptr()) {
            way.next = None;
        }
        Ok(())
    }

    /// The flow to a URI's host, if that is an address and we have its protocol.
    pub(super) fn resolve(&self, uri: &SipUri<'_>, host: &Host<'_>) -> Option<Flow> {
        let protocol = match uri.transport() {
            // RFC 3261 section 26.2.2: `sips` is TLS, whatever else it says.
            _ if uri.secure => Protocol::Tls,
            Some(name) => Protocol::from_name(name)?,
            None => Protocol::Udp,
        };
        let port = uri.port.unwrap_or(protocol.default_port());
        self.settings.address(protocol).filter(|_| !protocol.is_websocket())?;
        if !host.may_be_sent_to() {
            return None;
        }
        Some(Flow::to(protocol, SocketAddr::new(host.ip()?, port)))
    }
}
