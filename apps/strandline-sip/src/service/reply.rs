//! Answers of the service's own.

use core::hash::Hasher;
use core::net::IpAddr;

use bytes::BytesMut;

use crate::codec::{HeaderName, Message, Method, Reply, StatusCode, Via, WriteError};
use crate::transaction::{Flow, ServerId, Time, hex};

use super::Service;
use super::feedback::Feedback;
use super::incoming::Incoming;
use super::proofs::Scale;

/// A header to add to an answer.
pub(super) type Extra<'a> = Option<(HeaderName, &'a [u8])>;

/// Names a transaction whose request goes nowhere: no context has this slot.
const NO_CONTEXT: u64 = u64::MAX;

/// Bytes of From that are logged.
const FROM_MAX: usize = 128;

/// A tag as text.
pub(super) type Tag = [u8; 16];

/// Where the answer to a request goes (RFC 3261 section 18.2.2, RFC 3581): back over its connection; or to the address
/// that it came from, at the port that its Via names unless that asks for the one it came from. `maddr` is not followed: it
/// would send answers to whom the sender likes.
pub(super) fn answer_flow(flow: Flow, via: Option<&Via<'_>>) -> Flow {
    match via {
        Some(via) if !flow.protocol.is_reliable() && via.rport.is_none() => {
            // With the zone of a link-local address.
            let mut peer = flow.peer;
            peer.set_port(via.port.unwrap_or(5060));
            Flow { peer, ..flow }
        }
        _ => flow,
    }
}

/// Writes an answer.
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

/// Logs an answer of the service's own that refuses a request.
pub(super) fn log_answer(request: &Message<'_>, flow: &Flow, code: StatusCode, reason: Option<&str>) {
    if code.class() < 3 || !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let method = request.request_line().map_or(&b""[..], |line| line.method.as_bytes()).escape_ascii();
    let from = request.first_value(HeaderName::From);
    let from = from.get(..from.len().min(FROM_MAX)).unwrap_or(&[]).escape_ascii();
    let reason = reason.unwrap_or_else(|| code.reason());
    tracing::debug!(source = %flow.peer, %method, %from, code = code.code(), reason, "answered");
}

/// Writes a response, and into it what there is to tell whoever `asked` how much it may send.
pub(super) fn noting<E>(
    asked: Option<&Feedback>,
    flow: Flow,
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    write(out)?;
    if let Some(feedback) = asked {
        feedback.note(flow.peer.ip(), false, out, start);
    }
    Ok(())
}

impl Service {
    /// The tag of To in answers to a request: the same for each retransmission, and told again from its ACK (section 8.2.7), whose
    /// method is another. Who knows it gets what is sent to that address.
    pub(super) fn tag(&self, request: &Message<'_>, flow: &Flow) -> Tag {
        let mut hasher = self.hasher;
        // Nothing else is hashed that could be taken for this.
        match flow.peer.ip().to_canonical() {
            IpAddr::V4(address) => {
                hasher.write(b"tag4");
                hasher.write_u32(address.to_bits());
            }
            IpAddr::V6(address) => {
                hasher.write(b"tag6");
                hasher.write(&address.octets());
            }
        }
        for name in [HeaderName::CallId, HeaderName::From] {
            hasher.write(request.first_value(name));
        }
        let cseq = request.first_value(HeaderName::CSeq);
        hasher.write(cseq.split(u8::is_ascii_whitespace).next().unwrap_or(&[]));
        hex(hasher.finish())
    }

    /// The same when the request isn't at hand any more: no other transaction has it.
    pub(super) fn tag_of(&self, server: ServerId) -> Tag {
        let mut hasher = self.hasher;
        hasher.write(b"server");
        hasher.write_u32(server.slot);
        hasher.write_u32(server.generation);
        hex(hasher.finish())
    }

    /// Begins the server transaction of a request that goes nowhere. `None` if its credentials were not taken, so that it needs none,
    /// or if there are too many transactions.
    pub(super) fn begin_answer(&mut self, incoming: &Incoming<'_>) -> Option<ServerId> {
        let back = answer_flow(incoming.flow, Some(&incoming.essentials.via));
        let server = self.transactions.begin_server(incoming.arriving?, back, None, NO_CONTEXT).ok()?;
        if incoming.weighed {
            self.transactions.weigh(server);
        }
        Some(server)
    }

    /// Answers a request that goes nowhere: within a transaction if its credentials were taken, so that a retransmission gets the
    /// same answer (section 17.2), and else without.
    pub(super) fn answer_last(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        code: StatusCode,
        reason: Option<&str>,
        extra: Extra<'_>,
    ) {
        match self.begin_answer(incoming) {
            Some(server) => self.answer_begun(now, incoming, server, (code, reason, extra)),
            None => self.answer(&incoming.message, incoming.flow, code, reason, extra),
        }
    }

    /// Answers a request within its server transaction.
    pub(super) fn answer_begun(
        &mut self,
        now: Time,
        incoming: &Incoming<'_>,
        server: ServerId,
        (code, reason, extra): (StatusCode, Option<&str>, Extra<'_>),
    ) {
        let Incoming { message, essentials, flow, .. } = incoming;
        log_answer(message, flow, code, reason);
        let tag = self.tag(message, flow);
        let asked = essentials.via.oc.then_some(&self.feedback);
        let written = self.transactions.respond(now, server, code, &mut self.out, |out| {
            noting(asked, *flow, out, |out| write(message, *flow, code, reason, extra, &tag, out))
        });
        if let Err(error) = written {
            tracing::debug!(%error, "an answer can't be written");
            self.transactions.forget_server(server);
        } else if essentials.cseq.method == Method::Invite {
            self.told_end = Some(now);
        }
    }

    /// Answers without a transaction.
    pub(super) fn answer(
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
        let tag = self.tag(request, &flow);
        let asked = via.is_some_and(|via| via.oc).then_some(&self.feedback);
        let mut scale = Scale::new(!self.is_proven(&flow), &mut self.transactions, &flow);
        // What can't be written again safely gets no answer.
        let _ = self.out.write(to, None, |out| {
            let start = out.len();
            noting(asked, flow, out, |out| write(request, flow, code, reason, extra, &tag, out))?;
            scale.weigh(out.len() - start)
        });
    }
}
