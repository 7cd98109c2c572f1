//! Writes the copies of a request that are forwarded (RFC 3261 section 16.6).

use std::borrow::Cow;

use bytes::BytesMut;

use crate::codec::{
    Edits, Essentials, HeaderName, Host, Message, Method, NewVia, Uri, WriteError, decimal, unescape, unfold,
    without_empty_param,
};
use crate::transaction::{Flow, Protocol};

use super::context::Fallback;
use super::edge_proxy::requires;
use super::feedback::is_oc;
use super::identity::edit_identity;
use super::incoming::Incoming;
use super::route::RouteInfo;
use super::setup::Setup;
use super::strict_routers::{self, Strict};
use super::token::End;

/// Maximum number of copies of a request that may be on their way at once (RFC 5393 section 5.3.3).
pub(super) const BREADTH: u32 = 60;

/// The part of a copy that differs from other copies of the request.
pub(super) struct ForwardedCopy<'a> {
    pub(super) uri: Option<&'a [u8]>,
    pub(super) path: &'a [u8],
    pub(super) flow: Flow,
    pub(super) via_branch: &'a [u8],
    pub(super) breadth: u32,
    /// The hash of the name that led there; 0 for none.
    pub(super) host: u32,
    /// Whether it goes to a proxy, which is asked for overload feedback.
    pub(super) neighbour: bool,
    /// Whether a URI names the destination: a peer that listens for UDP there may listen for TCP too.
    pub(super) by_uri: bool,
}

impl ForwardedCopy<'_> {
    /// The fallback of a copy that is sent over TCP because of its size: the same bytes in a datagram.
    pub(super) fn fallback(&self) -> Fallback {
        Fallback {
            flow: self.flow,
            host: self.host,
            uri: self.uri.map(Box::from),
            path: self.path.into(),
            breadth: self.breadth,
            neighbour: self.neighbour,
            deprioritizes: true,
        }
    }
}

/// A request to be copied.
pub(super) struct ForwardSource<'a> {
    pub(super) incoming: &'a Incoming<'a>,
    pub(super) route: &'a RouteInfo<'a>,
    /// The hash of everything that determines its routing.
    pub(super) routing_hash: u64,
    /// The hash of the host that requests of the callee go to within the dialog; 0 for none.
    pub(super) caller_host: u32,
    /// Whether its sender is in the trust domain.
    pub(super) trusted: bool,
}

/// Whether a request begins a dialog and gets a Record-Route.
pub(super) fn begins_dialog(essentials: &Essentials<'_>) -> bool {
    let method = essentials.cseq.method;
    matches!(method, Method::Invite | Method::Subscribe | Method::Refer) && essentials.to.tag.is_none()
}

/// A target's URI as a request URI: without headers and `method`, which are not allowed there (RFC 3261
/// section 16.6, step 2, and table 1).
pub(super) fn request_uri(uri: &[u8]) -> Cow<'_, [u8]> {
    let uri = without_empty_param(uri);
    // Few URIs have any, and this check is faster than parsing.
    let has = |byte: u8| uri.iter().fold(false, |found, other| found | (*other == byte));
    let may_be_method = |two: &[u8]| matches!(two, [b';', b'm' | b'M' | b'%']);
    if !(has(b'?') || has(b';') && uri.windows(2).any(may_be_method)) {
        return uri.into();
    }
    let Ok(Uri::Sip(parsed)) = Uri::parse(uri) else { return uri.into() };
    let (params, headers) = (parsed.params.as_bytes().len(), parsed.headers.as_bytes().len());
    let (uri, _) = uri.split_at(uri.len().saturating_sub(headers));
    let uri = without_empty_param(uri);
    let (bare, params) = uri.split_at(uri.len().saturating_sub(params));
    if !parsed.params.has(b"method") {
        return uri.into();
    }
    let is_method = |param: &[u8]| {
        let name = param.split(|byte| *byte == b'=').next().unwrap_or(&[]);
        unescape(name).map(|byte| byte.to_ascii_lowercase()).eq(*b"method")
    };
    let mut out = bare.to_vec();
    for param in params.split(|byte| *byte == b';').skip(1).filter(|param| !is_method(param)) {
        out.push(b';');
        out.extend_from_slice(param);
    }
    out.into()
}

