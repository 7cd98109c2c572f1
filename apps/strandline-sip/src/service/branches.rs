//! The copies of a request: sent, and sent to the next server if one is not there (RFC 3263 section 4.3).

use core::hash::Hasher;
use core::net::IpAddr;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::codec::{Index, Message, StatusCode};
use crate::resolution::Question;
use crate::transaction::{Flow, Protocol, Time, ViaBranch};

use super::Service;
use super::context::{Branch, Detour, Fallback, Kept, Named, Others, Place, Target, is_allowed};
use super::copies::{BREADTH, Copied, Copy};
use super::incoming::Incoming;
use super::servers::{Waiter, Ways};
use super::throttle::is_urgent;

/// So many branches of a connection are looked through for those that have been heard from, and so many are remembered.
const FALLING_BACK_SOME: usize = 64;
const FALLING_BACK_MAX: usize = 1024;
/// So many connections may be waited for before it is looked which of them nothing depends on any more.
const WATCHED_SOME: usize = 1024;

/// How many copies of a request may be on their way at once.
pub(super) fn breadth(message: &Message<'_>) -> u32 {
    match message.max_breadth() {
        Ok(Some(breadth)) => breadth.0.min(BREADTH),
        _ => BREADTH,
    }
}

/// Of the servers of a name those that it counts for.
fn allowed(ways: Vec<Flow>, only: Option<IpAddr>) -> Result<Vec<Flow>, StatusCode> {
    let ways: Vec<Flow> = ways.into_iter().filter(|way| is_allowed(way, only)).collect();
    if ways.is_empty() && only.is_some() { Err(StatusCode::FLOW_FAILED) } else { Ok(ways) }
}

/// Does a request belong to a dialog that began here? A To tag alone can be made up.
fn is_within(copied: &Copied<'_>) -> bool {
    copied.incoming.essentials.to.tag.is_some() && copied.way.token.is_some()
}

impl Service {
    /// A seed that all requests of a call share: they go to one of several servers.
    pub(super) fn call_seed(&self, incoming: &Incoming<'_>) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(incoming.essentials.call_id);
        hasher.finish()
    }

    /// Sends a request to all of these targets, or has it wait for their names.
    ///
    /// # Errors
    /// If it could be sent to none, why.
    pub(super) fn send_to_all(
        &mut self,
        now: Time,
        copied: &Copied<'_>,
        slot: u32,
        targets: &[Target],
    ) -> Result<(), StatusCode> {
        let allowed = breadth(&copied.incoming.message);
        let count = targets.len().min(allowed as usize);
        // The others come after these (RFC 5393 section 5.3.3).
        if let (Some(context), Some(rest)) = (self.contexts.get_mut(slot), targets.get(count..)) {
            drop(context.later.splice(..0, rest.iter().cloned()));
        }
        let breadth = allowed / (count.max(1) as u32);
        let mut result = Err(StatusCode::SERVER_INTERNAL_ERROR);
        for target in targets.iter().take(count) {
            let sent = self.send_to(now, copied, slot, target, breadth);
            result = match (result, sent) {
                (Ok(()), _) => Ok(()),
                (Err(_), sent) => sent,
            };
        }
        result
    }

