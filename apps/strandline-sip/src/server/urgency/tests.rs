use super::*;

fn of(line: &str) -> Urgency {
    Urgency::of(format!("{line}\r\nVia: x\r\n\r\n").as_bytes())
}

#[test]
fn what_has_begun_comes_before_what_begins() {
    for line in
        ["SIP/2.0 200 OK", "ACK sip:a@b SIP/2.0", "BYE sip:a@b SIP/2.0", "CANCEL sip:a@b SIP/2.0", "nonsense"]
    {
        assert_eq!(of(line), Urgency::Begun, "{line}");
    }
    assert_eq!(of("REGISTER sip:b SIP/2.0"), Urgency::Registration);
    for line in ["INVITE sip:a@b SIP/2.0", "MESSAGE sip:a@b SIP/2.0", "OPTIONS sip:a@b SIP/2.0"] {
        assert_eq!(of(line), Urgency::New, "{line}");
    }
    assert!(Urgency::ALL.is_sorted());
}

#[test]
fn a_look_at_the_start_is_enough() {
    let whole: [(&[u8], Urgency); 9] = [
        (b"\r\n\r\nREGISTER sip:b SIP/2.0\r\n", Urgency::Registration),
        (b"\r\n\r\nSIP/2.0 200 OK\r\n", Urgency::Begun),
        (b"sip/2.0 200 OK\r\n", Urgency::Begun),
        (b"", Urgency::Begun),
        (b"\r\n", Urgency::Begun),
        // An unknown method is not urgent, whatever follows.
        (b"FOO ", Urgency::New),
        (b"register sip:b SIP/2.0\r\n", Urgency::New),
        (b"REGISTER", Urgency::Begun),
        (b"INVITE sip:a@b SIP/3.0\r\n", Urgency::New),
    ];
    for (bytes, urgency) in whole {
        assert_eq!(Urgency::of(bytes), urgency, "{}", bytes.escape_ascii());
    }
}

#[test]
fn emergencies_are_told_by_the_first_line() {
    for uri in ["urn:service:sos", "urn:service:sos.fire", "URN:SERVICE:SOS", "sip:sos@example.com"] {
        assert_eq!(of(&format!("INVITE {uri} SIP/2.0")), Urgency::Emergency, "{uri}");
    }
    for uri in ["urn:service:so", "sip:sosa@example.com", "urn:service:counseling"] {
        assert_eq!(of(&format!("INVITE {uri} SIP/2.0")), Urgency::New, "{uri}");
    }
}

#[test]
fn a_look_at_headers_finds_dialogs_and_priorities() {
    let looked_at = |headers: &str| {
        let text =
            format!("INVITE sip:a@b SIP/2.0\r\nVia: x\r\n{headers}\r\nCSeq: 1 INVITE\r\n\r\nTo: b;tag=1\r\n");
        Urgency::of(text.as_bytes()).looked_at(text.as_bytes(), |user| user == b"token")
    };
    for headers in
        ["To: <sip:a@b>;tag=1", "t: <sip:a@b>;x=y;TAG=1", "to : sip:a@b;tag=1", "To: <sip:a@b>\r\n ;tag=1"]
    {
        let with = |route: &str| looked_at(&format!("{headers}\r\nRoute: {route}"));
        assert_eq!(looked_at(headers), Urgency::New, "{headers}");
        assert_eq!(with("<sip:token@c;lr>"), Urgency::Begun, "{headers}");
        assert_eq!(with("\"x\" <sips:token@c;lr>, <sip:d@e>"), Urgency::Begun, "{headers}");
        for made_up in
            ["<sip:c;lr>", "<sip:other@c;lr>", "<sip:c;lr>\r\nRoute: <sip:token@c;lr>", "@", "token@"]
        {
            assert_eq!(with(made_up), Urgency::New, "{headers} {made_up}");
        }
    }
    for headers in ["Priority: emergency", "PRIORITY :  Emergency", "Resource-Priority: ets.0"] {
        assert_eq!(looked_at(headers), Urgency::Emergency, "{headers}");
    }
    for headers in [
        "To: <sip:a@b>",
        "To: <sip:a@b;tag=1>",
        "Priority: urgent",
        "Subject: To: b;tag=1",
        "From: b;tag=1",
        "Route: <sip:token@c;lr>",
    ] {
        assert_eq!(looked_at(headers), Urgency::New, "{headers}");
    }
    let cut_off = b"INVITE sip:a@b SIP/2.0\r\nTo";
    assert_eq!(Urgency::of(cut_off).looked_at(cut_off, |_| true), Urgency::New);
}
