//! Retransmissions of requests with credentials (sections 17.2.1, 17.2.2 and 8.2.7).

use std::time::Duration;

use strandline_sip::auth::{CacheSettings, Secret, Source, Subscribers};
use strandline_sip::bindings::Journal;
use strandline_sip::service::Settings;
use strandline_sip::transaction::TransactionLimits;

use crate::credentials::{ask, ask_with, credentials, register, request};
use crate::harness::{Phone, World, settings};

const CONTACT: &str = "Contact: <sip:bob@192.0.2.1:5060>\r\n";

fn world() -> World {
    let mut world = World::new();
    ask(&mut world);
    world
}

fn phone() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn bob() -> (&'static str, &'static str) {
    ("bob", "bob-secret")
}

#[test]
fn a_repeated_register_gets_the_same_answer() {
    let mut world = world();
    let text = register(&mut world, &phone(), bob(), 1, CONTACT);
    let ok = world.one(&phone(), &text);
    assert_eq!(ok.first_line(), "SIP/2.0 200 OK");
    assert_eq!(world.one(&phone(), &text).text, ok.text);
    // A NAT may have assigned another port meanwhile, and an edge proxy another branch.
    let again = world.one(&Phone::udp("192.0.2.1:7777"), &text.replace("z9hG4bKrbob2", "z9hG4bKother"));
    assert_eq!(again.first_line(), "SIP/2.0 200 OK");
    world.run_until(31_000);
    assert_eq!(world.one(&phone(), &text).first_line(), "SIP/2.0 200 OK");
    // From another address it is a different request.
    let stolen = world.one(&Phone::udp("192.0.2.66:5060"), &text);
    assert_eq!(stolen.first_line(), "SIP/2.0 401 Unauthorized");
    assert!(stolen.text.contains("stale=true"));
}

#[test]
fn over_tcp_a_repeated_register_is_one_too() {
    let mut world = world();
    let phone = Phone::tcp("192.0.2.1:40000", 7);
    world.service.connection_opened(7);
    let text = register(&mut world, &phone, bob(), 1, &format!("Contact: {}\r\n", phone.contact("bob")));
    let ok = world.one(&phone, &text);
    assert_eq!(world.one(&phone, &text).text, ok.text);
    let other = Phone::tcp("192.0.2.1:40001", 8);
    world.service.connection_opened(8);
    assert_eq!(world.one(&other, &text).first_line(), "SIP/2.0 200 OK");
}

#[test]
fn a_late_repetition_brings_no_binding_back() {
    let mut world = world();
    let bound = register(&mut world, &phone(), bob(), 1, CONTACT);
    world.one(&phone(), &bound);
    let gone = register(&mut world, &phone(), bob(), 3, &format!("{CONTACT}Expires: 0\r\n"));
    assert_eq!(world.one(&phone(), &gone).line("Contact"), None);
    let late = world.one(&phone(), &bound);
    assert_eq!((late.first_line(), late.line("Contact")), ("SIP/2.0 200 OK", None));
    assert!(world.service.registrations().locations().is_empty());
}

#[test]
fn a_refused_register_is_refused_again() {
    let mut world = world();
    let brief = format!("{CONTACT}Expires: 5\r\n");
    let unknown = format!("{CONTACT}Require: telepathy\r\n");
    for (number, (more, line)) in
        [(&*brief, "SIP/2.0 423 Interval Too Brief"), (&*unknown, "SIP/2.0 420 Bad Extension")]
            .into_iter()
            .enumerate()
    {
        let text = register(&mut world, &phone(), bob(), 1 + 2 * number as u32, more);
        let refused = world.one(&phone(), &text);
        assert_eq!(refused.first_line(), line);
        assert_eq!(world.one(&phone(), &text).text, refused.text);
    }
    let eve = register(&mut world, &phone(), bob(), 7, CONTACT).replace("sip:bob@ex", "sip:eve@ex");
    let refused = world.one(&phone(), &eve);
    assert_eq!(refused.first_line(), "SIP/2.0 403 Not Your Address");
    assert_eq!(world.one(&phone(), &eve).text, refused.text);
}

#[test]
fn a_slow_store_is_not_overtaken() {
    let mut world = World::with(Settings { durable: true, ..settings() });
    world.service.output_mut().journal = Journal::default();
    ask(&mut world);
    let text = register(&mut world, &phone(), bob(), 1, CONTACT);
    assert!(world.receive(&phone(), &text).is_empty());
    assert_eq!(world.service.output().held.len(), 1);
    // Submitted to the store, but not yet durable.
    world.service.output_mut().journal.clear();
    world.service.output_mut().unsettled = true;
    assert!(world.receive(&phone(), &text).is_empty(), "an answer overtakes the commit");
    let all: Vec<_> = world.service.output().held.iter().map(|(_, bytes)| bytes.to_vec()).collect();
    assert!(all.iter().all(|one| one.starts_with(b"SIP/2.0 200 OK")));
}

#[test]
fn a_repeated_register_is_answered_in_overload() {
    let mut world = world();
    let text = register(&mut world, &phone(), bob(), 1, CONTACT);
    let ok = world.one(&phone(), &text);
    world.service.reject(world.now, phone().0, text.as_bytes());
    assert_eq!(world.sent()[0].text, ok.text);
    let new = register(&mut world, &phone(), ("carol", "carol-secret"), 1, "");
    world.service.reject(world.now, phone().0, new.as_bytes());
    assert_eq!(world.sent()[0].first_line(), "SIP/2.0 503 Service Unavailable");
}

