//! Route preprocessing (RFC 3261 section 16.4), and the destination of a URI.

use core::net::SocketAddr;
use std::sync::Arc;

use crate::bindings::write_aor;
use crate::codec::{Error, Essentials, Host, Message, Route, SipUri, StatusCode, Uri, Via};
use crate::resolution::Question;
use crate::transaction::{Flow, Protocol, ViaBranch};

use super::context::Destination;
use super::incoming::{Incoming, Rejection};
use super::setup::Setup;
use super::token::Token;

/// The routing information of a request, from its request URI and its Routes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RouteInfo<'a> {
    /// The request URI, or the last Route if a strict router has replaced the request URI.
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
    pub(super) requested_flow: Option<Flow>,
    /// The flow of a phone that has registered elsewhere, from its Path.
    pub(super) phone: Option<Flow>,
    /// The next Route that isn't ours.
    pub(super) next: Option<Route<'a>>,
}

impl RouteInfo<'_> {
    /// Whether the request URI alone determines the target.
    pub(super) const fn is_without_routes(&self) -> bool {
        self.next.is_none() && self.token.is_none() && self.requested_flow.is_none() && self.phone.is_none()
    }
}

impl Setup {
    /// Whether a URI of a Route names this server.
    pub(super) fn is_ours(&self, uri: &SipUri<'_>) -> bool {
        self.settings.is_here(&uri.host, uri.port_or_default())
            || (uri.is_loose_router() && self.settings.is_domain(&uri.host, uri.port))
    }

