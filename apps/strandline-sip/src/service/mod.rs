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
mod answered_requests;
mod branches;
mod connections;
mod context;
mod contexts;
mod copies;
mod core;
mod directory;
mod edge_proxy;
mod ended_flows;
mod failed_responses;
mod feedback;
mod forward;
mod forward_response;
mod identity;
mod incoming;
mod name_waits;
mod next_hop;
mod nodes;
mod offer;
mod offers;
mod output;
mod overload;
mod proxy;
mod record_routes;
mod refusal_log;
mod register;
mod registered_flows;
mod registrations;
mod replaced_flows;
mod reply;
mod request;
mod request_hashes;
mod response;
mod route;
mod router;
mod routing;
mod servers;
mod settings;
mod setup;
mod source_validation;
mod strict_routers;
mod subscriber_queries;
mod targets;
mod throttle;
mod token;
mod workers;

use std::sync::Arc;
use std::time::Duration;

use crate::auth::{Secret, Subscriber};
use crate::bindings::{Binding, Nodes};
use crate::codec::{Error, Index, Message};
use crate::registrar::Registrar;
use crate::resolution::{Answer, Question};
use crate::transaction::{ClientId, Flow, Time, Transactions};

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
pub(crate) use refusal_log::RefusedLog;
pub use registrations::Registrations;
use request::Arrival;
use servers::Waiter;
pub use servers::{NameCounters, Servers};
pub(crate) use settings::contains;
pub use settings::{Advertised, Mode, Relay, Settings, Trusted};
pub use setup::Setup;
use subscriber_queries::Purpose;
pub use throttle::ThrottleCounters;
pub use token::{End, Token, Tokens};
pub use workers::Misdirected;
use workers::Workers;

/// Counters of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Requests that were received.
    pub requests: u64,
    /// Responses that were received.
    pub responses: u64,
    /// Messages that are malformed or unusable.
    pub malformed: u64,
    /// REGISTERs that were answered with 200.
    pub registered: u64,
    /// Requests that were forwarded.
    pub forwarded: u64,
    /// Calls that were answered with a 2xx.
    pub calls: u64,
    /// Requests that were refused because of overload.
    pub refused: u64,
    /// Requests that were refused, or copies that were not sent, for lack of memory.
    pub crowded: u64,
}

/// Random keys, each for one purpose.
#[derive(Clone)]
pub struct Seeds {
    /// For branches and tags of transactions.
    pub transactions: [u8; 32],
    /// For hashes of registered flows.
    pub registrations: [u8; 16],
    /// For hashes of addresses of record.
    pub locations: [u8; 16],
    /// For the choices of overload control.
    pub overload: [u8; 8],
    /// For temporary GRUUs. It must never be reused.
    pub gruus: [u8; 32],
    /// For tags and loop detection: common to all processes of a server.
    pub marks: [u8; 16],
    /// For flow tokens. They must be the same after a restart.
    pub tokens: [u8; 16],
}

impl Seeds {
    /// Seeds in which every byte is the same, for tests.
    #[must_use]
    pub const fn repeated(byte: u8) -> Self {
        Self {
            transactions: [byte; 32],
            registrations: [byte; 16],
            locations: [byte; 16],
            overload: [byte; 8],
            gruus: [byte; 32],
            marks: [byte; 16],
            tokens: [byte; 16],
        }
    }
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
/// [`send_failed`](Self::send_failed). Out: [`output`](Self::output), of which [`held`](Output::held) is to
/// be sent once [`journal`](Output::journal) is durable.
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

    /// Handles a message that another worker has received and that belongs to this one. `first` is that
    /// worker.
    pub fn handle_misdirected(&mut self, now: Time, flow: Flow, first: u8, bytes: &[u8]) {
        self.core.handle(&mut self.scratch, now, flow, bytes, Arrival::Worker(first));
    }

    /// Handles a message at the front of a stream whose end can't be found: a request is answered if
    /// possible.
    pub fn handle_unframed(&mut self, now: Time, flow: Flow, bytes: &[u8], error: Error) {
        self.core.handle_unframed(&mut self.scratch.index, now, flow, bytes, error);
    }

