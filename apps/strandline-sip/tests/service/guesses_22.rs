//! Password guessing from an address that phones share.

use strandline_sip::service::{Relay, Settings};

use crate::credentials::{ask, credentials, register, request};
use crate::harness::{Phone, Sent, World, settings};

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

/// Sends a REGISTER with a wrong password and a nonce for which `asked` asks.
fn guess_with(world: &mut World, asked: &Sent, from: &Phone, user: &str, cseq: u32) -> Sent {
    let header = credentials(asked, user, "guess", "REGISTER", "sip:example.com", cseq);
    world.one(from, &from.register(user, cseq, &header).replace("Call-ID: reg-", "Call-ID: guess-"))
}

/// Whoever forges source addresses over UDP doesn't receive the nonces that are sent to them, but has an
/// address that receives others.
#[test]
fn forged_source_with_anothers_nonce_counts_nothing() {
    let mut world = World::new();
    ask(&mut world);
    let own = Phone::udp("203.0.113.66:5060");
    let asked = world.one(&own, &own.register("bob", 1, ""));
    // Another phone there has proved that the address receives what is sent to it. That is no proof for
    // others' packets.
    let carol = register(&mut world, &guesser(), ("carol", "carol-secret"), 1, "");
    assert_eq!(world.one(&guesser(), &carol).first_line(), "SIP/2.0 200 OK");
    for number in 0..220 {
        let user = if number < 20 { "bob".to_owned() } else { format!("x{number}") };
        let sent = guess_with(&mut world, &asked, &phone(), &user, 2 + number);
        // As for an expired nonce, without checking the password.
        assert_eq!(sent.first_line(), "SIP/2.0 401 Unauthorized", "{number}");
        assert!(sent.line("WWW-Authenticate").unwrap().contains("stale=true"), "{}", sent.text);
    }
    let counters = world.service.access().guesses();
    assert_eq!((counters.wrong, counters.refused), (0, 0));
    // Neither a new phone nor one that has moved to another port there is affected.
    let text = request(&mut world, &phone(), "MESSAGE", "sip:carol@example.com", "1", "");
    assert_eq!(world.one(&phone(), &text).first_line(), "SIP/2.0 480 Temporarily Unavailable");
    let moved = Phone::udp("192.0.2.1:7000");
    let bob = register(&mut world, &moved, bob(), 300, CONTACT);
    assert_eq!(world.one(&moved, &bob).first_line(), "SIP/2.0 200 OK");
}

/// A guesser with two addresses has the guesses of one at each.
#[test]
fn nonces_of_another_address_give_no_guesses() {
    let mut world = World::new();
    ask(&mut world);
    let (one, other) = (Phone::udp("203.0.113.66:5060"), Phone::udp("203.0.113.67:5060"));
    let asked = world.one(&one, &one.register("bob", 1, ""));
    let right = credentials(&asked, "bob", "bob-secret", "REGISTER", "sip:example.com", 1);
    let sent = world.one(&other, &other.register("bob", 2, &right));
    assert_eq!(sent.first_line(), "SIP/2.0 401 Unauthorized", "a right password looks like a wrong one");
    assert!(sent.line("WWW-Authenticate").unwrap().contains("stale=true"), "{}", sent.text);
    // A retransmission gets no other answer. With the new nonce, the phone is let in.
    let again = world.one(&other, &other.register("bob", 2, &right));
    assert!(again.line("WWW-Authenticate").unwrap().contains("stale=true"), "{}", again.text);
    let right = credentials(&sent, "bob", "bob-secret", "REGISTER", "sip:example.com", 1);
    assert_eq!(world.one(&other, &other.register("bob", 3, &right)).first_line(), "SIP/2.0 200 OK");
}

#[test]
fn calls_from_new_addresses_are_challenged_again() {
    let mut world = World::new();
    ask(&mut world);
    let (before, after) = (phone(), Phone::udp("198.51.100.77:5060"));
    let invite = |from: &Phone, branch: &str, header: &str| {
        from.request("INVITE", "sip:carol@example.com", branch, header)
    };
    let asked = world.one(&before, &invite(&before, "1", ""));
    let answer =
        |asked: &Sent| credentials(asked, "alice", "alice-secret", "INVITE", "sip:carol@example.com", 1);
    let sent = world.one(&after, &invite(&after, "2", &answer(&asked)));
    assert_eq!(sent.first_line(), "SIP/2.0 407 Proxy Authentication Required");
    assert!(sent.line("Proxy-Authenticate").unwrap().contains("stale=true"), "{}", sent.text);
    let sent = world.one(&after, &invite(&after, "3", &answer(&sent)));
    assert_eq!(sent.first_line(), "SIP/2.0 480 Temporarily Unavailable");
}

