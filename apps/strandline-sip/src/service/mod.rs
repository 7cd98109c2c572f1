//! The service: registrar and stateful proxy of one shard (RFC 3261 sections 10 and 16). No I/O, no clock.
//!
//! From the bottom:
//!
//! | | |
//! |---|---|
//! | [`Setup`] | settings, keys, other nodes and workers: no message changes it |
//! | [`ConnectionBook`], [`Registrations`], [`Access`], [`Contexts`], [`Servers`], [`Overload`], [`Output`] | the states; they don't know each other |
//! | `Router`, `Responder`, `Proxy` | views: find targets, respond, forward |
//! | `Core` | the states together: the ways of a request (`request`) and of a REGISTER (`register`) |
//! | [`Service`] | the front |

mod access;
mod answered;
mod branches;
mod connections;
mod context;
mod contexts;
mod copies;
mod core;
mod directory;
mod edge;
mod feedback;
mod forward;
mod forward_response;
mod incoming;
mod locate;
mod marks;
mod next_hop;
mod nodes;
mod offer;
mod offers;
mod output;
mod overload;
mod proofs;
mod proxy;
mod refused;
mod register;
mod registered_flows;
mod registrations;
mod replaced;
mod reply;
mod request;
mod response;
mod route;
mod router;
mod routing;
mod servers;
mod settings;
mod setup;
mod sides;
mod strict;
mod subscriber_queries;
mod targets;
mod throttle;
mod token;
mod workers;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::{Authenticator, Secret, Subscriber};
use crate::bindings::{Binding, Nodes};
use crate::codec::{Error, Index, Message};
use crate::registrar::Registrar;
use crate::resolution::{Answer, Question};
use crate::transaction::{ClientId, Flow, Time, Timings};

use self::core::{Buffers, Core, Scratch};
pub use access::Access;
pub use connections::ConnectionBook;
pub use contexts::Contexts;
pub use directory::{Alias, Directory, Hop, Route};
pub use feedback::Load;
pub use nodes::{NodeAddress, OtherNodes, Peer};
pub use offer::Offer;
pub use output::Output;
pub use overload::Overload;
pub use registrations::Registrations;
use request::Arrival;
use servers::Waiter;
pub use servers::{LocateCounters, Servers};
pub(crate) use settings::contains;
pub use settings::{Advertised, Mode, Relay, Settings};
pub use setup::Setup;
use subscriber_queries::Purpose;
pub use throttle::ThrottleCounters;
pub use token::{End, Token, Tokens};
pub use workers::Astray;
use workers::Workers;

/// Counters of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests that were received.
    pub requests: u64,
    /// Responses that were received.
    pub responses: u64,
    /// Messages that could not be parsed or used.
    pub malformed: u64,
    /// REGISTERs that were answered with 200.
    pub registered: u64,
    /// Requests that were forwarded.
    pub forwarded: u64,
    /// Calls that were answered with a 2xx.
    pub calls: u64,
    /// Requests that were refused because of overload.
    pub refused: u64,
    /// Requests that were refused, or copies that were not sent, because messages take too much memory.
    pub crowded: u64,
}

/// Random keys.
#[derive(Clone)]
pub struct Seeds {
    /// For what ends with the process.
    pub own: [u8; 64],
    /// For flow tokens. They must be the same after a restart.
    pub tokens: [u8; 16],
}

impl std::fmt::Debug for Seeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seeds")
    }
}

/// Registrar and proxy of one shard.
///
/// In: [`handle_message`](Self::handle_message), [`handle_timeout`](Self::handle_timeout),
/// [`connection_opened`](Self::connection_opened), [`connection_closed`](Self::connection_closed),
/// [`send_failed`](Self::send_failed). Out: [`output`](Self::output), of which [`held`](Output::held) is to be sent once
/// [`journal`](Output::journal) is durable.
#[derive(Debug)]
pub struct Service {
    core: Core,
    scratch: Scratch,
}

impl Service {
    /// A service without registrations. Times that come in are since `epoch_unix_secs`.
    #[must_use]
    pub fn new(settings: Settings, seeds: &Seeds, epoch_unix_secs: u64) -> Self {
        let index = Index::with_limits(settings.message);
        let scratch = Scratch { index, buffers: Buffers::default() };
        Self { core: Core::new(settings, seeds, epoch_unix_secs), scratch }
    }

    /// Handles a message: a datagram, or one that was cut out of a stream.
    pub fn handle_message(&mut self, now: Time, flow: Flow, bytes: &[u8]) {
        self.core.handle(&mut self.scratch, now, flow, bytes, Arrival::Network);
    }

    /// Handles a message that another worker has received and that belongs to this one. `first` is that worker.
    pub fn handle_astray(&mut self, now: Time, flow: Flow, first: u8, bytes: &[u8]) {
        self.core.handle(&mut self.scratch, now, flow, bytes, Arrival::Worker(first));
    }

