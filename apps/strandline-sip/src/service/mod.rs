//! The service: registrar and stateful proxy of one shard (RFC 3261 sections 10 and 16). No I/O, no clock.

mod admin;
mod answered;
mod branches;
mod checks;
mod context;
mod copies;
mod directory;
mod edge;
mod feedback;
mod forward;
mod incoming;
mod next_hop;
mod nodes;
mod offer;
mod offers;
mod other_workers;
mod proofs;
mod refused;
mod register;
mod registered_flows;
mod replaced;
mod reply;
mod request;
mod response;
mod route;
mod routing;
mod servers;
mod settings;
mod sides;
mod strict;
mod subscriber_queries;
mod targets;
mod throttle;
mod token;

use core::time::Duration;
use std::collections::{HashMap, HashSet, VecDeque};

use siphasher::sip::SipHasher13;

use crate::auth::{Authenticator, GuessCounters};
use crate::bindings::{Journal, Locations};
use crate::codec::{Error, Essentials, HeaderName, Index, Limits, Message, StatusCode};
use crate::registrar::{FLOW_TIMER_SECS, Gruus, Registrar};
use crate::transaction::{ClientId, Flow, Numbers, Outbox, Received, Slots, Time, Timings, Transactions};

use answered::Answered;
use context::{Context, Target};
pub use directory::{Alias, Directory, Hop, Route};
use feedback::Feedback;
pub use feedback::Load;
use incoming::Incoming;
use nodes::Peers;
pub use nodes::{NodeAddress, Peer};
pub use offer::Offer;
use offers::Offers;
pub use other_workers::Astray;
use other_workers::Siblings;
use refused::Refused;
use registered_flows::Known;
use replaced::Replaced;
pub use servers::LocateCounters;
use servers::Servers;
pub(crate) use settings::contains;
pub use settings::{Advertised, Mode, Relay, Settings};
use subscriber_queries::Lookups;
use throttle::Throttle;
pub use throttle::ThrottleCounters;
pub use token::{End, Token, Tokens};

/// What happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests that came.
    pub requests: u64,
    /// Responses that came.
    pub responses: u64,
    /// Messages that made no sense.
    pub malformed: u64,
    /// REGISTERs that were answered with 200.
    pub registered: u64,
    /// Requests that were forwarded.
    pub forwarded: u64,
    /// Calls that were answered with a 2xx.
    pub calls: u64,
    /// Requests whose senders were told that there are too many.
    pub refused: u64,
    /// Requests that were refused, or copies that were not sent, because too many bytes are kept.
    pub crowded: u64,
}

/// Random keys.
#[derive(Clone)]
pub struct Seeds {
    /// For what is forgotten at the end.
    pub own: [u8; 64],
    /// For flow tokens, the same after a restart.
    pub tokens: [u8; 16],
}

impl core::fmt::Debug for Seeds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seeds")
    }
}

/// Registrar and proxy of one shard.
///
/// In: [`handle_message`](Self::handle_message), [`handle_timeout`](Self::handle_timeout),
/// [`connection_opened`](Self::connection_opened), [`connection_closed`](Self::connection_closed),
/// [`send_failed`](Self::send_failed). Out: [`out`](Self::out), to be sent at once; and [`held`](Self::held), to be sent
/// when [`journal`](Self::journal) has been written down.
#[derive(Debug)]
pub struct Service {
    settings: Settings,
    transactions: Transactions,
    locations: Locations,
    registrar: Registrar,
    contexts: Slots<Context>,
    tokens: Tokens,
    gruus: Gruus,
    /// Asks for passwords; nobody is asked without it.
    authenticator: Option<Authenticator>,
    /// Outcomes of requests with credentials, for retransmissions.
    answered: Answered,
    /// Log lines about senders who were refused.
    refused_log: Refused,
    hasher: SipHasher13,
    connections: HashSet<u64, Numbers>,
    /// Those whose peers have proved to be neighbours.
    trusted: HashSet<u64>,
    /// Those whose phones were told how long they may say nothing.
    timed: HashSet<u64, Numbers>,
    /// Those over which phones have registered elsewhere.
    edges: HashSet<u64, Numbers>,
    /// Those whose peers have shown certificates.
    proved: HashSet<u64, Numbers>,
    /// Flows that their phones have left for other flows.
    replaced: Replaced,
    /// Branches that go elsewhere when their connections end, and connections that have ended.
    falling_back: HashMap<u64, Vec<u64>, Numbers>,
    ended: Vec<u64>,
    /// With so many of them it is looked which of them are waited for in vain.
    watched_max: usize,
    /// Those that are to be used for requests to a port of their peers.
    aliased: Vec<(u64, u16)>,
    /// Seconds since 1970 at `Time::ZERO`.
    epoch_unix_secs: u64,
    /// Requests that hops of trunks have, and until when they are to say something.
    hops: VecDeque<(Time, ClientId, u64)>,
    /// In a place of its own: it is taken out for each message.
    index: Option<Box<Index>>,
    aor: Vec<u8>,
    targets: Vec<Target>,
    counters: Counters,
    /// Over which flows phones have registered.
    known: Known,
    /// What neighbours are told of the load.
    feedback: Feedback,
    /// Requests that wait until somebody has looked for a subscriber.
    lookups: Lookups,
    /// What downstream neighbours want.
    throttle: Throttle,
    /// The overload control that downstream neighbours are offered.
    offers: Offers,
    /// Servers of names, and what waits for them.
    servers: Servers,
    /// Other nodes, if there may be any.
    nodes: Option<Peers>,
    /// Other workers of this server, if there are any.
    siblings: Option<Siblings>,
    /// Something that was handed over with the journal is not durable yet.
    unsettled: bool,
    /// Nothing new is begun.
    draining: bool,
    /// When somebody was last told the end of a call: an ACK follows.
    told_end: Option<Time>,
    /// Messages to be sent at once.
    pub out: Outbox,
    /// Answers to be sent when the journal has been written down.
    pub held: Outbox,
    /// What is to be written down.
    pub journal: Journal,
}

