//! The messages of user agents.

use std::net::SocketAddr;

use super::answer::{Came, value_of};
use super::format::{Padded, put};

/// A body as phones send it.
const OFFER: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                     m=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// Headers that an answer copies from its request, beside To (RFC 3261 section 8.2.6.2).
pub(super) const ANSWERED: [&str; 5] = ["Via", "Record-Route", "From", "Call-ID", "CSeq"];

/// The properties that all messages of a load share.
#[derive(Debug, Clone)]
pub(super) struct Style {
    /// Transport in Via: UDP, TCP or SCTP.
    pub(super) transport: &'static str,
    /// Transport parameter of URIs.
    pub(super) uri_parameter: &'static str,
    pub(super) domain: String,
    /// Number that distinguishes this run from others.
    pub(super) run: u64,
    /// Number of the first phone.
    pub(super) first: u32,
    pub(super) expires_secs: u32,
    /// Whether REGISTERs remove all contacts of the phones.
    pub(super) removes: bool,
}

/// The sender of a request, and its operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who {
    pub(super) slot: usize,
    pub(super) generation: u32,
    pub(super) user: u32,
    /// CSeq of INVITE.
    pub(super) attempt: u8,
    pub(super) address: SocketAddr,
}

impl Style {
    /// Returns the number of a phone in its address.
    pub(super) fn number(&self, user: u32) -> u32 {
        self.first.saturating_add(user)
    }

    /// Returns the user name of a phone.
    pub(super) fn name(&self, user: u32) -> String {
        format!("u{}", self.number(user))
    }

    /// Returns the request URI of REGISTERs.
    pub(super) fn registrar(&self) -> String {
        format!("sip:{}", self.domain)
    }

    /// Returns the address of record of a phone.
    pub(super) fn address(&self, user: u32) -> String {
        format!("sip:u{}@{}", self.number(user), self.domain)
    }

    pub(super) fn register(&self, out: &mut Vec<u8>, who: &Who, cseq: u32, proof: &[u8]) {
        let domain = self.domain.as_str();
        let user = self.number(who.user);
        put!(out, "REGISTER sip:", domain, " SIP/2.0\r\n");
        self.via(out, who, "r");
        put!(out, "Max-Forwards: 70\r\nFrom: <sip:u", user, "@", domain, ">;tag=", who.generation);
        put!(out, "\r\nTo: <sip:u", user, "@", domain, ">\r\nCall-ID: r", user, "-", self.run, "@");
        put!(out, who.address, "\r\nCSeq: ", cseq, " REGISTER\r\n");
        let expires_secs = if self.removes { 0 } else { self.expires_secs };
        match self.removes {
            true => put!(out, "Contact: *\r\n"),
            false => self.contact(out, who),
        }
        put!(out, proof, "Expires: ", expires_secs, "\r\nContent-Length: 0\r\n\r\n");
    }

    pub(super) fn invite(&self, out: &mut Vec<u8>, who: &Who, callee: u32, proof: &[u8]) {
        let domain = self.domain.as_str();
        let (user, callee) = (self.number(who.user), self.number(callee));
        put!(out, "INVITE sip:u", callee, "@", domain, " SIP/2.0\r\n");
        self.via(out, who, "i");
        put!(out, "Max-Forwards: 70\r\nFrom: <sip:u", user, "@", domain, ">;tag=", who.generation);
        put!(out, "\r\nTo: <sip:u", callee, "@", domain, ">\r\n");
        self.call_id(out, who);
        put!(out, "CSeq: ", who.attempt, " INVITE\r\n");
        self.contact(out, who);
        put!(out, proof, "Content-Type: application/sdp\r\nContent-Length: ", OFFER.len(), "\r\n\r\n", OFFER);
    }

    /// Writes the ACK of a 2xx, or BYE, within the dialog that `ok` began.
    pub(super) fn in_dialog(&self, out: &mut Vec<u8>, who: &Who, ok: &Came<'_>, method: &str) {
        let (kind, cseq) = if method == "ACK" { ("a", who.attempt) } else { ("b", who.attempt + 1) };
        let (mut routes, mut to, mut contact): (Vec<&[u8]>, &[u8], &[u8]) = (Vec::new(), &[], &[]);
        for line in ok.lines() {
            if let Some(route) = value_of(line, "Record-Route") {
                routes.push(route);
            } else if let Some(value) = value_of(line, "To") {
                to = value;
            } else if let Some(value) = value_of(line, "Contact") {
                contact = value;
            }
        }
        put!(out, method, " ", Came::uri(contact), " SIP/2.0\r\n");
        self.via(out, who, kind);
        put!(out, "Max-Forwards: 70\r\n");
        routes.iter().rev().for_each(|route| line(out, "Route", route));
        put!(out, "From: <sip:u", self.number(who.user), "@", self.domain.as_str(), ">;tag=");
        put!(out, who.generation, "\r\n");
        line(out, "To", to);
        self.call_id(out, who);
        put!(out, "CSeq: ", cseq, " ", method, "\r\nContent-Length: 0\r\n\r\n");
    }

    /// Writes the ACK of a refusal (RFC 3261 section 17.1.1.3).
    pub(super) fn ack_of_refusal(&self, out: &mut Vec<u8>, who: &Who, callee: u32, refusal: &Came<'_>) {
        put!(out, "ACK sip:u", self.number(callee), "@", self.domain.as_str(), " SIP/2.0\r\n");
        self.via(out, who, "i");
        put!(out, "Max-Forwards: 70\r\n");
        line(out, "From", refusal.value("From"));
        line(out, "To", refusal.value("To"));
        line(out, "Call-ID", refusal.value("Call-ID"));
        put!(out, "CSeq: ", who.attempt, " ACK\r\nContent-Length: 0\r\n\r\n");
    }

    /// Writes Via; its branch identifies the operation.
    fn via(&self, out: &mut Vec<u8>, who: &Who, kind: &str) {
        put!(out, "Via: SIP/2.0/", self.transport, " ", who.address, ";branch=z9hG4bK", kind);
        put!(out, Padded(who.slot), ".", who.generation, ".", who.attempt, ";rport\r\n");
    }

    fn contact(&self, out: &mut Vec<u8>, who: &Who) {
        let user = self.number(who.user);
        put!(out, "Contact: <sip:u", user, "@", who.address, self.uri_parameter, ">\r\n");
    }

    /// Writes the Call-ID; that of a call names the operation too.
    fn call_id(&self, out: &mut Vec<u8>, who: &Who) {
        put!(
            out,
            "Call-ID: c",
            Padded(who.slot),
            ".",
            who.generation,
            "-",
            self.run,
            "@",
            who.address,
            "\r\n"
        );
    }

    /// Writes the answer of the callee.
    pub(super) fn answer(&self, out: &mut Vec<u8>, request: &Came<'_>, status: &str, address: SocketAddr) {
        put!(out, "SIP/2.0 ", status, "\r\n");
        for line in request.lines() {
            if let Some(to) = value_of(line, "To") {
                let tag = if super::answer::find(to, b";tag=").is_none() { ";tag=callee" } else { "" };
                put!(out, line, tag, "\r\n");
            } else if ANSWERED.iter().any(|name| value_of(line, name).is_some()) {
                put!(out, line, "\r\n");
            }
        }
        put!(out, "Contact: <sip:callee@", address, self.uri_parameter, ">\r\nContent-Length: 0\r\n\r\n");
    }
}

pub(super) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    put!(out, name, ": ", value, "\r\n");
}
