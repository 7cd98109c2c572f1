//! Password guessing from an address that phones share.

use strandline_sip::service::{Relay, Settings};

use crate::credentials::{ask, credentials, register, request};
use crate::harness::{Phone, World, settings};

const CONTACT: &str = "Contact: <sip:bob@192.0.2.1:5060>\r\n";

fn phone() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn guesser() -> Phone {
    Phone::udp("192.0.2.1:6666")
}

fn bob() -> (&'static str, &'static str) {
    ("bob", "bob-secret")
}

/// Guesses the passwords of 300 users, and returns how many guesses were checked.
fn guess(world: &mut World, from: &Phone) -> u64 {
    let before = world.service.access().guesses().wrong;
    for user in 0..300 {
        let text = register(world, from, (&format!("x{user}"), "guess"), 1, "");
        world.one(from, &text);
    }
    world.service.access().guesses().wrong - before
}

#[test]
fn a_phone_behind_a_guessers_address_goes_on() {
    let mut world = World::new();
    ask(&mut world);
    let first = register(&mut world, &phone(), bob(), 1, CONTACT);
    assert_eq!(world.one(&phone(), &first).first_line(), "SIP/2.0 200 OK");
    assert_eq!(guess(&mut world, &guesser()), 200);
    // Also from another port, as after reconnecting.
    for (cseq, from) in [(3, phone()), (5, Phone::udp("192.0.2.1:7000"))] {
        let again = register(&mut world, &from, bob(), cseq, CONTACT);
        assert_eq!(world.one(&from, &again).first_line(), "SIP/2.0 200 OK");
    }
    let text = request(&mut world, &phone(), "MESSAGE", "sip:carol@example.com", "1", "");
    assert_eq!(
        world.one(&phone(), &text).first_line(),
        "SIP/2.0 403 Too Many Wrong Passwords",
        "alice is new"
    );
    assert_eq!(guess(&mut world, &guesser()), 0);
}

#[test]
fn guesses_at_a_user_spare_its_phone() {
    let mut world = World::new();
    ask(&mut world);
    let first = register(&mut world, &phone(), bob(), 1, CONTACT);
    world.one(&phone(), &first);
    let mut looked_at = 0;
    for number in 0..50 {
        let text = register(&mut world, &guesser(), ("bob", "guess"), 100 + 2 * number, "");
        let text = text.replace("Call-ID: reg-bob", "Call-ID: guess");
        looked_at += u32::from(world.one(&guesser(), &text).first_line().starts_with("SIP/2.0 401"));
        if number % 10 == 0 {
            let again = register(&mut world, &phone(), bob(), 3 + 2 * number, CONTACT);
            assert_eq!(world.one(&phone(), &again).first_line(), "SIP/2.0 200 OK");
        }
    }
    assert_eq!(looked_at, 10, "a right password elsewhere gives no further guesses");
}

#[test]
fn who_is_registered_goes_on_after_a_restart() {
    let mut world = World::new();
    world.register_with(&phone(), "bob", CONTACT);
    ask(&mut world);
    assert_eq!(guess(&mut world, &guesser()), 200);
    let again = register(&mut world, &phone(), bob(), 3, CONTACT);
    assert_eq!(world.one(&phone(), &again).first_line(), "SIP/2.0 200 OK");
}

#[test]
fn what_is_known_of_guesses_outlives_a_reload() {
    let mut world = World::new();
    ask(&mut world);
    let first = register(&mut world, &phone(), bob(), 1, CONTACT);
    world.one(&phone(), &first);
    assert_eq!(guess(&mut world, &guesser()), 200);
    ask(&mut world);
    assert_eq!(guess(&mut world, &guesser()), 0);
    let again = register(&mut world, &phone(), bob(), 3, "");
    assert_eq!(world.one(&phone(), &again).first_line(), "SIP/2.0 200 OK");
    assert_eq!(world.service.access().guesses().wrong, 200);
}

#[test]
fn behind_an_edge_each_phone_counts_for_itself() {
    let edge = Phone::udp("198.51.100.9:5060");
    let relay = Relay { open: false, from: vec![([198, 51, 100, 9].into(), 32)] };
    let mut world = World::with(Settings { relay, ..settings() });
    ask(&mut world);
    let mut from = |address: &str, (user, password): (&str, &str), cseq: u32| {
        let behind = |text: String| {
            let via = format!("Via: SIP/2.0/UDP 10.0.0.7;branch=z9hG4bKp;rport=5060;received={address}\r\n");
            text.replacen("From:", &format!("{via}From:"), 1)
        };
        let asked = world.one(&edge, &behind(edge.register(user, cseq, "")));
        let header = credentials(&asked, user, password, "REGISTER", "sip:example.com", 1);
        world.one(&edge, &behind(edge.register(user, cseq + 1, &header))).first_line()["SIP/2.0 ".len()..]
            [..3]
            .to_owned()
    };
    for user in 0..300 {
        let code = from("203.0.113.66", (&format!("x{user}"), "guess"), 1);
        assert_eq!(code, if user < 200 { "401" } else { "403" }, "{user}");
    }
    // The phone has never registered from there.
    assert_eq!(from("203.0.113.1", bob(), 1), "200");
    assert_eq!(from("203.0.113.66", ("carol", "carol-secret"), 1), "403");
}

/// Behind a NAT a phone has a new port for each connection. Its contact goes with the connection.
#[test]
fn a_phone_whose_user_is_guessed_reconnects() {
    let tcp = |number: u64| Phone::tcp(&format!("192.0.2.1:{}", 40_000 + number), number);
    let contact = "Contact: <sip:bob@10.0.0.7:5060;transport=tcp>\r\n";
    let mut world = World::new();
    ask(&mut world);
    let mut registers = |number: u64| {
        world.service.connection_opened(number);
        let text = register(&mut world, &tcp(number), bob(), 10 * number as u32, contact);
        let line = world.one(&tcp(number), &text).first_line().to_owned();
        world.service.connection_closed(number);
        // Guesses from new ports, too.
        for guess in 0..30 {
            let from = Phone::udp(&format!("192.0.2.1:{}", 50_000 + 100 * number + guess));
            let text = register(&mut world, &from, ("bob", "guess"), 1000 + 2 * guess as u32, "");
            world.one(&from, &text.replace("Call-ID: reg-bob", "Call-ID: guess"));
        }
        (line, world.service.access().guesses().wrong)
    };
    for number in 1..=3 {
        assert_eq!(registers(number), ("SIP/2.0 200 OK".to_owned(), 10), "{number}");
    }
}
