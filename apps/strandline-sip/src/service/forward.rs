//! Requests sent on (RFC 3261 section 16.6).

use core::hash::Hasher;
use std::borrow::Cow;
use std::sync::Arc;

use bytes::BytesMut;

use crate::codec::{
    Edits, HeaderName, Host, Message, Method, NewVia, StatusCode, WriteError, decimal, unfold,
};
use crate::transaction::{Arriving, Flow, Protocol, Time, ViaBranch};

use super::Service;
use super::branches::breadth;
use super::context::{Context, HOP_Q, INSTANCE_Q, Kept, Place, Target};
use super::copies::{BREADTH, Copied, Copy, request_uri};
use super::edge::requires;
use super::feedback::is_oc;
use super::incoming::Incoming;
use super::reply::{self, answer_flow};
use super::route::Way;
use super::strict::{self, Strict};
use super::token::End;

/// Bytes that are usually added to a request at most: a Via, Record-Routes, a Path.
const ADDED_MAX: usize = 500;

/// What is told in place of the usual phrase.
pub(super) fn reason(code: StatusCode) -> Option<&'static str> {
    match code {
        StatusCode::BAD_GATEWAY => Some("Unresolvable Destination"),
        StatusCode::SERVER_TIME_OUT => Some("No Answer From DNS"),
        _ => None,
    }
}

impl Service {
    /// Begins a transaction and sends the request to its first targets.
    pub(super) fn begin(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        way: &Way<'_>,
        arriving: Arriving,
        mark: u64,
        targets: &mut Vec<Target>,
    ) -> Result<(), (StatusCode, Option<&'static str>)> {
        let full = (StatusCode::SERVICE_UNAVAILABLE, None);
        let Incoming { message, essentials, flow, .. } = incoming;
        let invite = essentials.cseq.method == Method::Invite;
        let breadth = breadth(message) as usize;
        if breadth == 0 {
            return Err((StatusCode::MAX_BREADTH_EXCEEDED, None));
        }
        self.replaced.on_begun(incoming);
        let back = answer_flow(*flow, Some(&essentials.via));
        // The slot of the context is the transaction's name for us.
        let slot = self.contexts.next_free();
        let server =
            self.transactions.begin_server(arriving, back, None, u64::from(slot)).map_err(|_| full)?;
        if incoming.weighed {
            self.transactions.weigh(server);
        }
        let mut context = Context::new(server, invite);
        let first = targets.first().map_or(0, |target| target.q);
        context.hops = first >= HOP_Q;
        context.instance = (INSTANCE_Q..HOP_Q).contains(&first);
        context.callee = !context.hops && self.is_for_callee(way);
        context.oc = essentials.via.oc;
        let group = targets.iter().take_while(|target| target.q == first).count();
        let is_named = targets.iter().any(|target| matches!(target.place, Place::Name(_)));
        // If nobody can be reached, what is no INVITE is answered from the request: nothing was sent before.
        let may_be_unreachable = |target: &Target| match target.place {
            Place::Flow(flow) => {
                (flow.connection == 0 && flow.protocol.is_reliable()) || self.is_of_sibling(&flow)
            }
            Place::Name(_) => false,
        };
        let falls_back = targets.iter().any(|target| target.fallback.is_some() || !target.others.is_empty());
        let is_datagram = |target: &Target| {
            target.by_uri && matches!(target.place, Place::Flow(flow) if flow.protocol == Protocol::Udp)
        };
        let may_be_large = self.may_be_too_large(message) && targets.iter().any(is_datagram);
        context.registers = self.adds_path(incoming).then_some(*flow);
        if group.min(breadth) < targets.len()
            || is_named
            || falls_back
            || may_be_large
            || (!invite && targets.iter().any(may_be_unreachable))
        {
            let of_targets = targets.iter().map(|target| size_of::<Target>() + target.bytes()).sum();
            context.later = targets.drain(group..).collect();
            let bytes = self.transactions.account().holder().hold(message.as_bytes()).and(of_targets);
            let proved = incoming.proved;
            context.request = Some(Arc::new(Kept { bytes, flow: *flow, proved }));
        }
        if self.contexts.insert(context) != Some(slot) {
            self.transactions.forget_server(server);
            return Err(full);
        }
        if invite {
            self.transactions.trying(now, server, message);
        }
        if let Err(code) = self.send_to_all(now, &Copied { incoming, way, mark }, slot, targets) {
            self.give_up(now, slot, message, *flow, code);
        }
        Ok(())
    }

