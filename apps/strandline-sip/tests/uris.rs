//! URIs: the examples of RFC 3261 sections 19.1.3 and 19.1.4, RFC 5626, RFC 5627 and RFC 3966, and malformed
//! URIs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use strandline_sip::codec::{Element, ErrorKind, Host, SipUri, Uri, Via, unescape};

fn uri(text: &str) -> Uri<'_> {
    Uri::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn sip(text: &str) -> SipUri<'_> {
    *uri(text).sip().unwrap()
}

/// All examples of RFC 3261 section 19.1.4.
#[test]
fn uris_that_mean_the_same() {
    for (a, b) in [
        ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;security=on"),
        ("sip:carol@chicago.com;newparam=5", "sip:carol@chicago.com;security=on"),
        (
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        ),
        (
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        ),
        ("sip:[2001:db8::1]", "sip:[2001:DB8:0::1]"),
        ("sip:a@example.com.", "sip:a@example.com"),
        ("tel:+1-201-555-0123", "tel:+12015550123"),
        ("mailto:a@b", "MAILTO:a@b"),
    ] {
        assert!(uri(a).matches(&uri(b)), "{a} {b}");
        assert!(uri(b).matches(&uri(a)), "{b} {a}");
    }
}

#[test]
fn uris_that_differ() {
    for (a, b) in [
        ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
        ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
        ("sip:a@example.com", "sips:a@example.com"),
        ("sip:a@example.com", "sip:example.com"),
        ("sip:a:1@example.com", "sip:a:2@example.com"),
        ("sip:a@example.com;maddr=1.2.3.4", "sip:a@example.com"),
        ("sip:a@example.com;user=phone", "sip:a@example.com"),
        ("sip:a@example.com;x=1;x=2", "sip:a@example.com;x=1"),
        ("sip:a@example.com?x=1", "sip:a@example.com?x=1&y=2"),
        ("sip:%00@example.com", "sip:%00%00@example.com"),
        ("tel:+12015550123", "tel:+12015550123;ext=1"),
        ("tel:12015550123;phone-context=a", "tel:+12015550123"),
        ("sip:a@example.com", "tel:+1"),
    ] {
        assert!(!uri(a).matches(&uri(b)), "{a} {b}");
        assert!(!uri(b).matches(&uri(a)), "{b} {a}");
    }
}

/// The comparison takes time proportional to the product of the numbers of parameters, so with too many the
/// texts are compared instead.
#[test]
fn many_parameters_are_compared_as_text() {
    let params = |order: &mut dyn Iterator<Item = usize>| -> String {
        order.map(|number| format!(";p{number}={number}")).collect()
    };
    let up = format!("sip:a.example{}", params(&mut (0..5_000)));
    let down = format!("sip:a.example{}", params(&mut (0..5_000).rev()));
    assert!(uri(&up).matches(&uri(&up.clone())));
    assert!(!uri(&up).matches(&uri(&down)));
    let up = format!("sip:a.example{}", params(&mut (0..30)));
    let down = format!("sip:a.example{}", params(&mut (0..30).rev()));
    assert!(uri(&up).matches(&uri(&down)));
}

#[test]
fn parts_of_a_uri() {
    let uri = sip(
        "sips:+1-212-555-1212;ext=7:12%2034@gateway.com:5070;user=phone;ttl=15;maddr=239.255.255.1?a=&b=c",
    );
    assert!(uri.secure && uri.is_phone());
    assert_eq!(uri.user, Some(&b"+1-212-555-1212;ext=7"[..]));
    assert!(unescape(uri.password.unwrap()).eq(*b"12 34"));
    assert_eq!((uri.port, uri.port_or_default()), (Some(5070), 5070));
    assert_eq!(uri.maddr(), Some(&b"239.255.255.1"[..]));
    let headers: Vec<_> = uri.headers.iter().collect();
    assert_eq!(headers, [(&b"a"[..], &b""[..]), (&b"b"[..], &b"c"[..])]);
    assert_eq!(sip("sips:a.example").port_or_default(), 5061);
    assert_eq!(sip("sip:a:@b.example").password, Some(&b""[..]));
    assert_eq!(sip("sip:a.example;lr=on").transport(), None);
    assert!(sip("sip:a.example;lr=on").is_loose_router());
    assert!(sip("sip:a.example;%6Cr").is_loose_router());
    assert_eq!(sip("sip:a@b.example;gr=urn:uuid:f8").gruu(), Some(Some(&b"urn:uuid:f8"[..])));
    assert_eq!(sip("sip:tgruu.7hs@b.example;gr").gruu(), Some(None));
    assert!(sip("sip:a@b.example;ob").is_outbound());
    assert_eq!(sip("sip:my_host").host, Host::Name(b"my_host"));
    assert_eq!(sip("sip:007.0.00.1").host, Host::V4([7, 0, 0, 1].into()));
}