    /// Reads the Routes of a request.
    pub(super) fn route_info<'a>(
        &self,
        message: &Message<'a>,
        essentials: &Essentials<'a>,
    ) -> Result<RouteInfo<'a>, Error> {
        let uri = essentials.routable_uri()?;
        let mut info = RouteInfo {
            uri,
            replaced: None,
            ours: 0,
            last_taken: false,
            token: None,
            requested_flow: None,
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
                Uri::Sip(uri) if info.ours < 2 && self.is_ours(&uri) => {
                    info.ours += 1;
                    let Some(user) = uri.user else { continue };
                    info.token = info.token.or_else(|| self.tokens.read(user));
                    if info.token.is_none() && self.nodes.is_some() {
                        info.requested_flow = self.tokens.read_flow(user);
                    }
                    if info.ours == 1 && info.token.is_none() && info.requested_flow.is_none() {
                        info.phone = self.tokens.read_path(user);
                    }
                }
                _ => {
                    info.next = Some(route);
                    above = false;
                }
            }
        }
        self.undo_strict_routing(&mut info, last)?;
        Ok(info)
    }

    /// Undoes the change of a strict router, which has replaced the request URI by our Route and appended it
    /// to the Routes (section 16.4).
    fn undo_strict_routing<'a>(
        &self,
        info: &mut RouteInfo<'a>,
        last: Option<Route<'a>>,
    ) -> Result<(), Error> {
        let (Uri::Sip(uri), Some(last)) = (&info.uri, last) else { return Ok(()) };
        if !uri.is_loose_router() || !self.is_ours(uri) || info.ours > 0 {
            return Ok(());
        }
        let token = uri.user.and_then(|user| self.tokens.read(user));
        if uri.user.is_some() && token.is_none() {
            return Ok(());
        }
        info.token = token;
        info.uri = last.uri()?;
        info.replaced = Some(last.uri_bytes());
        info.last_taken = true;
        if info.next.is_some_and(|next| next.uri_bytes().as_ptr() == last.uri_bytes().as_ptr()) {
            info.next = None;
        }
        Ok(())
    }

    /// The flow to a host of a URI, if that is an address and we have its protocol.
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

    /// The destination of a URI: a flow, or a name to be resolved. `None` if this server has no transport for
    /// it.
    pub(super) fn destination(&self, uri: &SipUri<'_>) -> Option<Destination> {
        let host = match uri.maddr() {
            Some(maddr) => Host::parse(maddr).ok()?,
            None => uri.host,
        };
        if host.ip().is_some() {
            return self.resolve(uri, &host).map(Destination::Flow);
        }
        let question = Question::of(uri, &host).filter(|_| self.settings.names_max > 0)?;
        match question.protocol {
            Some(protocol) => self.settings.address(protocol).map(|_| ())?,
            None if question.secure => self.settings.address(Protocol::Tls).map(|_| ())?,
            None => {}
        }
        Some(Destination::Name(Arc::new(question)))
    }

    /// The destination of a URI in text.
    pub(super) fn destination_of(&self, text: &[u8]) -> Option<Destination> {
        Uri::parse(text).ok().and_then(|uri| self.destination(uri.sip()?))
    }

    /// The request URI if it is a GRUU of one of our domains, whatever Route stands above it.
    pub(super) fn gruu_of<'a>(&self, info: &RouteInfo<'a>) -> Option<SipUri<'a>> {
        let uri = info.uri.sip().filter(|_| info.requested_flow.is_none() && info.phone.is_none())?;
        (uri.gruu().is_some() && self.settings.is_domain(&uri.host, uri.port)).then_some(*uri)
    }

    /// Whether a request is for one of our users or for their phone, so that this server answers for its
    /// failures.
    pub(super) fn is_for_callee(&self, info: &RouteInfo<'_>) -> bool {
        info.requested_flow.is_none()
            && info.phone.is_none()
            && (self.gruu_of(info).is_some() || self.is_for_us(info))
    }

    /// Whether a request is for one of our users or for the domain itself, and not by `maddr` for another
    /// host (section 16.5).
    pub(super) fn is_for_us(&self, info: &RouteInfo<'_>) -> bool {
        match &info.uri {
            Uri::Sip(uri) if info.is_without_routes() => {
                let port = uri.port_or_default();
                let is_here = |maddr| Host::parse(maddr).is_ok_and(|host| self.settings.is_here(&host, port));
                self.settings.is_domain(&uri.host, uri.port)
                    && (uri.params.is_empty() || uri.maddr().is_none_or(is_here))
            }
            _ => false,
        }
    }

    /// Replaces `aor` by the address of record of a URI of ours. A domain that is an alias is replaced by its
    /// domain.
    pub(super) fn write_aor(&self, uri: &SipUri<'_>, aor: &mut Vec<u8>) {
        aor.clear();
        write_aor(uri, aor);
        let domains = &self.settings.directory.domains;
        if domains.is_empty() {
            return;
        }
        let at = aor.iter().rposition(|byte| *byte == b'@').map_or(0, |at| at + 1);
        let domain = aor.get(at..).and_then(|domain| core::str::from_utf8(domain).ok());
        if let Some(other) = domain.and_then(|domain| domains.get(domain)) {
            aor.truncate(at);
            aor.extend_from_slice(other.as_bytes());
        }
    }

    /// A hash of everything that determines the routing of a request.
    ///
    /// # Errors
    /// If the request has a Via of ours with the same hash: it has looped (RFC 5393 section 4.2).
    pub(super) fn checked_routing_hash(&self, incoming: &Incoming<'_>) -> Result<u64, Rejection> {
        let routing_hash = self.hashes.routing_hash(incoming);
        let is_ours = |via: &Via<'_>| {
            self.settings.is_here(&via.host, via.port.unwrap_or(Protocol::Udp.default_port()))
                && via
                    .branch_id()
                    .and_then(ViaBranch::read)
                    .is_some_and(|branch| branch.routing_hash == routing_hash)
        };
        let top = &incoming.essentials.via;
        if incoming.message.has_only(top) {
            return if is_ours(top) { Err((StatusCode::LOOP_DETECTED, None)) } else { Ok(routing_hash) };
        }
        for via in incoming.message.vias() {
            let Ok(via) = via else { return Err((StatusCode::BAD_REQUEST, Some("Malformed Via"))) };
            if is_ours(&via) {
                return Err((StatusCode::LOOP_DETECTED, None));
            }
        }
        Ok(routing_hash)
    }
}
