//! The target of a request that is for none of our users: a phone that has registered elsewhere through here,
//! the other end of its dialog, its next Route, or the host of its request URI (RFC 3261 sections 16.4 and
//! 16.12, RFC 5626 section 5.3).
//!
//! A holder of a dialog's token may send to the two ends of the dialog, and nowhere else (decision 73):
//! Routes behind ours are followed as far as they lead there.

use crate::codec::{Host, SipUri, StatusCode, unescape};
use crate::transaction::{Flow, Protocol};

use super::context::{Destination, Detour, Target};
use super::copies::begins_dialog;
use super::incoming::{Incoming, Rejection};
use super::replaced_flows::Moved;
use super::route::RouteInfo;
use super::router::Router;
use super::token::{End, NAMED};

const DENIED: Rejection = (StatusCode::FORBIDDEN, Some("Relaying Denied"));
const UNRESOLVED: Rejection = (StatusCode::BAD_GATEWAY, Some("Unresolvable Destination"));
const FAILED: Rejection = (StatusCode::FLOW_FAILED, None);

fn target(place: Destination) -> Target {
    Target { by_uri: true, ..Target::new(None, place, 0) }
}

fn over(flow: Flow) -> Target {
    Target { by_uri: false, ..target(Destination::Flow(flow)) }
}

