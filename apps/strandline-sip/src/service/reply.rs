//! Responses of the service's own.

use bytes::BytesMut;

use crate::auth::Challenger;
use crate::codec::{HeaderName, Message, Method, Reply, StatusCode, Uri, Via, WriteError};
use crate::transaction::{Arriving, Flow, Outbox, Protocol, ServerId, Time, Transactions};

use super::context::Target;
use super::feedback::Feedback;
use super::incoming::{Incoming, Rejection};
use super::request_hashes::Tag;
use super::setup::Setup;
use super::source_validation::{AmplificationLimit, is_proven};

/// A header to add to a response.
pub(super) type Extra<'a> = Option<(HeaderName, &'a [u8])>;

/// The slot of transactions whose requests aren't forwarded: no context uses it.
const NO_CONTEXT: u64 = u64::MAX;

/// Maximum number of bytes of From that are logged.
const FROM_MAX: usize = 128;

/// Where the response to a request goes (RFC 3261 section 18.2.2, RFC 3581): back over its connection; or to
/// its source address, at the port of its Via, or at the source port if the Via has `rport`. `maddr` is not
/// followed: a sender could direct responses to others with it.
pub(super) fn answer_flow(flow: Flow, via: Option<&Via<'_>>) -> Flow {
    match via {
        Some(via) if !flow.protocol.is_reliable() && via.rport.is_none() => {
            // With the zone of a link-local address.
            let mut peer = flow.peer;
            peer.set_port(via.port.unwrap_or(Protocol::Udp.default_port()));
            Flow { peer, ..flow }
        }
        _ => flow,
    }
}

/// Writes a response.
pub(super) fn write(
    request: &Message<'_>,
    flow: Flow,
    code: StatusCode,
    reason: Option<&str>,
    extra: Extra<'_>,
    to_tag: &Tag,
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    let reason = reason.map(str::as_bytes);
    let to_tag = (code != StatusCode::TRYING).then_some(&to_tag[..]);
    let reply = Reply { to_tag, source: Some(flow.peer), reason, ..Reply::new(code) };
    let mut writer = reply.write(request, out);
    if let Some((name, value)) = extra {
        writer.header(name, value);
    }
    writer.finish(b"")
}

/// The reason phrase of a response of our own, if it isn't the usual one.
pub(super) fn reason(code: StatusCode) -> Option<&'static str> {
    match code {
        StatusCode::BAD_GATEWAY => Some("Unresolvable Destination"),
        StatusCode::SERVER_TIME_OUT => Some("No Answer From DNS"),
        _ => None,
    }
}

/// Logs a response of the service's own that refuses a request.
pub(super) fn log_answer(request: &Message<'_>, flow: &Flow, code: StatusCode, reason: Option<&str>) {
    if code.class() < 3 || !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let method = request.request_line().map_or(&b""[..], |line| line.method.as_bytes()).escape_ascii();
    let from = request.first_value(HeaderName::From);
    let from = from.get(..from.len().min(FROM_MAX)).unwrap_or(&[]).escape_ascii();
    let reason = reason.unwrap_or_else(|| code.reason());
    tracing::debug!(source = %flow.peer, %method, %from, code = code.code(), reason, "request refused");
}

/// Writes a response, with overload feedback in its Via if there is any.
pub(super) fn write_with_feedback<E>(
    feedback: Option<&Feedback>,
    flow: Flow,
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    write(out)?;
    if let Some(feedback) = feedback {
        feedback.note(flow.peer.ip(), false, out, start);
    }
    Ok(())
}

/// Responds to requests that aren't forwarded: a view that borrows the states that this involves.
pub(super) struct Responder<'a> {
    pub(super) now: Time,
    pub(super) setup: &'a Setup,
    pub(super) transactions: &'a mut Transactions,
    /// The overload feedback for clients.
    pub(super) feedback: &'a Feedback,
    pub(super) out: &'a mut Outbox,
    /// When an INVITE was last answered finally.
    pub(super) invite_answered_at: &'a mut Option<Time>,
    /// Whether the sender of the response that is forwarded is in the trust domain.
    pub(super) trusted: bool,
}

