//! Responses that could not be sent over their flows (RFC 3261 section 18.2.2, RFC 3263 section 5).

use core::net::SocketAddr;
use std::sync::Arc;

use crate::codec::{Host, Message};
use crate::resolution::Question;
use crate::transaction::{Account, Flow, Holder, Outbox};

use super::proxy::Proxy;
use super::servers::{ResolvedFlows, Waiter};

impl Proxy<'_> {
    /// Sends a response that could not be sent over its flow: to the address of RFC 3261 section 18.2.2, and
    /// if that can't be reached either, to the servers of the name in its Via (RFC 3263 section 5).
    pub(super) fn on_response_failed(&mut self, flow: &Flow, response: &Message<'_>) {
        let bytes = response.as_bytes();
        let Ok(via) = response.via() else { return };
        let port = via.port.unwrap_or(flow.protocol.default_port());
        let first = via.received.or(via.host.ip()).map(|address| SocketAddr::new(address, port));
        match first {
            Some(first) if flow.connection != 0 && !flow.protocol.is_websocket() => {
                self.out.push(Flow::to(flow.protocol, first), None, bytes);
            }
            // It was already sent to a server of the name.
            None if flow.connection == 0 => {}
            Some(first) if flow.connection == 0 && flow.peer != first => {}
            _ => self.resolve_for_response(flow, &via.host, via.port, bytes),
        }
    }

    fn resolve_for_response(&mut self, flow: &Flow, host: &Host<'_>, port: Option<u16>, bytes: &[u8]) {
        let question =
            Question::of_response(host, port, flow.protocol).filter(|_| self.setup.settings.names_max > 0);
        let Some(question) = question.map(Arc::new) else { return };
        let failed = flow.peer;
        let (holder, held) = room_to_wait(self.transactions.account(), bytes);
        let waiter = || Waiter::Response { failed, bytes: holder.hold(held) };
        if let ResolvedFlows::Flows(flows) = self.flows_of(&question, 0, waiter) {
            send_response(self.out, &flows, failed, bytes);
        }
    }

    /// Sends a response that has waited for a name.
    pub(super) fn on_response_resolved(
        &mut self,
        question: &Arc<Question>,
        failed: SocketAddr,
        bytes: &[u8],
    ) {
        let holder = self.transactions.account().holder().clone();
        let waiter = || Waiter::Response { failed, bytes: holder.hold(&[]) };
        if let ResolvedFlows::Flows(flows) = self.flows_of(question, 0, waiter)
            && !bytes.is_empty()
        {
            send_response(self.out, &flows, failed, bytes);
        }
    }
}

/// Returns the memory account for a message that may have to wait for DNS, and the message: empty if there is
/// no room for it.
pub(super) fn room_to_wait<'a>(account: &Account, bytes: &'a [u8]) -> (Holder, &'a [u8]) {
    (account.holder().clone(), if account.has_room(bytes.len()) { bytes } else { &[] })
}

/// Sends a response to the first server other than the one that could not be reached.
fn send_response(out: &mut Outbox, flows: &[Flow], failed: SocketAddr, bytes: &[u8]) {
    if let Some(flow) = flows.iter().find(|flow| flow.peer != failed) {
        out.push(*flow, None, bytes);
    }
}
