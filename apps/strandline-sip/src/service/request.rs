//! The processing of a request, in order: it is parsed, handled as REGISTER or as any other request,
//! authenticated, validated (RFC 3261 section 16.3), its targets are determined (section 16.5), and it is
//! forwarded.

use crate::auth::{Challenger, Subscriber};
use crate::codec::{HeaderName, Message, Method, SipUri, StatusCode, Uri};
use crate::registrar::supports;
use crate::transaction::{Arriving, Flow, Protocol, Received, ServerId, Time, has_room_for_server};

use super::access::{Checked, Claim, Existence, NOT_YOURS};
use super::branches::breadth;
use super::context::{Destination, Target, is_allowed};
use super::copies::ForwardSource;
use super::core::{Buffers, Core, Scratch};
use super::failed_responses::room_to_wait;
use super::identity::trusts;
use super::incoming::{Incoming, Rejection};
use super::route::RouteInfo;
use super::routing::Found;
use super::servers::{ResolvedFlows, Waiter};
use super::settings::Mode;
use super::source_validation;
use super::subscriber_queries::{Admission, Purpose, Waiting};

/// Extensions that are supported.
const SUPPORTED: [&str; 3] = ["path", "outbound", "gruu"];
const SUPPORTED_LINE: &str = "path, outbound, gruu";
/// Number of bytes of an Unsupported header after which no more extensions are added to it.
const UNSUPPORTED_MAX: usize = 256;

/// How a message arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// From the network.
    Network,
    /// It has waited here for DNS or for a subscriber.
    Resumed,
    /// From the worker that received it.
    Worker(u8),
}

impl Arrival {
    /// The other worker that received the message.
    const fn first_worker(self) -> Option<u8> {
        match self {
            Self::Worker(worker) => Some(worker),
            Self::Network | Self::Resumed => None,
        }
    }
}

/// Whether a request comes from the user that it names.
#[derive(Debug)]
pub(super) enum Proof {
    /// It does.
    Given,
    /// Authentication is off.
    NotNeeded,
    /// The sender was challenged, or the request waits until the user has been looked up.
    Pending,
    /// The credentials are another user's.
    OtherUser,
    /// The request is refused.
    Refused(Rejection),
}

impl Core {
    /// Parses a message and handles it.
    pub(super) fn handle(
        &mut self,
        scratch: &mut Scratch,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        arrival: Arrival,
    ) {
        match Message::parse(bytes, &mut scratch.index) {
            Ok(message) if message.is_request() => {
                let unvalidated = match arrival {
                    Arrival::Network => {
                        source_validation::credit(now, &self.setup, &mut self.transactions, &flow, &message)
                    }
                    // It was counted when and where it was received.
                    _ => !source_validation::is_proven(now, &self.setup, &self.transactions, &flow),
                };
                self.on_request(&mut scratch.buffers, now, (flow, arrival), &message, unvalidated);
            }
            Ok(message) => self.on_response(now, (flow, arrival), &message),
            Err(rejected) => {
                self.counters.malformed += 1;
                if let Some(request) = rejected.answerable() {
                    source_validation::credit(now, &self.setup, &mut self.transactions, &flow, &request);
                    let (code, reason) = (rejected.error.status(), Some(rejected.error.kind.text()));
                    self.responder(now).respond_statelessly(&request, flow, code, reason, None);
                }
            }
        }
    }

