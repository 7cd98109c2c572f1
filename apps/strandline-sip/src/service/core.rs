//! The core of a service: its states, and the procedures that combine them.
//!
//! The states don't know each other. Each takes the time and plain values and returns an outcome. How the
//! outcome of one affects another is decided here, in `request`, `register` and the views [`Router`],
//! [`Responder`] and [`Proxy`].

use siphasher::sip::SipHasher13;

use crate::bindings::Locations;
use crate::codec::{Error, HeaderName, Index, Message, StatusCode};
use crate::registrar::Registrar;
use crate::transaction::{Flow, Received, Time, Transactions};

use super::access::Access;
use super::answered_requests::Answered;
use super::connections::ConnectionBook;
use super::context::Target;
use super::contexts::Contexts;
use super::incoming::Incoming;
use super::output::Output;
use super::overload::Overload;
use super::proxy::Proxy;
use super::registrations::Registrations;
use super::reply::Responder;
use super::router::Router;
use super::servers::Servers;
use super::settings::Settings;
use super::setup::Setup;
use super::source_validation;
use super::subscriber_queries::{Purpose, Waiting};
use super::{Counters, Seeds};

/// Retry-After of a 503 to a request whose subscriber could not be looked up.
const SUBSCRIBER_RETRY_AFTER_SECS: &[u8] = b"10";

/// Buffers that are reused for each message.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) index: Index,
    pub(super) buffers: Buffers,
}

/// Buffers of a request.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// An address of record.
    pub(super) aor: Vec<u8>,
    pub(super) targets: Vec<Target>,
}

/// The states of a service.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) setup: Setup,
    pub(super) transactions: Transactions,
    pub(super) connections: ConnectionBook,
    pub(super) registrations: Registrations,
    pub(super) access: Access,
    pub(super) contexts: Contexts,
    pub(super) servers: Servers,
    pub(super) overload: Overload,
    pub(super) output: Output,
    pub(super) counters: Counters,
    /// When an INVITE was last answered finally: an ACK follows.
    pub(super) invite_answered_at: Option<Time>,
}

impl Core {
    pub(super) fn new(settings: Settings, seeds: &Seeds, epoch_unix_secs: u64) -> Self {
        let hasher = SipHasher13::new_with_key(&seeds.marks);
        let locations = Locations::new(settings.users_max, seeds.locations);
        let registrar = Registrar::new(settings.registrar);
        Self {
            transactions: Transactions::new(settings.timings, settings.limits, seeds.transactions),
            connections: ConnectionBook::default(),
            registrations: Registrations::new(locations, registrar, seeds.registrations),
            access: Access::new(Answered::new(hasher)),
            contexts: Contexts::new(settings.limits.servers_max),
            servers: Servers::default(),
            overload: Overload::new(epoch_unix_secs, u64::from_le_bytes(seeds.overload)),
            output: Output::new(settings.durable),
            counters: Counters::default(),
            invite_answered_at: None,
            setup: Setup::new(settings, seeds, hasher, epoch_unix_secs),
        }
    }

