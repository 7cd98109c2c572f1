//! How a registrar and proxy handles the torture messages of RFC 4475 and RFC 5118. Parsing them is tested in
//! tests/rfc4475.rs and tests/rfc5118.rs.

use strandline_sip::service::{Relay, Settings};

use crate::harness::{Phone, Sent, World, settings};

/// The source of the messages.
fn peer() -> Phone {
    Phone::udp("192.0.2.200:5060")
}

/// A proxy for example.com that relays other requests and may use DNS.
fn nobody_there() -> World {
    let relay = Relay { open: true, from: Vec::new() };
    World::with(Settings { relay, names_max: 100, ..settings() })
}

/// A world in which `user` has registered a phone.
fn world() -> World {
    let mut world = nobody_there();
    world.register(&Phone::udp("192.0.2.9:5060"), "user");
    world
}

/// Receives a message. Returns what is sent, and the number of names looked up.
fn comes(world: &mut World, bytes: &[u8]) -> (Vec<Sent>, usize) {
    world.service.handle_message(world.now, peer().0, bytes);
    // Some messages have bodies that are not text.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let sent = world
        .service
        .output()
        .out
        .iter()
        .map(|(item, bytes)| Sent { flow: item.flow, text: text(bytes) })
        .collect();
    world.service.output_mut().out.clear();
    (sent, world.service.servers_mut().take_wanted().len())
}

fn answer(bytes: &[u8]) -> Sent {
    answer_of(&mut world(), bytes)
}

fn answer_of(world: &mut World, bytes: &[u8]) -> Sent {
    let (mut sent, wanted) = comes(world, bytes);
    assert_eq!((sent.len(), wanted), (1, 0), "{}: {sent:#?}", String::from_utf8_lossy(bytes));
    let sent = sent.remove(0);
    assert_eq!(sent.flow.peer.ip(), peer().0.peer.ip());
    sent
}

macro_rules! rfc4475 {
    ($name:literal) => {
        &include_bytes!(concat!("../torture/rfc4475/", $name, ".dat"))[..]
    };
}

macro_rules! rfc5118 {
    ($name:literal) => {
        &include_bytes!(concat!("../torture/rfc5118/", $name, ".dat"))[..]
    };
}

/// RFC 4475 sections 3.1.1 and 3.1.2.12, 3.3.6, 3.3.15, 3.4.1; RFC 5118 section 4: these are forwarded to
/// phones and names.
#[test]
fn what_is_valid_goes_on_its_way() {
    for (bytes, method) in [
        (rfc4475!("wsinv"), "INVITE"),
        (rfc4475!("esc01"), "INVITE"),
        (rfc4475!("esc02"), "RE%47IST%45R"),
        (rfc4475!("lwsdisp"), "OPTIONS"),
        (rfc4475!("longreq"), "INVITE"),
        (rfc4475!("transports"), "OPTIONS"),
        (rfc4475!("mpart01"), "MESSAGE"),
        (rfc4475!("baddate"), "INVITE"),
        (rfc4475!("invut"), "INVITE"),
        (rfc4475!("sdp01"), "INVITE"),
        (rfc5118!("ipv4-mapped-ipv6"), "INVITE"),
        (rfc5118!("ipv6-in-sdp"), "INVITE"),
        (rfc5118!("mult-ip-in-sdp"), "INVITE"),
        (rfc5118!("mult-ip-in-header"), "BYE"),
        (rfc5118!("ipv6-correct-abnf-2-colons"), "OPTIONS"),
        (rfc5118!("via-received-param-with-delim"), "BYE"),
        (rfc5118!("via-received-param-no-delim"), "OPTIONS"),
    ] {
        let (sent, wanted) = comes(&mut world(), bytes);
        let goes_on = |one: &Sent| {
            one.first_line().starts_with(&format!("{method} ")) && one.flow.peer != peer().0.peer
        };
        assert!(wanted == 1 || sent.iter().any(goes_on), "{}: {sent:#?}", String::from_utf8_lossy(bytes));
    }
}

