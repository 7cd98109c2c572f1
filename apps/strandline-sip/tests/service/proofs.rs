//! Proofs that a UDP sender receives what is sent to its address.

use strandline_sip::auth::Algorithm;

use crate::auth_22;
use crate::harness::{Phone, Sent, World, in_dialog, response};
use crate::nodes::with_credentials;

fn caller() -> Phone {
    Phone::udp("203.0.113.7:5060")
}

fn other() -> Phone {
    Phone::udp("203.0.113.8:5060")
}

fn bob() -> Phone {
    Phone::udp("192.0.2.2:5060")
}

/// Bob, and a user whose contacts make a long response.
fn world() -> World {
    let mut world = World::new();
    world.register(&bob(), "bob");
    for number in 1..=9 {
        let phone = Phone::tcp(&format!("192.0.2.{number}:4000"), number);
        let contact = format!("Contact: <sip:long-{}@192.0.2.{number}>\r\n", "x".repeat(1500));
        let register = phone.register("long", 1, &contact).replace("reg-long", &format!("reg{number}"));
        assert_eq!(world.one(&phone, &register).first_line(), "SIP/2.0 200 OK");
    }
    world
}

/// Returns true if responses to the phone are limited: not every short request then gets its long response.
fn is_unvalidated(world: &mut World, phone: &Phone) -> bool {
    let asks =
        |number: u32| phone.register("long", number, "").replace("reg-long", &format!("{}", phone.0.peer));
    (0..300).any(|number| world.receive(phone, &asks(number)).is_empty())
}

fn with_tag(ack: &str, tag: &str) -> String {
    let to = ack.lines().find(|line| line.starts_with("To: ")).unwrap();
    ack.replace(to, &format!("{to};tag={tag}"))
}

fn tag(answer: &Sent) -> String {
    answer.line("To").unwrap().split_once(";tag=").unwrap().1.to_owned()
}

/// A call that bob answers. Returns the INVITE at bob, his response, and what the caller receives.
fn call(world: &mut World, from: &Phone, number: &str) -> (String, String, Sent) {
    let invite = world.invite(from, &from.invite("bob", number)).remove(0);
    assert_eq!(invite.flow, bob().0);
    let answer = response(&invite.text, 200, "callee");
    let ok = world.one(&bob(), &answer);
    (invite.text, answer, ok)
}

#[test]
fn ack_proves_its_address_for_ten_minutes() {
    let mut world = world();
    // Registering without a password proves nothing.
    world.register(&caller(), "alice");
    let (at_bob, answer, ok) = call(&mut world, &caller(), "1");
    // The caller receives a proof that the callee doesn't see.
    assert!(ok.line("Record-Route").unwrap().contains(";lr;proof="), "{}", ok.text);
    assert!(!at_bob.contains("proof"), "{at_bob}");
    let target = "sip:bob@192.0.2.2:5060";
    let ack = |ok: &str, phone: &Phone| in_dialog("ACK", ok, target, phone, 1, true);
    // The callee knows the token of the dialog and its own tag. A proof sent to one address is invalid at
    // another.
    world.receive(&caller(), &ack(&answer, &caller()));
    assert!(is_unvalidated(&mut world, &caller()));
    world.receive(&other(), &ack(&ok.text, &other()));
    assert!(is_unvalidated(&mut world, &other()));
    let forwarded = world.one(&caller(), &ack(&ok.text, &caller()));
    assert!(forwarded.flow == bob().0 && !forwarded.text.contains("proof"), "{}", forwarded.text);
    assert!(!is_unvalidated(&mut world, &caller()));
    assert!(is_unvalidated(&mut world, &other()));
    // A proven caller needs no further proof.
    let (.., ok) = call(&mut world, &caller(), "2");
    assert!(!ok.text.contains("proof"), "{}", ok.text);
    world.run_until(599_000);
    assert!(!is_unvalidated(&mut world, &caller()));
    world.run_until(601_000);
    assert!(is_unvalidated(&mut world, &caller()));
    // A proof expires.
    world.run_until(620_000);
    let (.., ok) = call(&mut world, &caller(), "3");
    assert!(ok.text.contains(";proof="), "{}", ok.text);
    world.receive(&caller(), &ack(&ok.text, &caller()));
    assert!(!is_unvalidated(&mut world, &caller()));
}