    /// Nothing could be sent at all.
    fn give_up(&mut self, now: Time, slot: u32, message: &Message<'_>, flow: Flow, code: StatusCode) {
        if self.contexts.get(slot).is_some_and(|context| !context.later.is_empty()) {
            return self.conclude(now, slot);
        }
        let Some(context) = self.contexts.remove(slot) else { return };
        let tag = self.tag(message, &flow);
        let _ = self.transactions.respond(now, context.server, code, &mut self.out, |out| {
            reply::write(message, flow, code, reason(code), None, &tag, out)
        });
    }

    /// Sends a request on without a transaction. Its branch is the same whenever it comes again (section 16.11).
    pub(super) fn forward_stateless(
        &mut self,
        incoming: &Incoming<'_>,
        way: &Way<'_>,
        flow: Flow,
        (uri, path): (Option<&[u8]>, &[u8]),
    ) {
        let mut hasher = self.hasher;
        hasher.write(incoming.essentials.via.branch.unwrap_or(&[]));
        hasher.write(incoming.essentials.call_id);
        let via_branch = ViaBranch { client: None, mark: 0 }.write(hasher.finish());
        let uri = uri.or(way.replaced);
        let (breadth, neighbour, by_uri) = (BREADTH, false, false);
        let copy = Copy { uri, path, flow, via_branch: &via_branch, breadth, host: 0, neighbour, by_uri };
        let mut out = core::mem::take(&mut self.out);
        let _ = out.write(flow, None, |out| self.write(incoming, way, &copy, out));
        self.out = out;
    }

