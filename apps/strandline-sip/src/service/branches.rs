//! The branches of a forwarded request, and fail-over to the next server (RFC 3263 section 4.3).

use core::net::IpAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::codec::{Message, StatusCode};
use crate::resolution::Question;
use crate::transaction::{ClientId, Flow, Protocol, ViaBranch};

use super::context::{Branch, BranchId, Destination, Detour, Fallback, Named, Others, Target, is_allowed};
use super::copies::{BREADTH, ForwardSource, ForwardedCopy};
use super::name_waits::Wait;
use super::proxy::Proxy;
use super::servers::{ResolvedFlows, Waiter};
use super::throttle::is_urgent;

/// Maximum number of copies of a request that may be on their way at once.
pub(super) fn breadth(message: &Message<'_>) -> u32 {
    match message.max_breadth() {
        Ok(Some(breadth)) => breadth.0.min(BREADTH),
        _ => BREADTH,
    }
}

/// The servers of a name to which a request may be sent.
fn allowed(flows: Vec<Flow>, only: Option<IpAddr>) -> Result<Vec<Flow>, StatusCode> {
    let flows: Vec<Flow> = flows.into_iter().filter(|flow| is_allowed(flow, only)).collect();
    if flows.is_empty() && only.is_some() { Err(StatusCode::FLOW_FAILED) } else { Ok(flows) }
}

/// Whether a request belongs to a dialog that was set up through this server. A To tag alone proves nothing.
fn is_in_dialog(source: &ForwardSource<'_>) -> bool {
    source.incoming.essentials.to.tag.is_some() && source.route.token.is_some()
}

