//! Contacts that this server can't reach: those of phones behind NATs, and unknown host names (RFC 5626
//! section 5.3, RFC 3581).

use std::time::Duration;

use strandline_sip::resolution::{Answer, Found, Server};
use strandline_sip::service::Settings;
use strandline_sip::transaction::Protocol;

use crate::harness::{Phone, Sent, World, settings};
use crate::nodes::{follow, two};

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

/// A phone at the port that a NAT has assigned.
fn bob() -> Phone {
    Phone::udp("192.0.2.2:40001")
}

/// The destination of an INVITE, for a phone with this contact, and with `via` in place of its source.
fn reached(contact: &str, via: Option<&str>) -> String {
    let mut world = World::new();
    let register = bob().register("bob", 1, &format!("Contact: <{contact}>\r\n"));
    let register = via.map_or(register.clone(), |via| register.replacen("192.0.2.2:40001", via, 1));
    let ok = world.one(&bob(), &register);
    assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{register}");
    world.invite(&alice(), &alice().invite("bob", "1"))[0].flow.peer.to_string()
}

#[test]
fn stun_contact_behind_symmetric_nat_uses_the_flow() {
    for via in ["192.168.50.10:5060", "192.0.2.2:40000", "phone.lan"] {
        assert_eq!(reached("sip:bob@192.0.2.2:40000", Some(via)), "192.0.2.2:40001", "{via}");
    }
    assert_eq!(reached("sip:bob@192.0.2.2", Some("10.0.0.5")), "192.0.2.2:40001");
    // Without a NAT, the contact's port is used.
    assert_eq!(reached("sip:bob@192.0.2.2:5070", None), "192.0.2.2:5070");
}

#[test]
fn phone_listening_at_another_port_is_called_there() {
    let mut world = World::new();
    let register = bob().register("bob", 1, "Contact: <sip:bob@192.0.2.2>\r\n");
    let register = register.replacen("192.0.2.2:40001", "192.0.2.2:5060", 1).replacen(";rport", "", 1);
    world.one(&bob(), &register);
    let sent = world.invite(&alice(), &alice().invite("bob", "1"));
    assert_eq!(sent[0].flow.peer, "192.0.2.2:5060".parse().unwrap());
}

#[test]
fn invalid_host_name_uses_the_flow() {
    for contact in ["sip:bob@df7jal23ls0d.invalid", "sip:bob@X.INVALID.:5070"] {
        assert_eq!(reached(contact, None), "192.0.2.2:40001", "{contact}");
    }
    // Without DNS, no name can be resolved.
    assert_eq!(reached("sip:bob@phone-7.lan", None), "192.0.2.2:40001");
}

/// The messages sent once DNS has answered.
fn called(found: &Found) -> (World, Vec<Sent>) {
    let mut world = World::with(Settings { names_max: 10, ..settings() });
    world.register_with(&bob(), "bob", "Contact: <sip:bob@phone-7.lan:5060>\r\n");
    world.receive(&alice(), &alice().invite("bob", "1"));
    let questions = world.service.servers_mut().take_wanted();
    assert_eq!(questions.len(), 1);
    for question in questions {
        let answer = Answer { found: found.clone(), ttl: Duration::from_secs(600) };
        world.service.located(world.now, &question, answer);
    }
    let sent = world.sent();
    (world, sent)
}

#[test]
fn unknown_host_is_reached_over_its_flow() {
    for found in [Found::Nothing, Found::NoAnswer] {
        let (mut world, sent) = called(&found);
        let invite = sent.iter().find(|one| one.first_line().starts_with("INVITE ")).unwrap();
        assert_eq!(invite.flow, bob().0, "{found:?}");
        // The result is cached by now.
        let sent = world.invite(&alice(), &alice().invite("bob", "2").replace("Call-ID: call", "Call-ID: 2"));
        assert_eq!(sent[0].flow, bob().0, "{found:?}");
    }
}

#[test]
fn known_host_is_called_by_name() {
    let addresses = vec!["192.0.2.77:5060".parse().unwrap()];
    let server = Server { protocol: Protocol::Udp, priority: 0, weight: 0, addresses };
    let (_, sent) = called(&Found::Servers(vec![server]));
    let invite = sent.iter().find(|one| one.first_line().starts_with("INVITE ")).unwrap();
    assert_eq!(invite.flow.peer, "192.0.2.77:5060".parse().unwrap());
}

#[test]
fn an_unknown_host_never_costs_tls() {
    let mut world = World::new();
    world.register_with(&bob(), "bob", "Contact: <sips:bob@phone-7.lan>\r\n");
    let sent = world.one(&alice(), &alice().invite("bob", "1"));
    assert_eq!(sent.flow, alice().0, "{}", sent.text);
    assert!(!sent.first_line().starts_with("INVITE"), "{}", sent.text);
}

#[test]
fn another_node_reaches_an_unknown_host() {
    let (mut a, mut b) = two();
    let register = bob().register("bob", 1, "Contact: <sip:bob@phone-7.lan>\r\n");
    assert!(a.receive(&bob(), &register).is_empty());
    a.service.output_mut().held.clear();
    follow(&mut a, "a", &mut b);
    let between = b.invite(&alice(), &alice().invite("bob", "1")).remove(0);
    assert_eq!(between.flow.peer, "10.0.0.1:5060".parse().unwrap());
    let at_phone = a.invite(&Phone::tcp("10.0.0.2:40000", 99), &between.text);
    assert_eq!(at_phone[0].flow, bob().0);
}