impl Setup {
    /// Writes a copy of a request.
    pub(super) fn write_copy(
        &self,
        source: &ForwardSource<'_>,
        copy: &ForwardedCopy<'_>,
        out: &mut BytesMut,
    ) -> Result<(), WriteError> {
        let ForwardSource { incoming, route, trusted, .. } = source;
        let Incoming { message, essentials, flow, proved, .. } = incoming;
        let here = self.settings.address(copy.flow.protocol).ok_or(WriteError::Target)?;
        let via = NewVia {
            transport: copy.flow.protocol.in_via(),
            host: here.host(),
            port: Some(here.port).filter(|port| (*port, copy.flow.protocol.default_port()) != (5060, 5060)),
            branch: copy.via_branch,
            rport: false,
            params: self.via_params(incoming, route, copy),
        };
        let routes = remaining(message, route);
        let target = copy.uri.map(request_uri);
        let own = target.as_deref().or_else(|| message.request_line().map(|line| line.uri)).unwrap_or(&[]);
        let strict = strict_routers::next(copy.path, route);
        let secure = strict_routers::is_sips(own)
            || strict_routers::is_sips(strict_routers::first_uri(copy.path, route));
        let back = self.record_routes(source, copy, secure)?;
        // The way back to a phone that registers elsewhere, by the protocol that its registrar is reached by
        // (RFC 5626 section 5.1).
        let side = (copy.flow.protocol, false);
        let flow_path = match self.adds_path(incoming) {
            true => self.own_route(side, |out| self.tokens.write_path(flow, out), "lr;ob")?,
            false => Vec::new(),
        };
        let mut edits = Edits::new(*message);
        edits.push_via(&via).source(flow.peer).decrement_max_forwards(70);
        // The overload control that the client offers is for this hop alone (RFC 7339 section 5.6).
        if essentials.via.oc {
            edits.remove_via_params(is_oc);
        }
        if let Some(uri) = strict.as_ref().map(|strict| strict.uri).or(target.as_deref()) {
            edits.request_uri(uri);
        }
        let last = strict.as_ref().map(|_| [b"<", own, b">"].concat());
        edit_routes(&mut edits, route, &routes, strict.as_ref().zip(last.as_deref()));
        let path = strict.as_ref().map_or(Some(copy.path), |strict| strict.path).unwrap_or_default();
        if !path.is_empty() {
            edits.push_route(path);
        }
        for one in &back {
            edits.push_record_route(one);
        }
        if !flow_path.is_empty() {
            edits.push_value(HeaderName::Path, &flow_path);
            if !requires(message, b"path") {
                edits.add(b"Require", b"path");
            }
        }
        if essentials.cseq.method != Method::Ack {
            edits.remove(HeaderName::MaxBreadth).add_number(HeaderName::MaxBreadth, copy.breadth);
        }
        // Credentials for this server are removed; others are kept.
        if *proved && message.lines(HeaderName::ProxyAuthorization).count() == 1 {
            edits.remove(HeaderName::ProxyAuthorization);
        }
        edit_identity(self, &mut edits, message, *trusted, Some(&copy.flow.peer));
        if copy.flow.protocol.is_reliable() {
            edits.ensure_content_length();
        }
        edits.write(out)
    }

