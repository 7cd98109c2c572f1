//! REGISTER for one of the service's domains (RFC 3261 section 10.3). It has no server transaction: a retransmission finds the
//! outcome of its request, and is answered with the bindings as they are.

use std::collections::HashSet;

use crate::auth::Asking;
use crate::bindings::Binding;
use crate::codec::{HeaderName, Method, SipUri, StatusCode};
use crate::registrar::{Refusal, Registered, Request, has_flow_timer, write_error, write_ok};
use crate::transaction::{Numbers, Time};

use super::Service;
use super::answered::{Outcome, RequestKey};
use super::checks::Proof;
use super::incoming::Incoming;
use super::other_workers::Siblings;
use super::proofs::Scale;
use super::reply::{answer_flow, log_answer, noting};
use super::request::{GUESSES, NOT_YOURS, OTHER_RESOURCE};

/// Bytes of an address of record: stores have keys of this length.
const AOR_MAX: usize = 512;

/// A status and a phrase of our own.
type Verdict = (StatusCode, Option<&'static str>);

impl Service {
    /// REGISTER for one of our domains, which has no transaction; `None` for anything else.
    pub(super) fn register_here(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
    ) -> Option<Result<(), Verdict>> {
        if incoming.essentials.cseq.method != Method::Register {
            return None;
        }
        let mut way = self.way(&incoming.message, incoming.essentials).ok()?;
        way.asked = way.asked.filter(|_| self.is_from_node(&incoming.flow));
        if !self.is_for_us(&way) {
            return None;
        }
        if self.draining {
            self.refuse_for_now(incoming.flow, &incoming.message);
            return Some(Ok(()));
        }
        Some(self.on_register(now, incoming))
    }

    /// Is this the retransmission of a REGISTER that was answered?
    pub(super) fn is_answered(&self, incoming: &Incoming<'_>) -> bool {
        incoming.essentials.cseq.method == Method::Register
            && self.answered_key(incoming, Asking::Server).is_some_and(|key| self.answered.get(key).is_some())
    }

    /// Answers such a retransmission.
    pub(super) fn register_again(&mut self, now: Time, incoming: &Incoming<'_>) {
        if let Some(Err((code, reason))) = self.register_here(now, incoming) {
            self.answer(&incoming.message, incoming.flow, code, reason, None);
        }
    }

    /// REGISTER for one of our users.
    fn on_register(&mut self, now: Time, incoming: &Incoming<'_>) -> Result<(), Verdict> {
        let bad = (StatusCode::BAD_REQUEST, Some("Malformed To"));
        let uri = incoming.essentials.to.sip_uri().map_err(|_| bad)?;
        if !self.settings.is_domain(&uri.host, uri.port) {
            return Err((StatusCode::NOT_FOUND, Some("Not Our Domain")));
        }
        let key = self.answered_key(incoming, Asking::Server);
        let before = key.and_then(|key| self.answered.get(key));
        if !matches!(before, Some(Outcome::Proved | Outcome::Bound | Outcome::Refused(_))) {
            match self.prove(now, incoming, &uri, Asking::Server, key) {
                Proof::Given => self.note(now, key, Outcome::Proved),
                Proof::NotNeeded => {}
                Proof::Asked | Proof::Waits => return Ok(()),
                Proof::TooMany => return Err((StatusCode::SERVICE_UNAVAILABLE, None)),
                Proof::OfAnother => {
                    let (code, reason) = NOT_YOURS;
                    let refusal = Refusal::Status(code, reason.unwrap_or_default());
                    self.note(now, key, Outcome::Refused(refusal));
                    return Err(NOT_YOURS);
                }
                Proof::Guesses => return Err(GUESSES),
                Proof::OtherResource => return Err(OTHER_RESOURCE),
            }
        }
        if self.lacks(now, incoming, HeaderName::Require)? {
            return Ok(());
        }
        self.name(&uri);
        if self.aor.len() > AOR_MAX {
            return Err((StatusCode::FORBIDDEN, Some("Address Too Long")));
        }
        let flows = self.before_change(&self.aor, Some(&incoming.flow));
        let bound = self.bind(now, incoming, &uri, (key, before));
        let aor = core::mem::take(&mut self.aor);
        if self.locations.bindings(&aor).iter().any(|binding| binding.flow == incoming.flow) {
            self.replaced.is_used_again(&incoming.flow);
        }
        self.after_change(&aor, &flows);
        self.aor = aor;
        bound
    }

    fn note(&mut self, now: Time, key: Option<RequestKey>, outcome: Outcome) {
        if let Some(key) = key {
            self.answered.insert(now, key, outcome);
        }
    }

    /// Binds what a REGISTER asks for, unless that was done `before`, and answers it.
    fn bind(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        to: &SipUri<'_>,
        (key, before): (Option<RequestKey>, Option<Outcome>),
    ) -> Result<(), Verdict> {
        let Incoming { message, essentials, flow, .. } = incoming;
        self.locations.set_now(self.unix_ms(now));
        let gruus = self.settings.gives_gruus().then_some(&self.gruus);
        let unix_secs = self.unix_secs(now);
        let service_route = &self.settings.service_route;
        let stands = &stands(self.siblings.as_ref(), &self.connections);
        let request = Request {
            message: *message,
            essentials,
            to,
            flow: *flow,
            unix_secs,
            gruus,
            stands,
            service_route,
        };
        let result = match before {
            Some(Outcome::Bound) => Registered::Same,
            Some(Outcome::Refused(refusal)) => Registered::Refused(refusal),
            _ => self.registrar.register(&request, &self.aor, &mut self.locations, &mut self.journal),
        };
        if let Some(key) = key {
            self.answered.insert(now, key, result.into());
        }
        let to = answer_flow(*flow, Some(&essentials.via));
        let tag = self.tag(message, flow);
        if !matches!(result, Registered::Refused(_)) {
            self.counters.registered += 1;
            self.known.insert(now, flow);
        }
        if let Registered::Refused(refusal) = result {
            log_answer(message, flow, refusal.code(), None);
        }
        let mut scale = Scale::new(!self.is_proven(flow), &mut self.transactions, flow);
        let mut weighed = Ok(());
        // A repetition waits as well: what it repeats may not be durable yet.
        let waits = self.settings.durable && (self.unsettled || !self.journal.is_empty());
        let out = if waits { &mut self.held } else { &mut self.out };
        let bindings = self.locations.bindings(&self.aor);
        let asked = essentials.via.oc.then_some(&self.feedback);
        let is_bound = !matches!(result, Registered::Refused(_));
        if is_bound && flow.connection != 0 && has_flow_timer(&request, bindings) {
            self.timed.insert(flow.connection);
        }
        let written = out.write(to, None, |out| {
            let start = out.len();
            match result {
                Registered::Refused(refusal) => write_error(&request, refusal, &tag, out)?,
                Registered::Changed | Registered::Same => {
                    noting(asked, *flow, out, |out| write_ok(&request, bindings, &tag, out))?;
                }
            }
            weighed = scale.weigh(out.len() - start);
            weighed
        });
        // It is silent rather than sends somebody what was not asked for.
        match written {
            Err(_) if weighed.is_ok() => Err((StatusCode::BAD_REQUEST, None)),
            _ => Ok(()),
        }
    }
}

/// Tells whether the connection of a binding stands. Those of other workers and nodes are taken to.
fn stands<'a>(
    siblings: Option<&'a Siblings>,
    own: &'a HashSet<u64, Numbers>,
) -> impl Fn(&Binding) -> bool + 'a {
    move |binding| match siblings {
        _ if binding.origin.is_some() => true,
        Some(siblings) => siblings.stands(binding.flow.connection, own),
        None => own.contains(&binding.flow.connection),
    }
}