impl Service {
    /// Nobody is registered. Times that come in are since `epoch_unix_secs`.
    #[must_use]
    pub fn new(settings: Settings, seeds: &Seeds, epoch_unix_secs: u64) -> Self {
        let seed = |at: usize| {
            let part = seeds.own.get(at..at + 16).unwrap_or(&[]);
            <[u8; 16]>::try_from(part).unwrap_or_default()
        };
        let mut transactions = [0; 32];
        transactions.iter_mut().zip(&seeds.own).for_each(|(place, byte)| *place = *byte);
        let hasher = SipHasher13::new_with_key(&seed(48));
        let tokens = Tokens::new(seeds.tokens);
        Self {
            offers: Offers::new(&settings.directory, &tokens),
            transactions: Transactions::new(settings.timings, settings.limits, transactions),
            locations: Locations::new(settings.users_max, seed(32)),
            registrar: Registrar::new(settings.registrar),
            contexts: Slots::new(settings.limits.servers_max),
            tokens,
            gruus: Gruus::new(&seeds.tokens, &seeds.own),
            authenticator: None,
            answered: Answered::new(hasher),
            refused_log: Refused::default(),
            hasher,
            connections: HashSet::default(),
            trusted: HashSet::new(),
            timed: HashSet::default(),
            edges: HashSet::default(),
            proved: HashSet::default(),
            aliased: Vec::new(),
            replaced: Replaced::default(),
            falling_back: HashMap::default(),
            ended: Vec::new(),
            watched_max: 0,
            epoch_unix_secs,
            hops: VecDeque::new(),
            index: Some(Box::new(Index::with_limits(settings.message))),
            aor: Vec::new(),
            targets: Vec::new(),
            counters: Counters::default(),
            known: Known::new(seed(16)),
            feedback: Feedback::new(epoch_unix_secs),
            lookups: Lookups::default(),
            throttle: Throttle::new(u64::from_le_bytes(*seed(40).first_chunk().unwrap_or(&[1; 8]))),
            servers: Servers::default(),
            nodes: None,
            siblings: None,
            unsettled: false,
            draining: false,
            told_end: None,
            out: Outbox::new(),
            held: Outbox::new(),
            journal: if settings.durable { Journal::default() } else { Journal::off() },
            settings,
        }
    }

    /// Its addresses, once it listens.
    pub fn set_advertised(&mut self, advertised: &[Advertised]) {
        self.settings.advertised.splice(0..0, advertised.iter().cloned());
    }

    /// What happened so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Users and their bindings.
    #[must_use]
    pub const fn locations(&self) -> &Locations {
        &self.locations
    }

    /// What seals and opens the tokens in its Record-Routes.
    #[must_use]
    pub const fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Takes bindings that a store has kept, of another node if it has a name. Returns how many lines can't be read and are left
    /// out.
    pub fn load(&mut self, node: &str, aor: &[u8], state: &[u8]) -> usize {
        if self.nodes.is_some() {
            return self.merge(node, aor, state);
        }
        let unreadable = self.locations.load(aor, state);
        if unreadable.is_none() {
            tracing::warn!("there are more users than limits.users_max");
        }
        for binding in self.locations.bindings(aor) {
            self.known.insert(Time::ZERO, &binding.flow);
        }
        unreadable.unwrap_or(0)
    }

