#![allow(clippy::unwrap_used)]

use super::*;
use crate::codec::Index;

fn answer(request: &str, reply: Reply<'_>) -> String {
    let mut index = Index::new();
    let message = Message::parse(request.as_bytes(), &mut index).unwrap();
    let mut out = BytesMut::from(&b"before "[..]);
    reply.write(&message, &mut out).finish(b"").unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn copied_lines_follow_the_responses_order() {
    let reply = Reply {
        to_tag: Some(b"t"),
        source: "192.0.2.9:7".parse().ok(),
        record_routes: true,
        ..Reply::new(StatusCode::RINGING)
    };
    let orders = [
        "Via: SIP/2.0/UDP a;rport\r\nVia: SIP/2.0/UDP b\r\nRecord-Route: <sip:p;lr>\r\nf: <sip:f>;tag=1\r\nTo: <sip:t> \t\r\n\
         i: c\r\nCSeq: 1 INVITE\r\n",
        "CSeq: 1 INVITE\r\ni: c\r\nTo: <sip:t> \t\r\nf: <sip:f>;tag=1\r\nRecord-Route: <sip:p;lr>\r\n\
         Via: SIP/2.0/UDP a;rport\r\nX: y\r\nVia: SIP/2.0/UDP b\r\n",
    ];
    for order in orders {
        assert_eq!(
            answer(&format!("INVITE sip:t SIP/2.0\r\n{order}\r\n"), reply),
            "before SIP/2.0 180 Ringing\r\n\
             Via: SIP/2.0/UDP a;rport=7;received=192.0.2.9\r\nVia: SIP/2.0/UDP b\r\nRecord-Route: <sip:p;lr>\r\n\
             f: <sip:f>;tag=1\r\nTo: <sip:t>;tag=t\r\ni: c\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n",
        );
    }
}

#[test]
fn to_gets_a_tag_only_if_valid() {
    let reply = Reply { to_tag: Some(b"t"), ..Reply::new(StatusCode::new(499).unwrap()) };
    let cases = [
        ("<sip:t>", "<sip:t>;tag=t"),
        ("\"T\" <sip:t>;x=y", "\"T\" <sip:t>;x=y;tag=t"),
        ("sip:t", "sip:t;tag=t"),
        ("<sip:t>;tag=7", "<sip:t>;tag=7"),
        ("<sip:t> x", "<sip:t> x"),
        ("<sip:t", "<sip:t"),
        ("<>", "<>"),
        ("<a b>", "<a b>"),
    ];
    for (sent, written) in cases {
        assert_eq!(
            answer(&format!("BYE sip:t SIP/2.0\r\nTo: {sent}\r\n\r\n"), reply),
            format!("before SIP/2.0 499 Client Error\r\nTo: {written}\r\nContent-Length: 0\r\n\r\n"),
        );
    }
}
