//! A redirect server (section 8.3).

use strandline_sip::service::{Directory, Hop, Mode, Relay, Route, Settings};

use crate::harness::{Phone, Sent, World, settings};

const MOVED: &str = "SIP/2.0 302 Moved Temporarily";

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn route(prefix: Option<&str>, domain: Option<&str>, hops: &[&str]) -> Route {
    let hop = |(number, uri): (usize, &&str)| Hop { uri: (*uri).to_owned(), priority: number as u16 };
    Route {
        prefix: prefix.map(str::to_owned),
        domain: domain.map(str::to_owned),
        hops: hops.iter().enumerate().map(hop).collect(),
        registrar: false,
        offer: None,
    }
}

fn world() -> World {
    let routes = vec![
        route(Some("+44"), None, &["sip:203.0.113.1", "sip:203.0.113.2:5070;transport=tcp"]),
        route(None, Some("partner.example"), &["sip:203.0.113.3:5070;transport=tcp", "sip:203.0.113.4"]),
    ];
    let directory = Directory { routes, ..Directory::default() };
    let relay = Relay { open: true, from: Vec::new() };
    World::with(Settings { mode: Mode::Redirect, directory, relay, ..settings() })
}

/// A world in which bob is registered.
fn with_bob() -> World {
    let mut world = world();
    let bob = Phone::udp("192.0.2.5:5060");
    world.register_with(&bob, "bob", &format!("Contact: {};q=0.7\r\n", bob.contact("bob")));
    world
}

fn ack(invite: &str, told: &Sent) -> String {
    let to = told.line("To").unwrap();
    let text = invite.replace("INVITE", "ACK");
    let old = text.lines().find(|line| line.starts_with("To: ")).unwrap().to_owned();
    text.replace(&old, &format!("To: {to}"))
}

#[test]
fn it_tells_where_users_are() {
    let mut world = with_bob();
    let told = world.one(&alice(), &alice().invite("bob", "a"));
    assert_eq!(told.first_line(), MOVED);
    assert_eq!(told.lines("Contact"), ["<sip:bob@192.0.2.5:5060>;q=0.700"]);
    let told = world.one(&alice(), &alice().invite("+44200", "b"));
    let hops = ["<sip:+44200@203.0.113.1>;q=1.000", "<sip:+44200@203.0.113.2:5070;transport=tcp>;q=0.900"];
    assert_eq!(told.lines("Contact"), hops);
    assert!(world.one(&alice(), &alice().invite("carol", "c")).first_line().starts_with("SIP/2.0 404"));
    // A redirection for a foreign host would name the destination that the caller already has.
    let foreign =
        alice().invite("dave", "d").replace("INVITE sip:dave@example.com", "INVITE sip:dave@203.0.113.9");
    assert_eq!(world.one(&alice(), &foreign).first_line(), "SIP/2.0 404 Not Our Domain");
    assert!(world.receive(&alice(), &foreign.replace("INVITE", "ACK")).is_empty());
}

#[test]
fn redirected_target_is_located_at_the_hop() {
    let mut world = world();
    let told = world.one(&alice(), &alice().request("INVITE", "sip:dave@partner.example", "a", ""));
    let hops = [
        "<sip:dave@partner.example:5070;maddr=203.0.113.3;transport=tcp>;q=1.000",
        "<sip:dave@partner.example;maddr=203.0.113.4>;q=0.900",
    ];
    assert_eq!((told.first_line(), told.lines("Contact")), (MOVED, hops.to_vec()));
}

#[test]
fn nobody_is_sent_to_where_they_were_going() {
    let mut world = World::with(Settings { mode: Mode::Redirect, names_max: 10, ..settings() });
    let bob = Phone::udp("192.0.2.5:5060");
    let both = format!("Contact: <sip:bob@EXAMPLE.com>, {}\r\n", bob.contact("bob"));
    world.register_with(&bob, "bob", &both);
    let told = world.one(&alice(), &alice().invite("bob", "a"));
    assert_eq!(told.lines("Contact"), ["<sip:bob@192.0.2.5:5060>;q=1.000"]);
    world.register_with(&bob, "carol", "Contact: <sip:%63arol@example.com>\r\n");
    let told = world.one(&alice(), &alice().invite("carol", "b"));
    assert_eq!(told.first_line(), "SIP/2.0 404 Not Found");
}

