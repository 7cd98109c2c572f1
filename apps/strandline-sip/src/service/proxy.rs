//! The proxy of a shard (RFC 3261 section 16): a view on the states that forwarding touches.

use std::sync::Arc;

use crate::codec::{Index, Message};
use crate::resolution::Question;
use crate::transaction::{Flow, Outbox, Time, Transactions};

use super::Counters;
use super::connections::ConnectionBook;
use super::context::StoredRequest;
use super::contexts::Contexts;
use super::copies::ForwardSource;
use super::identity::trusts;
use super::incoming::Incoming;
use super::overload::Overload;
use super::reply::Responder;
use super::servers::{ResolvedFlows, Servers, Waiter};
use super::setup::Setup;

/// Forwards requests and responses.
///
/// `forward` begins a response context, `branches` sends its copies, `response` chooses the best response,
/// `branches` continues once DNS has answered.
pub(super) struct Proxy<'a> {
    pub(super) now: Time,
    pub(super) setup: &'a Setup,
    pub(super) transactions: &'a mut Transactions,
    pub(super) contexts: &'a mut Contexts,
    pub(super) connections: &'a mut ConnectionBook,
    pub(super) servers: &'a mut Servers,
    pub(super) overload: &'a mut Overload,
    pub(super) out: &'a mut Outbox,
    pub(super) counters: &'a mut Counters,
    /// When an INVITE was last answered finally.
    pub(super) invite_answered_at: &'a mut Option<Time>,
    /// Whether the sender of the response that is handled is in the trust domain.
    pub(super) trusted: bool,
}

impl Proxy<'_> {
    /// The flows to the servers of a name, chosen by `seed`. If they aren't known yet, the result of `waiter`
    /// waits for the answer.
    pub(super) fn flows_of(
        &mut self,
        question: &Arc<Question>,
        seed: u64,
        waiter: impl FnOnce() -> Waiter,
    ) -> ResolvedFlows {
        let host_hash = |question: &Question| self.setup.tokens.host_hash(question.name.as_bytes());
        self.servers.flows_of(self.now, question, self.setup.settings.names_max, seed, host_hash, waiter)
    }

    /// Records that a server could not be reached or is busy: for a while others are tried before it.
    pub(super) fn deprioritize(&mut self, flow: &Flow, retry_after_secs: Option<u32>) {
        self.servers.on_failed(self.now, flow, retry_after_secs);
    }

    /// The view that responds to the clients of forwarded requests.
    pub(super) fn responder(&mut self) -> Responder<'_> {
        Responder {
            now: self.now,
            setup: self.setup,
            transactions: self.transactions,
            feedback: &self.overload.feedback,
            out: self.out,
            invite_answered_at: self.invite_answered_at,
            trusted: self.trusted,
        }
    }

    /// Parses a stored request again and passes it to `work`. `None` if it can't be parsed.
    pub(super) fn with_stored<T>(
        &mut self,
        stored: &StoredRequest,
        work: impl FnOnce(&mut Self, &ForwardSource<'_>) -> T,
    ) -> Option<T> {
        let mut index = Index::with_limits(self.setup.settings.message);
        let message = Message::parse(&stored.bytes, &mut index).ok()?;
        let essentials = message.essentials().ok()?;
        let route = self.setup.route_info(&message, &essentials).ok()?;
        let StoredRequest { flow, proved, caller_host, .. } = *stored;
        let incoming = Incoming { proved, ..Incoming::new(message, &essentials, flow) };
        let routing_hash = self.setup.hashes.routing_hash(&incoming);
        let trusted = trusts(self.setup, &incoming.flow, self.connections);
        Some(work(
            self,
            &ForwardSource { incoming: &incoming, route: &route, routing_hash, caller_host, trusted },
        ))
    }
}
