//! Other codecs, queried for what a proxy or registrar needs of a request.
#![allow(dead_code, reason = "each user of this module needs a part of it")]

use bytes::Bytes;
use ezk_sip_types::header::typed as ezk;
use ezk_sip_types::msg::{Line, MessageLine, PullParser};
use ezk_sip_types::{Headers, Name};
use rsip::prelude::{HeadersExt, ToTypedHeader};

/// The result of parsing a request with rsip.
#[derive(Debug)]
pub struct Rsip {
    pub request: rsip::Request,
    pub via: rsip::typed::Via,
    pub from: rsip::typed::From,
    pub to: rsip::typed::To,
    pub call_id: String,
    pub cseq: rsip::typed::CSeq,
    pub max_forwards: String,
    pub contact: Option<rsip::typed::Contact>,
}

/// Parses with rsip; `None` if it rejects the request.
pub fn rsip(bytes: &[u8]) -> Option<Rsip> {
    let request = rsip::Request::try_from(bytes).ok()?;
    let typed = Rsip {
        via: request.via_header().ok()?.typed().ok()?,
        from: request.from_header().ok()?.typed().ok()?,
        to: request.to_header().ok()?.typed().ok()?,
        call_id: request.call_id_header().ok()?.to_string(),
        cseq: request.cseq_header().ok()?.typed().ok()?,
        max_forwards: request.max_forwards_header().ok()?.to_string(),
        contact: request.contact_header().ok().and_then(|contact| contact.typed().ok()),
        request,
    };
    Some(typed)
}

/// The result of parsing a request with ezk-sip-types.
#[derive(Debug)]
pub struct Ezk {
    pub line: MessageLine,
    pub via: ezk::Via,
    pub from: ezk::FromTo,
    pub to: ezk::FromTo,
    pub call_id: ezk::CallID,
    pub cseq: ezk::CSeq,
    pub max_forwards: ezk::MaxForwards,
    pub contact: Option<ezk::Contact>,
    pub headers: Headers,
    pub body: usize,
}

/// Parses with ezk-sip-types; `None` if it rejects the request.
pub fn ezk(bytes: &Bytes) -> Option<Ezk> {
    use ezk_sip_types::parse::Parse;
    let mut parser = PullParser::new(bytes, 0);
    let first = std::str::from_utf8(parser.next()?.ok()?).ok()?;
    let (_, line) = MessageLine::parse(bytes)(first).ok()?;
    let mut headers = Headers::new();
    for text in &mut parser {
        let text = std::str::from_utf8(text.ok()?).ok()?;
        let (_, line) = Line::parse(bytes, text).ok()?;
        headers.insert(line.name, line.value);
    }
    Some(Ezk {
        line,
        via: headers.get_named().ok()?,
        from: headers.get(Name::FROM).ok()?,
        to: headers.get(Name::TO).ok()?,
        call_id: headers.get_named().ok()?,
        cseq: headers.get_named().ok()?,
        max_forwards: headers.get_named().ok()?,
        contact: headers.get_named().ok(),
        body: parser.head_end(),
        headers,
    })
}

/// A REGISTER request as a softphone sends it.
pub const REGISTER: &[u8] = b"REGISTER sip:example.com SIP/2.0\r\n\
Via: SIP/2.0/TCP 192.0.2.44:49152;branch=z9hG4bKPjo1-8Zfk2vXqHk5a;rport;alias\r\n\
Max-Forwards: 70\r\n\
From: \"Alice\" <sip:alice@example.com>;tag=a6c85cf4b2\r\n\
To: \"Alice\" <sip:alice@example.com>\r\n\
Call-ID: 1j9FpLxk3uxtm8tn-8Jd2@192.0.2.44\r\n\
CSeq: 1826 REGISTER\r\n\
User-Agent: Phone/5.19.3 (linux)\r\n\
Supported: outbound, path, gruu\r\n\
Contact: <sip:alice@192.0.2.44:49152;transport=TCP;ob>;reg-id=1;expires=600;+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-000a95a0e128>\"\r\n\
Expires: 600\r\n\
Allow: PRACK, INVITE, ACK, BYE, CANCEL, UPDATE, INFO, SUBSCRIBE, NOTIFY, REFER, MESSAGE, OPTIONS\r\n\
Content-Length: 0\r\n\r\n";

/// An INVITE that has passed through two proxies.
pub const INVITE: &[u8] = b"INVITE sip:bob@192.0.2.4:5060;transport=udp SIP/2.0\r\n\
Via: SIP/2.0/UDP bigbox3.site3.atlanta.example.com;branch=z9hG4bK77ef4c2312983.1\r\n\
Via: SIP/2.0/UDP pc33.atlanta.example.com:5066;branch=z9hG4bKnashds8;received=192.0.2.1;rport=5066\r\n\
Route: <sip:p1.example.com;lr>, <sip:p2.example.com;lr>\r\n\
Record-Route: <sip:p0.example.com;lr;ftag=1928301774>\r\n\
Max-Forwards: 69\r\n\
To: Bob <sip:bob@biloxi.example.com>\r\n\
From: Alice <sip:alice@atlanta.example.com>;tag=1928301774\r\n\
Call-ID: a84b4c76e66710\r\n\
CSeq: 314159 INVITE\r\n\
Contact: <sip:alice@pc33.atlanta.example.com>\r\n\
Allow: INVITE, ACK, CANCEL, OPTIONS, BYE, REFER, NOTIFY, UPDATE\r\n\
Supported: replaces, timer, 100rel\r\n\
Session-Expires: 1800;refresher=uac\r\n\
User-Agent: SoftPhone 4.2\r\n\
Content-Type: application/sdp\r\n\
Content-Length: 154\r\n\r\n\
v=0\r\no=mhandley 29739 7272939 IN IP4 192.0.2.198\r\ns=-\r\nc=IN IP4 192.0.2.198\r\n\
t=0 0\r\nm=audio 49217 RTP/AVP 0 12\r\nm=video 3227 RTP/AVP 31\r\na=rtpmap:31 LPC\r\n";