    /// The parameters of our Via for a neighbour: the overload control that it is offered, and over TLS
    /// `alias`, which lets it send requests over the same connection.
    fn via_params(
        &self,
        incoming: &Incoming<'_>,
        route: &RouteInfo<'_>,
        copy: &ForwardedCopy<'_>,
    ) -> &'static [u8] {
        if !copy.neighbour {
            return b"";
        }
        // Within a dialog the token knows the name that led to this neighbour.
        let host = match &route.token {
            Some(token) if copy.host == 0 => {
                self.tokens.far_end(token, incoming.essentials.from.tag.unwrap_or(&[])).host
            }
            _ => copy.host,
        };
        self.offers.of(&copy.flow, host).params(copy.flow.protocol == Protocol::Tls)
    }

    /// The Record-Routes of a request that begins a dialog, or of a NOTIFY that gives the other end its route
    /// set: one for each of the two transports, the last one on top.
    fn record_routes(
        &self,
        source: &ForwardSource<'_>,
        copy: &ForwardedCopy<'_>,
        secure: bool,
    ) -> Result<Vec<Vec<u8>>, WriteError> {
        let ForwardSource { incoming: Incoming { essentials, flow, .. }, route, caller_host, .. } = source;
        let method = essentials.cseq.method;
        let tag = essentials.from.tag.unwrap_or(&[]);
        let mut routes = Vec::new();
        let next = copy.flow;
        let (here, there) = match route.token {
            // A subscriber takes its route set from NOTIFY, and not from the response to SUBSCRIBE (RFC 6665
            // sections 4.3 and 4.4.1).
            Some(token) if method == Method::Notify => {
                (self.tokens.near_end(&token, tag).host, self.tokens.far_end(&token, tag).host)
            }
            _ if begins_dialog(essentials) => (*caller_host, copy.host),
            _ => return Ok(routes),
        };
        let caller = End { flow: *flow, host: here };
        let callee = End { flow: next, host: there };
        let user = |out: &mut Vec<u8>| self.tokens.write(&caller, &callee, tag, out);
        let inner = Some(flow.protocol).filter(|protocol| *protocol != next.protocol);
        for protocol in inner.into_iter().chain([next.protocol]) {
            routes.push(self.own_route((protocol, secure), user, "lr")?);
        }
        Ok(routes)
    }

    /// `<sip:token@host:port;transport=tcp;lr>`; with `sips` if the request is for such a URI (section 16.6,
    /// step 4), at an address that is one for TLS then.
    pub(super) fn own_route(
        &self,
        (protocol, secure): (Protocol, bool),
        user: impl FnOnce(&mut Vec<u8>),
        params: &str,
    ) -> Result<Vec<u8>, WriteError> {
        let tls = self.settings.address(Protocol::Tls).filter(|_| secure && !protocol.is_secure());
        let here = tls.or_else(|| self.settings.address(protocol)).ok_or(WriteError::Target)?;
        let protocol = here.protocol;
        let mut out = Vec::with_capacity(160);
        out.extend_from_slice(if secure { b"<sips:" } else { b"<sip:" });
        user(&mut out);
        let mut digits = [0; 20];
        let port = decimal(u64::from(here.port), &mut digits);
        out.push(b'@');
        match here.host() {
            // Most values are one of these, and copying a constant costs a tenth of formatting.
            Host::Name(_) | Host::V4(_) => out.extend_from_slice(here.name().as_bytes()),
            Host::V6(address) => out.extend_from_slice(format!("[{address}]").as_bytes()),
        }
        let transport: [&[u8]; 2] = match protocol {
            Protocol::Udp => [b"", b""],
            // RFC 5630 section 3.1.3 deprecates `transport=tls`.
            Protocol::Tls if secure => [b"", b""],
            _ => [b";transport=", protocol.in_uri().as_bytes()],
        };
        let [named, transport] = transport;
        let parts: [&[u8]; 7] = [b":", port, named, transport, b";", params.as_bytes(), b">"];
        parts.into_iter().for_each(|part| out.extend_from_slice(part));
        Ok(out)
    }
}

/// Removes our Routes. For a strict router as next hop, its Route is removed too, and the request URI becomes
/// the last Route.
fn edit_routes<'a>(
    edits: &mut Edits<'a>,
    route: &RouteInfo<'_>,
    routes: &'a [Cow<'a, [u8]>],
    strict: Option<(&Strict<'_>, &'a [u8])>,
) {
    match (route.ours, route.last_taken, strict) {
        (0, false, None) => {}
        (1, false, None) => {
            edits.pop_route();
        }
        _ => {
            edits.remove(HeaderName::Route);
            let taken = usize::from(strict.is_some_and(|(strict, _)| strict.path.is_none()));
            for one in routes.iter().skip(taken) {
                edits.add(b"Route", one);
            }
            if let Some((_, last)) = strict {
                edits.add(b"Route", last);
            }
        }
    }
}

/// The remaining Routes without ours and the one that became the request URI, each in one line; empty if the
/// lines can stay as they are.
fn remaining<'a>(message: &Message<'a>, route: &RouteInfo<'_>) -> Vec<Cow<'a, [u8]>> {
    if route.ours < 2 && !route.last_taken && route.next.is_none() {
        return Vec::new();
    }
    let mut routes: Vec<Cow<'a, [u8]>> =
        message.routes().flatten().skip(route.ours).map(|one| unfold(one.text())).collect();
    if route.last_taken {
        routes.pop();
    }
    routes
}
