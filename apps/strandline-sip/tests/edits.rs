//! Edits as splices, and responses: other bytes stay unchanged and in order (RFC 3261 sections 8.2.6, 16.6,
//! 16.7 and 18.2.1).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use bytes::BytesMut;
use strandline_sip::codec::{
    Edits, HeaderName, Host, Index, Message, MessageWriter, Method, NewVia, Reply, StatusCode, Transport,
    WriteError,
};

const ODD: &str = "INVITE sip:b@example.com SIP/2.0\r\n\
    FROM :  <sip:a@example.com>;tag=1\r\n\
    v: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK1;rport , SIP/2.0/TCP\r\n 10.0.0.2\r\n\
    X-Odd:;;,\"\r\n\
    t:<sip:b@example.com>\r\n\
    Route: <sip:p1;lr> ,\r\n\t<sip:p2;lr>\r\n\
    route:<sip:p3;lr>\r\n\
    Max-Forwards:\r\n  070 \r\n\
    Call-ID: c\r\nCSeq: 1 INVITE\r\nL: 2\r\n\r\nhi";

const fn via(branch: &'static [u8]) -> NewVia<'static> {
    let host = Host::Name(b"p.example");
    NewVia { transport: Transport::Tcp, host, port: Some(5070), branch, rport: false, params: b";alias" }
}

/// The edited message, as text.
fn edited(text: &str, edit: impl FnOnce(&mut Edits<'_>)) -> Result<String, WriteError> {
    let mut index = Index::new();
    let message =
        Message::parse(text.as_bytes(), &mut index).unwrap_or_else(|rejected| panic!("{}", rejected.error));
    let mut edits = Edits::new(message);
    edit(&mut edits);
    let mut out = BytesMut::from(&b"before"[..]);
    let result = edits.write(&mut out);
    let written = std::str::from_utf8(&out).unwrap().strip_prefix("before").unwrap().to_owned();
    if result.is_err() {
        assert_eq!(written, "");
    }
    result.map(|()| written)
}

/// `ODD` with replacements. Each replaced text must occur exactly once.
fn with(changes: &[(&str, &str)]) -> String {
    changes.iter().fold(ODD.to_owned(), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.replace(from, to)
    })
}

#[test]
fn nothing_edited_is_nothing_changed() {
    assert_eq!(edited(ODD, |_| {}).unwrap(), ODD);
    // Line ends before the message and bytes after it are dropped.
    assert_eq!(edited(&format!("\r\n\r\n{ODD}noise"), |_| {}).unwrap(), ODD);
}

#[test]
fn a_proxy_forwards() {
    static ADDED: NewVia<'static> = via(b"9");
    let out = edited(ODD, |edits| {
        edits.request_uri(b"sip:b@192.0.2.9;ob").push_via(&ADDED).push_record_route(b"<sip:p.example;lr>");
        edits.pop_route().decrement_max_forwards(70).source("192.0.2.1:777".parse().unwrap());
    });
    let expected = with(&[
        (
            "sip:b@example.com SIP/2.0\r\n",
            "sip:b@192.0.2.9;ob SIP/2.0\r\nRecord-Route: <sip:p.example;lr>\r\n",
        ),
        ("v: ", "Via: SIP/2.0/TCP p.example:5070;branch=z9hG4bK9;alias\r\nv: "),
        (";rport ,", ";rport=777;received=192.0.2.1 ,"),
        ("<sip:p1;lr> ,\r\n\t", ""),
        ("  070 ", "  69 "),
    ]);
    assert_eq!(out.unwrap(), expected);
}

#[test]
fn values_are_removed_from_the_top() {
    let expected = with(&[("SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK1;rport , ", "")]);
    assert_eq!(
        edited(ODD, |edits| {
            edits.pop_via();
        })
        .unwrap(),
        expected
    );
    let once = edited(ODD, |edits| {
        edits.pop_route();
    })
    .unwrap();
    let twice = edited(&once, |edits| {
        edits.pop_route();
    })
    .unwrap();
    assert_eq!(twice, with(&[("Route: <sip:p1;lr> ,\r\n\t<sip:p2;lr>\r\n", "")]));
    let thrice = edited(&twice, |edits| {
        edits.pop_route();
    })
    .unwrap();
    assert!(!thrice.to_lowercase().contains("route"));
    assert_eq!(
        edited(&thrice, |edits| {
            edits.pop_route();
        }),
        Err(WriteError::Target)
    );
}

#[test]
fn whole_headers_are_removed_and_added() {
    let out = edited(ODD, |edits| {
        edits.remove(HeaderName::Route).add(b"X-New", b"1").add(b"X-Newer", b"2").ensure_content_length();
    });
    let expected = with(&[
        ("Route: <sip:p1;lr> ,\r\n\t<sip:p2;lr>\r\n", ""),
        ("route:<sip:p3;lr>\r\n", ""),
        ("L: 2\r\n", "L: 2\r\nX-New: 1\r\nX-Newer: 2\r\n"),
    ]);
    assert_eq!(out.unwrap(), expected);
    let out = edited("BYE sip:a SIP/2.0\r\n\r\nbody", |edits| {
        edits
            .ensure_content_length()
            .decrement_max_forwards(70)
            .push_route(b"<sip:r>")
            .push_route(b"<sip:q>");
    });
    assert_eq!(
        out.unwrap(),
        "BYE sip:a SIP/2.0\r\nRoute: <sip:q>\r\nRoute: <sip:r>\r\n\
         Content-Length: 4\r\nMax-Forwards: 70\r\n\r\nbody"
    );
}

#[test]
fn received_and_rport_are_added_and_forgeries_removed() {
    let noted = |via: &str, source: &str| {
        let text = format!("BYE sip:a SIP/2.0\r\nVia: SIP/2.0/UDP {via}\r\nX: y\r\n\r\n");
        let out = edited(&text, |edits| {
            edits.source(source.parse().unwrap());
        })
        .unwrap();
        let line = out.lines().nth(1).unwrap().strip_prefix("Via: SIP/2.0/UDP ").unwrap().to_owned();
        assert!(out.ends_with("\r\nX: y\r\n\r\n"));
        line
    };
    assert_eq!(noted("192.0.2.1", "192.0.2.1:5060"), "192.0.2.1");
    assert_eq!(noted("a.example ;x", "192.0.2.1:5060"), "a.example ;x;received=192.0.2.1");
    assert_eq!(noted("10.0.0.1;rport;x=y", "192.0.2.1:9"), "10.0.0.1;rport=9;x=y;received=192.0.2.1");
    assert_eq!(noted("192.0.2.1;rport", "192.0.2.1:9"), "192.0.2.1;rport=9;received=192.0.2.1");
    assert_eq!(noted("a;received=1.2.3.4;rport=1;x", "192.0.2.1:9"), "a;rport=9;x;received=192.0.2.1");
    assert_eq!(
        noted("192.0.2.1;rport=1;received=1.1.1.1", "192.0.2.1:9"),
        "192.0.2.1;rport=9;received=192.0.2.1"
    );
    assert_eq!(noted("192.0.2.1;received=1.1.1.1;x", "192.0.2.1:9"), "192.0.2.1;x");
    assert_eq!(noted("[2001:db8::1];rport", "[2001:db8::2]:9"), "[2001:db8::1];rport=9;received=2001:db8::2");
    assert_eq!(noted("192.0.2.1", "[::ffff:192.0.2.1]:9"), "192.0.2.1");
}

#[test]
fn a_line_break_never_gets_into_a_header() {
    let evil = b"x\r\nEvil: 1";
    let fails = |edit: fn(&mut Edits<'_>)| assert_eq!(edited(ODD, edit), Err(WriteError::LineBreak));
    fails(|edits| {
        edits.request_uri(b"sip:a\r\nEvil:1");
    });
    fails(|edits| {
        edits.push_route(b"<sip:a>\n");
    });
    fails(|edits| {
        edits.add(b"X", b"a\rb");
    });
    assert_eq!(
        edited(ODD, |edits| {
            edits.add(b"X:\r\nY", b"a");
        }),
        Err(WriteError::Name)
    );
    assert_eq!(
        edited(ODD, |edits| {
            edits.to_tag(b"a;b");
        }),
        Err(WriteError::Target)
    );
    let mut out = BytesMut::new();
    let mut writer = MessageWriter::request(&mut out, Method::Bye, b"sip:a");
    writer.header(HeaderName::Subject, evil);
    assert_eq!(writer.finish(b""), Err(WriteError::LineBreak));
    assert_eq!(
        MessageWriter::request(&mut out, Method::Other(b"A B"), b"sip:a").finish(b""),
        Err(WriteError::Name)
    );
    assert_eq!(
        MessageWriter::request(&mut out, Method::Bye, b"sip:a b").finish(b""),
        Err(WriteError::Target)
    );
    assert_eq!(
        MessageWriter::response(&mut out, StatusCode::OK, evil).finish(b""),
        Err(WriteError::LineBreak)
    );
    assert!(out.is_empty());
}

#[test]
fn adjacent_or_too_many_edits_are_refused() {
    assert_eq!(
        edited(ODD, |edits| {
            edits.remove(HeaderName::MaxForwards).decrement_max_forwards(70);
        }),
        Err(WriteError::Overlap)
    );
    let many = |edits: &mut Edits<'_>| {
        (0..=Edits::EDITS_MAX).for_each(|_| {
            edits.add(b"X", b"y");
        })
    };
    assert_eq!(edited(ODD, many), Err(WriteError::TooManyEdits));
    assert_eq!(
        edited(&ODD.replace("070", "0"), |edits| {
            edits.decrement_max_forwards(70);
        }),
        Err(WriteError::Target)
    );
    assert_eq!(
        edited("SIP/2.0 200 OK\r\n\r\n", |edits| {
            edits.request_uri(b"sip:a");
        }),
        Err(WriteError::Target)
    );
}

fn replied(text: &[u8], reply: &Reply<'_>) -> String {
    let mut index = Index::new();
    let request = match Message::parse(text, &mut index) {
        Ok(message) => message,
        Err(rejected) => rejected.answerable().expect("a request that can be answered"),
    };
    let mut out = BytesMut::new();
    let mut writer = reply.write(&request, &mut out);
    writer.number(HeaderName::RetryAfter, 3);
    writer.finish(b"").unwrap();
    String::from_utf8(out.to_vec()).unwrap()
}

#[test]
fn responses_copy_what_they_must() {
    let reply = Reply {
        to_tag: Some(b"x"),
        source: "192.0.2.1:777".parse().ok(),
        reason: Some(b"Busy"),
        record_routes: true,
        ..Reply::new(StatusCode::SERVICE_UNAVAILABLE)
    };
    let request = ODD.replace("Call-ID", "Record-Route: <sip:r;lr>\r\nTimestamp: 5\r\nCall-ID");
    assert_eq!(
        replied(request.as_bytes(), &reply),
        "SIP/2.0 503 Busy\r\n\
         v: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bK1;rport=777;received=192.0.2.1 , SIP/2.0/TCP\r\n 10.0.0.2\r\n\
         Record-Route: <sip:r;lr>\r\n\
         FROM :  <sip:a@example.com>;tag=1\r\nt:<sip:b@example.com>;tag=x\r\nCall-ID: c\r\nCSeq: 1 INVITE\r\n\
         Retry-After: 3\r\nContent-Length: 0\r\n\r\n"
    );
    let trying = replied(request.as_bytes(), &Reply::new(StatusCode::TRYING));
    assert!(trying.starts_with("SIP/2.0 100 Trying\r\n") && trying.contains("Timestamp: 5\r\n"));
    let tagged = request.replace("<sip:b@example.com>", "<sip:b@example.com>;tag=old");
    assert!(replied(tagged.as_bytes(), &reply).contains("t:<sip:b@example.com>;tag=old\r\n"));
}

/// A malformed request gets a response, which can be parsed unless it had to copy a malformed header.
#[test]
fn malformed_requests_are_answered() {
    let reply = Reply {
        to_tag: Some(b"x"),
        source: "192.0.2.1:7".parse().ok(),
        ..Reply::new(StatusCode::BAD_REQUEST)
    };
    let torn = include_bytes!("torture/rfc4475/badinv01.dat");
    let text = replied(torn, &reply);
    assert!(text.contains("Via: SIP/2.0/UDP 192.0.2.15;received=192.0.2.1;;,;,,\r\n"), "{text}");
    let torn = include_bytes!("torture/rfc4475/insuf.dat");
    let text = replied(torn, &reply);
    assert!(text.contains("CSeq: 193942 INVITE\r\n") && !text.contains("From"), "{text}");
    let torn = include_bytes!("torture/rfc4475/quotbal.dat");
    let text = replied(torn, &reply);
    assert!(text.contains("To: \"Mr. J. User <sip:j.user@example.com>\r\n"), "{text}");
}
