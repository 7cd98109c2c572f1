//! Answers of the service's own.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use bytes::BytesMut;

use crate::codec::{HeaderName, Message, Reply, StatusCode, Via, WriteError};
use crate::transaction::{Flow, ServerId, hex};

use super::Service;
use super::feedback::Feedback;
use super::proofs::Scale;

/// A header to add to an answer.
pub(super) type Extra<'a> = Option<(HeaderName, &'a [u8])>;

/// A tag as text.
pub(super) type Tag = [u8; 16];

/// Where the answer to a request goes (RFC 3261 section 18.2.2, RFC 3581): back over its connection; or to the address
/// that it came from, at the port that its Via names unless that asks for the one it came from. `maddr` is not followed: it
/// would send answers to whom the sender likes.
pub(super) fn answer_flow(flow: Flow, via: Option<&Via<'_>>) -> Flow {
    match via {
        Some(via) if !flow.protocol.is_reliable() && via.rport.is_none() => {
            Flow { peer: SocketAddr::new(flow.peer.ip(), via.port.unwrap_or(5060)), ..flow }
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
