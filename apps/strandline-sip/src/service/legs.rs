//! The copies of a request: sent, and sent to the next server if one is not there (RFC 3263 section 4.3).

use core::hash::Hasher;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::codec::{Index, Message, StatusCode};
use crate::locate::Question;
use crate::transaction::{Branch, Flow, Time};

use super::Service;
use super::context::{Fallback, Kept, Leg, Named, Place, Target};
use super::copies::{BREADTH, Copied, Copy};
use super::incoming::Incoming;
use super::servers::{Waiter, Ways};
use super::throttle::is_urgent;

/// So many legs of a connection are looked through for those that have been heard from, and so many are remembered.
const FALLING_BACK_SOME: usize = 64;
const FALLING_BACK_MAX: usize = 1024;

impl Service {
    /// The same for all requests of a call: so they go to the same one of several servers.
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
        let allowed = match copied.incoming.message.max_breadth() {
            Ok(Some(breadth)) => breadth.0.min(BREADTH),
            _ => BREADTH,
        };
        let count = targets.len().min(allowed as usize);
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
        let ways = match ways {
            Ok(ways) => ways,
            Err(code) => {
                context.offer(code, &[]);
                return Err(code);
            }
        };
        let number = context.legs.len();
        let waits = ways.is_none();
        let mut left: VecDeque<Flow> = ways.unwrap_or_default().into();
        let first = left.pop_front();
        let named = matches!(target.place, Place::Name(_)).then(|| {
            let (uri, path) = (target.uri.clone(), target.path.clone());
            Box::new(Named { left, uri, path, breadth })
        });
        let Target { over_node, neighbour, .. } = *target;
        let uri = || target.uri.clone();
        let fallback = target.fallback.map(|flow| Box::new(Fallback { flow, uri: uri(), breadth }));
        context.legs.push(Leg {
            way: None,
            done: false,
            heard: false,
            over_node,
            neighbour,
            named,
            fallback,
        });
        if waits {
            context.live += 1;
            return Ok(());
        }
        let uri = target.uri.as_deref().or(copied.way.replaced);
        let sent = match first {
            Some(flow) => {
                let copy = Copy { uri, path: &target.path, flow, branch: &[], breadth, neighbour };
                self.start_leg(now, copied, slot, number, copy)
            }
            None => Err(StatusCode::BAD_GATEWAY),
        };
        if sent.is_err() && !self.next_server(now, slot, number) {
            if let (Some(context), Err(code)) = (self.contexts.get_mut(slot), sent) {
                context.finish_leg(number);
                context.offer(code, &[]);
            }
            return sent;
        }
        Ok(())
    }

    /// The ways to a target; none yet while its name is looked up, for which the next leg of the context then waits.
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
        let (server, number) = (context.server, context.legs.len());
        let seed = self.call_seed(copied.incoming);
        match self.ways(now, question, seed, || Waiter::Leg { slot, number, server }) {
            Ways::Known(ways) => Ok(Some(ways)),
            Ways::Waits => Ok(None),
            Ways::None(code) => Err(code),
        }
    }

    /// Sends a leg's request on its way.
    fn start_leg(
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
        if copy.neighbour && !self.may_send(now, copied.incoming, &flow) {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        let Ok(client) = self.transactions.reserve_client(invite, flow, user) else {
            self.counters.refused += 1;
            return Err(StatusCode::SERVER_INTERNAL_ERROR);
        };
        let branch = Branch { client: Some(client), mark: copied.mark }.write(0);
        let copy = Copy { branch: &branch, ..copy };
        let mut out = core::mem::take(&mut self.out);
        let written =
            out.write(flow, Some(client), |out| self.write(copied.incoming, copied.way, &copy, out));
        let written = match written {
            Ok(request) => {
                self.transactions.start_client(now, client, request);
                true
            }
            Err(_) => {
                self.transactions.forget_client(client);
                false
            }
        };
        self.out = out;
        let Some(context) = self.contexts.get_mut(slot).filter(|_| written) else {
            return Err(StatusCode::SERVER_INTERNAL_ERROR);
        };
        context.heard = false;
        context.live += 1;
        let is_last = !context.hops || context.later.is_empty();
        if let Some(leg) = context.legs.get_mut(number) {
            (leg.way, leg.heard) = (Some((client, flow)), false);
            if !is_last || leg.has_more() {
                self.hops.push_back((now + self.settings.directory.failover, client, user));
            }
            if leg.fallback.is_some() {
                self.wait_for_end(flow.connection, user);
            }
        }
        self.counters.forwarded += 1;
        Ok(())
    }

    /// Does a neighbour want this request now?
    fn may_send(&mut self, now: Time, incoming: &Incoming<'_>, flow: &Flow) -> bool {
        let urgent = || is_urgent(&incoming.message, incoming.essentials.to.tag.is_some());
        self.throttle.allows(now, flow.peer, urgent())
    }

    /// Sends a leg's request to the next server of its target, in a new transaction. False if there is none.
    pub(super) fn next_server(&mut self, now: Time, slot: u32, number: usize) -> bool {
        loop {
            let Some(context) = self.contexts.get_mut(slot) else { return false };
            let Some(kept) = context.request.clone().filter(|_| !context.stopped && !context.answered) else {
                return false;
            };
            let Some(leg) = context.legs.get_mut(number).filter(|leg| !leg.done) else { return false };
            let Some(named) = &mut leg.named else { return false };
            let Some(flow) = named.left.pop_front() else { return false };
            let (uri, path, breadth) = (named.uri.clone(), named.path.clone(), named.breadth);
            let neighbour = leg.neighbour;
            let sent = self.with_kept(&kept, |service, copied| {
                let uri = uri.as_deref().or(copied.way.replaced);
                let copy = Copy { uri, path: &path, flow, branch: &[], breadth, neighbour };
                service.start_leg(now, copied, slot, number, copy).is_ok()
            });
            if sent == Some(true) {
                return true;
            }
        }
    }

    /// A phone's connection has ended before it said anything: the request goes to where it listens (RFC 3261 section 18.4).
    /// False if that isn't known, or nothing can be sent there.
    pub(super) fn fall_back(&mut self, now: Time, slot: u32, number: usize) -> bool {
        let Some(context) =
            self.contexts.get_mut(slot).filter(|context| !context.stopped && !context.answered)
        else {
            return false;
        };
        let Some(kept) = context.request.clone() else { return false };
        let Some(leg) = context.legs.get_mut(number).filter(|leg| !leg.done && !leg.heard) else {
            return false;
        };
        let Some(fallback) = leg.fallback.take() else { return false };
        let Fallback { flow, uri, breadth } = *fallback;
        let sent = self.with_kept(&kept, |service, copied| {
            let uri = uri.as_deref().or(copied.way.replaced);
            let copy = Copy { uri, path: &[], flow, branch: &[], breadth, neighbour: false };
            service.start_leg(now, copied, slot, number, copy).is_ok()
        });
        sent == Some(true)
    }

    /// If a connection ends, a leg over it goes elsewhere, unless it was heard from.
    fn wait_for_end(&mut self, connection: u64, user: u64) {
        let waiting = self.falling_back.entry(connection).or_default();
        if waiting.len() >= FALLING_BACK_SOME {
            let contexts = &self.contexts;
            waiting.retain(|user| {
                let leg = contexts.get(*user as u32).and_then(|one| one.legs.get((user >> 32) as usize));
                leg.is_some_and(|leg| !leg.heard && !leg.done)
            });
        }
        if waiting.len() < FALLING_BACK_MAX {
            waiting.push(user);
        }
    }

    /// Legs over connections that have ended go elsewhere.
    pub(super) fn leave_ended(&mut self, now: Time) {
        for connection in core::mem::take(&mut self.ended) {
            for user in self.falling_back.remove(&connection).unwrap_or_default() {
                let context = self.contexts.get(user as u32);
                let leg = context.and_then(|context| context.legs.get((user >> 32) as usize));
                let way = leg.filter(|leg| !leg.heard && !leg.done).and_then(|leg| leg.way);
                if let Some((client, _)) = way.filter(|(_, flow)| flow.connection == connection) {
                    self.on_send_failed(now, client);
                }
            }
        }
    }

    /// DNS has answered what a leg waits for.
    pub(super) fn leg_located(&mut self, now: Time, slot: u32, number: usize, question: &Arc<Question>) {
        let Some(context) = self.contexts.get_mut(slot) else { return };
        let server = context.server;
        context.live = context.live.saturating_sub(1);
        let waits = context.legs.get(number).is_some_and(|leg| !leg.done && leg.way.is_none());
        let kept = context.request.clone().filter(|_| waits);
        let ways = match kept {
            None => None,
            Some(kept) => {
                let seed = self.with_kept(&kept, |service, copied| service.call_seed(copied.incoming));
                let waiter = || Waiter::Leg { slot, number, server };
                Some(self.ways(now, question, seed.unwrap_or_default(), waiter))
            }
        };
        let code = match ways {
            Some(Ways::Known(ways)) => {
                let leg = self.contexts.get_mut(slot).and_then(|context| context.legs.get_mut(number));
                if let Some(named) = leg.and_then(|leg| leg.named.as_mut()) {
                    named.left = ways.into();
                }
                if self.next_server(now, slot, number) {
                    return;
                }
                // None of them could be sent to: they want nothing now.
                StatusCode::SERVICE_UNAVAILABLE
            }
            // What was known a moment ago is so no more.
            Some(Ways::Waits) => {
                if let Some(context) = self.contexts.get_mut(slot) {
                    context.live += 1;
                }
                return;
            }
            Some(Ways::None(code)) => code,
            None => StatusCode::SERVER_INTERNAL_ERROR,
        };
        self.on_leg_lost(now, u64::from(slot) | (number as u64) << 32, code);
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
        let incoming = Incoming { message, essentials, flow: kept.flow, proved: kept.proved };
        let mark = self.mark(&incoming);
        Some(work(self, &Copied { incoming: &incoming, way: &way, mark }))
    }
}
