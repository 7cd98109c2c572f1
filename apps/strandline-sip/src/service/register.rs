//! REGISTER for one of the service's domains (RFC 3261 section 10.3). It has no server transaction: a
//! retransmission is recognised by the recorded outcome of its credentials, or without credentials by Call-ID
//! and CSeq of its binding, and answered with the present bindings.

use crate::auth::Challenger;
use crate::bindings::Binding;
use crate::codec::{HeaderName, Method, SipUri, StatusCode};
use crate::registrar::{Refusal, Registered, Request, has_flow_timer, write_error, write_ok};
use crate::transaction::Time;

use super::access::{Claim, NOT_YOURS};
use super::answered_requests::{Outcome, RequestKey};
use super::core::{Buffers, Core};
use super::incoming::{Incoming, Rejection};
use super::reply::{answer_flow, log_answer, write_with_feedback};
use super::request::Proof;
use super::source_validation::{AmplificationLimit, is_proven};

/// Maximum length of an address of record in bytes: stores have keys of this length.
const AOR_MAX: usize = 512;

impl Core {
    /// Handles REGISTER for one of our domains. Returns `None` for any other request.
    pub(super) fn handle_local_register(
        &mut self,
        buffers: &mut Buffers,
        now: Time,
        incoming: &Incoming<'_>,
    ) -> Option<Result<(), Rejection>> {
        if incoming.essentials.cseq.method != Method::Register {
            return None;
        }
        let mut route = self.setup.route_info(&incoming.message, incoming.essentials).ok()?;
        route.requested_flow = route.requested_flow.filter(|_| self.setup.is_from_node(&incoming.flow));
        if !self.setup.is_for_us(&route) {
            return None;
        }
        if self.setup.draining {
            self.responder(now).refuse_for_now(incoming.flow, &incoming.message);
            return Some(Ok(()));
        }
        Some(self.on_register(&mut buffers.aor, now, incoming))
    }

    /// Whether a request is the retransmission of a REGISTER that was answered.
    pub(super) fn is_answered_register(&self, incoming: &Incoming<'_>) -> bool {
        incoming.essentials.cseq.method == Method::Register
            && self.access.outcome(self.access.key(incoming, Challenger::Server)).is_some()
    }

    /// Responds to the retransmission of a REGISTER that was answered.
    pub(super) fn repeat_register_response(
        &mut self,
        buffers: &mut Buffers,
        now: Time,
        incoming: &Incoming<'_>,
    ) {
        if let Some(Err((code, reason))) = self.handle_local_register(buffers, now, incoming) {
            let Incoming { message, flow, .. } = incoming;
            self.responder(now).respond_statelessly(message, *flow, code, reason, None);
        }
    }

    /// Authenticates the sender of a REGISTER, changes the bindings, and records which flows were replaced.
    fn on_register(
        &mut self,
        aor: &mut Vec<u8>,
        now: Time,
        incoming: &Incoming<'_>,
    ) -> Result<(), Rejection> {
        let bad = (StatusCode::BAD_REQUEST, Some("Malformed To"));
        let uri = incoming.essentials.to.sip_uri().map_err(|_| bad)?;
        if !self.setup.settings.is_domain(&uri.host, uri.port) {
            return Err((StatusCode::NOT_FOUND, Some("Not Our Domain")));
        }
        let key = self.access.key(incoming, Challenger::Server);
        let before = self.access.outcome(key);
        if !matches!(before, Some(Outcome::Proved | Outcome::Bound | Outcome::Refused(_))) {
            match self.prove(now, incoming, Claim { uri: &uri, challenger: Challenger::Server, key }) {
                Proof::Given => self.access.set_outcome(now, key, Outcome::Proved),
                Proof::NotNeeded => {}
                Proof::Pending => return Ok(()),
                Proof::OtherUser => {
                    let (code, reason) = NOT_YOURS;
                    let refusal = Refusal::Status(code, reason.unwrap_or_default());
                    self.access.set_outcome(now, key, Outcome::Refused(refusal));
                    return Err(NOT_YOURS);
                }
                Proof::Refused(verdict) => return Err(verdict),
            }
        }
        if self.refuse_unsupported(now, incoming, HeaderName::Require)? {
            return Ok(());
        }
        self.setup.write_aor(&uri, aor);
        if aor.len() > AOR_MAX {
            return Err((StatusCode::FORBIDDEN, Some("Address Too Long")));
        }
        let flows = self.registrations.before_change(&self.setup, aor, Some(&incoming.flow));
        let bound = self.bind(aor, now, incoming, &uri, (key, before));
        let connections = &self.connections;
        let is_needed = |connection| connections.is_needed(connection);
        self.registrations.on_flow_used(aor, &incoming.flow);
        let replaced = self.registrations.on_change(&self.setup, aor, &flows, is_needed);
        self.close_replaced(replaced);
        bound
    }

