//! The two parties of a scenario: their requests and dialogs, and the messages that they write.

use std::net::SocketAddr;

use super::format::Content;
use super::template::Values;
use crate::sip::answer::Came;
use crate::sip::format::{Padded, put};
use crate::sip::out::Out;
use crate::sip::text::{Style, line};

/// A request that has no final answer yet.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) cseq: u32,
    pub(super) step: usize,
    pub(super) bytes: Vec<u8>,
    /// Whether any answer has arrived.
    pub(super) answered: bool,
    pub(super) done: bool,
    /// Whether it has credentials.
    pub(super) proves: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Dialog {
    pub(super) target: Vec<u8>,
    pub(super) routes: Vec<Vec<u8>>,
    /// Values of From and To.
    pub(super) local: Vec<u8>,
    pub(super) remote: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Party {
    pub(super) user: u32,
    pub(super) source: usize,
    pub(super) cseq: u32,
    pub(super) sent: Sent,
    /// ACK of the last 2xx.
    pub(super) ack: Vec<u8>,
    pub(super) dialog: Option<Dialog>,
    /// The last request received, and the answer to it.
    pub(super) received: Vec<u8>,
    pub(super) answer: Vec<u8>,
    /// The step whose answer must be acknowledged.
    pub(super) unacknowledged: Option<usize>,
}

impl Party {
    /// Begins a dialog, or updates the remote target of the existing one; its route set stays (RFC 3261
    /// section 12.2).
    pub(super) fn on_dialog(&mut self, dialog: Dialog) {
        match &mut self.dialog {
            Some(own) => {
                if !dialog.target.is_empty() {
                    own.target = dialog.target;
                }
            }
            None => self.dialog = Some(dialog),
        }
    }

    /// Sets the subscriber's route set from a NOTIFY, which overrides the one of the answer to SUBSCRIBE (RFC
    /// 6665 section 4.4.1).
    pub(super) fn on_notify(&mut self, notify: &Came<'_>) {
        let routes: Vec<Vec<u8>> = notify.values("Record-Route").map(<[u8]>::to_vec).collect();
        if let Some(dialog) = self.dialog.as_mut().filter(|_| !routes.is_empty()) {
            dialog.routes = routes;
        }
    }
}

/// The inputs of a request.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    pub(super) uri: &'a [u8],
    pub(super) slot: usize,
    pub(super) generation: u32,
    /// 0 for the caller, 1 for the callee.
    pub(super) role: usize,
    /// The caller's address.
    pub(super) caller: SocketAddr,
    /// Header line with credentials, or empty.
    pub(super) proof: &'a [u8],
    pub(super) content: &'a Content,
}

impl Party {
    /// Writes a request, within the dialog if there is one.
    pub(super) fn write(&self, request: &Request<'_>, values: &Values<'_>, style: &Style, out: &mut Vec<u8>) {
        let Request { method, uri, slot, generation, role, caller, proof, content } = *request;
        let is_ack = method == "ACK";
        let mark = if is_ack { "z" } else { ["x", "y"].get(role).copied().unwrap_or("x") };
        put!(out, method, " ", uri, " SIP/2.0\r\nVia: SIP/2.0/", style.transport, " ", values.address);
        put!(out, ";branch=z9hG4bK", mark, Padded(slot), ".", generation, ".", self.cseq);
        put!(out, ";rport\r\nMax-Forwards: 70\r\n");
        match &self.dialog {
            Some(dialog) => {
                dialog.routes.iter().for_each(|route| line(out, "Route", route));
                line(out, "From", &dialog.local);
                line(out, "To", &dialog.remote);
            }
            None => {
                put!(out, "From: <sip:u", values.user, "@", values.domain, ">;tag=", tag(role), generation);
                put!(out, "\r\nTo: <");
                match method {
                    "REGISTER" => put!(out, "sip:u", values.user, "@", values.domain),
                    _ => put!(out, uri),
                }
                put!(out, ">\r\n");
            }
        }
        put!(out, "Call-ID: s", Padded(slot), ".", generation, "-", style.run, "@", caller, "\r\n");
        put!(out, "CSeq: ", self.cseq, " ", method, "\r\n");
        if !is_ack {
            contact(values, style, out);
        }
        put!(out, proof);
        content.write(values, out);
    }
}

/// Returns the prefix of the tags of callers and callees.
pub(super) fn tag(role: usize) -> &'static str {
    ["a", "b"].get(role).copied().unwrap_or("a")
}

/// Writes the Contact of the sender.
pub(super) fn contact(values: &Values<'_>, style: &Style, out: &mut Vec<u8>) {
    put!(out, "Contact: <sip:u", values.user, "@", values.address, style.uri_parameter, ">\r\n");
}

impl Content {
    /// Writes headers, Content-Length, and the body.
    pub(super) fn write(&self, values: &Values<'_>, out: &mut Vec<u8>) {
        self.headers.write(values, out);
        if self.body.is_empty() {
            put!(out, "Content-Length: 0\r\n\r\n");
            return;
        }
        let mut body = Vec::new();
        self.body.write(values, &mut body);
        put!(out, "Content-Length: ", body.len(), "\r\n\r\n", &body[..]);
    }
}

/// Returns whether a 2xx to a request with this CSeq begins a dialog, or updates its remote target.
pub(super) fn begins_dialog(cseq: &[u8]) -> bool {
    ["INVITE", "SUBSCRIBE", "REFER"].iter().any(|method| cseq.ends_with(method.as_bytes()))
}

/// Sends the ACK of a refusal on the path of its INVITE (RFC 3261 section 17.1.1.3).
pub(super) fn acknowledge_refusal(party: &Party, refusal: &Came<'_>, out: &mut Out) {
    let invite = Came { bytes: &party.sent.bytes };
    let uri = invite.bytes.split(|byte| *byte == b' ').nth(1).unwrap_or(&[]);
    let cseq = refusal.value("CSeq").split(|byte| *byte == b' ').next().unwrap_or(&[]);
    out.add(party.source, |out| {
        put!(out, "ACK ", uri, " SIP/2.0\r\n");
        for name in ["Via", "Max-Forwards", "Route", "From", "Call-ID"] {
            invite.values(name).for_each(|value| line(out, name, value));
        }
        line(out, "To", refusal.value("To"));
        put!(out, "CSeq: ", cseq, " ACK\r\nContent-Length: 0\r\n\r\n");
    });
}
