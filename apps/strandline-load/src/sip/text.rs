//! What user agents write.

use std::io::Write as _;
use std::net::SocketAddr;

use super::answer::Came;

/// A body as phones send it.
const OFFER: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                     m=audio 6000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\n";

/// What all messages of a load have in common.
#[derive(Debug, Clone)]
pub(super) struct Style {
    /// As in Via: UDP, TCP or SCTP.
    pub(super) transport: &'static str,
    /// What URIs say of it.
    pub(super) uri_parameter: &'static str,
    pub(super) domain: String,
    /// Tells this run from others.
    pub(super) run: u64,
    /// The number of the first phone.
    pub(super) first: u32,
    pub(super) expires_secs: u32,
}

/// Who sends a request, and which operation it is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who {
    pub(super) slot: usize,
    pub(super) generation: u32,
    pub(super) user: u32,
    /// CSeq of INVITE.
    pub(super) attempt: u8,
    pub(super) address: SocketAddr,
}

/// Writes to a vector: that can't fail.
macro_rules! put {
    ($out:expr, $($what:tt)*) => {
        let _ = write!($out, $($what)*);
    };
}

impl Style {
    /// The number of a phone in its address.
    fn number(&self, user: u32) -> u32 {
        self.first.saturating_add(user)
    }

    /// The name of a phone's user.
    pub(super) fn name(&self, user: u32) -> String {
        format!("u{}", self.number(user))
    }

    /// The URI that REGISTERs are for.
    pub(super) fn registrar(&self) -> String {
        format!("sip:{}", self.domain)
    }

    /// The URI of a phone's user.
    pub(super) fn address(&self, user: u32) -> String {
        format!("sip:u{}@{}", self.number(user), self.domain)
    }

    pub(super) fn register(&self, out: &mut Vec<u8>, who: &Who, cseq: u32, proof: &[u8]) {
        let Who { slot, generation, user, attempt, address } = who;
        let user = self.number(*user);
        let Self { transport, uri_parameter, domain, run, expires_secs, .. } = self;
        put!(
            out,
            "REGISTER sip:{domain} SIP/2.0\r\nVia: SIP/2.0/{transport} {address};branch=z9hG4bKr{slot}.{generation}.{attempt};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:u{user}@{domain}>;tag={generation}\r\nTo: <sip:u{user}@{domain}>\r\n\
             Call-ID: r{user}-{run}@{address}\r\nCSeq: {cseq} REGISTER\r\n\
             Contact: <sip:u{user}@{address}{uri_parameter}>\r\n"
        );
        out.extend_from_slice(proof);
        put!(out, "Expires: {expires_secs}\r\nContent-Length: 0\r\n\r\n");
    }

    pub(super) fn invite(&self, out: &mut Vec<u8>, who: &Who, callee: u32, proof: &[u8]) {
        let Who { slot, generation, user, attempt, address } = who;
        let user = self.number(*user);
        let callee = self.number(callee);
        let Self { transport, uri_parameter, domain, run, .. } = self;
        put!(
            out,
            "INVITE sip:u{callee}@{domain} SIP/2.0\r\n\
             Via: SIP/2.0/{transport} {address};branch=z9hG4bKi{slot}.{generation}.{attempt};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:u{user}@{domain}>;tag={generation}\r\nTo: <sip:u{callee}@{domain}>\r\n\
             Call-ID: c{slot}.{generation}-{run}@{address}\r\nCSeq: {attempt} INVITE\r\n\
             Contact: <sip:u{user}@{address}{uri_parameter}>\r\n"
        );
        out.extend_from_slice(proof);
        put!(out, "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{OFFER}", OFFER.len());
    }

    /// ACK of a 2xx, or BYE: within the dialog that `ok` began.
    pub(super) fn in_dialog(&self, out: &mut Vec<u8>, who: &Who, ok: &Came<'_>, method: &str) {
        let Who { slot, generation, user, attempt, address } = who;
        let user = self.number(*user);
        let Self { transport, domain, run, .. } = self;
        let (kind, cseq) = if method == "ACK" { ('a', *attempt) } else { ('b', attempt + 1) };
        put!(out, "{method} ");
        out.extend_from_slice(Came::uri(ok.value("Contact")));
        put!(
            out,
            " SIP/2.0\r\nVia: SIP/2.0/{transport} {address};branch=z9hG4bK{kind}{slot}.{generation}.{attempt};rport\r\n\
             Max-Forwards: 70\r\n"
        );
        let routes: Vec<&[u8]> = ok.values("Record-Route").collect();
        for route in routes.iter().rev() {
            line(out, "Route", route);
        }
        put!(out, "From: <sip:u{user}@{domain}>;tag={generation}\r\n");
        line(out, "To", ok.value("To"));
        put!(
            out,
            "Call-ID: c{slot}.{generation}-{run}@{address}\r\nCSeq: {cseq} {method}\r\nContent-Length: 0\r\n\r\n"
        );
    }

    /// ACK of a refusal (RFC 3261 section 17.1.1.3).
    pub(super) fn ack_of_refusal(&self, out: &mut Vec<u8>, who: &Who, callee: u32, refusal: &Came<'_>) {
        let Who { slot, generation, attempt, address, .. } = who;
        let callee = self.number(callee);
        let Self { transport, domain, .. } = self;
        put!(
            out,
            "ACK sip:u{callee}@{domain} SIP/2.0\r\n\
             Via: SIP/2.0/{transport} {address};branch=z9hG4bKi{slot}.{generation}.{attempt};rport\r\nMax-Forwards: 70\r\n"
        );
        line(out, "From", refusal.value("From"));
        line(out, "To", refusal.value("To"));
        line(out, "Call-ID", refusal.value("Call-ID"));
        put!(out, "CSeq: {attempt} ACK\r\nContent-Length: 0\r\n\r\n");
    }

    /// The answer of the one who is called.
    pub(super) fn answer(&self, out: &mut Vec<u8>, request: &Came<'_>, status: &str, address: SocketAddr) {
        put!(out, "SIP/2.0 {status}\r\n");
        for name in ["Via", "Record-Route", "From"] {
            request.values(name).for_each(|value| line(out, name, value));
        }
        out.extend_from_slice(b"To: ");
        let to = request.value("To");
        out.extend_from_slice(to);
        if super::answer::find(to, b";tag=").is_none() {
            out.extend_from_slice(b";tag=callee");
        }
        out.extend_from_slice(b"\r\n");
        line(out, "Call-ID", request.value("Call-ID"));
        line(out, "CSeq", request.value("CSeq"));
        put!(out, "Contact: <sip:callee@{address}{}>\r\nContent-Length: 0\r\n\r\n", self.uri_parameter);
    }
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}