impl Proxy<'_> {
    /// Sends a request to all of these targets, or lets it wait until their names are resolved.
    ///
    /// # Errors
    /// The status to respond with if the request could not be sent to any target.
    pub(super) fn send_to_all(
        &mut self,
        source: &ForwardSource<'_>,
        slot: u32,
        targets: &[Target],
    ) -> Result<(), StatusCode> {
        let allowed = breadth(&source.incoming.message);
        let count = targets.len().min(allowed as usize);
        // The remaining targets are tried after these (RFC 5393 section 5.3.3).
        if let (Some(context), Some(rest)) = (self.contexts.get_mut(slot), targets.get(count..)) {
            drop(context.later.splice(..0, rest.iter().cloned()));
        }
        let breadth = allowed / (count.max(1) as u32);
        let mut result = Err(StatusCode::SERVER_INTERNAL_ERROR);
        for target in targets.iter().take(count) {
            let sent = self.send_to(source, slot, target, breadth);
            result = match (result, sent) {
                (Ok(()), _) => Ok(()),
                (Err(_), sent) => sent,
            };
        }
        result
    }

    fn send_to(
        &mut self,
        source: &ForwardSource<'_>,
        slot: u32,
        target: &Target,
        breadth: u32,
    ) -> Result<(), StatusCode> {
        let flows = self.flows_to(source, slot, target);
        let lost = Err(StatusCode::SERVER_INTERNAL_ERROR);
        let Some(context) = self.contexts.get_mut(slot) else { return lost };
        let is_named = matches!(target.place, Destination::Name(_));
        let (flows, path) = match (flows, &target.fallback) {
            (Ok(flows), _) => (flows, &target.path),
            // The host in the phone's contact can't be resolved.
            (Err(_), Some(detour)) if is_named => (Some(vec![detour.flow]), &detour.path),
            (Err(code), _) => {
                context.offer(code, &[]);
                return Err(code);
            }
        };
        let id = BranchId { slot, number: context.branches.len() };
        let waits = flows.is_none();
        let mut left: VecDeque<Flow> = flows.unwrap_or_default().into();
        let first = left.pop_front();
        let uri = || target.uri.clone();
        let Target { over_node, neighbour, by_uri, only, .. } = *target;
        let host = match &target.place {
            Destination::Name(question) => self.setup.tokens.host_hash(question.name.as_bytes()),
            Destination::Flow(_) => 0,
        };
        let named = || Box::new(Named { left, host, only, uri: uri(), path: path.clone(), breadth });
        let fallback = |Detour { flow, path }| {
            Box::new(Fallback { flow, host, uri: uri(), path, breadth, neighbour, deprioritizes: false })
        };
        let others = || Box::new(Others { left: target.others.clone(), breadth });
        context.branches.push(Branch {
            sent: None,
            done: false,
            responded: false,
            rang: false,
            superseded: false,
            over_node,
            neighbour,
            named: is_named.then(named),
            fallback: target.fallback.clone().map(fallback),
            others: (!target.others.is_empty()).then(others),
        });
        if waits {
            context.live += 1;
            return Ok(());
        }
        let uri = target.uri.as_deref().or(source.route.replaced);
        let sent = match first {
            Some(flow) => {
                let copy =
                    ForwardedCopy { uri, path, flow, via_branch: &[], breadth, host, neighbour, by_uri };
                self.start_branch(source, id, copy)
            }
            None => Err(StatusCode::BAD_GATEWAY),
        };
        if sent.is_err() && !self.next_server(id) {
            if let (Some(context), Err(code)) = (self.contexts.get_mut(slot), sent) {
                context.finish_branch(id.number);
                context.offer(code, &[]);
            }
            return sent;
        }
        Ok(())
    }

    /// The flows to a target. `None` while its name is being resolved: the next branch of the context waits
    /// for it.
    fn flows_to(
        &mut self,
        source: &ForwardSource<'_>,
        slot: u32,
        target: &Target,
    ) -> Result<Option<Vec<Flow>>, StatusCode> {
        let question = match &target.place {
            Destination::Flow(flow) => return Ok(Some(vec![*flow])),
            Destination::Name(question) => question,
        };
        let context = self.contexts.get(slot).ok_or(StatusCode::SERVER_INTERNAL_ERROR)?;
        let (server, branch) = (context.server, BranchId { slot, number: context.branches.len() });
        let seed = self.setup.hashes.call_seed(source.incoming);
        let has_flow = target.fallback.is_some();
        if has_flow && self.servers.is_silent(self.now, question) {
            let servers = self.servers.last_known(self.now, question, seed);
            return if servers.is_empty() { Err(StatusCode::SERVER_TIME_OUT) } else { Ok(Some(servers)) };
        }
        match self.flows_of(question, seed, || Waiter::Branch { branch, server }) {
            ResolvedFlows::Flows(flows) => allowed(flows, target.only).map(Some),
            ResolvedFlows::Pending => {
                if has_flow {
                    self.servers.waits.push(self.now, branch, server, question);
                }
                Ok(None)
            }
            ResolvedFlows::Failed(code) => Err(code),
        }
    }

    /// Sends a branch's request.
    fn start_branch(
        &mut self,
        source: &ForwardSource<'_>,
        id: BranchId,
        copy: ForwardedCopy<'_>,
    ) -> Result<(), StatusCode> {
        let invite = self.contexts.get(id.slot).is_some_and(|context| context.invite);
        let flow = copy.flow;
        if copy.neighbour {
            let urgent = is_urgent(&source.incoming.message, is_in_dialog(source));
            if !self.overload.throttle.allows(self.now, flow.peer, urgent) {
                return Err(StatusCode::SERVICE_UNAVAILABLE);
            }
        }
        let Ok(client) = self.transactions.reserve_client(invite, flow, id.user()) else {
            self.counters.refused += 1;
            return Err(StatusCode::SERVER_INTERNAL_ERROR);
        };
        let via_branch = ViaBranch { client: Some(client), routing_hash: source.routing_hash }.write(0);
        let copy = ForwardedCopy { via_branch: &via_branch, ..copy };
        let written = self.out.write(flow, Some(client), |out| self.setup.write_copy(source, &copy, out));
        let Ok(request) = written else {
            self.transactions.forget_client(client);
            return Err(StatusCode::SERVER_INTERNAL_ERROR);
        };
        let len = request.len();
        if self.is_too_large(id.slot, &copy, len) {
            self.transactions.forget_client(client);
            self.out.take_back();
            // If nothing listens for TCP there, the request is sent over UDP.
            if let Some(branch) = self.contexts.branch_mut(id) {
                branch.fallback = Some(Box::new(copy.fallback()));
            }
            let flow = Flow::to(Protocol::Tcp, flow.peer);
            return self.start_branch(
                source,
                id,
                ForwardedCopy { flow, by_uri: false, via_branch: &[], ..copy },
            );
        }
        if !self.transactions.account().has_room_for(len, 1, is_in_dialog(source)) {
            self.transactions.forget_client(client);
            self.out.take_back();
            self.counters.crowded += 1;
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        if let Some((_, request)) = self.out.get(self.out.len().saturating_sub(1)) {
            self.transactions.start_client(self.now, client, request);
        }
        self.on_sent(source, id, client, flow)
    }

    /// Records that a branch's request was sent.
    fn on_sent(
        &mut self,
        source: &ForwardSource<'_>,
        id: BranchId,
        client: ClientId,
        flow: Flow,
    ) -> Result<(), StatusCode> {
        let Some(context) = self.contexts.get_mut(id.slot) else {
            return Err(StatusCode::SERVER_INTERNAL_ERROR);
        };
        (context.responded, context.rang) = (false, false);
        context.live += 1;
        let is_last = !context.hops || context.later.is_empty();
        if let Some(branch) = context.branches.get_mut(id.number) {
            (branch.sent, branch.responded, branch.rang) = (Some((client, flow)), false, false);
            let tries_next = !is_last || branch.has_more();
            // If the connection ends, this server or the registrar that sent the request here can try another
            // path.
            let has_use =
                branch.fallback.is_some() || branch.others.is_some() || source.route.phone.is_some();
            if tries_next {
                self.contexts.try_hop(self.now, self.setup.settings.directory.failover, client, id);
            }
            if has_use && flow.connection != 0 {
                self.contexts.watch(flow.connection, id);
            }
        }
        self.counters.forwarded += 1;
        Ok(())
    }

    /// Whether a request is too large for a datagram and can go over TCP instead (RFC 3261 section 18.1.1):
    /// only to where a URI says that a peer listens. A phone behind a NAT receives only messages over its
    /// flow.
    fn is_too_large(&self, slot: u32, copy: &ForwardedCopy<'_>, len: usize) -> bool {
        let Flow { protocol, connection, peer, .. } = copy.flow;
        let max = self.setup.settings.udp_request_bytes_max;
        (protocol, connection) == (Protocol::Udp, 0)
            && copy.by_uri
            && max > 0
            && len > max
            && self.setup.settings.address(Protocol::Tcp).is_some()
            && self.contexts.get(slot).is_some_and(|context| context.request.is_some())
            && !self.servers.has_refused_tcp(self.now, peer)
    }

    /// Sends a branch's request to the next server of its target, in a new transaction. Returns false if
    /// there is none.
    pub(super) fn next_server(&mut self, id: BranchId) -> bool {
        loop {
            let Some(context) = self.contexts.get_mut(id.slot) else { return false };
            let Some(stored) = context.request.clone().filter(|_| !context.stopped && !context.answered)
            else {
                return false;
            };
            let Some(branch) = context.branches.get_mut(id.number).filter(|branch| !branch.done) else {
                return false;
            };
            let Some(named) = &mut branch.named else { return false };
            let Some(flow) = named.left.pop_front() else { return false };
            let (uri, path, breadth) = (named.uri.clone(), named.path.clone(), named.breadth);
            let (host, neighbour) = (named.host, branch.neighbour);
            branch.fallback = None;
            let sent = self.with_stored(&stored, |proxy, source| {
                let uri = uri.as_deref().or(source.route.replaced);
                let copy = ForwardedCopy {
                    uri,
                    path: &path,
                    flow,
                    via_branch: &[],
                    breadth,
                    host,
                    neighbour,
                    by_uri: true,
                };
                proxy.start_branch(source, id, copy).is_ok()
            });
            if sent == Some(true) {
                return true;
            }
        }
    }

    /// Sends a branch's request over its fallback: to the address where the phone listens if its connection
    /// ended before any response (RFC 3261 section 18.4), or in a datagram if nothing listens for TCP there
    /// (section 18.1.1). Returns false if there is no fallback, or sending fails.
    pub(super) fn fall_back(&mut self, id: BranchId) -> bool {
        let Some(context) =
            self.contexts.get_mut(id.slot).filter(|context| !context.stopped && !context.answered)
        else {
            return false;
        };
        let Some(stored) = context.request.clone() else { return false };
        let Some(branch) =
            context.branches.get_mut(id.number).filter(|branch| !branch.done && !branch.responded)
        else {
            return false;
        };
        let Some(fallback) = branch.fallback.take() else { return false };
        let Fallback { flow, host, uri, path, breadth, neighbour, deprioritizes } = *fallback;
        if deprioritizes {
            self.servers.refused_tcp(self.now, flow.peer);
        }
        let sent = self.with_stored(&stored, |proxy, source| {
            let uri = uri.as_deref().or(source.route.replaced);
            let by_uri = false;
            let copy =
                ForwardedCopy { uri, path: &path, flow, via_branch: &[], breadth, host, neighbour, by_uri };
            proxy.start_branch(source, id, copy).is_ok()
        });
        sent == Some(true)
    }

    /// Replaces a branch by one over the phone's next flow, if it has one (RFC 5626 section 7). Other
    /// branches continue, and later targets wait.
    pub(super) fn next_flow(&mut self, id: BranchId) -> bool {
        let context = self.contexts.get_mut(id.slot).filter(|context| !context.stopped && !context.answered);
        let Some(context) = context else { return false };
        let Some(stored) = context.request.clone() else { return false };
        let Some(branch) = context.branches.get_mut(id.number).filter(|branch| !branch.done && !branch.rang)
        else {
            return false;
        };
        let Some(others) = branch.others.take() else { return false };
        let Others { left, breadth } = *others;
        let mut left = left.into_iter();
        while let Some(next) = left.next() {
            let target = Target { others: left.as_slice().to_vec(), ..next };
            let sent = self.with_stored(&stored, |proxy, source| {
                proxy.send_to(source, id.slot, &target, breadth).is_ok()
            });
            if sent == Some(true) {
                self.contexts.get_mut(id.slot).map(|context| context.finish_branch(id.number));
                return true;
            }
        }
        false
    }

    /// Tries the next hops in place of those that have not responded in time, and retries branches whose
    /// connections have ended.
    pub(super) fn handle_timeout(&mut self) {
        while let Some(id) = self.contexts.next_silent_hop(self.now) {
            self.leave_hop(id);
        }
        stop_waiting_for_names(self);
        while let Some((connection, branches)) = self.contexts.next_ended() {
            for id in branches {
                let branch = self.contexts.branch(id).filter(|branch| branch.waits_over(connection));
                if let Some(client) = branch.and_then(Branch::client) {
                    self.on_send_failed(client);
                }
            }
        }
        self.on_events();
    }

    /// Sends the request of a branch whose name has been resolved.
    pub(super) fn on_branch_resolved(&mut self, id: BranchId, question: &Arc<Question>) {
        let Some(context) = self.contexts.get_mut(id.slot) else { return };
        let server = context.server;
        context.live = context.live.saturating_sub(1);
        if context.branches.get(id.number).is_some_and(|branch| !branch.done && branch.sent.is_some()) {
            located_late(self, id, question);
            return self.contexts.tidy(id.slot);
        }
        let waits =
            context.branches.get(id.number).is_some_and(|branch| !branch.done && branch.sent.is_none());
        let flows = context.request.clone().filter(|_| waits).map(|stored| {
            let seed =
                self.with_stored(&stored, |proxy, source| proxy.setup.hashes.call_seed(source.incoming));
            self.flows_of(question, seed.unwrap_or_default(), || Waiter::Branch { branch: id, server })
        });
        let code = match flows {
            Some(ResolvedFlows::Flows(flows)) => {
                let named = self.contexts.branch_mut(id).and_then(|branch| branch.named.as_mut());
                let allowed = allowed(flows, named.as_ref().and_then(|named| named.only));
                let left = allowed.as_ref().map(Vec::len).unwrap_or_default();
                if let (Some(named), Ok(flows)) = (named, allowed) {
                    named.left = flows.into();
                }
                if self.next_server(id) {
                    return;
                }
                // Overload control withholds the request from all remaining servers.
                if left == 0 { StatusCode::FLOW_FAILED } else { StatusCode::SERVICE_UNAVAILABLE }
            }
            // The answer has expired in the meantime.
            Some(ResolvedFlows::Pending) => {
                if let Some(context) = self.contexts.get_mut(id.slot) {
                    context.live += 1;
                }
                return;
            }
            Some(ResolvedFlows::Failed(_)) if self.fall_back(id) => return,
            Some(ResolvedFlows::Failed(code)) => code,
            None => StatusCode::SERVER_INTERNAL_ERROR,
        };
        self.on_branch_lost(id, code);
        self.contexts.tidy(id.slot);
    }

    /// Sends a stored request to the next targets. Returns false if it could not be sent to any.
    pub(super) fn send_later(&mut self, slot: u32) -> bool {
        loop {
            let Some(context) = self.contexts.get_mut(slot) else { return false };
            let first = context.later.first().map_or(0, |target| target.q);
            let group = context.later.iter().take_while(|target| target.q == first).count();
            let targets: Vec<Target> = context.later.drain(..group).collect();
            let Some(stored) = context.request.clone().filter(|_| !targets.is_empty()) else { return false };
            let sent =
                self.with_stored(&stored, |proxy, source| proxy.send_to_all(source, slot, &targets).is_ok());
            if sent == Some(true) {
                return true;
            }
        }
    }
}