    /// Handles the front of a stream that can't be told from what follows: a request is answered if it can be.
    pub fn handle_unframed(&mut self, now: Time, flow: Flow, bytes: &[u8], error: Error) {
        self.core.handle_unframed(&mut self.scratch.index, now, flow, bytes, error);
    }

    /// Answers a new request with 503 because of overload. One that belongs to a transaction, such as a retransmission, is handled all
    /// the same.
    pub fn refuse(&mut self, now: Time, flow: Flow, bytes: &[u8]) {
        self.core.refuse(&mut self.scratch, now, flow, bytes);
    }

    /// Takes the result of a DNS query that [`wanted_servers`](Self::wanted_servers) has named: what has waited for it goes on.
    pub fn located(&mut self, now: Time, question: &Arc<Question>, answer: Answer) {
        for waiter in self.core.servers.on_answer(now, question, answer) {
            match waiter {
                Waiter::Branch { branch, server } => {
                    if self.core.contexts.of_server(branch.slot, server).is_some() {
                        self.core.proxy(now).branch_located(branch, question);
                    }
                }
                Waiter::Message { bytes, .. } if bytes.is_empty() => {}
                Waiter::Message { flow, bytes } => {
                    self.core.handle(&mut self.scratch, now, flow, &bytes, Arrival::Resumed);
                }
                Waiter::Response { failed, bytes } => {
                    self.core.proxy(now).response_located(question, failed, &bytes);
                }
            }
        }
        self.core.proxy(now).on_events();
    }

    /// Takes the result of the look-up of a subscriber: `None` if the look-up failed, `Some(None)` if there is no such subscriber. What has
    /// waited for it goes on.
    pub fn looked_up(&mut self, now: Time, who: Subscriber, found: Option<Option<Secret>>) {
        let is_absent = found.as_ref().is_some_and(Option::is_none);
        let (waiting, is_known) = self.core.access.on_looked_up(now, who, found);
        for waiting in waiting {
            if is_known && waiting.purpose == Purpose::Proof {
                self.core.handle(&mut self.scratch, now, waiting.flow, &waiting.bytes, Arrival::Resumed);
            } else {
                self.core.refuse_waiting(&mut self.scratch.index, now, &waiting, is_absent);
            }
        }
    }

    /// Handles a response that could not be sent over its flow: it is sent elsewhere if possible.
    pub fn response_failed(&mut self, now: Time, flow: Flow, bytes: &[u8]) {
        if !self.core.servers.may_return(now) {
            return;
        }
        let message = Message::parse(bytes, &mut self.scratch.index).ok();
        if let Some(response) = message.filter(|message| !message.is_request()) {
            self.core.proxy(now).on_response_failed(&flow, &response);
        }
    }