#[test]
fn a_redirection_is_repeated_until_its_ack() {
    let mut world = with_bob();
    let invite = alice().invite("bob", "a");
    let told = world.one(&alice(), &invite);
    assert_eq!(world.service.transactions().counts(), (1, 0));
    // Timer G: after T1, 2 T1 and so on, and whenever the INVITE is retransmitted.
    let again = world.run_until(1600);
    assert_eq!(again.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(), [&told.text, &told.text]);
    assert_eq!(world.one(&alice(), &invite).text, told.text);
    let ack = ack(&invite, &told);
    assert!(world.receive(&alice(), &ack).is_empty());
    assert!(world.run_until(60_000).is_empty(), "it was acknowledged");
    assert_eq!(world.service.transactions().counts(), (0, 0));
    // A late ACK belongs to no transaction.
    assert!(world.receive(&alice(), &ack).is_empty());
}

#[test]
fn a_redirection_that_nobody_acknowledges_is_given_up() {
    let mut world = with_bob();
    world.one(&alice(), &alice().invite("bob", "a"));
    let again = world.run_until(40_000);
    assert_eq!((again.len(), world.service.transactions().counts()), (10, (0, 0)));
}

#[test]
fn over_a_connection_a_redirection_is_sent_once() {
    let caller = Phone::tcp("192.0.2.1:40000", 7);
    let mut world = with_bob();
    world.service.connection_opened(7);
    assert_eq!(world.one(&caller, &caller.invite("bob", "a")).first_line(), MOVED);
    assert!(world.run_until(40_000).is_empty());
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

#[test]
fn repeated_non_invite_is_redirected_again() {
    let mut world = with_bob();
    let text = alice().request("MESSAGE", "sip:bob@example.com", "a", "");
    let told = world.one(&alice(), &text);
    assert_eq!(told.first_line(), MOVED);
    // Also when bob is no longer registered, because it is the same transaction.
    let bob = Phone::udp("192.0.2.5:5060");
    world.one(&bob, &bob.register("bob", 2, "Contact: *\r\nExpires: 0\r\n"));
    assert_eq!(world.one(&alice(), &text).text, told.text);
    assert!(world.run_until(40_000).is_empty());
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

#[test]
fn cancel_is_answered_and_changes_nothing() {
    let mut world = with_bob();
    let invite = alice().invite("bob", "a");
    let told = world.one(&alice(), &invite);
    let cancel = alice().request("CANCEL", "sip:bob@example.com", "a", "");
    let ok = world.one(&alice(), &cancel);
    assert_eq!((ok.first_line(), ok.line("CSeq")), ("SIP/2.0 200 OK", Some("1 CANCEL")));
    assert_eq!(world.run_until(600)[0].text, told.text);
    assert!(world.receive(&alice(), &ack(&invite, &told)).is_empty());
    world.run_until(60_000);
    let late = world.one(&alice(), &cancel);
    assert_eq!(late.first_line(), "SIP/2.0 481 Call/Transaction Does Not Exist");
}

#[test]
fn a_forged_source_gets_few_redirections() {
    let mut world = World::with(Settings { mode: Mode::Redirect, ..settings() });
    world.register(&Phone::udp("192.0.2.5:5060"), "bob");
    let (mut came, mut got) = (0, 0);
    for number in 0..200 {
        let text = alice().invite("bob", &format!("f{number}"));
        let text = text.replace("Call-ID: call", &format!("Call-ID: call{number}"));
        came += text.len() + 64;
        got += world.receive(&alice(), &text).iter().map(|one| one.text.len()).sum::<usize>();
    }
    got += world.run_until(40_000).iter().map(|one| one.text.len()).sum::<usize>();
    assert!(got <= came + (16 << 10) + 40 * (2 << 10), "{got} for {came}");
}