    /// Changes the bindings as a REGISTER requests, unless that was done `before`, and responds to it.
    fn bind(
        &mut self,
        aor: &[u8],
        now: Time,
        incoming: &Incoming<'_>,
        to: &SipUri<'_>,
        (key, before): (Option<RequestKey>, Option<Outcome>),
    ) -> Result<(), Rejection> {
        let Self { setup, connections, registrations, transactions, output, .. } = self;
        let Incoming { message, essentials, flow, .. } = incoming;
        let is_connected =
            |one: &Binding| connections.stands(setup.workers.as_ref(), setup.nodes.as_ref(), one);
        let request = Request {
            message: *message,
            essentials,
            to,
            flow: *flow,
            unix_secs: setup.unix_secs(now),
            unix_ms: setup.unix_ms(now),
            gruus: setup.settings.gives_gruus().then_some(&setup.gruus),
            is_connected: &is_connected,
            service_route: &setup.settings.service_route,
        };
        let result = repeated_result(before)
            .unwrap_or_else(|| registrations.register(&request, aor, &mut output.journal));
        self.access.set_outcome(now, key, result.into());
        match result {
            Registered::Refused(refusal) => log_answer(message, flow, refusal.code(), None),
            Registered::Changed | Registered::Same => {
                self.counters.registered += 1;
                registrations.on_registered(now, flow);
            }
        }
        let bindings = registrations.locations.bindings(aor);
        let has_flow_timer = !matches!(result, Registered::Refused(_))
            && flow.connection != 0
            && has_flow_timer(&request, bindings);
        let tag = setup.hashes.tag(message, flow);
        let feedback = essentials.via.oc.then_some(&self.overload.feedback);
        let mut limit =
            AmplificationLimit::new(now, !is_proven(now, setup, transactions, flow), transactions, flow);
        let mut within_limit = Ok(());
        // The response to a retransmission is held too: the change of the first REGISTER may not be durable
        // yet.
        let held = setup.settings.durable && output.is_unsettled();
        let out = if held { &mut output.held } else { &mut output.out };
        let written = out.write(answer_flow(*flow, Some(&essentials.via)), None, |out| {
            let start = out.len();
            match result {
                Registered::Refused(refusal) => write_error(&request, refusal, &tag, out)?,
                Registered::Changed | Registered::Same => {
                    write_with_feedback(feedback, *flow, out, |out| write_ok(&request, bindings, &tag, out))?;
                }
            }
            within_limit = limit.take(out.len() - start);
            within_limit
        });
        if has_flow_timer {
            connections.set_flow_timer(flow.connection);
        }
        if !matches!(result, Registered::Refused(_)) {
            connections.identify(flow.connection);
        }
        // The source address may be spoofed, so its owner must not get a large response: no response is sent.
        match written {
            Err(_) if within_limit.is_ok() => Err((StatusCode::BAD_REQUEST, None)),
            _ => Ok(()),
        }
    }
}

/// Returns the result of a REGISTER that was processed before.
fn repeated_result(before: Option<Outcome>) -> Option<Registered> {
    match before? {
        Outcome::Bound => Some(Registered::Same),
        Outcome::Refused(refusal) => Some(Registered::Refused(refusal)),
        _ => None,
    }
}
