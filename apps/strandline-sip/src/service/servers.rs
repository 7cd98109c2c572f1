//! Servers that were located (RFC 3263), and requests that wait until somebody has asked DNS. All of it is bounded.

use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::codec::{Host, Index, Message, SipUri, StatusCode, Uri};
use crate::resolution::{Answer, Found, Question, in_order};
use crate::transaction::{Flow, Held, Holder, Protocol, ServerId, Time};

use super::Service;
use super::context::Place;

/// Questions that may be under way.
const ASKED_MAX: usize = 1000;
/// Requests that may wait for answers.
const WAITING_MAX: usize = 20_000;
/// Servers that are remembered as gone or busy.
const SHUNNED_MAX: usize = 1024;
/// Those who take no connections that are remembered.
const NO_TCP_MAX: usize = 256;
/// Servers of one name that are tried for one request.
const TRIED_MAX: usize = 16;
/// Responses a second that look for another way: who closes connections chooses where that leads to.
const RETURNS_PER_SEC: u32 = 100;
/// How long a server is tried after the others that could not be reached.
const SHUNNED: Duration = Duration::from_secs(30);
/// How long servers are used that were known, once their time is over, if nobody can tell of others (RFC 8767 has hours).
const STALE: Duration = Duration::from_secs(300);
/// How long somebody who takes no connections gets large requests in datagrams.
const NO_TCP: Duration = Duration::from_secs(300);
/// How long at most, whatever its Retry-After says.
const SHUNNED_LONGEST: u32 = 300;

/// What was asked, and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LocateCounters {
    /// Requests for names whose servers were known.
    pub known: u64,
    /// Questions that were asked.
    pub asked: u64,
    /// Answers with servers.
    pub found: u64,
    /// Answers that there are none.
    pub nothing: u64,
    /// Questions that nobody could answer.
    pub no_answer: u64,
    /// Requests for which there was no room to wait.
    pub no_room: u64,
    /// Requests that were sent to the next server.
    pub failed_over: u64,
}

/// What waits for an answer.
#[derive(Debug)]
pub(super) enum Waiter {
    /// A branch of a context, which may be another's by now.
    Branch { slot: u32, number: usize, server: ServerId },
    /// An ACK, to be looked at again.
    Message { flow: Flow, bytes: Held },
    /// A response, and where it could not be sent to.
    Response { failed: SocketAddr, bytes: Held },
}

/// Where a request for a name goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// There, in this order.
    Known(Vec<Flow>),
    /// It waits.
    Waits,
    /// Nowhere.
    None(StatusCode),
}

#[derive(Debug)]
enum State {
    Asked(Vec<Waiter>),
    Known { found: Found, until: Time },
}

#[derive(Debug)]
struct Entry {
    /// What connections are known by that were opened for this name.
    domain: u32,
    state: State,
    /// The servers that were known last, and how long they may be used if nobody can tell of others.
    last: Option<(Found, Time)>,
}

/// Names and their servers.
#[derive(Debug, Default)]
pub(super) struct Servers {
    entries: HashMap<Arc<Question>, Entry>,
    names: HashMap<u32, Arc<Question>>,
    /// Domains by the marks of their names.
    marks: HashMap<u32, u32>,
    /// The oldest first.
    order: VecDeque<Arc<Question>>,
    wanted: Vec<Arc<Question>>,
    asked: usize,
    waiting: usize,
    last_domain: u32,
    shunned: HashMap<(Protocol, SocketAddr), Time>,
    /// Who takes no connections; those that are older are asked again.
    no_tcp: VecDeque<(Time, SocketAddr)>,
    /// Since when, and how many responses have looked for another way since.
    returns: (Time, u32),
    counters: LocateCounters,
}

