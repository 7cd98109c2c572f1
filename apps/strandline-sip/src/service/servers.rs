//! Servers of names (RFC 3263), and messages that wait for DNS. All tables are bounded.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::codec::StatusCode;
use crate::resolution::{Answer, Found, Question, in_order};
use crate::transaction::{Flow, Held, Protocol, ServerId, Time};

use super::context::BranchId;
use super::name_waits::{NameWaits, SILENT};

/// Maximum number of pending queries.
const PENDING_MAX: usize = 1000;
/// Maximum number of requests that wait for answers.
const WAITING_MAX: usize = 20_000;
/// Maximum number of servers recorded as unreachable or busy.
const DEPRIORITIZED_MAX: usize = 1024;
/// Maximum number of addresses recorded as refusing TCP.
const NO_TCP_MAX: usize = 256;
/// Maximum number of servers of a name that are tried for one request.
const TRIED_MAX: usize = 16;
/// Maximum number of responses per second that are sent to another address: a peer that closes its
/// connections chooses that address.
const RETURNS_PER_SEC: u32 = 100;
/// Time for which an unreachable server is tried after the others.
const DEPRIORITIZED: Duration = Duration::from_secs(30);
/// Time for which expired answers are used if DNS doesn't answer (RFC 8767 suggests days).
const STALE: Duration = Duration::from_secs(300);
/// Time for which an address that refuses TCP gets large requests in datagrams.
const NO_TCP: Duration = Duration::from_secs(300);
/// Maximum time that a busy server is tried after the others, in seconds, whatever its Retry-After says.
const DEPRIORITIZED_LONGEST: u32 = 300;

/// Counters of DNS queries and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NameCounters {
    /// Requests for names whose servers were known.
    pub known: u64,
    /// Queries that were sent.
    pub queries: u64,
    /// Answers with servers.
    pub found: u64,
    /// Answers without servers.
    pub nothing: u64,
    /// Queries that DNS did not answer.
    pub no_answer: u64,
    /// Requests that could not wait, for lack of room.
    pub no_room: u64,
    /// Requests that were sent to the next server.
    pub failed_over: u64,
}

/// A request or a response that waits for an answer.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A branch of a context. Another context may use the slot by now.
    Branch { branch: BranchId, server: ServerId },
    /// An ACK, to be handled again.
    Message { flow: Flow, bytes: Held },
    /// A response, and the address that it could not be sent to.
    Response { failed: SocketAddr, bytes: Held },
}

/// The flows to the servers of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResolvedFlows {
    /// The flows, in the order in which to try them.
    Flows(Vec<Flow>),
    /// DNS is being queried; the message waits.
    Pending,
    /// The name has no usable server: respond with this status.
    Failed(StatusCode),
}

#[derive(Debug)]
enum State {
    Queried(Vec<Waiter>),
    Known { found: Found, until: Time },
}

#[derive(Debug)]
struct Entry {
    /// The number of the name in the flows of connections that were opened for it.
    domain: u32,
    state: State,
    /// The last answer with servers, and how long it may be used if DNS doesn't answer.
    last: Option<(Found, Time)>,
    /// Set after DNS did not answer in time: until then, requests with another path don't wait for the name.
    silent_until: Time,
}

/// Names and their servers.
#[derive(Debug, Default)]
pub struct Servers {
    entries: HashMap<Arc<Question>, Entry>,
    names: HashMap<u32, Arc<Question>>,
    /// Domains by the hashes of their names.
    by_hash: HashMap<u32, u32>,
    /// Questions, the oldest first.
    order: VecDeque<Arc<Question>>,
    wanted: Vec<Arc<Question>>,
    pending: usize,
    waiting: usize,
    last_domain: u32,
    /// Branches that wait only for a short time.
    pub(super) waits: NameWaits,
    deprioritized: HashMap<(Protocol, SocketAddr), Time>,
    /// Addresses that refuse TCP, and since when.
    no_tcp: VecDeque<(Time, SocketAddr)>,
    /// The beginning of a second, and the number of responses that were sent another way in it.
    returns: (Time, u32),
    counters: NameCounters,
}

impl Servers {
    /// Returns, once, the names whose servers are to be located: see
    /// [`Service::handle_dns_answer`](super::Service::handle_dns_answer).
    pub fn take_wanted(&mut self) -> Vec<Arc<Question>> {
        core::mem::take(&mut self.wanted)
    }

    /// Counters of DNS queries and answers.
    #[must_use]
    pub const fn counters(&self) -> &NameCounters {
        &self.counters
    }