    /// Handles a request that could not be sent.
    pub fn send_failed(&mut self, now: Time, client: ClientId) {
        self.core.proxy(now).on_send_failed(client);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<Time> {
        let (transactions, contexts) =
            (self.core.transactions.next_deadline(), self.core.contexts.next_deadline());
        [transactions, contexts].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.core.handle_timeout(now);
    }

    /// Removes expired bindings of some of the users; to be called now and then.
    pub fn sweep(&mut self, now: Time, users: u32) {
        let unix_secs = self.core.setup.unix_secs(now);
        self.core.registrations.locations.sweep(users, unix_secs, &mut self.core.output.journal);
    }

    /// What it wants done.
    #[must_use]
    pub const fn output(&self) -> &Output {
        &self.core.output
    }

    /// What it wants done, to be taken away.
    pub const fn output_mut(&mut self) -> &mut Output {
        &mut self.core.output
    }

    /// Notes that a connection or an association is open.
    pub fn connection_opened(&mut self, connection: u64) {
        self.core.connections.open(connection);
    }

    /// Notes that the peer of a connection has proved to be a neighbour, whose requests may go to other hosts.
    pub fn connection_trusted(&mut self, connection: u64) {
        self.core.connections.trust(connection);
    }

    /// Notes that the peer of a TLS connection has shown a certificate.
    pub fn connection_proved(&mut self, connection: u64) {
        self.core.connections.certify(connection);
    }

    /// Handles a connection or an association that has closed. Bindings that depend on it go too.
    pub fn connection_closed(&mut self, connection: u64) {
        self.core.connection_closed(connection);
    }

    /// Handles a connection of another worker that has closed, over which a request may have gone from here.
    pub fn sibling_closed(&mut self, connection: u64) {
        self.core.contexts.on_connection_ended(connection);
    }

    /// How long nothing may arrive on a connection until it counts as dead: a quarter longer than its phone's Flow-Timer (RFC 5626 section
    /// 4.4.1); `idle` if nobody is reached over it; otherwise no limit.
    #[must_use]
    pub fn silence_max(&self, connection: u64, idle: Option<Duration>) -> Option<Duration> {
        let has_bindings = || self.core.registrations.locations.uses(connection);
        self.core.connections.silence_max(connection, idle, has_bindings)
    }

    /// Tells whether a connection or an association is open, here or at another worker.
    #[must_use]
    pub fn stands(&self, connection: u64) -> bool {
        let workers = self.core.setup.workers.as_ref();
        self.core.connections.is_open_anywhere(workers, connection)
    }

    /// Takes over new settings. Its addresses, timers, limits of users and transactions, and whether bindings are durable stay as they
    /// are.
    pub fn configure(&mut self, new: &Settings) {
        self.core.setup.configure(new);
        self.core.registrations.registrar = Registrar::new(new.registrar);
        self.scratch.index = Index::with_limits(new.message);
    }

    /// Sets the authenticator; without one nobody has to authenticate.
    pub fn authenticate(&mut self, authenticator: Option<Authenticator>) {
        self.core.access.set_authenticator(authenticator);
    }

    /// Adds its addresses, once it listens.
    pub fn set_advertised(&mut self, advertised: &[Advertised]) {
        self.core.setup.settings.advertised.splice(0..0, advertised.iter().cloned());
    }

    /// While it drains, registrations and requests outside of dialogs are refused with 503.
    pub const fn set_draining(&mut self, draining: bool) {
        self.core.setup.draining = draining;
    }

    /// Makes it one of several nodes, with a name and perhaps an address for the others.
    pub fn join(&mut self, name: &str, address: Option<NodeAddress>) {
        let Setup { tokens, nodes, settings, .. } = &mut self.core.setup;
        self.core.registrations.locations.share(Nodes::new(name, Box::new(tokens.clone())));
        *nodes = Some(OtherNodes::new(name, address));
        if let Some(NodeAddress { protocol, address }) = address {
            let host = address.ip().to_string();
            settings.advertised.push(Advertised::new(protocol, host, address.port()));
        }
    }

    /// Replaces the other nodes.
    pub fn set_nodes(&mut self, peers: Vec<Peer>) {
        let locations = &mut self.core.registrations.locations;
        let nodes = self.core.setup.nodes.get_or_insert_default();
        nodes.set(peers, |name| locations.node(name));
    }

    /// Makes it one of several workers, whose nodes have these names; to be called after [`join`](Self::join).
    pub fn set_siblings(&mut self, own: u8, names: &[String]) {
        self.core.transactions.set_worker(own);
        let locations = &mut self.core.registrations.locations;
        let nodes = names.iter().map(|name| locations.node(name)).filter(|node| *node != 0).collect();
        self.core.setup.workers = Some(Workers::new(own, nodes));
    }

    /// Sets which workers live: a bit for each.
    pub const fn set_siblings_alive(&mut self, alive: u64) {
        if let Some(workers) = &mut self.core.setup.workers {
            workers.alive = alive;
        }
    }

    /// Takes a user's bindings from the store, of another node if that has a name. Returns the number of lines that can't be read.
    pub fn load(&mut self, node: &str, aor: &[u8], state: &[u8]) -> usize {
        self.core.load(node, aor, state)
    }

    /// Takes what a user has at a node now. Returns the number of lines that can't be read.
    pub fn merge(&mut self, node: &str, aor: &[u8], state: &[u8]) -> usize {
        self.core.merge(node, aor, state)
    }

    /// Forgets what a node has told of, before it tells all again.
    pub fn forget_node(&mut self, node: &str) {
        let locations = &mut self.core.registrations.locations;
        match locations.node(node) {
            0 => {}
            number => locations.forget_node(number),
        }
    }

    /// Removes the bindings of a user, or the one for a contact, and returns them; those of other nodes too.
    pub fn unbind(&mut self, now: Time, aor: &[u8], contact: Option<&[u8]>) -> Vec<Binding> {
        let Core { setup, registrations, output, .. } = &mut self.core;
        registrations.unbind(setup.unix_ms(now), aor, contact, &mut output.journal)
    }
}

/// What it knows and counts.
impl Service {
    /// Counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// Users and their bindings.
    #[must_use]
    pub const fn locations(&self) -> &crate::bindings::Locations {
        &self.core.registrations.locations
    }

    /// Seals and opens the tokens in its Record-Routes.
    #[must_use]
    pub const fn tokens(&self) -> &Tokens {
        &self.core.setup.tokens
    }

    /// Tells whether a phone has registered over a flow recently.
    #[must_use]
    pub fn knows(&self, flow: &Flow) -> bool {
        self.core.registrations.is_registered(flow)
    }

    /// Updates what upstream neighbours are told (RFC 7339), from the load since the last call. To be called about every second.
    pub fn look_at(&mut self, load: &Load) {
        self.core.overload.on_load(load);
    }