impl Servers {
    /// The ways to the servers of a name, chosen by `seed`; or what `waiter` makes waits for them.
    fn ways(
        &mut self,
        now: Time,
        question: &Arc<Question>,
        max: usize,
        seed: u64,
        mark: impl Fn(&Question) -> u32,
        waiter: impl FnOnce() -> Waiter,
    ) -> Ways {
        let has_room = self.waiting < WAITING_MAX;
        match self.entries.get_mut(question) {
            Some(Entry { domain, state: State::Known { found, until }, .. }) if now < *until => {
                self.counters.known += 1;
                let domain = *domain;
                return match found {
                    Found::Servers(servers) => {
                        let order = in_order(servers, chance(seed));
                        Ways::Known(self.flows(now, order, domain))
                    }
                    Found::Nothing => Ways::None(StatusCode::BAD_GATEWAY),
                    Found::NoAnswer => Ways::None(StatusCode::SERVER_TIME_OUT),
                };
            }
            Some(Entry { state: State::Asked(waiters), .. }) if has_room => {
                self.waiting += 1;
                waiters.push(waiter());
                return Ways::Waits;
            }
            _ => {}
        }
        let is_there = self.entries.contains_key(question);
        if !has_room || self.asked >= ASKED_MAX || !(is_there || self.make_room(max, &mark)) {
            self.counters.no_room += 1;
            return Ways::None(StatusCode::SERVICE_UNAVAILABLE);
        }
        if !is_there {
            self.last_domain = self.last_domain % (u32::MAX - 1) + 1;
            self.names.insert(self.last_domain, Arc::clone(question));
            self.marks.insert(mark(question), self.last_domain);
            self.order.push_back(Arc::clone(question));
        }
        let domain = self.last_domain;
        let entry = self.entries.entry(Arc::clone(question));
        let entry = entry.or_insert_with(|| Entry { domain, state: State::Asked(Vec::new()), last: None });
        entry.state = State::Asked(vec![waiter()]);
        self.waiting += 1;
        self.asked += 1;
        self.counters.asked += 1;
        self.wanted.push(Arc::clone(question));
        Ways::Waits
    }

    /// Forgets the oldest name if there are too many. False if all are being asked for.
    fn make_room(&mut self, max: usize, mark: impl Fn(&Question) -> u32) -> bool {
        for _ in 0..self.order.len() {
            if self.entries.len() < max {
                return true;
            }
            let Some(oldest) = self.order.pop_front() else { break };
            match self.entries.get(&oldest) {
                Some(Entry { state: State::Asked(_), .. }) => self.order.push_back(oldest),
                Some(Entry { domain, .. }) => {
                    let key = mark(&oldest);
                    if self.marks.get(&key) == Some(domain) {
                        self.marks.remove(&key);
                    }
                    self.names.remove(domain);
                    self.entries.remove(&oldest);
                }
                None => {}
            }
        }
        self.entries.len() < max
    }

    /// The domain whose name has a mark.
    pub(super) fn domain_of(&self, mark: u32) -> Option<u32> {
        self.marks.get(&mark).copied()
    }

    /// Those that are gone or busy come last.
    fn flows(&mut self, now: Time, order: Vec<(Protocol, SocketAddr)>, domain: u32) -> Vec<Flow> {
        let is_shunned =
            |key: &(Protocol, SocketAddr)| self.shunned.get(key).is_some_and(|until| now < *until);
        let (last, first): (Vec<_>, Vec<_>) = order.into_iter().partition(is_shunned);
        let flow = |(protocol, peer)| Flow {
            domain: if protocol == Protocol::Tls { domain } else { 0 },
            ..Flow::to(protocol, peer)
        };
        first.into_iter().chain(last).take(TRIED_MAX).map(flow).collect()
    }

    /// May another response look for another way?
    fn may_return(&mut self, now: Time) -> bool {
        if now - self.returns.0 >= Duration::from_secs(1) {
            self.returns = (now, 0);
        }
        self.returns.1 += 1;
        self.returns.1 <= RETURNS_PER_SEC
    }

    fn shun(&mut self, now: Time, flow: &Flow, time: Duration) {
        if self.shunned.len() >= SHUNNED_MAX {
            self.shunned.retain(|_, until| now < *until);
        }
        let key = (flow.protocol, flow.peer);
        if self.shunned.len() < SHUNNED_MAX || self.shunned.contains_key(&key) {
            self.shunned.insert(key, now + time);
        }
    }