    /// Handles a request. `unvalidated`: whether its source address may be spoofed.
    fn on_request(
        &mut self,
        buffers: &mut Buffers,
        now: Time,
        (flow, arrival): (Flow, Arrival),
        message: &Message<'_>,
        unvalidated: bool,
    ) {
        self.counters.requests += 1;
        let essentials = match message.essentials() {
            Ok(essentials) => essentials,
            Err(error) => {
                self.counters.malformed += 1;
                let reason = Some(error.kind.text());
                return self.responder(now).respond_statelessly(message, flow, error.status(), reason, None);
            }
        };
        if essentials.via.oc {
            self.overload.feedback.on_request(now, flow.peer.ip(), &essentials.via);
        }
        // RFC 5923 section 9: `alias` counts only over TLS with a certificate.
        if flow.protocol == Protocol::Tls
            && essentials.via.alias
            && self.connections.is_certified(flow.connection)
        {
            let port = essentials.via.port.unwrap_or(Protocol::Tls.default_port());
            self.output.aliased.push((flow.connection, port));
        }
        let has_proof = unvalidated && self.setup.has_proof(now, flow.peer.ip(), message, &essentials);
        if has_proof {
            self.transactions.balance_mut().prove(now, flow.peer.ip());
        }
        let unvalidated = unvalidated && !has_proof;
        let incoming = Incoming { unvalidated, ..Incoming::new(*message, &essentials, flow) };
        if self.setup.settings.mode == Mode::FrontEnd {
            return self.responder(now).respond_statelessly(message, flow, StatusCode::OK, None, None);
        }
        if let Some(result) = self.handle_local_register(buffers, now, &incoming) {
            if let Err((code, reason)) = result {
                self.responder(now).respond_statelessly(message, flow, code, reason, None);
            }
            return;
        }
        match self.transactions.receive_request(now, message, &essentials, &mut self.output.out) {
            Received::Absorbed => {}
            Received::Acknowledged(id) => {
                source_validation::on_acknowledged(now, &self.setup, &mut self.transactions, &incoming, id);
            }
            Received::Cancel(invite) => self.on_cancel(now, &incoming, invite, arrival),
            Received::Ack => self.on_ack(buffers, now, &incoming),
            Received::New(arriving) => {
                if let Err((code, reason)) = self.on_new(buffers, now, &incoming, arriving) {
                    self.responder(now).respond_statelessly(message, flow, code, reason, None);
                }
            }
        }
        self.proxy(now).on_events();
    }

    /// Handles a new request other than REGISTER for one of our domains: answers OPTIONS for the domain,
    /// makes sure of room, and authenticates the sender.
    fn on_new(
        &mut self,
        buffers: &mut Buffers,
        now: Time,
        incoming: &Incoming<'_>,
        arriving: Arriving,
    ) -> Result<(), Rejection> {
        let Incoming { message, essentials, flow, .. } = incoming;
        let mut route = self
            .setup
            .route_info(message, essentials)
            .map_err(|error| (error.status(), Some(error.kind.text())))?;
        route.requested_flow = route.requested_flow.filter(|_| self.setup.is_from_node(flow));
        if self.setup.draining && route.token.is_none() {
            self.responder(now).refuse_for_now(*flow, message);
            return Ok(());
        }
        if let Uri::Sip(uri) = &route.uri
            && uri.user.is_none()
            && essentials.cseq.method == Method::Options
            && (self.setup.gruu_of(&route).is_some() || self.setup.is_for_us(&route))
        {
            if !self.refuse_unsupported(now, incoming, HeaderName::Require)? {
                let supported = Some((HeaderName::Supported, SUPPORTED_LINE.as_bytes()));
                self.responder(now).respond_statelessly(message, *flow, StatusCode::OK, None, supported);
            }
            return Ok(());
        }
        // The transaction stores the headers for a 100, and a copy of the request if there is room.
        let in_dialog = essentials.to.tag.is_some() && route.token.is_some();
        if self.setup.settings.mode == Mode::Proxy
            && !self.transactions.account().has_room_for(message.as_bytes().len(), 2, in_dialog)
        {
            self.counters.crowded += 1;
            self.responder(now).refuse_for_now(*flow, message);
            return Ok(());
        }
        let authenticated = match route.requested_flow {
            // The other node has authenticated the sender.
            Some(_) => Some(Incoming { proved: true, ..*incoming }),
            None => self.authenticate(now, incoming, &route, arriving)?,
        };
        let Some(incoming) = authenticated else { return Ok(()) };
        if let Err((code, reason)) = self.route(buffers, now, &incoming, &route, arriving) {
            self.responder(now).respond(&incoming, code, reason, None);
        }
        Ok(())
    }

