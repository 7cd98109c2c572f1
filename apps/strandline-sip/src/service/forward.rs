//! The beginning of a response context: a request is forwarded to its first targets (RFC 3261 section 16.6).

use std::sync::Arc;

use crate::codec::{Message, Method, StatusCode};
use crate::transaction::{Arriving, Flow, Protocol, ServerId, ViaBranch};

use super::branches::breadth;
use super::context::{Context, Destination, HOP_Q, INSTANCE_Q, StoredRequest, Target};
use super::copies::{BREADTH, ForwardSource, ForwardedCopy};
use super::incoming::Rejection;
use super::proxy::Proxy;
use super::reply::{self, answer_flow, reason};

/// Maximum number of bytes that are usually added to a request: a Via, Record-Routes, a Path.
const ADDED_MAX: usize = 500;

impl Proxy<'_> {
    /// Begins a server transaction and a response context, and sends the request to its first targets. These
    /// remain in `targets`.
    ///
    /// # Errors
    /// If there are too many transactions.
    pub(super) fn begin(
        &mut self,
        source: &ForwardSource<'_>,
        arriving: Arriving,
        targets: &mut Vec<Target>,
    ) -> Result<(), Rejection> {
        let full = (StatusCode::SERVICE_UNAVAILABLE, None);
        let incoming = source.incoming;
        let back = answer_flow(incoming.flow, Some(&incoming.essentials.via));
        // The slot of the context names the transaction.
        let slot = self.contexts.next_free();
        let server =
            self.transactions.begin_server(arriving, back, None, u64::from(slot)).map_err(|_| full)?;
        if incoming.unvalidated {
            self.transactions.take(server);
        }
        let context = self.context(source, server, targets);
        let invite = context.invite;
        if self.contexts.insert(context) != Some(slot) {
            self.transactions.forget_server(server);
            return Err(full);
        }
        if invite {
            self.transactions.trying(self.now, server, &incoming.message);
        }
        if let Err(code) = self.send_to_all(source, slot, targets) {
            self.give_up(slot, &incoming.message, incoming.flow, code);
        }
        Ok(())
    }

    /// Creates the response context of a request. It takes the later targets from `targets`, and stores the
    /// request if it may be needed again.
    fn context(&self, source: &ForwardSource<'_>, server: ServerId, targets: &mut Vec<Target>) -> Context {
        let ForwardSource { incoming, route, caller_host, .. } = source;
        let (message, flow) = (&incoming.message, incoming.flow);
        let invite = incoming.essentials.cseq.method == Method::Invite;
        let mut context = Context::new(server, invite);
        let first = targets.first().map_or(0, |target| target.q);
        context.hops = first >= HOP_Q;
        context.instance = (INSTANCE_Q..HOP_Q).contains(&first);
        context.callee = !context.hops && self.setup.is_for_callee(route);
        context.oc = incoming.essentials.via.oc;
        let group = targets.iter().take_while(|target| target.q == first).count();
        let is_named = targets.iter().any(|target| matches!(target.place, Destination::Name(_)));
        // If no target can be reached, the final response to a request other than INVITE is made from the
        // request, because no response was sent before.
        let may_be_unreachable = |target: &Target| match target.place {
            Destination::Flow(flow) => {
                (flow.connection == 0 && flow.protocol.is_reliable()) || self.setup.is_at_worker(&flow)
            }
            Destination::Name(_) => false,
        };
        let falls_back = targets.iter().any(|target| target.fallback.is_some() || !target.others.is_empty());
        let is_datagram = |target: &Target| {
            target.by_uri && matches!(target.place, Destination::Flow(flow) if flow.protocol == Protocol::Udp)
        };
        let max = self.setup.settings.udp_request_bytes_max;
        let may_be_large = may_be_too_large(message, max) && targets.iter().any(is_datagram);
        context.registers = self.setup.adds_path(incoming).then_some(flow);
        if group.min(breadth(message) as usize) < targets.len()
            || is_named
            || falls_back
            || may_be_large
            || (!invite && targets.iter().any(may_be_unreachable))
        {
            let of_targets = targets.iter().map(|target| size_of::<Target>() + target.bytes()).sum();
            context.later = targets.drain(group..).collect();
            let bytes = self.transactions.account().holder().hold(message.as_bytes()).and(of_targets);
            let (proved, caller_host) = (incoming.proved, *caller_host);
            context.request = Some(Arc::new(StoredRequest { bytes, flow, proved, caller_host }));
        }
        context
    }

    /// Responds to a request of which no copy could be sent.
    fn give_up(&mut self, slot: u32, message: &Message<'_>, flow: Flow, code: StatusCode) {
        if self.contexts.get(slot).is_some_and(|context| !context.later.is_empty()) {
            return self.conclude(slot);
        }
        let Some(context) = self.contexts.remove(slot) else { return };
        let tag = self.setup.hashes.tag(message, &flow);
        let _ = self.transactions.respond(self.now, context.server, code, self.out, |out| {
            reply::write(message, flow, code, reason(code), None, &tag, out)
        });
    }

    /// Forwards a request without a transaction. `uri` and `path` are those of its target.
    pub(super) fn forward_stateless(
        &mut self,
        source: &ForwardSource<'_>,
        flow: Flow,
        (uri, path): (Option<&[u8]>, &[u8]),
    ) {
        let stateless = self.setup.hashes.stateless_branch(source.incoming);
        let via_branch = ViaBranch { client: None, routing_hash: 0 }.write(stateless);
        let uri = uri.or(source.route.replaced);
        let (breadth, neighbour, by_uri) = (BREADTH, false, false);
        let copy =
            ForwardedCopy { uri, path, flow, via_branch: &via_branch, breadth, host: 0, neighbour, by_uri };
        let _ = self.out.write(flow, None, |out| self.setup.write_copy(source, &copy, out));
    }
}

/// Whether a request may be too large for a datagram once Via, Record-Route and Path are added. `max` is the
/// limit of a datagram; 0 for none.
fn may_be_too_large(message: &Message<'_>, max: usize) -> bool {
    max > 0 && message.as_bytes().len() + ADDED_MAX > max
}