    /// Nobody takes connections there, for large requests.
    pub(super) fn refused_tcp(&mut self, now: Time, peer: SocketAddr) {
        while self.no_tcp.len() >= NO_TCP_MAX
            || self.no_tcp.front().is_some_and(|(at, _)| now - *at >= NO_TCP)
        {
            self.no_tcp.pop_front();
        }
        self.no_tcp.push_back((now, peer));
    }

    /// Is that known?
    pub(super) fn has_refused_tcp(&self, now: Time, peer: SocketAddr) -> bool {
        self.no_tcp.iter().any(|(at, one)| *one == peer && now - *at < NO_TCP)
    }

    /// What waits for this answer, which is known from now on.
    fn answered(&mut self, now: Time, question: &Question, answer: Answer) -> Vec<Waiter> {
        match &answer.found {
            Found::Servers(_) => self.counters.found += 1,
            Found::Nothing => self.counters.nothing += 1,
            Found::NoAnswer => self.counters.no_answer += 1,
        }
        let Some(entry) = self.entries.get_mut(question) else { return Vec::new() };
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
            State::Asked(waiters) => {
                self.asked = self.asked.saturating_sub(1);
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

impl Service {
    /// Names whose servers are to be located, each once, until [`located`](Self::located) tells what was found.
    pub fn wanted_servers(&mut self) -> Vec<Arc<Question>> {
        core::mem::take(&mut self.servers.wanted)
    }

    /// What was asked and answered so far.
    #[must_use]
    pub const fn locate_counters(&self) -> &LocateCounters {
        &self.servers.counters
    }

    /// Names that are known, questions under way, and requests that wait for them.
    #[must_use]
    pub fn names(&self) -> (usize, usize, usize) {
        (self.servers.entries.len() - self.servers.asked, self.servers.asked, self.servers.waiting)
    }

    /// The name that the certificate of a flow's peer has to prove.
    #[must_use]
    pub fn domain(&self, flow: &Flow) -> Option<&str> {
        self.servers.names.get(&flow.domain).map(|question| &*question.name)
    }

    /// From now on all names are asked for again.
    pub fn forget_servers(&mut self) {
        for entry in self.servers.entries.values_mut() {
            if let State::Known { until, .. } = &mut entry.state {
                *until = Time::ZERO;
            }
        }
    }

    /// Where the host of a URI is: an address that we have a way to, or a name.
    pub(super) fn place(&self, uri: &SipUri<'_>) -> Option<Place> {
        let host = match uri.maddr() {
            Some(maddr) => Host::parse(maddr).ok()?,
            None => uri.host,
        };
        if host.ip().is_some() {
            return self.resolve(uri, &host).map(Place::Flow);
        }
        let question = Question::of(uri, &host).filter(|_| self.settings.names_max > 0)?;
        match question.protocol {
            Some(protocol) => self.settings.address(protocol).map(|_| ())?,
            None if question.secure => self.settings.address(Protocol::Tls).map(|_| ())?,
            None => {}
        }
        Some(Place::Name(Arc::new(question)))
    }

    pub(super) fn ways(
        &mut self,
        now: Time,
        question: &Arc<Question>,
        seed: u64,
        waiter: impl FnOnce() -> Waiter,
    ) -> Ways {
        let mark = |question: &Question| self.tokens.host_mark(question.name.as_bytes());
        self.servers.ways(now, question, self.settings.names_max, seed, mark, waiter)
    }

    /// A server could not be reached, or has too much to do: others are tried before it for a while.
    pub(super) fn shun(&mut self, now: Time, flow: &Flow, retry_after_secs: Option<u32>) {
        let time = retry_after_secs.map(|secs| Duration::from_secs(secs.min(SHUNNED_LONGEST).into()));
        self.servers.shun(now, flow, time.unwrap_or(SHUNNED));
        self.servers.counters.failed_over += 1;
    }

    /// DNS was asked: what has waited for it goes on.
    pub fn located(&mut self, now: Time, question: &Arc<Question>, answer: Answer) {
        for waiter in self.servers.answered(now, question, answer) {
            match waiter {
                Waiter::Branch { slot, number, server } => {
                    let is_same = self.contexts.get(slot).is_some_and(|context| context.server == server);
                    if is_same {
                        self.branch_located(now, slot, number, question);
                    }
                }
                Waiter::Message { bytes, .. } if bytes.is_empty() => {}
                Waiter::Message { flow, bytes } => self.handle(now, flow, &bytes, false),
                Waiter::Response { failed, bytes } => self.response_located(now, question, failed, &bytes),
            }
        }
        self.on_events(now);
    }

    /// A response could not be sent over its flow: it goes where RFC 3261 section 18.2.2 says, and if nobody is there, where the
    /// name in its Via leads to (RFC 3263 section 5).
    pub fn response_failed(&mut self, now: Time, flow: Flow, bytes: &[u8]) {
        if !self.servers.may_return(now) {
            return;
        }
        let mut index =
            self.index.take().unwrap_or_else(|| Box::new(Index::with_limits(self.settings.message)));
        let via = Message::parse(bytes, &mut index).ok().filter(|message| !message.is_request());
        if let Some(via) = via.and_then(|message| message.via().ok()) {
            let port = via.port.unwrap_or(flow.protocol.default_port());
            let first = via.received.or(via.host.ip()).map(|address| SocketAddr::new(address, port));
            match first {
                Some(first) if flow.connection != 0 && !flow.protocol.is_websocket() => {
                    self.out.push(Flow::to(flow.protocol, first), None, bytes);
                }
                // Where the name led to there is nobody either.
                None if flow.connection == 0 => {}
                Some(first) if flow.connection == 0 && flow.peer != first => {}
                _ => self.locate_for_response(now, &flow, &via.host, via.port, bytes),
            }
        }
        self.index = Some(index);
    }

    /// What holds a message that may have to wait for DNS; nothing of it is left to wait if there is no room.
    pub(super) fn room_to_wait<'a>(&self, bytes: &'a [u8]) -> (Holder, &'a [u8]) {
        let account = self.transactions.account();
        (account.holder().clone(), if account.has_room(bytes.len()) { bytes } else { &[] })
    }

    fn locate_for_response(
        &mut self,
        now: Time,
        flow: &Flow,
        host: &Host<'_>,
        port: Option<u16>,
        bytes: &[u8],
    ) {
        let question =
            Question::of_response(host, port, flow.protocol).filter(|_| self.settings.names_max > 0);
        let Some(question) = question.map(Arc::new) else { return };
        let failed = flow.peer;
        let (holder, kept) = self.room_to_wait(bytes);
        let waiter = || Waiter::Response { failed, bytes: holder.hold(kept) };
        if let Ways::Known(ways) = self.ways(now, &question, 0, waiter) {
            self.send_response(&ways, failed, bytes);
        }
    }

    fn response_located(&mut self, now: Time, question: &Arc<Question>, failed: SocketAddr, bytes: &[u8]) {
        let holder = self.transactions.account().holder().clone();
        let waiter = || Waiter::Response { failed, bytes: holder.hold(&[]) };
        if let Ways::Known(ways) = self.ways(now, question, 0, waiter)
            && !bytes.is_empty()
        {
            self.send_response(&ways, failed, bytes);
        }
    }

    /// To the first that isn't where nobody was.
    fn send_response(&mut self, ways: &[Flow], failed: SocketAddr, bytes: &[u8]) {
        if let Some(flow) = ways.iter().find(|flow| flow.peer != failed) {
            self.out.push(*flow, None, bytes);
        }
    }

    /// Where a URI in the configuration leads to.
    pub(super) fn place_of(&self, text: &[u8]) -> Option<Place> {
        Uri::parse(text).ok().and_then(|uri| self.place(uri.sip()?))
    }
}