    /// The share of their requests that upstream neighbours may send: 1 without overload.
    #[must_use]
    pub fn allowed_share(&self) -> f64 {
        self.core.overload.allowed_share()
    }

    /// Counters of the requests that downstream neighbours had asked not to be sent (RFC 7339), and the number of those that limit their
    /// requests now.
    #[must_use]
    pub fn throttled(&self, now: Time) -> (ThrottleCounters, usize) {
        (*self.core.overload.throttled(), self.core.overload.limiting_neighbours(now))
    }

    /// Number of server and client transactions.
    #[must_use]
    pub fn transactions(&self) -> (usize, usize) {
        self.core.transactions.counts()
    }

    /// Bytes of stored messages.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.core.transactions.kept_bytes()
    }

    /// Limits of a message.
    #[must_use]
    pub const fn message_limits(&self) -> crate::codec::Limits {
        self.core.setup.settings.message
    }

    /// Counters of wrong passwords.
    #[must_use]
    pub fn guesses(&self) -> crate::auth::GuessCounters {
        self.core.access.guesses()
    }

    /// Tells whether nothing new begins here.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.core.setup.draining
    }

    /// Tells whether an ACK may follow: for 4 T1 after the last final response to an INVITE, so that a 2xx over UDP can be sent twice
    /// more.
    #[must_use]
    pub fn awaits_ack(&self, now: Time) -> bool {
        let patience = self.timings().t1.saturating_mul(4);
        self.core.invite_answered_at.is_some_and(|at| now < at + patience)
    }

    /// The domains of its users, without its addresses.
    #[must_use]
    pub fn domains(&self) -> &[String] {
        &self.core.setup.settings.domains
    }

    /// Tells whether every forwarded request has been answered.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.core.contexts.are_answered()
    }

    /// The values of its timers.
    #[must_use]
    pub const fn timings(&self) -> &Timings {
        self.core.transactions.timings()
    }

    /// Tells whether a binding was made at this server, by whichever of its workers.
    #[must_use]
    pub fn is_here(&self, binding: &Binding) -> bool {
        self.core.setup.is_here(binding)
    }

    /// The name of this node, if there may be others.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.core.setup.nodes.as_ref().map(OtherNodes::own_name)
    }

    /// The other nodes, without other workers of this server.
    pub fn other_nodes(&self) -> impl Iterator<Item = &Peer> {
        let setup = &self.core.setup;
        let nodes = setup.nodes.iter().flat_map(OtherNodes::iter);
        nodes.filter(|(number, _)| !setup.is_worker_node(*number)).map(|(_, peer)| peer)
    }

    /// Number of other nodes that run.
    #[must_use]
    pub fn nodes_alive(&self) -> usize {
        self.core.setup.nodes.as_ref().map_or(0, OtherNodes::alive)
    }

    /// Tells whether this is the address of a node.
    #[must_use]
    pub fn is_node(&self, address: IpAddr) -> bool {
        self.core.setup.nodes.as_ref().is_some_and(|nodes| nodes.is_node(address))
    }

    /// The local address for connections to this address: nodes know one another by their addresses.
    #[must_use]
    pub fn address_for(&self, peer: IpAddr) -> Option<IpAddr> {
        self.core.setup.nodes.as_ref()?.local_address_for(peer)
    }

    /// Number of connections whose end branches wait for.
    #[must_use]
    pub fn watched_connections(&self) -> usize {
        self.core.contexts.watched_connections()
    }

    /// Returns, once, the subscribers to be looked up, until [`looked_up`](Self::looked_up).
    pub fn wanted_subscribers(&mut self) -> Vec<Subscriber> {
        self.core.access.wanted_subscribers()
    }

    /// Number of requests that wait for a subscriber.
    #[must_use]
    pub const fn waiting_for_subscribers(&self) -> usize {
        self.core.access.waiting_for_subscribers()
    }

    /// Returns, once, the names whose servers are to be located, until [`located`](Self::located).
    pub fn wanted_servers(&mut self) -> Vec<Arc<Question>> {
        self.core.servers.take_wanted()
    }

    /// Counters of DNS queries and answers.
    #[must_use]
    pub const fn locate_counters(&self) -> &LocateCounters {
        self.core.servers.counters()
    }

    /// Number of names that are known, of questions under way, and of requests that wait for these.
    #[must_use]
    pub fn names(&self) -> (usize, usize, usize) {
        self.core.servers.counts()
    }

    /// The name that the certificate of a flow's peer has to prove.
    #[must_use]
    pub fn domain(&self, flow: &Flow) -> Option<&str> {
        self.core.servers.domain(flow)
    }

    /// Expires all answers of DNS: every name is asked for again.
    pub fn forget_servers(&mut self) {
        self.core.servers.expire();
    }
}