/// All but ACKs and responses get an error response.
#[test]
fn what_is_invalid_is_refused() {
    for (bytes, code) in [
        (rfc4475!("badinv01"), 400),
        (rfc4475!("clerr"), 400),
        (rfc4475!("ncl"), 400),
        (rfc4475!("scalar02"), 400),
        (rfc4475!("quotbal"), 400),
        (rfc4475!("ltgtruri"), 400),
        (rfc4475!("lwsruri"), 400),
        (rfc4475!("lwsstart"), 400),
        (rfc4475!("trws"), 400),
        (rfc4475!("escruri"), 400),
        (rfc4475!("regbadct"), 400),
        (rfc4475!("badaspec"), 400),
        (rfc4475!("baddn"), 400),
        (rfc4475!("badvers"), 505),
        (rfc4475!("mismatch01"), 400),
        (rfc4475!("mismatch02"), 501),
        (rfc4475!("badbranch"), 400),
        (rfc4475!("insuf"), 400),
        (rfc4475!("unkscm"), 416),
        (rfc4475!("novelsc"), 416),
        (rfc4475!("unksm2"), 400),
        (rfc4475!("multi01"), 400),
        (rfc4475!("mcl01"), 400),
        (rfc4475!("zeromf"), 483),
        (rfc5118!("ipv6-bad"), 400),
    ] {
        let told = answer(bytes);
        let begin = format!("SIP/2.0 {code} ");
        assert!(told.text.starts_with(&begin), "{code}: {}: {}", String::from_utf8_lossy(bytes), told.text);
    }
}

/// RFC 4475 sections 3.1.1.12, 3.1.1.13, 3.1.2.5, 3.1.2.19 and 3.3.10.
#[test]
fn responses_to_nothing_go_nowhere() {
    for bytes in [
        rfc4475!("unreason"),
        rfc4475!("noreason"),
        rfc4475!("scalarlg"),
        rfc4475!("bigcode"),
        rfc4475!("bcast"),
    ] {
        let (sent, wanted) = comes(&mut world(), bytes);
        assert!(sent.is_empty() && wanted == 0, "{}: {sent:#?}", String::from_utf8_lossy(bytes));
    }
}

/// RFC 4475 section 3.3.5: the proxy rejects options that it must support, and lists all of them.
#[test]
fn what_a_proxy_must_know_is_told() {
    let told = answer(rfc4475!("bext01"));
    assert_eq!(told.first_line(), "SIP/2.0 420 Bad Extension");
    assert_eq!(told.line("Unsupported"), Some("noProxiesSupportThis, norDoAnyProxiesSupportThis"));
    // Addressed to the server itself: options that the server must support as the destination.
    let text = std::str::from_utf8(rfc4475!("bext01"))
        .unwrap()
        .replace("sip:user@example.com SIP", "sip:example.com SIP");
    let told = answer(text.as_bytes());
    assert_eq!(told.line("Unsupported"), Some("nothingSupportsThis, nothingSupportsThisEither"));
}

/// RFC 4475 sections 3.1.1.4, 3.1.1.8, 3.3.7, 3.3.12 to 3.3.14: contacts are bound and reported as they were
/// written.
#[test]
fn registrations_are_bound_as_they_were_written() {
    for (bytes, contacts) in [
        (rfc4475!("cparam01"), &["<sip:+19725552222@gw1.example.net>;unknownparam"][..]),
        (rfc4475!("cparam02"), &["<sip:+19725552222@gw1.example.net;unknownparam>"]),
        (rfc4475!("regescrt"), &["<sip:user@example.com?Route=%3Csip:sip.example.com%3E>"]),
        (rfc4475!("escnull"), &["<sip:%00@host5.example.com>", "<sip:%00%00@host5.example.com>"]),
        (rfc4475!("dblreq"), &["<sip:j.user@host.example.com>"]),
        (rfc4475!("regaut01"), &[]),
    ] {
        let ok = answer_of(&mut nobody_there(), bytes);
        assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{}", ok.text);
        let bound: Vec<&str> =
            ok.lines("Contact").iter().filter_map(|line| line.split(";expires=").next()).collect();
        assert_eq!(bound, contacts, "{}", String::from_utf8_lossy(bytes));
    }
}

/// RFC 4475 sections 3.1.1.2 and 3.1.1.9: unusual characters in user names are allowed; these users are
/// unknown.
#[test]
fn users_of_unusual_characters_are_looked_for() {
    for bytes in [rfc4475!("intmeth"), rfc4475!("semiuri")] {
        assert_eq!(answer(bytes).first_line(), "SIP/2.0 404 Not Found");
    }
}

/// RFC 4475 section 3.4.1: messages of RFC 2543 are understood.
#[test]
fn what_is_written_for_rfc_2543_goes_on() {
    let text = std::str::from_utf8(rfc4475!("inv2543"))
        .unwrap()
        .replace("UserB@example.com SIP", "user@example.com SIP");
    let (sent, _) = comes(&mut world(), text.as_bytes());
    assert_eq!(sent[0].first_line(), "INVITE sip:user@192.0.2.9:5060 SIP/2.0", "{sent:#?}");
}