impl Responder<'_> {
    /// Begins the server transaction of a request that isn't forwarded. `None` if its credentials were not
    /// taken, so that it needs none, or if there are too many transactions.
    pub(super) fn begin(&mut self, incoming: &Incoming<'_>) -> Option<ServerId> {
        let back = answer_flow(incoming.flow, Some(&incoming.essentials.via));
        let server = self.transactions.begin_server(incoming.arriving?, back, None, NO_CONTEXT).ok()?;
        if incoming.unvalidated {
            self.transactions.take(server);
        }
        Some(server)
    }

    /// Responds to a request: within a transaction if its credentials were taken, so that a retransmission
    /// gets the same response (section 17.2), and otherwise without.
    pub(super) fn respond(
        &mut self,
        incoming: &Incoming<'_>,
        code: StatusCode,
        reason: Option<&str>,
        extra: Extra<'_>,
    ) {
        match self.begin(incoming) {
            Some(server) => self.respond_in_transaction(incoming, server, (code, reason, extra)),
            None => self.respond_statelessly(&incoming.message, incoming.flow, code, reason, extra),
        }
    }

    /// Responds to a request within its server transaction.
    pub(super) fn respond_in_transaction(
        &mut self,
        incoming: &Incoming<'_>,
        server: ServerId,
        (code, reason, extra): (StatusCode, Option<&str>, Extra<'_>),
    ) {
        let Incoming { message, essentials, flow, .. } = incoming;
        log_answer(message, flow, code, reason);
        let tag = self.setup.hashes.tag(message, flow);
        let feedback = essentials.via.oc.then_some(self.feedback);
        let written = self.transactions.respond(self.now, server, code, self.out, |out| {
            write_with_feedback(feedback, *flow, out, |out| {
                write(message, *flow, code, reason, extra, &tag, out)
            })
        });
        if let Err(error) = written {
            tracing::debug!(%error, "writing a response failed");
            self.transactions.forget_server(server);
        } else if essentials.cseq.method == Method::Invite {
            *self.invite_answered_at = Some(self.now);
        }
    }

    /// Responds to a request without a transaction.
    pub(super) fn respond_statelessly(
        &mut self,
        request: &Message<'_>,
        flow: Flow,
        code: StatusCode,
        reason: Option<&str>,
        extra: Extra<'_>,
    ) {
        if !request.is_answerable() {
            return;
        }
        log_answer(request, &flow, code, reason);
        let via = request.via().ok();
        let to = answer_flow(flow, via.as_ref());
        let tag = self.setup.hashes.tag(request, &flow);
        let feedback = via.is_some_and(|via| via.oc).then_some(self.feedback);
        let unvalidated = !is_proven(self.now, self.setup, self.transactions, &flow);
        let mut limit = AmplificationLimit::new(self.now, unvalidated, self.transactions, &flow);
        // A request whose headers can't be copied safely gets no response.
        let _ = self.out.write(to, None, |out| {
            let start = out.len();
            write_with_feedback(feedback, flow, out, |out| {
                write(request, flow, code, reason, extra, &tag, out)
            })?;
            limit.take(out.len() - start)
        });
    }

    /// Responds with 503 and a Retry-After.
    pub(super) fn refuse_for_now(&mut self, flow: Flow, request: &Message<'_>) {
        // A random value from 2 to 9 seconds spreads the retries.
        let [digit, ..] = self.setup.hashes.tag(request, &flow);
        let later = &[b'2' + digit % 8];
        let later = Some((HeaderName::RetryAfter, &later[..]));
        self.respond_statelessly(request, flow, StatusCode::SERVICE_UNAVAILABLE, None, later);
    }

    /// Challenges the sender of a request (section 22).
    pub(super) fn challenge(
        &mut self,
        incoming: &Incoming<'_>,
        challenger: Challenger,
        challenges: &[String],
    ) {
        let code = match challenger {
            Challenger::Server => StatusCode::UNAUTHORIZED,
            Challenger::Proxy => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        };
        let Incoming { message, flow, .. } = incoming;
        let to = answer_flow(*flow, Some(&incoming.essentials.via));
        let tag = self.setup.hashes.tag(message, flow);
        let reply = Reply { to_tag: Some(&tag), source: Some(flow.peer), ..Reply::new(code) };
        let unvalidated = !is_proven(self.now, self.setup, self.transactions, flow);
        let mut limit = AmplificationLimit::new(self.now, unvalidated, self.transactions, flow);
        let written = self.out.write(to, None, |out| {
            let start = out.len();
            let mut writer = reply.write(message, out);
            for challenge in challenges {
                writer.header(challenger.challenge(), challenge.as_bytes());
            }
            writer.finish(b"")?;
            limit.take(out.len() - start)
        });
        if let Err(error) = written {
            tracing::debug!(%error, "writing a challenge failed");
        }
    }

    /// Redirects a request to its targets with 302 (section 8.3). The response is repeated until its ACK, as
    /// all errors within transactions are.
    ///
    /// # Errors
    /// If there is nowhere to redirect it to, or there are too many transactions.
    pub(super) fn redirect(
        &mut self,
        incoming: &Incoming<'_>,
        arriving: Arriving,
        targets: &[Target],
    ) -> Result<(), Rejection> {
        let Incoming { message, essentials, flow, .. } = incoming;
        let own = message.request_line().map_or(&b""[..], |line| line.uri);
        let is_own = |uri: &[u8]| match (Uri::parse(uri), Uri::parse(own)) {
            (Ok(Uri::Sip(one)), Ok(Uri::Sip(other))) => one.matches(&other),
            _ => uri == own,
        };
        // All flows of a phone. A redirection to the request URI itself would be a loop.
        let all = targets.iter().flat_map(|target| core::iter::once(target).chain(&target.others));
        let all = all.filter_map(|target| Some((target.uri.as_deref()?, target.q)));
        let all: Vec<(&[u8], u16)> = all.filter(|(uri, _)| !is_own(uri)).collect();
        if all.is_empty() {
            return Err((StatusCode::NOT_FOUND, None));
        }
        let full = (StatusCode::SERVICE_UNAVAILABLE, None);
        let begun = Incoming { arriving: Some(arriving), ..*incoming };
        let server = self.begin(&begun).ok_or(full)?;
        let tag = self.setup.hashes.tag(message, flow);
        let code = StatusCode::MOVED_TEMPORARILY;
        let reply = Reply { to_tag: Some(&tag), source: Some(flow.peer), ..Reply::new(code) };
        let written = self.transactions.respond(self.now, server, code, self.out, |out| {
            let mut writer = reply.write(message, out);
            for (number, (uri, q)) in all.iter().enumerate() {
                let q = if *q > 1000 { 1000u16.saturating_sub(100 * number as u16) } else { *q };
                let q = format!(">;q={}.{:03}", q / 1000, q % 1000);
                writer.header(HeaderName::Contact, &[&b"<"[..], uri, q.as_bytes()].concat());
            }
            writer.finish(b"")
        });
        if let Err(error) = written {
            tracing::debug!(%error, "writing a redirect response failed");
            self.transactions.forget_server(server);
        } else if essentials.cseq.method == Method::Invite {
            *self.invite_answered_at = Some(self.now);
        }
        Ok(())
    }
}