#[test]
fn refused_requests_get_the_same_answer_again() {
    let mut world = world();
    let cases = [
        ("nobody@example.com", "", "SIP/2.0 404 Not Found"),
        ("carol@example.com", "", "SIP/2.0 480 Temporarily Unavailable"),
        ("x@nowhere.invalid", "", "SIP/2.0 502 Unresolvable Destination"),
        ("carol@example.com", "Proxy-Require: telepathy\r\n", "SIP/2.0 420 Bad Extension"),
    ];
    for (number, (callee, more, line)) in cases.into_iter().enumerate() {
        for method in ["INVITE", "MESSAGE", "OPTIONS", "SUBSCRIBE"] {
            let branch = format!("{method}{number}");
            let text = request(&mut world, &phone(), method, &format!("sip:{callee}"), &branch, more);
            let first = world.one(&phone(), &text);
            assert_eq!(first.first_line(), line, "{method} {callee}");
            assert!(first.line("To").unwrap().contains(";tag="), "{}", first.text);
            assert_eq!(world.one(&phone(), &text).text, first.text, "{method} {callee}");
        }
    }
}

#[test]
fn another_users_address_is_refused_the_same_again() {
    let mut world = world();
    let uri = "sip:carol@example.com";
    for method in ["INVITE", "MESSAGE"] {
        let text = request(&mut world, &phone(), method, uri, method, "");
        let text = text.replace("From: <sip:alice@", "From: <sip:bob@");
        let first = world.one(&phone(), &text);
        assert_eq!(first.first_line(), "SIP/2.0 403 Not Your Address");
        assert_eq!(world.one(&phone(), &text).text, first.text);
    }
}

#[test]
fn a_refused_invite_is_repeated_until_its_ack() {
    let mut world = world();
    let uri = "sip:nobody@example.com";
    let text = request(&mut world, &phone(), "INVITE", uri, "1", "");
    let first = world.one(&phone(), &text);
    let again = world.run_until(600);
    assert_eq!(again[0].text, first.text);
    let ack = phone()
        .request("ACK", uri, "1", "")
        .replace("To: <sip:nobody@example.com>", &{ format!("To: {}", first.line("To").unwrap()) });
    assert!(world.receive(&phone(), &ack).is_empty());
    assert!(world.run_until(20_000).is_empty());
}

#[test]
fn retransmission_waits_during_the_lookup() {
    let mut world = World::new();
    let (lifetime, unknown) = (Duration::from_secs(300), Duration::from_secs(10));
    ask_with(&mut world, Source::Table(Subscribers::new(CacheSettings { max: 1000, lifetime, unknown })));
    let find = |world: &mut World, known: bool| {
        let who = world.service.access_mut().take_wanted().remove(0);
        let secret = known.then(|| Secret::of(Some("alice-secret".into()), Vec::new())).flatten();
        world.service.handle_subscriber(world.now, who, Some(secret));
        world.sent()
    };
    for method in ["MESSAGE", "INVITE"] {
        let uri = format!("sip:nobody-{}@example.com", method.to_lowercase());
        let text = request(&mut world, &phone(), method, &uri, method, "");
        assert!(world.receive(&phone(), &text).is_empty());
        if method == "MESSAGE" {
            // Only one lookup is made for alice.
            assert!(world.receive(&phone(), &text).is_empty());
            assert!(find(&mut world, true).is_empty());
        }
        assert!(world.receive(&phone(), &text).iter().all(|sent| sent.is_trying()));
        let told = find(&mut world, false);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].first_line(), "SIP/2.0 404 Not Found");
        assert_eq!(world.one(&phone(), &text).text, told[0].text);
    }
}

#[test]
fn a_repeated_wrong_password_is_one_guess() {
    let mut world = world();
    let wrong = register(&mut world, &phone(), ("bob", "guess"), 1, CONTACT);
    for _ in 0..20 {
        assert_eq!(world.one(&phone(), &wrong).first_line(), "SIP/2.0 401 Unauthorized");
    }
    assert_eq!(world.service.access().guesses().wrong, 1);
    let uri = "sip:carol@example.com";
    let asked = world.one(&phone(), &phone().request("MESSAGE", uri, "1", ""));
    let header = credentials(&asked, "alice", "guess", "MESSAGE", uri, 1);
    for _ in 0..20 {
        let sent = world.one(&phone(), &phone().request("MESSAGE", uri, "2", &header));
        assert_eq!(sent.first_line(), "SIP/2.0 407 Proxy Authentication Required");
    }
    assert_eq!(world.service.access().guesses().wrong, 2);
    let right = register(&mut world, &phone(), bob(), 3, CONTACT);
    assert_eq!(world.one(&phone(), &right).first_line(), "SIP/2.0 200 OK");
}

/// A response without a transaction may be lost, so the retransmission has to be as good as the request.
#[test]
fn full_server_takes_no_credentials() {
    let limits = TransactionLimits { servers_max: 1, ..TransactionLimits::default() };
    let mut world = World::with(Settings { limits, ..settings() });
    ask(&mut world);
    let invite = request(&mut world, &phone(), "INVITE", "sip:carol@example.com", "1", "");
    assert_eq!(world.one(&phone(), &invite).first_line(), "SIP/2.0 480 Temporarily Unavailable");
    let message = request(&mut world, &phone(), "MESSAGE", "sip:carol@example.com", "2", "");
    let refused = world.one(&phone(), &message);
    assert_eq!(refused.first_line(), "SIP/2.0 503 Service Unavailable");
    assert!(refused.line("Retry-After").is_some(), "{}", refused.text);
    // The transaction of the INVITE ends.
    world.run_until(40_000);
    let answered = world.one(&phone(), &message);
    assert_eq!(answered.first_line(), "SIP/2.0 480 Temporarily Unavailable", "{}", answered.text);
}