    /// Writes a copy of a request.
    pub(super) fn write(
        &self,
        incoming: &Incoming<'_>,
        way: &Way<'_>,
        copy: &Copy<'_>,
        out: &mut BytesMut,
    ) -> Result<(), WriteError> {
        let Incoming { message, essentials, flow, proved, .. } = incoming;
        let here = self.settings.address(copy.flow.protocol).ok_or(WriteError::Target)?;
        let via = NewVia {
            transport: copy.flow.protocol.in_via(),
            host: here.host(),
            port: Some(here.port).filter(|port| (*port, copy.flow.protocol.default_port()) != (5060, 5060)),
            branch: copy.via_branch,
            rport: false,
            params: self.asking(incoming, way, copy),
        };
        let routes = remaining(message, way);
        let target = copy.uri.map(request_uri);
        let own = target.as_deref().or_else(|| message.request_line().map(|line| line.uri)).unwrap_or(&[]);
        let strict = strict::next(copy.path, way);
        let secure = strict::is_sips(own) || strict::is_sips(strict::first_uri(copy.path, way));
        let back = self.record_routes(incoming, way, copy, secure)?;
        let flow_path =
            if self.adds_path(incoming) { self.path(copy.flow.protocol, flow)? } else { Vec::new() };
        let mut edits = Edits::new(*message);
        edits.push_via(&via).source(flow.peer).decrement_max_forwards(70);
        // What the one before us can keep to is for us alone (RFC 7339 section 5.6).
        if essentials.via.oc {
            edits.remove_via_params(is_oc);
        }
        if let Some(uri) = strict.as_ref().map(|strict| strict.uri).or(target.as_deref()) {
            edits.request_uri(uri);
        }
        let last = strict.as_ref().map(|_| [b"<", own, b">"].concat());
        edit_routes(&mut edits, way, &routes, strict.as_ref().zip(last.as_deref()));
        let path = strict.as_ref().map_or(Some(copy.path), |strict| strict.path).unwrap_or_default();
        if !path.is_empty() {
            edits.push_route(path);
        }
        for route in &back {
            edits.push_record_route(route);
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
        // Credentials that were for us go no further; if there are others, they are left alone.
        if *proved && message.lines(HeaderName::ProxyAuthorization).count() == 1 {
            edits.remove(HeaderName::ProxyAuthorization);
        }
        if copy.flow.protocol.is_reliable() {
            edits.ensure_content_length();
        }
        edits.write(out)
    }

    /// What our Via asks of a neighbour: how much it can take; and over TLS, that requests come back over the same connection.
    fn asking(&self, incoming: &Incoming<'_>, way: &Way<'_>, copy: &Copy<'_>) -> &'static [u8] {
        if !copy.neighbour {
            return b"";
        }
        // Within a dialog the token knows the name that led to this neighbour.
        let host = match &way.token {
            Some(token) if copy.host == 0 => {
                self.tokens.far_end(token, incoming.essentials.from.tag.unwrap_or(&[])).host
            }
            _ => copy.host,
        };
        self.offers.of(&copy.flow, host).params(copy.flow.protocol == Protocol::Tls)
    }

    /// The Record-Routes of a request that begins a dialog, or of one that tells the other end its route set: one for each of its two
    /// transports, the last one on top.
    fn record_routes(
        &self,
        incoming: &Incoming<'_>,
        way: &Way<'_>,
        copy: &Copy<'_>,
        secure: bool,
    ) -> Result<Vec<Vec<u8>>, WriteError> {
        let Incoming { essentials, flow, .. } = incoming;
        let method = essentials.cseq.method;
        let begins = matches!(method, Method::Invite | Method::Subscribe | Method::Refer);
        let tag = essentials.from.tag.unwrap_or(&[]);
        let mut routes = Vec::new();
        let next = copy.flow;
        let (here, there) = match way.token {
            // Who subscribes takes its route set from NOTIFY, and not from the answer to SUBSCRIBE (RFC 6665 sections 4.3 and 4.4.1).
            Some(token) if method == Method::Notify => {
                (self.tokens.near_end(&token, tag).host, self.tokens.far_end(&token, tag).host)
            }
            _ if begins && essentials.to.tag.is_none() => (self.caller_mark(incoming), copy.host),
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

    /// `<sip:token@host:port;transport=tcp;lr>`; with `sips` if the request is for such a URI (section 16.6, step 4), at an address
    /// that is one for TLS then.
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
            // Most are one of these, and formatting costs ten times as much as to copy what stands there.
            Host::Name(_) | Host::V4(_) => out.extend_from_slice(here.name().as_bytes()),
            Host::V6(address) => out.extend_from_slice(format!("[{address}]").as_bytes()),
        }
        let transport: [&[u8]; 2] = match protocol {
            Protocol::Udp => [b"", b""],
            // RFC 5630 section 3.1.3: `transport=tls` is a thing of the past.
            Protocol::Tls if secure => [b"", b""],
            _ => [b";transport=", protocol.in_uri().as_bytes()],
        };
        let [named, transport] = transport;
        let parts: [&[u8]; 7] = [b":", port, named, transport, b";", params.as_bytes(), b">"];
        parts.into_iter().for_each(|part| out.extend_from_slice(part));
        Ok(out)
    }

    /// The way back to a phone that registers elsewhere: by the protocol that its registrar is reached by (RFC 5626 section 5.1).
    fn path(&self, protocol: Protocol, phone: &Flow) -> Result<Vec<u8>, WriteError> {
        self.own_route((protocol, false), |out| self.tokens.write_path(phone, out), "lr;ob")
    }

    /// May a request have to go over TCP for its size, whatever is added to it?
    fn may_be_too_large(&self, message: &Message<'_>) -> bool {
        let max = self.settings.udp_request_bytes_max;
        max > 0 && message.as_bytes().len() + ADDED_MAX > max
    }
}

/// Takes away our Routes, and what a strict router that is next stands for; the request URI becomes the last one for it.
fn edit_routes<'a>(
    edits: &mut Edits<'a>,
    way: &Way<'_>,
    routes: &'a [Cow<'a, [u8]>],
    strict: Option<(&Strict<'_>, &'a [u8])>,
) {
    match (way.ours, way.last_taken, strict) {
        (0, false, None) => {}
        (1, false, None) => {
            edits.pop_route();
        }
        _ => {
            edits.remove(HeaderName::Route);
            let taken = usize::from(strict.is_some_and(|(strict, _)| strict.path.is_none()));
            for route in routes.iter().skip(taken) {
                edits.add(b"Route", route);
            }
            if let Some((_, last)) = strict {
                edits.add(b"Route", last);
            }
        }
    }
}

/// The Routes that are left once ours and what became the request URI are gone, each in one line; empty where they needn't be written
/// anew.
fn remaining<'a>(message: &Message<'a>, way: &Way<'_>) -> Vec<Cow<'a, [u8]>> {
    if way.ours < 2 && !way.last_taken && way.next.is_none() {
        return Vec::new();
    }
    let mut routes: Vec<Cow<'a, [u8]>> =
        message.routes().flatten().skip(way.ours).map(|route| unfold(route.text())).collect();
    if way.last_taken {
        routes.pop();
    }
    routes
}