/// Sends requests whose wait for DNS has timed out: to the name's previous servers, or over the flow.
fn stop_waiting_for_names(proxy: &mut Proxy<'_>) {
    while let Some(Wait { branch: id, server, question, .. }) = proxy.servers.waits.pop(proxy.now) {
        let Some(context) = proxy.contexts.of_server(id.slot, server) else { continue };
        let branch = context.branches.get(id.number);
        if !branch.is_some_and(|branch| !branch.done && branch.sent.is_none()) {
            continue;
        }
        proxy.servers.set_silent(proxy.now, &question);
        try_last_known(proxy, id, &question);
        if !proxy.next_server(id) {
            proxy.fall_back(id);
        }
    }
}

/// Handles a DNS answer that arrives after a branch was sent over its flow: the servers are tried if the flow
/// brings no response.
fn located_late(proxy: &mut Proxy<'_>, id: BranchId, question: &Question) {
    let branch = proxy.contexts.branch(id).filter(|branch| !branch.responded);
    let Some(client) = branch.and_then(Branch::client) else { return };
    try_last_known(proxy, id, question);
    proxy.contexts.try_hop(proxy.now, proxy.setup.settings.directory.failover, client, id);
}

/// Makes a branch try the servers of the last DNS answer next.
fn try_last_known(proxy: &mut Proxy<'_>, id: BranchId, question: &Question) {
    let Some(stored) = proxy.contexts.get(id.slot).and_then(|context| context.request.clone()) else {
        return;
    };
    let seed = proxy.with_stored(&stored, |proxy, source| proxy.setup.hashes.call_seed(source.incoming));
    let servers = proxy.servers.last_known(proxy.now, question, seed.unwrap_or_default());
    if let Some(named) = proxy.contexts.branch_mut(id).and_then(|branch| branch.named.as_mut()) {
        named.left = servers.into();
    }
}