#[test]
fn what_was_told_long_ago_proves_nothing() {
    let mut world = world();
    let (.., ok) = call(&mut world, &caller(), "1");
    world.run_until(3_000_000);
    let bye = in_dialog("BYE", &ok.text, "sip:bob@192.0.2.2:5060", &caller(), 2, true);
    // It is forwarded nevertheless.
    assert!(world.receive(&caller(), &bye).iter().any(|sent| sent.flow == bob().0));
    assert!(is_unvalidated(&mut world, &caller()));
}

#[test]
fn ack_of_refusal_proves_by_our_tag() {
    let mut world = world();
    // Without a transaction.
    let refused = world.one(&caller(), &caller().invite("nobody", "1"));
    assert!(refused.first_line().starts_with("SIP/2.0 404"));
    let ack =
        |phone: &Phone| with_tag(&phone.request("ACK", "sip:nobody@example.com", "1", ""), &tag(&refused));
    assert!(world.receive(&other(), &ack(&other())).is_empty());
    assert!(is_unvalidated(&mut world, &other()));
    assert!(world.receive(&caller(), &ack(&caller())).is_empty());
    assert!(!is_unvalidated(&mut world, &caller()));
    // Within a transaction: bob doesn't respond.
    let silent = Phone::udp("203.0.113.9:5060");
    world.invite(&silent, &silent.invite("bob", "2"));
    let out = world.run_until(33_000);
    let over = out.iter().find(|one| one.first_line().starts_with("SIP/2.0 408")).unwrap();
    let ack = with_tag(&silent.request("ACK", "sip:bob@example.com", "2", ""), &tag(over));
    assert!(world.receive(&silent, &ack).is_empty());
    assert!(!is_unvalidated(&mut world, &silent));
}

#[test]
fn the_tag_of_a_callee_proves_nothing() {
    let mut world = world();
    let invite = world.invite(&caller(), &caller().invite("bob", "1")).remove(0);
    let sent = world.receive(&bob(), &response(&invite.text, 486, "callee"));
    assert!(sent.iter().any(|one| one.first_line() == "SIP/2.0 486 Busy Here"), "{sent:?}");
    let ack = with_tag(&caller().request("ACK", "sip:bob@example.com", "1", ""), "callee");
    assert!(world.receive(&caller(), &ack).is_empty());
    assert!(is_unvalidated(&mut world, &caller()));
}

#[test]
fn credentials_prove_if_their_nonce_went_there() {
    let mut world = auth_22::world(&[Algorithm::Sha256], 16);
    let challenge = world.one(&caller(), &caller().register("bob", 1, ""));
    // Phones move: from another address the nonce is stale.
    let register = with_credentials(&other(), "bob", &challenge, "secret", 2);
    let stale = world.one(&other(), &register);
    assert!(stale.line("WWW-Authenticate").unwrap().contains("stale=true"), "{}", stale.text);
    assert!(is_unvalidated(&mut world, &other()));
    let register = with_credentials(&other(), "bob", &stale, "secret", 3);
    assert_eq!(world.one(&other(), &register).first_line(), "SIP/2.0 200 OK");
    assert!(!is_unvalidated(&mut world, &other()));
    let challenge = world.one(&caller(), &caller().register("bob", 3, ""));
    let wrong = with_credentials(&caller(), "bob", &challenge, "wrong", 4);
    assert!(world.one(&caller(), &wrong).first_line().starts_with("SIP/2.0 401"));
    let register = with_credentials(&caller(), "bob", &challenge, "secret", 5);
    assert_eq!(world.one(&caller(), &register).first_line(), "SIP/2.0 200 OK");
    assert!(!is_unvalidated(&mut world, &caller()));
}
