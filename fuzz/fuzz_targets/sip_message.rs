//! Any bytes as a SIP message: everything that can be asked of it ends and never panics; what was accepted is
//! written out again as it was; an answer to what was rejected can be written.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use strandline_sip::codec::{
    Edits, HeaderName, Host, Index, Message, MessageWriter, Multipart, NewVia, Reply, StatusCode, Transport,
    binding_answer, method_and_rest, unfold,
};

/// Asks for everything; returns how many values there were.
fn walk(message: &Message<'_>) -> usize {
    let mut count = 0;
    for header in message.headers() {
        count +=
            1 + usize::from(header.value().len() > header.line().len()) + header.name_bytes().len().min(1);
    }
    for via in message.vias().flatten() {
        let _ = (via.branch_id(), via.ttl(), via.maddr(), via.params.iter().count(), via.host.to_string());
        count += 1;
    }
    for contact in message.contacts().into_iter().flatten().flatten() {
        let _ = (contact.uri(), contact.expires(), contact.q(), contact.reg_id(), contact.instance());
        count += 1;
    }
    for name in [HeaderName::Route, HeaderName::RecordRoute, HeaderName::Path, HeaderName::ServiceRoute] {
        for route in message.values::<strandline_sip::codec::Route<'_>>(name).flatten() {
            let _ = route.uri().map(|uri| uri.matches(&uri));
            count += 1;
        }
    }
    for token in message.supported().chain(message.require()).chain(message.allow()).flatten() {
        count += token.0.len().min(1);
    }
    for auth in message.authorizations().chain(message.challenges()).flatten() {
        let _ = auth.digest().map(|digest| digest.nonce_count());
        count += auth.params.iter().count();
    }
    let _ =
        (message.essentials(), message.expires(), message.date(), message.event(), message.session_expires());
    let _ = (message.retry_after(), message.rack(), message.replaces(), message.refer_to(), message.min_se());
    count += message.warnings().count() + message.resource_priority().count() + message.reasons().count();
    count += message.accept().count() + message.accept_language().count() + message.call_info().count();
    if let Ok(Some(kind)) = message.content_type()
        && let Ok(parts) = Multipart::new(&kind, message.body())
    {
        count +=
            parts.flatten().map(|part| part.header(HeaderName::ContentType).map_or(1, |_| 1)).sum::<usize>();
    }
    count
}

/// What stands in a header can be written into another, and is the same there, in one line or in several; it
/// begins no other.
fn copy_values(message: &Message<'_>) {
    for header in message.headers() {
        let (value, line) = (header.value(), unfold(header.value()));
        assert!(!line.contains(&b'\n'));
        let mut out = BytesMut::new();
        let mut writer = MessageWriter::response(&mut out, StatusCode::OK, b"");
        writer.header_named(b"X-Value", value).header_named(b"X-Line", &line);
        writer.finish(b"").expect("what was read can be written");
        let mut index = Index::new();
        // The two may be longer together than a message's headers.
        if let Ok(again) = Message::parse(&out, &mut index) {
            assert_eq!(again.headers().count(), 3);
            assert!(again.lines_named(b"X-Value").map(|line| line.value()).eq([value]));
            assert!(again.lines_named(b"X-Line").map(|line| line.value()).eq([line.trim_ascii()]));
        }
    }
}

fn edit(message: Message<'_>) {
    let mut out = BytesMut::new();
    Edits::new(message).write(&mut out).expect("nothing was edited");
    assert_eq!(out, message.as_bytes());
    let host = Host::Name(b"p.example");
    let via = NewVia { transport: Transport::Udp, host, port: None, branch: b"1", rport: true, params: b"" };
    let mut edits = Edits::new(message);
    edits.push_via(&via).push_record_route(b"<sip:p.example;lr>").decrement_max_forwards(70);
    edits.source("192.0.2.1:5060".parse().expect("an address"));
    if message.routes().next().is_some() {
        edits.pop_route();
    }
    out.clear();
    if edits.write(&mut out).is_ok() {
        let mut index = Index::new();
        let again = Message::parse(&out, &mut index);
        // One header line more may be one too many.
        if let Ok(again) = again {
            assert_eq!(again.body(), message.body());
            let top = again.via().expect("the Via that was pushed");
            assert_eq!(top.branch_id(), Some(&b"1"[..]));
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(answer) = binding_answer(bytes, ([192, 0, 2, 1], 5060).into()) {
        assert!(answer.len() <= bytes.len() + 24, "an answer is not much larger than its request");
    }
    let mut index = Index::new();
    let message = match Message::parse(bytes, &mut index) {
        Ok(message) => {
            let method = message.method().filter(|method| method.as_bytes().len() < 32);
            assert_eq!(method_and_rest(bytes).map(|(method, _)| method), method);
            copy_values(&message);
            edit(message);
            Some(message)
        }
        Err(rejected) => rejected.answerable(),
    };
    let Some(message) = message else { return };
    // Each value takes at least one byte of its own, and each list is walked once.
    assert!(walk(&message) <= 4 * bytes.len());
    let mut out = BytesMut::new();
    let reply = Reply {
        to_tag: Some(b"t"),
        source: "192.0.2.1:5060".parse().ok(),
        ..Reply::new(StatusCode::BAD_REQUEST)
    };
    reply.write(&message, &mut out).finish(b"").expect("an answer");
    let mut index = Index::new();
    let answer = Message::parse(&out, &mut index).expect("an answer that is SIP");
    assert_eq!(answer.lines(HeaderName::Via).count(), message.lines(HeaderName::Via).count());
});