    /// Has a phone registered over this flow of late?
    #[must_use]
    pub fn knows(&self, flow: &Flow) -> bool {
        self.known.contains(flow)
    }

    /// Looks at what happened since the last look, and finds what to tell neighbours (RFC 7339). To be called about every
    /// second.
    pub fn look_at(&mut self, load: &Load) {
        self.feedback.look(load);
    }

    /// The share of what they want to send that neighbours are allowed: 1 if there is no overload.
    #[must_use]
    pub fn allowed_share(&self) -> f64 {
        self.feedback.share()
    }

    /// What was done of what downstream neighbours want (RFC 7339), and how many of them want less now.
    #[must_use]
    pub fn throttled(&self, now: Time) -> (ThrottleCounters, usize) {
        (self.throttle.counters, self.throttle.len(now))
    }

    /// Server and client transactions that are not over.
    #[must_use]
    pub fn transactions(&self) -> (usize, usize) {
        self.transactions.counts()
    }

    /// Bytes of messages that are kept: by transactions, and until it is known where something goes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.transactions.kept_bytes()
    }

    /// Is there room for so many copies of a request, which may be `within` a dialog that began here?
    fn has_room(&self, bytes: usize, copies: usize, within: bool) -> bool {
        let account = self.transactions.account();
        if within { account.has_room(bytes) } else { account.has_room_for_new(bytes, copies) }
    }

    /// How large a message may be.
    #[must_use]
    pub const fn message_limits(&self) -> Limits {
        self.settings.message
    }

    /// Tells whether something that was handed over with the journal is not durable yet.
    pub fn set_unsettled(&mut self, unsettled: bool) {
        self.unsettled = unsettled;
    }

    /// How many wrong passwords there were.
    #[must_use]
    pub fn guesses(&self) -> GuessCounters {
        self.authenticator.as_ref().map_or_else(GuessCounters::default, Authenticator::guesses)
    }

    /// It begins nothing new.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// Somebody was told the end of a call, and may not have acknowledged it yet: for 4 T1, so that a 2xx over UDP can be sent twice
    /// more.
    #[must_use]
    pub fn awaits_ack(&self, now: Time) -> bool {
        let patience = self.transactions.timings().t1.saturating_mul(4);
        self.told_end.is_some_and(|told| now < told + patience)
    }

    /// The domains of its users, without its addresses.
    #[must_use]
    pub fn domains(&self) -> &[String] {
        &self.settings.domains
    }

    /// Every request that was forwarded has been answered.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.contexts.iter().all(|context| context.answered)
    }

    /// What is at the front of a stream can't be told from what follows: the request is answered if it can be.
    pub fn handle_unframed(&mut self, now: Time, flow: Flow, bytes: &[u8], error: Error) {
        self.counters.malformed += 1;
        self.transactions.balance_mut().set_now(now);
        let mut index = self.index.take().unwrap_or_default();
        let request = match Message::parse(bytes, &mut index) {
            Ok(message) => Some(message),
            Err(rejected) => rejected.answerable(),
        };
        if let Some(request) = request {
            self.answer(&request, flow, error.status(), Some(error.kind.text()), None);
        }
        self.index = Some(index);
        self.on_events(now);
    }

    /// There is no time for a message: a request is answered with 503. One that belongs to what has begun, such as a
    /// repetition, is handled all the same.
    pub fn refuse(&mut self, now: Time, flow: Flow, bytes: &[u8]) {
        self.counters.refused += 1;
        self.transactions.balance_mut().set_now(now);
        let mut index = self.index.take().unwrap_or_default();
        if let Ok(request) = Message::parse(bytes, &mut index)
            && let Ok(essentials) = request.essentials()
        {
            let weighed = self.credit(&flow, &request);
            let incoming = Incoming { weighed, ..Incoming::new(request, &essentials, flow) };
            match self.transactions.receive_request(now, &request, &essentials, &mut self.out) {
                Received::New(_) if self.is_answered(&incoming) => self.register_again(now, &incoming),
                Received::New(_) => self.refuse_new(now, flow, &request, &essentials),
                Received::Absorbed | Received::Acknowledged(_) | Received::Cancel(_) | Received::Ack => {}
            }
        }
        self.index = Some(index);
    }

    fn refuse_new(&mut self, now: Time, flow: Flow, request: &Message<'_>, essentials: &Essentials<'_>) {
        if essentials.via.oc {
            self.feedback.asked(now, flow.peer.ip(), &essentials.via);
        }
        self.refuse_for_now(flow, request);
    }

    /// 503, with a time after which it may be tried again.
    fn refuse_for_now(&mut self, flow: Flow, request: &Message<'_>) {
        // Not all at the same time again: 2 to 9 seconds.
        let [digit, ..] = self.tag(request, &flow);
        let later = &[b'2' + digit % 8];
        let later = Some((HeaderName::RetryAfter, &later[..]));
        self.answer(request, flow, StatusCode::SERVICE_UNAVAILABLE, None, later);
    }

    fn unix_ms(&self, now: Time) -> u64 {
        self.epoch_unix_secs * 1000 + now.as_millis()
    }

    fn unix_secs(&self, now: Time) -> u64 {
        self.epoch_unix_secs + now.as_millis() / 1000
    }

    /// A message came: a datagram, or what was cut out of a stream.
    pub fn handle_message(&mut self, now: Time, flow: Flow, bytes: &[u8]) {
        self.handle(now, flow, bytes, true);
    }

    /// A message came, or one goes on that has waited or was looked at elsewhere.
    fn handle(&mut self, now: Time, flow: Flow, bytes: &[u8], is_first: bool) {
        self.transactions.balance_mut().set_now(now);
        let mut index = self.index.take().unwrap_or_default();
        match Message::parse(bytes, &mut index) {
            Ok(message) if message.is_request() => {
                let weighed = match is_first {
                    true => self.credit(&flow, &message),
                    false => !self.is_proven(&flow),
                };
                self.on_request(now, flow, &message, weighed);
            }
            Ok(message) if self.is_anothers(flow, &message) => {}
            Ok(message) => self.on_response(now, &message),
            Err(rejected) => {
                self.counters.malformed += 1;
                if let Some(request) = rejected.answerable() {
                    self.credit(&flow, &request);
                    let reason = rejected.error.kind.text();
                    self.answer(&request, flow, rejected.error.status(), Some(reason), None);
                }
            }
        }
        self.index = Some(index);
    }

    /// A connection or an association stands.
    pub fn connection_opened(&mut self, connection: u64) {
        self.connections.insert(connection);
    }

    /// The peer of a connection has proved to be a neighbour, whose requests are sent on to other hosts.
    pub fn connection_trusted(&mut self, connection: u64) {
        self.trusted.insert(connection);
    }

    /// The peer of a connection over TLS has shown a certificate for some domain: requests may go to it the same way, if it
    /// asks for that (RFC 5923 section 9.2).
    pub fn connection_proved(&mut self, connection: u64) {
        self.proved.insert(connection);
    }

    /// Connections over which requests to their peers may go, and the ports at which these listen; once.
    pub fn take_aliased(&mut self) -> Vec<(u64, u16)> {
        core::mem::take(&mut self.aliased)
    }

    /// A connection or an association is gone, and bindings that live by it go too.
    pub fn connection_closed(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.trusted.remove(&connection);
        self.timed.remove(&connection);
        self.edges.remove(&connection);
        self.proved.remove(&connection);
        if self.falling_back.contains_key(&connection) {
            self.ended.push(connection);
        }
        self.tell_closed(connection);
        self.locations.connection_closed(connection, &mut self.journal);
    }

    /// How long nothing may come on a connection until it is taken for dead: a quarter longer than its phone was told (RFC 5626
    /// section 4.4.1), as long as `idle` if nobody is reached over it, and for ever otherwise.
    #[must_use]
    pub fn silence_max(&self, connection: u64, idle: Option<Duration>) -> Option<Duration> {
        if self.timed.contains(&connection) {
            return Some(Duration::from_secs(u64::from(FLOW_TIMER_SECS + FLOW_TIMER_SECS / 4)));
        }
        idle.filter(|_| !self.locations.uses(connection) && !self.edges.contains(&connection))
    }

    /// The request of a transaction could not be sent.
    pub fn send_failed(&mut self, now: Time, client: ClientId) {
        self.on_send_failed(now, client);
    }

    /// How long its timers are.
    #[must_use]
    pub const fn timings(&self) -> &Timings {
        self.transactions.timings()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<Time> {
        let hop = self.hops.front().map(|(until, ..)| *until);
        let ended = (!self.ended.is_empty()).then_some(Time::ZERO);
        [self.transactions.next_deadline(), hop, ended].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.transactions.handle_timeout(now, &mut self.out);
        self.give_up_hops(now);
        self.leave_ended(now);
        self.on_events(now);
    }

    /// Forgets bindings that have expired, among some of the users; to be called now and then.
    pub fn sweep(&mut self, now: Time, users: u32) {
        self.locations.sweep(users, self.unix_secs(now), &mut self.journal);
    }
}