    /// Answers a new request with 503 because of overload. A request that belongs to a transaction, such as a
    /// retransmission, is handled normally.
    pub fn reject(&mut self, now: Time, flow: Flow, bytes: &[u8]) {
        self.core.reject(&mut self.scratch, now, flow, bytes);
    }

    /// Handles the answer to a query that [`Servers::take_wanted`] returned, and continues the messages that
    /// waited for it.
    pub fn handle_dns_answer(&mut self, now: Time, question: &Arc<Question>, answer: Answer) {
        for waiter in self.core.servers.on_answer(now, question, answer) {
            match waiter {
                Waiter::Branch { branch, server } => {
                    if self.core.contexts.of_server(branch.slot, server).is_some() {
                        self.core.proxy(now).on_branch_resolved(branch, question);
                    }
                }
                Waiter::Message { bytes, .. } if bytes.is_empty() => {}
                Waiter::Message { flow, bytes } => {
                    self.core.handle(&mut self.scratch, now, flow, &bytes, Arrival::Resumed);
                }
                Waiter::Response { failed, bytes } => {
                    self.core.proxy(now).on_response_resolved(question, failed, &bytes);
                }
            }
        }
        self.core.proxy(now).on_events();
    }

    /// Handles the look-up of a subscriber that [`Access::take_wanted`] returned: `None` if the look-up
    /// failed, `Some(None)` if there is no such subscriber. Requests that waited for it continue.
    pub fn handle_subscriber(&mut self, now: Time, who: Subscriber, found: Option<Option<Secret>>) {
        let is_absent = found.as_ref().is_some_and(Option::is_none);
        let (waiting, is_known) = self.core.access.on_subscriber(now, who, found);
        for waiting in waiting {
            if is_known && waiting.purpose == Purpose::Proof {
                self.core.handle(&mut self.scratch, now, waiting.flow, &waiting.bytes, Arrival::Resumed);
            } else {
                self.core.refuse_waiting(&mut self.scratch.index, now, &waiting, is_absent);
            }
        }
    }

    /// Handles a response that could not be sent over its flow: it is sent to another address if possible.
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
        let Core { transactions, contexts, servers, .. } = &mut self.core;
        let deadlines =
            [transactions.next_deadline(), contexts.next_deadline(), servers.waits.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Time) {
        self.core.handle_timeout(now);
    }

    /// Removes expired bindings of some of the users. Call it regularly.
    pub fn sweep(&mut self, now: Time, users: u32) {
        let unix_secs = self.core.setup.unix_secs(now);
        self.core.registrations.locations.sweep(users, unix_secs, &mut self.core.output.journal);
    }

    /// Records that a connection or an association is open.
    pub fn connection_opened(&mut self, connection: u64) {
        self.core.connections.open(connection);
    }

    /// Handles a connection or an association that has closed. Bindings that depend on it go too.
    pub fn connection_closed(&mut self, connection: u64) {
        self.core.connection_closed(connection);
    }

    /// Handles the end of another worker's connection, over which this worker may have sent requests.
    pub fn worker_connection_closed(&mut self, connection: u64) {
        self.core.contexts.on_connection_ended(connection);
    }

    /// Maximum time without input before a connection counts as dead: 1.25 times its phone's Flow-Timer (RFC
    /// 5626 section 4.4.1); `idle` if no phone is reached over it; otherwise no limit.
    #[must_use]
    pub fn silence_max(&self, connection: u64, idle: Option<Duration>) -> Option<Duration> {
        let has_bindings = || self.core.registrations.locations.uses(connection);
        self.core.connections.silence_max(connection, idle, has_bindings)
    }

    /// Whether a connection or an association is open, here or at another worker.
    #[must_use]
    pub fn is_open(&self, connection: u64) -> bool {
        let workers = self.core.setup.workers.as_ref();
        self.core.connections.is_open_anywhere(workers, connection)
    }

    /// Applies new settings. Its addresses, timers, limits of users and transactions, and whether bindings
    /// are durable stay as they are.
    pub fn configure(&mut self, new: &Settings) {
        self.core.setup.configure(new);
        self.core.registrations.registrar = Registrar::new(new.registrar);
        self.scratch.index = Index::with_limits(new.message);
    }

    /// Makes the service one of several nodes, with a name and optionally an address for the others.
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