    /// Number of names that are known, of questions under way, and of requests that wait for these.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.entries.len() - self.pending, self.pending, self.waiting)
    }

    /// The name that the certificate of a flow's peer has to prove.
    #[must_use]
    pub fn domain(&self, flow: &Flow) -> Option<&str> {
        self.names.get(&flow.domain).map(|question| &*question.name)
    }

    /// Expires all answers: every name is queried again.
    pub fn expire(&mut self) {
        for entry in self.entries.values_mut() {
            if let State::Known { until, .. } = &mut entry.state {
                *until = Time::ZERO;
            }
        }
    }

    /// The flows to the servers of a name, chosen by `seed`. If they aren't known yet, the result of `waiter`
    /// waits for the answer.
    pub(super) fn flows_of(
        &mut self,
        now: Time,
        question: &Arc<Question>,
        max: usize,
        seed: u64,
        host_hash: impl Fn(&Question) -> u32,
        waiter: impl FnOnce() -> Waiter,
    ) -> ResolvedFlows {
        let has_room = self.waiting < WAITING_MAX;
        match self.entries.get_mut(question) {
            Some(Entry { domain, state: State::Known { found, until }, .. }) if now < *until => {
                self.counters.known += 1;
                let domain = *domain;
                return match found {
                    Found::Servers(servers) => {
                        let order = in_order(servers, chance(seed));
                        ResolvedFlows::Flows(self.flows(now, order, domain))
                    }
                    Found::Nothing => ResolvedFlows::Failed(StatusCode::BAD_GATEWAY),
                    Found::NoAnswer => ResolvedFlows::Failed(StatusCode::SERVER_TIME_OUT),
                };
            }
            Some(Entry { state: State::Queried(waiters), .. }) if has_room => {
                self.waiting += 1;
                waiters.push(waiter());
                return ResolvedFlows::Pending;
            }
            _ => {}
        }
        let is_there = self.entries.contains_key(question);
        if !has_room || self.pending >= PENDING_MAX || !(is_there || self.make_room(max, &host_hash)) {
            self.counters.no_room += 1;
            return ResolvedFlows::Failed(StatusCode::SERVICE_UNAVAILABLE);
        }
        if !is_there {
            self.last_domain = self.last_domain % (u32::MAX - 1) + 1;
            self.names.insert(self.last_domain, Arc::clone(question));
            self.by_hash.insert(host_hash(question), self.last_domain);
            self.order.push_back(Arc::clone(question));
        }
        let domain = self.last_domain;
        let entry = self.entries.entry(Arc::clone(question));
        let (state, silent_until) = (State::Queried(Vec::new()), Time::ZERO);
        let entry = entry.or_insert_with(|| Entry { domain, state, last: None, silent_until });
        entry.state = State::Queried(vec![waiter()]);
        self.waiting += 1;
        self.pending += 1;
        self.counters.queries += 1;
        self.wanted.push(Arc::clone(question));
        ResolvedFlows::Pending
    }

    /// Removes the oldest names if there are too many. Returns false if all of them are being queried.
    fn make_room(&mut self, max: usize, host_hash: impl Fn(&Question) -> u32) -> bool {
        for _ in 0..self.order.len() {
            if self.entries.len() < max {
                return true;
            }
            let Some(oldest) = self.order.pop_front() else { break };
            match self.entries.get(&oldest) {
                Some(Entry { state: State::Queried(_), .. }) => self.order.push_back(oldest),
                Some(Entry { domain, .. }) => {
                    let key = host_hash(&oldest);
                    if self.by_hash.get(&key) == Some(domain) {
                        self.by_hash.remove(&key);
                    }
                    self.names.remove(domain);
                    self.entries.remove(&oldest);
                }
                None => {}
            }
        }
        self.entries.len() < max
    }

    /// The domain whose name has this hash.
    pub(super) fn domain_of(&self, host_hash: u32) -> Option<u32> {
        self.by_hash.get(&host_hash).copied()
    }

    /// Records that DNS has not answered a query for a name in time.
    pub(super) fn set_silent(&mut self, now: Time, question: &Question) {
        if let Some(entry) = self.entries.get_mut(question) {
            entry.silent_until = now + SILENT;
        }
    }

    /// Whether DNS has lately not answered in time for this name.
    pub(super) fn is_silent(&self, now: Time, question: &Question) -> bool {
        self.entries.get(question).is_some_and(|entry| now < entry.silent_until)
    }

    /// The servers that a name had when DNS last answered, chosen by `seed`; none if it is too long ago.
    pub(super) fn last_known(&mut self, now: Time, question: &Question, seed: u64) -> Vec<Flow> {
        match self.entries.get(question) {
            Some(Entry { domain, last: Some((Found::Servers(servers), usable)), .. }) if now < *usable => {
                let (domain, order) = (*domain, in_order(servers, chance(seed)));
                self.flows(now, order, domain)
            }
            _ => Vec::new(),
        }
    }

    /// The flows to servers; those that are gone or busy come last.
    fn flows(&mut self, now: Time, order: Vec<(Protocol, SocketAddr)>, domain: u32) -> Vec<Flow> {
        let is_deprioritized =
            |key: &(Protocol, SocketAddr)| self.deprioritized.get(key).is_some_and(|until| now < *until);
        let (last, first): (Vec<_>, Vec<_>) = order.into_iter().partition(is_deprioritized);
        let flow = |(protocol, peer)| Flow {
            domain: if protocol == Protocol::Tls { domain } else { 0 },
            ..Flow::to(protocol, peer)
        };
        first.into_iter().chain(last).take(TRIED_MAX).map(flow).collect()
    }

    /// Counts a response that is to be sent to another address. Returns false if there are too many.
    pub(super) fn may_return(&mut self, now: Time) -> bool {
        if now - self.returns.0 >= Duration::from_secs(1) {
            self.returns = (now, 0);
        }
        self.returns.1 += 1;
        self.returns.1 <= RETURNS_PER_SEC
    }

    /// Records that a server could not be reached or is busy: for a while others are tried before it.
    pub(super) fn on_failed(&mut self, now: Time, flow: &Flow, retry_after_secs: Option<u32>) {
        let time = retry_after_secs.map(|secs| Duration::from_secs(secs.min(DEPRIORITIZED_LONGEST).into()));
        self.deprioritize(now, flow, time.unwrap_or(DEPRIORITIZED));
        self.counters.failed_over += 1;
    }

    fn deprioritize(&mut self, now: Time, flow: &Flow, time: Duration) {
        if self.deprioritized.len() >= DEPRIORITIZED_MAX {
            self.deprioritized.retain(|_, until| now < *until);
        }
        let key = (flow.protocol, flow.peer);
        if self.deprioritized.len() < DEPRIORITIZED_MAX || self.deprioritized.contains_key(&key) {
            self.deprioritized.insert(key, now + time);
        }
    }

    /// Records that an address refuses TCP.
    pub(super) fn refused_tcp(&mut self, now: Time, peer: SocketAddr) {
        while self.no_tcp.len() >= NO_TCP_MAX
            || self.no_tcp.front().is_some_and(|(at, _)| now - *at >= NO_TCP)
        {
            self.no_tcp.pop_front();
        }
        self.no_tcp.push_back((now, peer));
    }

    /// Whether an address refuses TCP.
    pub(super) fn has_refused_tcp(&self, now: Time, peer: SocketAddr) -> bool {
        self.no_tcp.iter().any(|(at, one)| *one == peer && now - *at < NO_TCP)
    }

    /// Records an answer. Returns the messages that waited for it.
    pub(super) fn on_answer(&mut self, now: Time, question: &Question, answer: Answer) -> Vec<Waiter> {
        match &answer.found {
            Found::Servers(_) => self.counters.found += 1,
            Found::Nothing => self.counters.nothing += 1,
            Found::NoAnswer => self.counters.no_answer += 1,
        }
        let Some(entry) = self.entries.get_mut(question) else { return Vec::new() };
        if answer.found != Found::NoAnswer {
            entry.silent_until = Time::ZERO;
        }
        let found = match answer.found {
            Found::Servers(_) => {
                entry.last = Some((answer.found.clone(), now + answer.ttl + STALE));
                answer.found
            }
            Found::Nothing => {
                entry.last = None;
                answer.found
            }
            Found::NoAnswer => match &entry.last {
                Some((found, usable)) if now < *usable => found.clone(),
                _ => answer.found,
            },
        };
        let known = State::Known { found, until: now + answer.ttl };
        match core::mem::replace(&mut entry.state, known) {
            State::Queried(waiters) => {
                self.pending = self.pending.saturating_sub(1);
                self.waiting = self.waiting.saturating_sub(waiters.len());
                waiters
            }
            State::Known { .. } => Vec::new(),
        }
    }
}

/// Numbers that follow from a seed (SplitMix64).
fn chance(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed;
    move |most| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(value ^ (value >> 31)) * (u128::from(most) + 1)) >> 64) as u32
    }
}