/// A listed proxy with a password of its own, which sends from two addresses in turn.
#[test]
fn listed_proxies_may_alternate_between_addresses() {
    for is_listed in [false, true] {
        let from = if is_listed { vec![([198, 51, 100, 8].into(), 30)] } else { Vec::new() };
        let relay = Relay { open: false, from };
        let mut world = World::with(Settings { relay, ..settings() });
        ask(&mut world);
        let (one, other) = (Phone::udp("198.51.100.9:5060"), Phone::udp("198.51.100.10:5060"));
        let asked = world.one(&one, &one.register("bob", 1, ""));
        let right = credentials(&asked, "bob", "bob-secret", "REGISTER", "sip:example.com", 1);
        let sent = world.one(&other, &other.register("bob", 2, &right));
        assert_eq!(sent.first_line() == "SIP/2.0 200 OK", is_listed, "{}", sent.text);
    }
}

/// Nobody can forge the source of a connection, so a guess with any nonce is a guess, and a phone that has
/// moved needs no further challenge.
#[test]
fn over_connections_the_nonces_address_is_irrelevant() {
    let mut world = World::new();
    ask(&mut world);
    let (one, other) = (Phone::udp("203.0.113.66:5060"), Phone::tcp("203.0.113.67:40000", 1));
    world.service.connection_opened(1);
    let asked = world.one(&one, &one.register("bob", 1, ""));
    let wrong = guess_with(&mut world, &asked, &other, "bob", 2);
    assert!(!wrong.line("WWW-Authenticate").unwrap().contains("stale"), "{}", wrong.text);
    assert_eq!(world.service.access().guesses().wrong, 1);
    let right = credentials(&asked, "bob", "bob-secret", "REGISTER", "sip:example.com", 3);
    assert_eq!(world.one(&other, &other.register("bob", 3, &right)).first_line(), "SIP/2.0 200 OK");
}

/// An edge proxy receives over UDP what others forge, over whatever transport it passes that on.
#[test]
fn behind_an_edge_the_phone_receives_the_nonce() {
    let edges = [Phone::udp("198.51.100.9:5060"), Phone::tcp("198.51.100.10:5060", 1)];
    let relay = Relay { open: false, from: vec![([198, 51, 100, 8].into(), 30)] };
    let mut world = World::with(Settings { relay, ..settings() });
    ask(&mut world);
    world.service.connection_opened(1);
    let behind = |text: String, address: &str| {
        let via = format!("Via: SIP/2.0/UDP 10.0.0.7;branch=z9hG4bKp;rport=5060;received={address}\r\n");
        text.replacen("From:", &format!("{via}From:"), 1)
    };
    let [first, second] = &edges;
    let asked = world.one(first, &behind(first.register("bob", 1, ""), "203.0.113.66"));
    for (number, edge) in edges.iter().enumerate() {
        for cseq in 2..30 {
            let header = credentials(&asked, "bob", "guess", "REGISTER", "sip:example.com", cseq);
            let sent = world.one(edge, &behind(edge.register("bob", cseq, &header), "203.0.113.1"));
            assert!(sent.line("WWW-Authenticate").unwrap().contains("stale=true"), "{number}: {}", sent.text);
        }
    }
    assert_eq!(world.service.access().guesses().wrong, 0);
    // The challenge and its answer may take different edges.
    let header = credentials(&asked, "bob", "bob-secret", "REGISTER", "sip:example.com", 1);
    let text = behind(second.register("bob", 40, &header), "203.0.113.66");
    assert_eq!(world.one(second, &text).first_line(), "SIP/2.0 200 OK");
    // What an edge has passed on proves nothing about an address that is not behind it.
    let asked = world.one(first, &behind(first.register("bob", 50, ""), "203.0.113.66"));
    let direct = Phone::udp("203.0.113.66:5060");
    let header = credentials(&asked, "bob", "bob-secret", "REGISTER", "sip:example.com", 1);
    let sent = world.one(&direct, &direct.register("bob", 51, &header));
    assert!(sent.line("WWW-Authenticate").unwrap().contains("stale=true"), "{}", sent.text);
}