    /// Makes the service one of several workers, whose nodes have these names. Call it after
    /// [`join`](Self::join).
    pub fn set_workers(&mut self, own: u8, names: &[String]) {
        self.core.transactions.set_worker(own);
        let locations = &mut self.core.registrations.locations;
        let nodes = names.iter().map(|name| locations.node(name)).filter(|node| *node != 0).collect();
        self.core.setup.workers = Some(Workers::new(own, nodes));
    }

    /// Loads a user's bindings from the store, at the start or after a change; those of another node if
    /// `node` isn't empty. Returns the number of lines that can't be read.
    pub fn load(&mut self, node: &str, aor: &[u8], state: &[u8]) -> usize {
        self.core.load(node, aor, state)
    }

    /// Removes a node's bindings, before they are all loaded again.
    pub fn forget_node(&mut self, node: &str) {
        let locations = &mut self.core.registrations.locations;
        match locations.node(node) {
            0 => {}
            number => locations.forget_node(number),
        }
    }

    /// Removes the bindings of a user, or only that of `contact`, at all nodes, and returns them.
    pub fn unbind(&mut self, now: Time, aor: &[u8], contact: Option<&[u8]>) -> Vec<Binding> {
        let Core { setup, registrations, output, .. } = &mut self.core;
        registrations.unbind(setup.unix_ms(now), aor, contact, &mut output.journal)
    }
}

/// Its states.
impl Service {
    /// The pending output.
    #[must_use]
    pub const fn output(&self) -> &Output {
        &self.core.output
    }

    /// The pending output, to be carried out and removed.
    pub const fn output_mut(&mut self) -> &mut Output {
        &mut self.core.output
    }

    /// Its counters.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.core.counters
    }

    /// Its settings and keys, and the nodes and workers that it works with.
    #[must_use]
    pub const fn setup(&self) -> &Setup {
        &self.core.setup
    }

    /// Its settings, to be changed while it runs.
    pub const fn setup_mut(&mut self) -> &mut Setup {
        &mut self.core.setup
    }

    /// Open connections, to note what their peers have proved.
    pub const fn connections_mut(&mut self) -> &mut ConnectionBook {
        &mut self.core.connections
    }

    /// Users, their bindings and their flows.
    #[must_use]
    pub const fn registrations(&self) -> &Registrations {
        &self.core.registrations
    }

    /// Authentication.
    #[must_use]
    pub const fn access(&self) -> &Access {
        &self.core.access
    }

    /// Authentication: the authenticator to be set, and subscribers to be looked up.
    pub const fn access_mut(&mut self) -> &mut Access {
        &mut self.core.access
    }

    /// Transactions.
    #[must_use]
    pub const fn transactions(&self) -> &Transactions {
        &self.core.transactions
    }

    /// Forwarded requests.
    #[must_use]
    pub const fn contexts(&self) -> &Contexts {
        &self.core.contexts
    }

    /// Names of other hosts and their servers.
    #[must_use]
    pub const fn servers(&self) -> &Servers {
        &self.core.servers
    }

    /// Names of other hosts, to be located.
    pub const fn servers_mut(&mut self) -> &mut Servers {
        &mut self.core.servers
    }

    /// Overload control.
    #[must_use]
    pub const fn overload(&self) -> &Overload {
        &self.core.overload
    }

    /// Overload control, for updating the load.
    pub const fn overload_mut(&mut self) -> &mut Overload {
        &mut self.core.overload
    }

    /// Whether an ACK may follow: for 4 T1 after the last final response to an INVITE, so that a 2xx over UDP
    /// can be sent twice more.
    #[must_use]
    pub fn awaits_ack(&self, now: Time) -> bool {
        let recent = self.core.transactions.timings().t1.saturating_mul(4);
        self.core.invite_answered_at.is_some_and(|at| now < at + recent)
    }
}

/// Whether the peer of a connection or an association is served: a phone has registered over it, a request was
/// authenticated, a call was set up, or the peer is a trusted neighbour. All others are strangers, which make
/// way when there are too many.
#[must_use]
pub fn is_identified(service: &Service, connection: u64) -> bool {
    let Core { connections, registrations, .. } = &service.core;
    connections.is_identified(connection) || registrations.locations.uses(connection)
}