impl Router<'_> {
    /// The target of a request that isn't for one of our users.
    pub(super) fn direct_target(
        &self,
        incoming: &Incoming<'_>,
        route: &RouteInfo<'_>,
    ) -> Result<Target, Rejection> {
        if let Some(phone) = route.phone.filter(|phone| !is_same_way(phone, &incoming.flow)) {
            return self.phone_target(phone);
        }
        let next = match route.next.map(|next| next.sip_uri()) {
            None => None,
            Some(Ok(uri)) => Some(uri),
            Some(Err(_)) => return Err((StatusCode::BAD_REQUEST, Some("Malformed Route"))),
        };
        let free = incoming.proved || self.may_relay(&incoming.flow);
        let to_registrar = next.is_some_and(|uri| self.setup.settings.directory.is_registrar(&uri));
        if route.token.is_none() && !free && !to_registrar {
            return Err(DENIED);
        }
        let far_end = |token| self.setup.tokens.far_end(token, incoming.essentials.from.tag.unwrap_or(&[]));
        let far = match route.requested_flow {
            Some(flow) => Some(End { flow, host: 0 }),
            None => route.token.as_ref().map(far_end),
        };
        if let Some(uri) = next {
            let place = self.setup.destination(&uri);
            let may = |place: &Destination| {
                free || to_registrar || far.is_some_and(|far| self.leads_to(place, &far))
            };
            match place {
                Some(place) if may(&place) => return Ok(target(place)),
                None if far.is_none() => return Err(UNRESOLVED),
                // The other end routes it from there.
                _ => {}
            }
        }
        if let Some(far) = far {
            return self.dialog_target(route, &far, free);
        }
        let uri = route.uri.sip().ok_or((StatusCode::UNSUPPORTED_URI_SCHEME, None))?;
        let Some(bare) = self.without_maddr(uri) else {
            return self.setup.destination(uri).map(target).ok_or(UNRESOLVED);
        };
        let place = self.setup.destination_of(&bare).ok_or(UNRESOLVED)?;
        Ok(Target { uri: Some(bare.into()), ..target(place) })
    }

    /// The URI without a `maddr` that names this server, and without the port and transport (RFC 3261 section
    /// 16.4). `None` if it has no `maddr` or names another host.
    fn without_maddr(&self, uri: &SipUri<'_>) -> Option<Vec<u8>> {
        use std::io::Write as _;
        let maddr = Host::parse(uri.maddr()?).ok()?;
        if !self.setup.settings.is_here(&maddr, uri.port_or_default()) {
            return None;
        }
        let mut bare = if uri.secure { b"sips:".to_vec() } else { b"sip:".to_vec() };
        if let Some(user) = uri.user {
            bare.extend_from_slice(user);
            if let Some(password) = uri.password {
                bare.push(b':');
                bare.extend_from_slice(password);
            }
            bare.push(b'@');
        }
        // Writing to a buffer that grows does not fail.
        let _ = write!(bare, "{}", uri.host);
        let goes = |name: &[u8]| {
            let is =
                |other: &[u8]| unescape(name).map(|byte| byte.to_ascii_lowercase()).eq(other.iter().copied());
            is(b"maddr") || is(b"ttl") || is(b"transport")
        };
        for param in uri.params.as_bytes().split(|byte| *byte == b';').skip(1) {
            let name = param.split(|byte| *byte == b'=').next().unwrap_or(&[]);
            if !goes(name) {
                bare.push(b';');
                bare.extend_from_slice(param);
            }
        }
        Some(bare)
    }

    /// A phone that has registered elsewhere is reached only over the flow in its Path.
    fn phone_target(&self, flow: Flow) -> Result<Target, Rejection> {
        if flow.connection != 0 && !self.is_open(flow.connection) {
            return Err(FAILED);
        }
        Ok(Target { neighbour: false, over_node: self.setup.is_at_worker(&flow), ..over(flow) })
    }

    /// The other end of a dialog.
    fn dialog_target(&self, route: &RouteInfo<'_>, far: &End, free: bool) -> Result<Target, Rejection> {
        // A dialog over TLS does not follow its phone to a flow without it.
        let may = |flow: &Flow| flow.protocol.is_secure() || !far.flow.protocol.is_secure();
        let flow = match self.moved(&far.flow) {
            None => far.flow,
            Some(Moved::Flow(flow)) if may(&flow) => flow,
            Some(Moved::Flow(_)) => return Err(FAILED),
            Some(Moved::Node(node, token)) => {
                let detour = self.through_node(node, &token).filter(|detour| may(&detour.flow));
                let Detour { flow, path } = detour.ok_or(FAILED)?;
                return Ok(Target { path, over_node: true, ..over(flow) });
            }
        };
        if flow.domain == NAMED {
            // The dialog went to a domain over TLS: the peer must prove the domain again.
            let place = route.uri.sip().and_then(|uri| self.setup.destination(uri));
            let place = place.filter(|place| free || self.setup.tokens.has_hash(place, far.host));
            let known =
                || self.servers.domain_of(far.host).map(|domain| Destination::Flow(Flow { domain, ..flow }));
            return place.or_else(known).map(target).ok_or(FAILED);
        }
        if flow.connection != 0 && !self.is_open(flow.connection) {
            return self.where_it_listens(route, &flow).ok_or(FAILED);
        }
        let neighbour = flow.connection == 0;
        let by_uri = neighbour && route.next.is_none() && self.is_at(route, &flow);
        Ok(Target { neighbour, by_uri, over_node: self.setup.is_at_worker(&flow), ..over(flow) })
    }

    /// The present location of the phone that a flow led to; `None` if it hasn't moved.
    fn moved(&self, flow: &Flow) -> Option<Moved> {
        let is_open =
            |flow: &Flow| !self.setup.is_at_worker(flow) && self.connections.is_open(flow.connection);
        self.replaced.moved(flow, is_open)
    }

    /// Whether the request URI names this very address, and its peer can be reached there.
    fn is_at(&self, route: &RouteInfo<'_>, flow: &Flow) -> bool {
        let uri = route.uri.sip().filter(|uri| !uri.is_outbound());
        matches!(uri.and_then(|uri| self.setup.destination(uri)), Some(Destination::Flow(place)) if place == *flow)
    }

    /// The address where the other end of a dialog says that it listens, if that is the source host of its
    /// connection, which is gone. The other end is a proxy, or a phone that isn't behind a NAT and doesn't
    /// ask to be reached over its flow only (RFC 5626).
    fn where_it_listens(&self, route: &RouteInfo<'_>, flow: &Flow) -> Option<Target> {
        let address = flow.peer.ip().to_canonical();
        let next = route.next.and_then(|next| next.sip_uri().ok());
        let own = || route.uri.sip().filter(|uri| !uri.is_outbound() && route.next.is_none()).copied();
        let place = next.or_else(own).and_then(|uri| self.setup.destination(&uri));
        let neighbour = route.next.is_some();
        match place {
            Some(Destination::Flow(listens)) if listens.peer.ip().to_canonical() == address => {
                let elsewhere = listens.peer.port() != flow.peer.port();
                elsewhere.then(|| Target { neighbour, ..target(Destination::Flow(listens)) })
            }
            // The servers of the name aren't known yet.
            Some(place @ Destination::Name(_)) => {
                Some(Target { neighbour, only: Some(address), ..target(place) })
            }
            _ => self.setup.nodes.as_ref().and_then(|nodes| nodes.flow_to(address)).map(over),
        }
    }

    /// Whether a place belongs to an end of a dialog.
    fn leads_to(&self, place: &Destination, end: &End) -> bool {
        let is_there = matches!(place, Destination::Flow(flow) if is_same_host(flow, &end.flow));
        is_there || self.setup.tokens.has_hash(place, end.host)
    }

    /// The hash of the host that requests of the callee go to within a dialog that this request begins: the
    /// name of the proxy before us. 0 if there is none, or if the sender may not send requests to any host.
    pub(super) fn caller_host(&self, incoming: &Incoming<'_>) -> u32 {
        let Incoming { message, essentials, flow, proved, .. } = incoming;
        if !begins_dialog(essentials) || !(*proved || self.may_relay(flow) || self.setup.is_from_node(flow)) {
            return 0;
        }
        let mut routes = message.record_routes();
        let Some(Ok(route)) = routes.next() else { return 0 };
        route.sip_uri().map_or(0, |uri| match uri.host {
            Host::Name(name) => self.setup.tokens.host_hash(name),
            Host::V4(address) => self.setup.tokens.address_hash(address.into()),
            Host::V6(address) => self.setup.tokens.address_hash(address.into()),
        })
    }
}

fn is_same_host(one: &Flow, other: &Flow) -> bool {
    one.peer.ip().to_canonical() == other.peer.ip().to_canonical()
}

/// Whether a request comes over the flow that its token leads to: then it is an outgoing one (RFC 5626
/// section 5.3).
fn is_same_way(one: &Flow, other: &Flow) -> bool {
    match one.protocol {
        Protocol::Udp => (one.protocol, one.peer) == (other.protocol, other.peer),
        _ => one.connection == other.connection,
    }
}
