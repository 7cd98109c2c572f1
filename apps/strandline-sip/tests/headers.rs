//! Header values: those of RFC 3261 section 20 and of its extensions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use strandline_sip::codec::{
    Address, Auth, AuthInfo, CSeq, Choice, Contacts, Date, Element, ErrorKind, Event, HeaderName, Index,
    MediaType, Message, Method, Number, RAck, Replaces, ResourcePriority, RetryAfter, Route, Seconds, Token,
    Warning,
};

/// Parses a message with these headers and passes it to `check`.
fn with(headers: &str, check: impl FnOnce(Message<'_>)) {
    let bytes = format!("REGISTER sip:a.example SIP/2.0\r\n{headers}\r\n\r\n");
    let mut index = Index::new();
    check(
        Message::parse(bytes.as_bytes(), &mut index).unwrap_or_else(|rejected| panic!("{}", rejected.error)),
    );
}

/// The kind of error in a value.
fn refused<'a, T: Element<'a> + std::fmt::Debug>(value: &'a str) -> ErrorKind {
    T::parse(value.as_bytes()).expect_err(value).kind
}

#[test]
fn contacts_with_all_that_outbound_and_gruu_add() {
    let contact = "\"A, B\" <sip:a@192.0.2.1;ob>;reg-id=2;+sip.instance=\"<urn:uuid:f8>\";q=0.75;expires=60\
        ;pub-gruu=\"sip:a@e;gr=x\";temp-gruu=\"sip:t@e;gr\"";
    let contact = Address::parse(contact.as_bytes()).unwrap();
    assert_eq!((contact.reg_id().unwrap(), contact.instance()), (Some(2), Some(&b"urn:uuid:f8"[..])));
    assert_eq!((contact.q().unwrap(), contact.expires().unwrap()), (Some(750), Some(60)));
    assert_eq!(contact.public_gruu(), Some(&b"sip:a@e;gr=x"[..]));
    assert_eq!(contact.temporary_gruu(), Some(&b"sip:t@e;gr"[..]));
    for (params, ok) in [
        ("q=1", true),
        ("q=1.000", true),
        ("q=0", true),
        ("q=1.001", false),
        ("q=0.1234", false),
        ("q=x", false),
        ("q=2", false),
    ] {
        let text = format!("<sip:a>;{params}");
        assert_eq!(Address::parse(text.as_bytes()).unwrap().q().is_ok(), ok, "{params}");
    }
    for (params, ok) in
        [("reg-id=1", true), ("reg-id=0", false), ("reg-id=2147483648", false), ("reg-id=x", false)]
    {
        let text = format!("<sip:a>;{params}");
        assert_eq!(Address::parse(text.as_bytes()).unwrap().reg_id().is_ok(), ok, "{params}");
    }
    assert_eq!(refused::<Address<'_>>("<sip:a>;tag=1;tag=2"), ErrorKind::ParameterRepeated);
    assert_eq!(refused::<Address<'_>>("<sip:a"), ErrorKind::Brackets);
    assert_eq!(refused::<Address<'_>>("<>"), ErrorKind::Brackets);
    assert_eq!(refused::<Address<'_>>("name"), ErrorKind::Brackets);
    assert_eq!(refused::<Address<'_>>("<sip:a> x"), ErrorKind::Trailing);
    assert_eq!(refused::<Route<'_>>("sip:a;lr"), ErrorKind::Brackets);
}

#[test]
fn a_star_stands_alone() {
    with("Contact: *\r\nExpires: 0", |message| {
        assert!(matches!(message.contacts().unwrap(), Contacts::All));
        assert_eq!(message.expires().unwrap(), Some(Number(0)));
    });
    with("m : * ", |message| assert!(matches!(message.contacts().unwrap(), Contacts::All)));
    with("Contact: *\r\nContact: <sip:a>", |message| {
        assert_eq!(message.contacts().unwrap_err().kind, ErrorKind::Repeated);
    });
    with("Contact: *, <sip:a>", |message| assert!(message.contacts().unwrap().next().unwrap().is_err()));
    with("X: y", |message| assert_eq!(message.contacts().unwrap().count(), 0));
}

#[test]
fn lists_go_through_all_lines() {
    with("Supported: path , gruu\r\nX: y\r\nk:\r\nSUPPORTED:\r\n outbound", |message| {
        let found: Vec<_> = message.supported().map(Result::unwrap).collect();
        assert_eq!(found, [Token(b"path"), Token(b"gruu"), Token(b"outbound")]);
        assert_eq!(message.lines(HeaderName::Supported).count(), 3);
    });
    for malformed in ["Supported: a,", "Supported: ,a", "Supported: a,,b", "Supported: a b", "Supported: a;b"]
    {
        with(malformed, |message| {
            let error = message.supported().find_map(Result::err).expect(malformed);
            assert_eq!(error.header, Some(HeaderName::Supported));
        });
    }
    with("Route: <sip:a;lr>, <sip:b;lr>\r\nRoute: <sip:c>", |message| {
        let hosts: Vec<_> =
            message.routes().map(|route| route.unwrap().sip_uri().unwrap().host.to_string()).collect();
        assert_eq!(hosts, ["a", "b", "c"]);
    });
    with("Via:", |message| assert!(message.vias().next().unwrap().is_err()));
    // Iteration ends after an error.
    with("Route: <sip:a>, x, <sip:b>", |message| assert_eq!(message.routes().count(), 2));
}

/// A comma in these headers separates parameters, not values (section 7.3.1).
#[test]
fn credentials_and_challenges_are_a_line_each() {
    let headers = "Authorization: Digest username=\"a\", realm=\"x, \\\"y\\\"\", nonce=\"\" ,uri=\"sip:a\",response=\"0\"\r\n\
        Authorization: Other a=b\r\n\
        WWW-Authenticate: Digest realm=\"r\", qop=\"auth,auth-int\", algorithm=SHA-256, stale=TRUE, nonce=\"n\"";
    with(headers, |message| {
        let found: Vec<_> = message.authorizations().map(Result::unwrap).collect();
        assert_eq!(found.len(), 2);
        let digest = found[0].digest().unwrap();
        assert_eq!((digest.nonce, digest.realm), (Some(&b""[..]), Some(&br#"x, \"y\""#[..])));
        assert!(found[0].params.get(b"REALM").unwrap().is(b"x, \"y\""));
        let challenge = message.challenges().next().unwrap().unwrap().digest().unwrap();
        assert_eq!(
            (challenge.qop, challenge.algorithm),
            (Some(&b"auth,auth-int"[..]), Some(&b"SHA-256"[..]))
        );
        assert_eq!(message.proxy_challenges().count() + message.proxy_authorizations().count(), 0);
    });
    for malformed in
        ["Digest", "Digest a", "Digest a=", "Digest a=b,", "Digest a=b;c=d", "Digest ,a=b", "Digest a=\"b"]
    {
        assert!(Auth::parse(malformed.as_bytes()).is_err(), "{malformed}");
    }
    let bad = |nc: &str| {
        Auth::parse(format!("Digest nc={nc}").as_bytes()).unwrap().digest().unwrap().nonce_count().is_err()
    };
    assert!(bad("1") && bad("0000000g") && bad("000000001") && !bad("0000000f"));
    let info = AuthInfo::parse(b"nextnonce=\"n\", nc=00000001").unwrap();
    assert_eq!(info.0.value(b"nextnonce"), Some(&b"n"[..]));
}

#[test]
fn values_with_numbers() {
    assert_eq!(
        CSeq::parse(b"0004294967295\r\n INVITE").unwrap(),
        CSeq { number: u32::MAX, method: Method::Invite }
    );
    assert_eq!(refused::<CSeq<'_>>("1INVITE"), ErrorKind::Token);
    assert_eq!(refused::<CSeq<'_>>("4294967296 INVITE"), ErrorKind::TooLarge);
    assert_eq!(refused::<CSeq<'_>>("1 INVITE x"), ErrorKind::Trailing);
    let rack = RAck::parse(b"776656 1 INVITE").unwrap();
    assert_eq!((rack.response, rack.cseq.number), (776_656, 1));
    let timer = Seconds::parse(b"1800 ; refresher = uac").unwrap();
    assert_eq!((timer.seconds, timer.refresher()), (1800, Some(&b"uac"[..])));
    let retry = RetryAfter::parse(b"18000 (in a (short) \\) meeting) ;duration=3600").unwrap();
    assert_eq!((retry.seconds, retry.comment), (18_000, Some(&b"in a (short) \\) meeting"[..])));
    assert_eq!(retry.duration().unwrap(), Some(3600));
    with("Max-Forwards: 256\r\nMax-Breadth: 60\r\nMin-Expires: 60\r\nFlow-Timer: 95", |message| {
        assert_eq!(message.max_forwards().unwrap_err().kind, ErrorKind::TooLarge);
        assert_eq!(message.max_breadth().unwrap(), Some(Number(60)));
        assert_eq!(message.min_expires().unwrap(), Some(Number(60)));
        assert_eq!(message.flow_timer().unwrap(), Some(Number(95)));
    });
    with("Expires: 1\r\nExpires: 1", |message| {
        assert_eq!(message.expires().unwrap_err().kind, ErrorKind::Repeated);
    });
}

#[test]
fn values_of_words() {
    let event = Event::parse(b"presence.winfo;id=7").unwrap();
    assert_eq!((event.package, event.id()), (&b"presence.winfo"[..], Some(&b"7"[..])));
    let warning = Warning::parse(b"370 devnull.example:5060 \"Choose \\\"bigger\\\"\"").unwrap();
    assert_eq!((warning.code, warning.agent), (370, &b"devnull.example:5060"[..]));
    assert_eq!(Warning::parse(b"301 !agent \"x\"").unwrap().agent, b"!agent");
    assert_eq!(refused::<Warning<'_>>("37 a \"x\""), ErrorKind::Number);
    let replaces = Replaces::parse(b"425928@bobster.example;to-tag=7743;from-tag=6472;early-only").unwrap();
    assert_eq!((replaces.to_tag(), replaces.from_tag()), (Some(&b"7743"[..]), Some(&b"6472"[..])));
    assert!(replaces.is_early_only());
    with("Resource-Priority: ets.0, wps.3\r\nPriority: emergency\r\nReason: Q.850 ;cause=16", |message| {
        let found: Vec<_> = message.resource_priority().map(Result::unwrap).collect();
        assert_eq!(found[1], ResourcePriority { namespace: b"wps", priority: b"3" });
        assert!(message.priority().unwrap().unwrap().is(b"Emergency"));
        let reason = message.reasons().next().unwrap().unwrap();
        assert_eq!((reason.token, reason.params.number(b"cause").unwrap()), (&b"Q.850"[..], Some(16)));
    });
    assert_eq!(refused::<ResourcePriority<'_>>("ets"), ErrorKind::Token);
    let kind = MediaType::parse(b"application / sdp ; charset=\"utf-8\"").unwrap();
    assert!(kind.is(b"Application", b"SDP"));
    assert_eq!(refused::<MediaType<'_>>("application"), ErrorKind::Token);
    assert_eq!(Choice::parse(b"da;q=0.8").unwrap().q().unwrap(), 800);
    with("Accept:", |message| assert_eq!(message.accept().count(), 0));
}

#[test]
fn dates_are_in_gmt_and_exist() {
    let seconds = |text: &str| Date::parse(text.as_bytes()).map(|date| date.unix_seconds());
    assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT"), Ok(0));
    assert_eq!(seconds("Thu, 29 Feb 2024 12:00:00 GMT"), Ok(1_709_208_000));
    assert_eq!(seconds("Wed, 31 Dec 1969 23:59:59 GMT"), Ok(-1));
    for text in [
        "Thu, 01 Jan 1970 00:00:00 UTC",
        "Thu, 1 Jan 1970 00:00:00 GMT",
        "Thu, 00 Jan 1970 00:00:00 GMT",
        "Thu, 32 Jan 1970 00:00:00 GMT",
        "Wed, 29 Feb 2023 00:00:00 GMT",
        "Wed, 29 Feb 2100 00:00:00 GMT",
        "Thu, 01 Foo 1970 00:00:00 GMT",
        "Xxx, 01 Jan 1970 00:00:00 GMT",
        "Thu, 01 Jan 1970 24:00:00 GMT",
        "Thu, 01 Jan 1970 00:60:00 GMT",
        "Thu, 01 Jan 70 00:00:00 GMT",
    ] {
        assert_eq!(seconds(text).unwrap_err().kind, ErrorKind::Date, "{text}");
    }
}