    fn send_to(
        &mut self,
        now: Time,
        copied: &Copied<'_>,
        slot: u32,
        target: &Target,
        breadth: u32,
    ) -> Result<(), StatusCode> {
        let ways = self.ways_to(now, copied, slot, target);
        let lost = Err(StatusCode::SERVER_INTERNAL_ERROR);
        let Some(context) = self.contexts.get_mut(slot) else { return lost };
        let is_named = matches!(target.place, Place::Name(_));
        let (ways, path) = match (ways, &target.fallback) {
            (Ok(ways), _) => (ways, &target.path),
            // Nobody knows the host that the phone names.
            (Err(_), Some(detour)) if is_named => (Some(vec![detour.flow]), &detour.path),
            (Err(code), _) => {
                context.offer(code, &[]);
                return Err(code);
            }
        };
        let number = context.branches.len();
        let waits = ways.is_none();
        let mut left: VecDeque<Flow> = ways.unwrap_or_default().into();
        let first = left.pop_front();
        let uri = || target.uri.clone();
        let Target { over_node, neighbour, by_uri, only, .. } = *target;
        let host = match &target.place {
            Place::Name(question) => self.tokens.host_mark(question.name.as_bytes()),
            Place::Flow(_) => 0,
        };
        let named = || Box::new(Named { left, host, only, uri: uri(), path: path.clone(), breadth });
        let fallback = |Detour { flow, path }| {
            Box::new(Fallback { flow, host, uri: uri(), path, breadth, neighbour, shuns: false })
        };
        let others = || Box::new(Others { left: target.others.clone(), breadth });
        context.branches.push(Branch {
            way: None,
            done: false,
            heard: false,
            rang: false,
            left: false,
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
        let uri = target.uri.as_deref().or(copied.way.replaced);
        let sent = match first {
            Some(flow) => {
                let copy = Copy { uri, path, flow, via_branch: &[], breadth, host, neighbour, by_uri };
                self.start_branch(now, copied, slot, number, copy)
            }
            None => Err(StatusCode::BAD_GATEWAY),
        };
        if sent.is_err() && !self.next_server(now, slot, number) {
            if let (Some(context), Err(code)) = (self.contexts.get_mut(slot), sent) {
                context.finish_branch(number);
                context.offer(code, &[]);
            }
            return sent;
        }
        Ok(())
    }

    /// The ways to a target; none yet while its name is looked up, for which the next branch of the context then waits.
    fn ways_to(
        &mut self,
        now: Time,
        copied: &Copied<'_>,
        slot: u32,
        target: &Target,
    ) -> Result<Option<Vec<Flow>>, StatusCode> {
        let question = match &target.place {
            Place::Flow(flow) => return Ok(Some(vec![*flow])),
            Place::Name(question) => question,
        };
        let context = self.contexts.get(slot).ok_or(StatusCode::SERVER_INTERNAL_ERROR)?;
        let (server, number) = (context.server, context.branches.len());
        let seed = self.call_seed(copied.incoming);
        match self.ways(now, question, seed, || Waiter::Branch { slot, number, server }) {
            Ways::Known(ways) => allowed(ways, target.only).map(Some),
            Ways::Waits => Ok(None),
            Ways::None(code) => Err(code),
        }
    }

    /// Sends a branch's request on its way.
    fn start_branch(
        &mut self,
        now: Time,
        copied: &Copied<'_>,
        slot: u32,
        number: usize,
        copy: Copy<'_>,
    ) -> Result<(), StatusCode> {
        let invite = self.contexts.get(slot).is_some_and(|context| context.invite);
        let user = u64::from(slot) | (number as u64) << 32;
        let flow = copy.flow;
        if copy.neighbour && !self.may_send(now, copied, &flow) {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        let Ok(client) = self.transactions.reserve_client(invite, flow, user) else {
            self.counters.refused += 1;
            return Err(StatusCode::SERVER_INTERNAL_ERROR);
        };
        let via_branch = ViaBranch { client: Some(client), mark: copied.mark }.write(0);
        let copy = Copy { via_branch: &via_branch, ..copy };
        let mut out = core::mem::take(&mut self.out);
        let written =
            out.write(flow, Some(client), |out| self.write(copied.incoming, copied.way, &copy, out));
        let too_large = matches!(written, Ok(request) if self.is_too_large(now, slot, &copy, request.len()));
        let (within, has_written) = (is_within(copied), written.is_ok());
        let has_room = matches!(written, Ok(request) if self.has_room(request.len(), 1, within));
        let written = match written {
            Ok(request) if !too_large && has_room => {
                self.transactions.start_client(now, client, request);
                true
            }
            _ => {
                self.transactions.forget_client(client);
                false
            }
        };
        let crowded = !too_large && !has_room;
        if too_large || (crowded && has_written) {
            out.take_back();
        }
        self.out = out;
        if too_large {
            let over_tcp = self.over_tcp(slot, number, copy);
            return self.start_branch(now, copied, slot, number, over_tcp);
        }
        if crowded && has_written {
            self.counters.crowded += 1;
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        let Some(context) = self.contexts.get_mut(slot).filter(|_| written) else {
            return Err(StatusCode::SERVER_INTERNAL_ERROR);
        };
        (context.heard, context.rang) = (false, false);
        context.live += 1;
        let is_last = !context.hops || context.later.is_empty();
        if let Some(branch) = context.branches.get_mut(number) {
            (branch.way, branch.heard, branch.rang) = (Some((client, flow)), false, false);
            if !is_last || branch.has_more() {
                self.hops.push_back((now + self.settings.directory.failover, client, user));
            }
            // Somebody else can do something then: we, or the registrar that has sent it here.
            let has_use = branch.fallback.is_some() || branch.others.is_some() || copied.way.phone.is_some();
            if has_use && flow.connection != 0 {
                self.wait_for_end(flow.connection, user);
            }
        }
        self.counters.forwarded += 1;
        Ok(())
    }

    /// Is a request too large for a datagram, and can it go over TCP instead (RFC 3261 section 18.1.1)? Only to where somebody says
    /// that they listen: over a flow that a phone behind a NAT has opened nothing else comes.
    fn is_too_large(&self, now: Time, slot: u32, copy: &Copy<'_>, len: usize) -> bool {
        let Flow { protocol, connection, peer, .. } = copy.flow;
        let max = self.settings.udp_request_bytes_max;
        (protocol, connection) == (Protocol::Udp, 0)
            && copy.by_uri
            && max > 0
            && len > max
            && self.settings.address(Protocol::Tcp).is_some()
            && self.contexts.get(slot).is_some_and(|context| context.request.is_some())
            && !self.servers.has_refused_tcp(now, peer)
    }

    /// Sends the copy over TCP, to the same address and port; and over UDP after all if nobody takes connections there.
    fn over_tcp<'a>(&mut self, slot: u32, number: usize, copy: Copy<'a>) -> Copy<'a> {
        let branch = self.contexts.get_mut(slot).and_then(|context| context.branches.get_mut(number));
        if let Some(branch) = branch {
            branch.fallback = Some(Box::new(Fallback {
                flow: copy.flow,
                host: copy.host,
                uri: copy.uri.map(Box::from),
                path: copy.path.into(),
                breadth: copy.breadth,
                neighbour: copy.neighbour,
                shuns: true,
            }));
        }
        Copy { flow: Flow::to(Protocol::Tcp, copy.flow.peer), by_uri: false, via_branch: &[], ..copy }
    }

    /// Does a neighbour want this request now?
    fn may_send(&mut self, now: Time, copied: &Copied<'_>, flow: &Flow) -> bool {
        let urgent = || is_urgent(&copied.incoming.message, is_within(copied));
        self.throttle.allows(now, flow.peer, urgent())
    }

    /// Sends a branch's request to the next server of its target, in a new transaction. False if there is none.
    pub(super) fn next_server(&mut self, now: Time, slot: u32, number: usize) -> bool {
        loop {
            let Some(context) = self.contexts.get_mut(slot) else { return false };
            let Some(kept) = context.request.clone().filter(|_| !context.stopped && !context.answered) else {
                return false;
            };
            let Some(branch) = context.branches.get_mut(number).filter(|branch| !branch.done) else {
                return false;
            };
            let Some(named) = &mut branch.named else { return false };
            let Some(flow) = named.left.pop_front() else { return false };
            let (uri, path, breadth) = (named.uri.clone(), named.path.clone(), named.breadth);
            let (host, neighbour) = (named.host, branch.neighbour);
            branch.fallback = None;
            let sent = self.with_kept(&kept, |service, copied| {
                let uri = uri.as_deref().or(copied.way.replaced);
                let copy =
                    Copy { uri, path: &path, flow, via_branch: &[], breadth, host, neighbour, by_uri: true };
                service.start_branch(now, copied, slot, number, copy).is_ok()
            });
            if sent == Some(true) {
                return true;
            }
        }
    }

    /// A phone's connection has ended before it said anything: the request goes to where it listens (RFC 3261 section 18.4). Or there
    /// was none for what is too large for a datagram, which goes in one then (section 18.1.1). False if nothing of that is known,
    /// or nothing can be sent there.
    pub(super) fn fall_back(&mut self, now: Time, slot: u32, number: usize) -> bool {
        let Some(context) =
            self.contexts.get_mut(slot).filter(|context| !context.stopped && !context.answered)
        else {
            return false;
        };
        let Some(kept) = context.request.clone() else { return false };
        let Some(branch) = context.branches.get_mut(number).filter(|branch| !branch.done && !branch.heard)
        else {
            return false;
        };
        let Some(fallback) = branch.fallback.take() else { return false };
        let Fallback { flow, host, uri, path, breadth, neighbour, shuns } = *fallback;
        if shuns {
            self.servers.refused_tcp(now, flow.peer);
        }
        let sent = self.with_kept(&kept, |service, copied| {
            let uri = uri.as_deref().or(copied.way.replaced);
            let by_uri = false;
            let copy = Copy { uri, path: &path, flow, via_branch: &[], breadth, host, neighbour, by_uri };
            service.start_branch(now, copied, slot, number, copy).is_ok()
        });
        sent == Some(true)
    }

    /// A phone isn't reached over this flow: its next one takes the place of it, if it has one (RFC 5626 section 7). Others that ring
    /// meanwhile go on, and those that come after them wait.
    pub(super) fn next_flow(&mut self, now: Time, slot: u32, number: usize) -> bool {
        let context = self.contexts.get_mut(slot).filter(|context| !context.stopped && !context.answered);
        let Some(context) = context else { return false };
        let Some(kept) = context.request.clone() else { return false };
        let Some(branch) = context.branches.get_mut(number).filter(|branch| !branch.done && !branch.rang)
        else {
            return false;
        };
        let Some(others) = branch.others.take() else { return false };
        let Others { left, breadth } = *others;
        let mut left = left.into_iter();
        while let Some(next) = left.next() {
            let target = Target { others: left.as_slice().to_vec(), ..next };
            let sent = self.with_kept(&kept, |service, copied| {
                service.send_to(now, copied, slot, &target, breadth).is_ok()
            });
            if sent == Some(true) {
                self.contexts.get_mut(slot).map(|context| context.finish_branch(number));
                return true;
            }
        }
        false
    }

    /// If a connection ends, a branch over it goes elsewhere, unless it was heard from.
    fn wait_for_end(&mut self, connection: u64, user: u64) {
        let contexts = &self.contexts;
        let depends = |connection: u64, user: u64| {
            let branch = contexts.get(user as u32).and_then(|one| one.branches.get((user >> 32) as usize));
            let branch = branch.filter(|branch| !branch.heard && !branch.done);
            branch.and_then(|branch| branch.way).is_some_and(|(_, flow)| flow.connection == connection)
        };
        // The end of one that had ended before is never told, nor of those of a worker that has died.
        if self.falling_back.len() >= self.watched_max {
            self.falling_back.retain(|connection, users| {
                users.retain(|user| depends(*connection, *user));
                !users.is_empty()
            });
            self.watched_max = self.falling_back.len() * 2 + WATCHED_SOME;
        }
        let waiting = self.falling_back.entry(connection).or_default();
        if waiting.len() >= FALLING_BACK_SOME {
            waiting.retain(|user| depends(connection, *user));
        }
        if waiting.len() < FALLING_BACK_MAX {
            waiting.push(user);
        }
    }

    /// Connections whose ends are waited for.
    #[must_use]
    pub fn watched_connections(&self) -> usize {
        self.falling_back.len()
    }

    /// Branches over connections that have ended go elsewhere.
    pub(super) fn leave_ended(&mut self, now: Time) {
        for connection in core::mem::take(&mut self.ended) {
            for user in self.falling_back.remove(&connection).unwrap_or_default() {
                let context = self.contexts.get(user as u32);
                let branch = context.and_then(|context| context.branches.get((user >> 32) as usize));
                let way = branch.filter(|branch| !branch.heard && !branch.done).and_then(|branch| branch.way);
                if let Some((client, _)) = way.filter(|(_, flow)| flow.connection == connection) {
                    self.on_send_failed(now, client);
                }
            }
        }
    }

    /// DNS has answered what a branch waits for.
    pub(super) fn branch_located(&mut self, now: Time, slot: u32, number: usize, question: &Arc<Question>) {
        let Some(context) = self.contexts.get_mut(slot) else { return };
        let server = context.server;
        context.live = context.live.saturating_sub(1);
        let waits = context.branches.get(number).is_some_and(|branch| !branch.done && branch.way.is_none());
        let kept = context.request.clone().filter(|_| waits);
        let ways = match kept {
            None => None,
            Some(kept) => {
                let seed = self.with_kept(&kept, |service, copied| service.call_seed(copied.incoming));
                let waiter = || Waiter::Branch { slot, number, server };
                Some(self.ways(now, question, seed.unwrap_or_default(), waiter))
            }
        };
        let code = match ways {
            Some(Ways::Known(ways)) => {
                let branch = self.contexts.get_mut(slot).and_then(|context| context.branches.get_mut(number));
                let named = branch.and_then(|branch| branch.named.as_mut());
                let allowed = allowed(ways, named.as_ref().and_then(|named| named.only));
                let left = allowed.as_ref().map(Vec::len).unwrap_or_default();
                if let (Some(named), Ok(ways)) = (named, allowed) {
                    named.left = ways.into();
                }
                if self.next_server(now, slot, number) {
                    return;
                }
                // None of them could be sent to: they want nothing now.
                if left == 0 { StatusCode::FLOW_FAILED } else { StatusCode::SERVICE_UNAVAILABLE }
            }
            // What was known a moment ago is so no more.
            Some(Ways::Waits) => {
                if let Some(context) = self.contexts.get_mut(slot) {
                    context.live += 1;
                }
                return;
            }
            Some(Ways::None(_)) if self.fall_back(now, slot, number) => return,
            Some(Ways::None(code)) => code,
            None => StatusCode::SERVER_INTERNAL_ERROR,
        };
        self.on_branch_lost(now, u64::from(slot) | (number as u64) << 32, code);
        self.tidy(slot);
    }

    /// Sends a request that was kept to the next targets. False if there are none that it could be sent to.
    pub(super) fn send_later(&mut self, now: Time, slot: u32) -> bool {
        loop {
            let Some(context) = self.contexts.get_mut(slot) else { return false };
            let first = context.later.first().map_or(0, |target| target.q);
            let group = context.later.iter().take_while(|target| target.q == first).count();
            let targets: Vec<Target> = context.later.drain(..group).collect();
            let Some(kept) = context.request.clone().filter(|_| !targets.is_empty()) else { return false };
            let sent = self
                .with_kept(&kept, |service, copied| service.send_to_all(now, copied, slot, &targets).is_ok());
            if sent == Some(true) {
                return true;
            }
        }
    }

    /// Looks at a request again that was kept.
    fn with_kept<T>(&mut self, kept: &Kept, work: impl FnOnce(&mut Self, &Copied<'_>) -> T) -> Option<T> {
        let mut index = Index::with_limits(self.settings.message);
        let message = Message::parse(&kept.bytes, &mut index).ok()?;
        let essentials = message.essentials().ok()?;
        let way = self.way(&message, &essentials).ok()?;
        let Kept { flow, proved, .. } = *kept;
        let incoming = Incoming { proved, ..Incoming::new(message, &essentials, flow) };
        let mark = self.mark(&incoming);
        Some(work(self, &Copied { incoming: &incoming, way: &way, mark }))
    }
}
