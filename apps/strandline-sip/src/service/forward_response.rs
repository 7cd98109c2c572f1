//! Responses to the client of a forwarded request (RFC 3261 section 16.7, steps 8 and 9): forwarded ones, and
//! those of the service's own.

use bytes::BytesMut;

use crate::codec::{Edits, HeaderName, Index, Message, StatusCode, Via};
use crate::transaction::ServerId;

use super::context::{Best, StoredRequest};
use super::identity::edit_identity;
use super::reply::{self, Responder, reason};

impl Responder<'_> {
    /// Forwards a response in a server transaction. `asked` if the request had `oc` in its Via.
    pub(super) fn forward_response(
        &mut self,
        (server, asked): (ServerId, bool),
        code: StatusCode,
        message: &Message<'_>,
    ) {
        let method =
            message.first_value(HeaderName::CSeq).trim_ascii_end().rsplit(u8::is_ascii_whitespace).next();
        if !code.is_provisional() && method == Some(&b"INVITE"[..]) {
            *self.invite_answered_at = Some(self.now);
        }
        let proves = code.is_provisional() || code.is_success();
        let unvalidated = if proves { self.transactions.is_unvalidated(self.now, server) } else { None };
        let proof = unvalidated.map(|address| self.setup.proof_param(self.now, address));
        let rewritten = self.setup.rewritten_routes(message);
        let mut edits = Edits::new(*message);
        edits.pop_via();
        let client = self.transactions.server_flow(server).map(|(flow, _)| flow.peer);
        edit_identity(self.setup, &mut edits, message, self.trusted, client.as_ref());
        for (uri, with) in &rewritten {
            edits.replace_uri(uri, with);
        }
        if let Some((proof, uri)) = proof.as_ref().zip(self.setup.own_record_route(message)) {
            edits.add_uri_param(uri, proof);
        }
        // Overload feedback is for the next hop only, so it is removed from the Vias below ours (RFC 7339
        // section 5.4).
        let meddles = |via: Via<'_>| via.oc && via.params.value(b"oc").is_some();
        let is_meddled_with =
            || message.may_have_oc_below() && message.vias().nth(1).is_some_and(|via| via.is_ok_and(meddles));
        let flow = match self.transactions.server_flow(server) {
            Some((flow, _)) if asked || !self.feedback.is_empty() || is_meddled_with() => Some(flow),
            _ => None,
        };
        let feedback = self.feedback;
        let written = self.transactions.respond(self.now, server, code, self.out, |out| match flow {
            Some(flow) => {
                let start = out.len();
                edits.write(out)?;
                feedback.note(flow.peer.ip(), asked, out, start);
                Ok(())
            }
            None => edits.write(out),
        });
        // If the response can't be rewritten, the client still needs a final response.
        if written.is_err() && !code.is_provisional() {
            let invite = method == Some(&b"INVITE"[..]);
            self.respond_alone(server, StatusCode::SERVER_INTERNAL_ERROR, invite, None);
        }
    }

    /// Forwards the best response, with a status and the challenges of other responses.
    pub(super) fn forward_best(
        &mut self,
        server: ServerId,
        code: StatusCode,
        best: &Best,
        challenges: &[u8],
    ) {
        let challenged =
            [StatusCode::UNAUTHORIZED, StatusCode::PROXY_AUTHENTICATION_REQUIRED].contains(&best.code);
        let _ = self.transactions.respond(self.now, server, code, self.out, |out| {
            let end = best.response.windows(2).position(|pair| pair == b"\r\n").unwrap_or(0);
            let (line, rest) = best.response.split_at(end);
            match code == best.code {
                true => out.extend_from_slice(line),
                false => write_status(code, out),
            }
            out.extend_from_slice(b"\r\n");
            if challenged {
                out.extend_from_slice(challenges);
            }
            out.extend_from_slice(rest.get(2..).unwrap_or(&[]));
            Ok(())
        });
    }

    /// Responds with a status of our own, made from the last response, or from the request if that is stored.
    pub(super) fn respond_alone(
        &mut self,
        server: ServerId,
        code: StatusCode,
        invite: bool,
        stored: Option<&StoredRequest>,
    ) {
        if invite {
            let tag = self.setup.hashes.tag_of(server);
            if self.transactions.respond_alike(self.now, server, code, &tag, self.out).is_err() {
                self.transactions.forget_server(server);
            }
            return;
        }
        let mut index = Index::with_limits(self.setup.settings.message);
        let request =
            stored.and_then(|stored| Some((Message::parse(&stored.bytes, &mut index).ok()?, stored.flow)));
        // RFC 4320 section 4.2: no 408 to requests other than INVITE.
        match request.filter(|_| code != StatusCode::REQUEST_TIMEOUT) {
            Some((request, flow)) => {
                let tag = self.setup.hashes.tag(&request, &flow);
                let written = self.transactions.respond(self.now, server, code, self.out, |out| {
                    reply::write(&request, flow, code, reason(code), None, &tag, out)
                });
                if written.is_err() {
                    self.transactions.forget_server(server);
                }
            }
            None => self.transactions.forget_server(server),
        }
    }
}

fn write_status(code: StatusCode, out: &mut BytesMut) {
    out.extend_from_slice(format!("SIP/2.0 {} {}", code.code(), code.reason()).as_bytes());
}