    /// Authenticates the sender if it names one of our users. Returns `None` if it was challenged. Requests
    /// with a valid dialog token need no authentication. A To tag alone proves nothing: without a token,
    /// requests within dialogs are authenticated too.
    fn authenticate<'a>(
        &mut self,
        now: Time,
        incoming: &Incoming<'a>,
        route: &RouteInfo<'_>,
        arriving: Arriving,
    ) -> Result<Option<Incoming<'a>>, Rejection> {
        let essentials = &incoming.essentials;
        // The registrar elsewhere has authenticated a sender to a phone that is registered there.
        let in_dialog = (essentials.to.tag.is_some() && route.token.is_some()) || route.phone.is_some();
        let ours = match essentials.from.sip_uri() {
            Ok(uri) if !in_dialog && self.setup.settings.is_domain(&uri.host, uri.port) => uri,
            _ => return Ok(Some(*incoming)),
        };
        let key = self.access.key(incoming, Challenger::Proxy);
        // Without a transaction a retransmission would find its credentials used, and be challenged.
        if key.is_some() && !has_room_for_server(&self.transactions) {
            self.responder(now).refuse_for_now(incoming.flow, &incoming.message);
            return Ok(None);
        }
        match self.prove(now, incoming, Claim { uri: &ours, challenger: Challenger::Proxy, key }) {
            Proof::NotNeeded => Ok(Some(*incoming)),
            Proof::Given => Ok(Some(Incoming { proved: true, arriving: Some(arriving), ..*incoming })),
            Proof::Pending => Ok(None),
            Proof::OtherUser => {
                let incoming = Incoming { arriving: Some(arriving), ..*incoming };
                self.responder(now).respond(&incoming, NOT_YOURS.0, NOT_YOURS.1, None);
                Ok(None)
            }
            Proof::Refused(verdict) => Err(verdict),
        }
    }

    /// Checks a claim, and challenges the sender or lets the request wait if necessary.
    pub(super) fn prove(&mut self, now: Time, incoming: &Incoming<'_>, claim: Claim<'_>) -> Proof {
        let (setup, registrations) = (&self.setup, &self.registrations);
        let standing = || registrations.standing(now, setup, incoming, claim.uri);
        let (checked, proves_address) = self.access.check(now, setup, incoming, claim, standing);
        if proves_address && incoming.unvalidated {
            self.transactions.balance_mut().prove(now, incoming.flow.peer.ip());
        }
        match checked {
            Checked::Proved => {
                self.connections.identify(incoming.flow.connection);
                Proof::Given
            }
            Checked::NotNeeded => Proof::NotNeeded,
            Checked::OtherUser => Proof::OtherUser,
            Checked::Refused(verdict) => Proof::Refused(verdict),
            Checked::Challenge(challenges) => {
                self.responder(now).challenge(incoming, claim.challenger, &challenges);
                Proof::Pending
            }
            Checked::LookUp(who) => match self.wait_for(now, incoming, who, Purpose::Proof) {
                true => Proof::Pending,
                false => Proof::Refused((StatusCode::SERVICE_UNAVAILABLE, None)),
            },
        }
    }

    /// Lets a request wait until a subscriber has been looked up. Returns false if too many wait.
    fn wait_for(&mut self, now: Time, incoming: &Incoming<'_>, who: Subscriber, purpose: Purpose) -> bool {
        let bytes = incoming.message.as_bytes();
        let has_room = self.transactions.account().has_room_for_new(bytes.len(), 1);
        match self.access.queries.admit(&who, bytes, purpose, has_room) {
            Admission::Waits => return true,
            Admission::Full => return false,
            Admission::Admitted => {}
        }
        let bytes = self.transactions.account().holder().hold(bytes);
        let server = self.responder(now).begin(incoming);
        if let Some(server) = server.filter(|_| incoming.essentials.cseq.method == Method::Invite) {
            self.transactions.trying(now, server, &incoming.message);
        }
        self.access.queries.push(who, Waiting { purpose, flow: incoming.flow, bytes, server });
        true
    }

    /// Validates a request, finds its targets, and forwards it.
    fn route(
        &mut self,
        buffers: &mut Buffers,
        now: Time,
        incoming: &Incoming<'_>,
        route: &RouteInfo<'_>,
        arriving: Arriving,
    ) -> Result<(), Rejection> {
        let Buffers { aor, targets } = buffers;
        let Some(routing_hash) = self.validate(now, incoming, aor)? else { return Ok(()) };
        let found = self.find_targets(now, incoming, route, aor, targets);
        let result = match found {
            Ok(Found::Targets) if self.setup.settings.mode == Mode::Redirect => {
                self.responder(now).redirect(incoming, arriving, targets)
            }
            Ok(Found::Targets) => self.forward(now, incoming, (route, routing_hash), arriving, targets),
            Ok(Found::Unregistered) => self.on_unregistered(now, incoming, route),
            Err(verdict) => Err(verdict),
        };
        targets.clear();
        result
    }

    /// Validates a request (section 16.3). Returns the hash of everything that determines its routing; `None`
    /// if it was refused.
    fn validate(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        aor: &mut Vec<u8>,
    ) -> Result<Option<u64>, Rejection> {
        if incoming.essentials.max_forwards == Some(0) {
            return Err((StatusCode::TOO_MANY_HOPS, None));
        }
        if self.refuse_unsupported(now, incoming, HeaderName::ProxyRequire)? {
            return Ok(None);
        }
        // A phone that registers elsewhere has to support Path: it would not be reached without (RFC 3327
        // section 5.2).
        if self.setup.adds_path(incoming) && !supports(&incoming.message, b"path") {
            let extra = Some((HeaderName::Require, &b"path"[..]));
            self.responder(now).respond(incoming, StatusCode::EXTENSION_REQUIRED, None, extra);
            return Ok(None);
        }
        let routing_hash = self.setup.checked_routing_hash(incoming)?;
        self.router(now).check_contact(incoming, aor)?;
        Ok(Some(routing_hash))
    }

    /// Determines the targets of a request (section 16.5): the phones of one of our users, what an operator
    /// has configured, the other end of its dialog, its next Route, or the host of its request URI.
    fn find_targets(
        &self,
        now: Time,
        incoming: &Incoming<'_>,
        route: &RouteInfo<'_>,
        aor: &mut Vec<u8>,
        targets: &mut Vec<Target>,
    ) -> Result<Found, Rejection> {
        let router = self.router(now);
        let found = match &route.uri {
            Uri::Sip(uri) if self.setup.gruu_of(route).is_some() => {
                router.gruu_targets(incoming, uri, route, aor, targets)
            }
            Uri::Sip(uri) if self.setup.is_for_us(route) => return router.find(incoming, uri, aor, targets),
            _ => match router.other_domain_targets(incoming, route, targets) {
                Some(found) => found,
                // A redirection to the request URI itself would lead nowhere.
                None if self.setup.settings.mode == Mode::Redirect => {
                    Err((StatusCode::NOT_FOUND, Some("Not Our Domain")))
                }
                None => router.direct_target(incoming, route).map(|target| targets.push(target)),
            },
        };
        found.map(|()| Found::Targets)
    }

    /// Refuses a request for a user without bindings: with 404 only if there is no such user, or there is no
    /// authentication (sections 16.5, 21.4.5 and 21.4.18). The request waits until the user has been looked
    /// up, if that is necessary.
    fn on_unregistered(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        route: &RouteInfo<'_>,
    ) -> Result<(), Rejection> {
        let unavailable = (StatusCode::TEMPORARILY_UNAVAILABLE, None);
        let existence = route.uri.sip().map(|uri| self.access.existence(now, &self.setup, uri));
        match existence {
            Some(Existence::Absent) | None => Err((StatusCode::NOT_FOUND, None)),
            Some(Existence::Exists) => Err(unavailable),
            // Not for unauthenticated senders, which could keep the database busy.
            Some(Existence::LookUp(who)) => {
                let is_known = incoming.proved || self.router(now).may_relay(&incoming.flow);
                let waits = is_known && self.wait_for(now, incoming, who, Purpose::Callee);
                if waits { Ok(()) } else { Err(unavailable) }
            }
        }
    }

    /// Forwards a request to its targets (section 16.6).
    fn forward(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        (route, routing_hash): (&RouteInfo<'_>, u64),
        arriving: Arriving,
        targets: &mut Vec<Target>,
    ) -> Result<(), Rejection> {
        if breadth(&incoming.message) == 0 {
            return Err((StatusCode::MAX_BREADTH_EXCEEDED, None));
        }
        // The source is one end of a dialog that begins with this request.
        if incoming.essentials.to.tag.is_none() {
            self.registrations.replaced.on_flow_used(&incoming.flow);
        }
        let caller_host = self.router(now).caller_host(incoming);
        let trusted = trusts(&self.setup, &incoming.flow, &self.connections);
        self.proxy(now).begin(
            &ForwardSource { incoming, route, routing_hash, caller_host, trusted },
            arriving,
            targets,
        )
    }

    /// Handles CANCEL: answers it, and cancels the branches of its INVITE (section 16.10).
    fn on_cancel(&mut self, now: Time, incoming: &Incoming<'_>, invite: Option<ServerId>, arrival: Arrival) {
        let known = invite.and_then(|id| Some((id, self.transactions.server_flow(id)?.1)));
        let Incoming { message, flow, .. } = incoming;
        let Some((id, user)) = known else {
            // Another worker may have its INVITE, if that came from another port or over another connection.
            let first = arrival.first_worker();
            let workers = self.setup.workers.as_ref();
            if let Some((workers, next)) = workers.and_then(|workers| Some((workers, workers.next(first)?))) {
                self.output.misdirected.push(workers.misdirected(next, *flow, first, message));
                return;
            }
            let code = StatusCode::NO_SUCH_TRANSACTION;
            return self.responder(now).respond_statelessly(message, *flow, code, None, None);
        };
        self.responder(now).respond_statelessly(message, *flow, StatusCode::OK, None, None);
        // The transaction may outlive its context, whose slot may be in use again.
        if self.contexts.of_server(user as u32, id).is_some() {
            self.proxy(now).stop(user as u32);
        }
    }

    /// Handles the ACK of a 2xx: it is forwarded within the dialog, without a transaction. The ACK of an
    /// error that was sent without a transaction ends here (section 8.2.7).
    fn on_ack(&mut self, buffers: &mut Buffers, now: Time, incoming: &Incoming<'_>) {
        let tag = self.setup.hashes.tag(&incoming.message, &incoming.flow);
        let is_of_ours = incoming.essentials.to.tag == Some(&tag[..]);
        if is_of_ours && incoming.unvalidated {
            self.transactions.balance_mut().prove(now, incoming.flow.peer.ip());
        }
        if is_of_ours || matches!(self.setup.settings.mode, Mode::Redirect) {
            return;
        }
        let Ok(route) = self.setup.route_info(&incoming.message, incoming.essentials) else { return };
        if incoming.essentials.max_forwards == Some(0) || self.setup.checked_routing_hash(incoming).is_err() {
            return;
        }
        let is_route_of_ours = |uri: &SipUri<'_>| self.setup.is_ours(uri) && route.token.is_none();
        let target = match self.setup.gruu_of(&route) {
            Some(uri) => self.router(now).gruu_target(incoming, &uri, &route, &mut buffers.aor),
            None if self.setup.is_for_us(&route) || route.uri.sip().is_some_and(is_route_of_ours) => return,
            None => self.router(now).direct_target(incoming, &route),
        };
        let Ok(Target { place, uri, path, only, .. }) = target else { return };
        let mut proxy = self.proxy(now);
        let flow = match place {
            Destination::Flow(flow) => Some(flow),
            Destination::Name(question) => {
                let flow = incoming.flow;
                let (holder, held) = room_to_wait(proxy.transactions.account(), incoming.message.as_bytes());
                let waiter = || Waiter::Message { flow, bytes: holder.hold(held) };
                match proxy.flows_of(&question, proxy.setup.hashes.call_seed(incoming), waiter) {
                    ResolvedFlows::Flows(flows) => flows.into_iter().find(|flow| is_allowed(flow, only)),
                    ResolvedFlows::Pending | ResolvedFlows::Failed(_) => None,
                }
            }
        };
        if let Some(flow) = flow {
            let trusted = trusts(proxy.setup, &incoming.flow, proxy.connections);
            let source = ForwardSource { incoming, route: &route, routing_hash: 0, caller_host: 0, trusted };
            proxy.forward_stateless(&source, flow, (uri.as_deref(), &path));
        }
    }

    /// Handles a response. If another worker waits for it, it is passed on.
    fn on_response(&mut self, now: Time, (flow, arrival): (Flow, Arrival), message: &Message<'_>) {
        let workers = self.setup.workers.as_ref();
        if let Some((workers, worker)) = workers.and_then(|all| Some((all, all.waiting_for(message)?))) {
            // A response that another worker passed here belongs to this worker or to none.
            if arrival.first_worker().is_none() {
                self.output.misdirected.push(workers.misdirected(worker, flow, None, message));
            }
            return;
        }
        let trusted = trusts(&self.setup, &flow, &self.connections);
        if let Some(flow) = self.proxy_for_response(now, trusted).on_response(message) {
            // Another registrar has registered the phone: its connection is needed.
            self.registrations.on_registered(now, &flow);
            self.connections.set_edge(flow.connection);
        }
    }

    /// Refuses a request that requires unsupported extensions in this header. The response names all of them
    /// (section 8.2.2.3), up to a limit. Returns false if there are none.
    pub(super) fn refuse_unsupported(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        name: HeaderName,
    ) -> Result<bool, Rejection> {
        let message = &incoming.message;
        if !message.has(name) {
            return Ok(false);
        }
        let malformed = match name {
            HeaderName::ProxyRequire => "Malformed Proxy-Require",
            _ => "Malformed Require",
        };
        let mut missing: Vec<u8> = Vec::new();
        for option in message.unsupported_of(name, &SUPPORTED) {
            let option = option.map_err(|_| (StatusCode::BAD_REQUEST, Some(malformed)))?;
            if !missing.is_empty() {
                missing.extend_from_slice(b", ");
            }
            missing.extend_from_slice(option.0);
            if missing.len() > UNSUPPORTED_MAX {
                break;
            }
        }
        if missing.is_empty() {
            return Ok(false);
        }
        let extra = Some((HeaderName::Unsupported, &missing[..]));
        self.responder(now).respond(incoming, StatusCode::BAD_EXTENSION, None, extra);
        Ok(true)
    }
}