#[test]
fn malformed_uris_are_rejected_where_they_are() {
    for (text, kind, offset) in [
        ("", ErrorKind::Uri, 0),
        ("sip:", ErrorKind::Host, 4),
        ("sip:@a", ErrorKind::Uri, 4),
        ("sip:a@", ErrorKind::Host, 6),
        ("sip:a@b@c", ErrorKind::Uri, 7),
        ("sip:a b@c", ErrorKind::Uri, 5),
        ("sip:2001:db8::10", ErrorKind::Host, 4),
        ("sip:[2001:db8::10", ErrorKind::Host, 4),
        ("sip:[2001:db8:::10]", ErrorKind::Host, 4),
        ("sip:[::ffff:1.2.3]", ErrorKind::Host, 4),
        ("sip:1.2.3", ErrorKind::Host, 4),
        ("sip:1.2.3.256", ErrorKind::Host, 4),
        ("sip:1.2.3.4.5", ErrorKind::Host, 4),
        ("sip:a..b", ErrorKind::Host, 4),
        ("sip:-a", ErrorKind::Host, 4),
        ("sip:a-.b", ErrorKind::Host, 4),
        ("sip:a.-", ErrorKind::Host, 4),
        ("sip:.", ErrorKind::Host, 4),
        ("sip:a:", ErrorKind::Port, 6),
        ("sip:a:x", ErrorKind::Port, 6),
        ("sip:a:65536", ErrorKind::Port, 6),
        ("sip:a:99999999999999999999", ErrorKind::Port, 6),
        ("sip:a;;", ErrorKind::Parameter, 6),
        ("sip:a;;b", ErrorKind::Parameter, 6),
        ("sip:a;b=", ErrorKind::Parameter, 8),
        ("sip:a;b=c=d", ErrorKind::Uri, 9),
        ("sip:a?", ErrorKind::Uri, 6),
        ("sip:a?b", ErrorKind::Uri, 7),
        ("sip:%4@a", ErrorKind::Uri, 4),
        ("sip:a%zz@a", ErrorKind::Uri, 5),
        ("sip:a;b=%", ErrorKind::Uri, 8),
        ("1sip:a", ErrorKind::Uri, 0),
        ("a", ErrorKind::Uri, 0),
        ("tel:", ErrorKind::Uri, 4),
        ("tel:+", ErrorKind::Uri, 5),
        ("tel:+a", ErrorKind::Uri, 5),
        ("http:", ErrorKind::Uri, 5),
        ("http://a b", ErrorKind::Uri, 8),
    ] {
        let error = Uri::parse(text.as_bytes()).expect_err(text);
        assert_eq!((error.kind, error.offset), (kind, offset), "{text}");
    }
    assert!(Uri::parse(b"sip:\xff\xfe").is_err());
    assert!(Uri::parse(b"sip:a\0b").is_err());
}

#[test]
fn parts_of_a_via() {
    let via = Via::parse(
        b"SIP/2.0/TLS [2001:db8::9]:5061 ; Received = 192.0.2.7;RPORT=99;Branch=z9hG4bKa ;x=\"q;,\"",
    )
    .unwrap();
    assert_eq!(via.port, Some(5061));
    assert_eq!((via.received, via.rport), (Some("192.0.2.7".parse().unwrap()), Some(Some(99))));
    assert_eq!(via.branch_id(), Some(&b"a"[..]));
    assert_eq!(via.params.value(b"X"), Some(&b"q;,"[..]));
    let via = Via::parse(b"SIP/2.0/UDP a.example: 7;ttl=16;maddr=224.2.0.1;alias").unwrap();
    assert_eq!((via.port, via.ttl().unwrap(), via.alias), (Some(7), Some(16), true));
    assert_eq!(via.maddr(), Some(&b"224.2.0.1"[..]));
    for (text, kind) in [
        (&b"SIP/2.0/UDP"[..], ErrorKind::Protocol),
        (b"SIP/3.0/UDP a", ErrorKind::Protocol),
        (b"SIP/2.0 UDP a", ErrorKind::Protocol),
        (b"HTTP/2.0/UDP a", ErrorKind::Protocol),
        (b"SIP/2.0/UDP ", ErrorKind::Host),
        (b"SIP/2.0/UDP a:70000", ErrorKind::Port),
        (b"SIP/2.0/UDP a;branch", ErrorKind::Branch),
        (b"SIP/2.0/UDP a;branch=\"x\"", ErrorKind::Branch),
        (b"SIP/2.0/UDP a;branch=x;branch=y", ErrorKind::ParameterRepeated),
        (b"SIP/2.0/UDP a;received=example.com", ErrorKind::Host),
        (b"SIP/2.0/UDP a;rport=x", ErrorKind::Port),
        (b"SIP/2.0/UDP a;x=\"unended", ErrorKind::Quoted),
        (b"SIP/2.0/UDP a b", ErrorKind::Trailing),
    ] {
        let error = Via::parse(text).unwrap_err();
        assert_eq!(error.kind, kind, "{}", text.escape_ascii());
    }
}