    pub(super) fn router(&self, now: Time) -> Router<'_> {
        Router {
            now,
            setup: &self.setup,
            connections: &self.connections,
            locations: &self.registrations.locations,
            replaced: &self.registrations.replaced,
            servers: &self.servers,
        }
    }

    pub(super) fn responder(&mut self, now: Time) -> Responder<'_> {
        Responder {
            now,
            setup: &self.setup,
            transactions: &mut self.transactions,
            feedback: &self.overload.feedback,
            out: &mut self.output.out,
            invite_answered_at: &mut self.invite_answered_at,
            trusted: false,
        }
    }

    pub(super) fn proxy(&mut self, now: Time) -> Proxy<'_> {
        self.proxy_for_response(now, false)
    }

    /// The view that handles a response. `trusted`: whether its sender is in the trust domain.
    pub(super) fn proxy_for_response(&mut self, now: Time, trusted: bool) -> Proxy<'_> {
        Proxy {
            now,
            setup: &self.setup,
            transactions: &mut self.transactions,
            contexts: &mut self.contexts,
            connections: &mut self.connections,
            servers: &mut self.servers,
            overload: &mut self.overload,
            out: &mut self.output.out,
            counters: &mut self.counters,
            invite_answered_at: &mut self.invite_answered_at,
            trusted,
        }
    }

    /// Responds to a request at the front of a stream whose end can't be found, if possible.
    pub(super) fn handle_unframed(
        &mut self,
        index: &mut Index,
        now: Time,
        flow: Flow,
        bytes: &[u8],
        error: Error,
    ) {
        self.counters.malformed += 1;
        let request = match Message::parse(bytes, index) {
            Ok(message) => Some(message),
            Err(rejected) => rejected.answerable(),
        };
        if let Some(request) = request {
            let reason = Some(error.kind.text());
            self.responder(now).respond_statelessly(&request, flow, error.status(), reason, None);
        }
        self.proxy(now).on_events();
    }

    /// Handles a connection that has closed: bindings that depend on it go too.
    pub(super) fn connection_closed(&mut self, connection: u64) {
        self.connections.close(connection);
        self.contexts.on_connection_ended(connection);
        if self.setup.workers.is_some() {
            self.output.closed.push(connection);
        }
        self.registrations.connection_closed(connection, &mut self.output.journal);
    }

    /// Requests the closing of replaced connections that are open here.
    pub(super) fn close_replaced(&mut self, replaced: Vec<Flow>) {
        let connections = &mut self.connections;
        self.output.replaced.extend(replaced.into_iter().filter(|flow| connections.abandon(flow.connection)));
    }

    /// Takes a user's bindings from the store, of another node if that has a name. Returns the number of
    /// lines that can't be read.
    pub(super) fn load(&mut self, node: &str, aor: &[u8], state: &[u8]) -> usize {
        match self.setup.nodes {
            Some(_) => self.merge(node, aor, state),
            None => self.registrations.load(aor, state),
        }
    }

    /// Merges the present bindings of a user at a node. Returns the number of unreadable lines.
    pub(super) fn merge(&mut self, node: &str, aor: &[u8], state: &[u8]) -> usize {
        let connections = &self.connections;
        let is_open = |connection| connections.is_open(connection);
        let is_needed = |connection| connections.is_needed(connection);
        let number = if node.is_empty() { 0 } else { self.registrations.locations.node(node) };
        let (unreadable, replaced) = self.registrations.merge(
            &self.setup,
            number,
            (aor, state),
            &mut self.output.journal,
            (is_open, is_needed),
        );
        self.close_replaced(replaced);
        unreadable
    }

    /// Refuses a new request with 503 because of overload.
    pub(super) fn reject(&mut self, scratch: &mut Scratch, now: Time, flow: Flow, bytes: &[u8]) {
        self.counters.refused += 1;
        let Ok(request) = Message::parse(bytes, &mut scratch.index) else { return };
        let Ok(essentials) = request.essentials() else { return };
        let unvalidated =
            source_validation::credit(now, &self.setup, &mut self.transactions, &flow, &request);
        let incoming = Incoming { unvalidated, ..Incoming::new(request, &essentials, flow) };
        match self.transactions.receive_request(now, &request, &essentials, &mut self.output.out) {
            Received::New(_) if self.is_answered_register(&incoming) => {
                self.repeat_register_response(&mut scratch.buffers, now, &incoming);
            }
            Received::New(_) => {
                if essentials.via.oc {
                    self.overload.feedback.on_request(now, flow.peer.ip(), &essentials.via);
                }
                self.responder(now).refuse_for_now(flow, &request);
            }
            Received::Absorbed | Received::Acknowledged(_) | Received::Cancel(_) | Received::Ack => {}
        }
    }

    /// Refuses a request that has waited for the look-up of a subscriber. `is_absent`: whether there is no
    /// such subscriber.
    pub(super) fn refuse_waiting(
        &mut self,
        index: &mut Index,
        now: Time,
        waiting: &Waiting,
        is_absent: bool,
    ) {
        let (code, later) = match waiting.purpose {
            Purpose::Proof => {
                (StatusCode::SERVICE_UNAVAILABLE, Some((HeaderName::RetryAfter, SUBSCRIBER_RETRY_AFTER_SECS)))
            }
            Purpose::Callee if is_absent => (StatusCode::NOT_FOUND, None),
            // Also if the look-up failed: after 503 clients would avoid this server.
            Purpose::Callee => (StatusCode::TEMPORARILY_UNAVAILABLE, None),
        };
        let Ok(message) = Message::parse(&waiting.bytes, index) else { return };
        let flow = waiting.flow;
        match (waiting.server, message.essentials()) {
            (Some(server), Ok(essentials)) => {
                let incoming = Incoming::new(message, &essentials, flow);
                self.responder(now).respond_in_transaction(&incoming, server, (code, None, later));
            }
            _ => self.responder(now).respond_statelessly(&message, flow, code, None, later),
        }
    }

    /// Handles expired timers.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.transactions.handle_timeout(now, &mut self.output.out);
        self.proxy(now).handle_timeout();
    }
}
