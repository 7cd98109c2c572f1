//! Contacts that this server can't reach: those of phones behind NATs, and unknown host names (RFC 5626
//! section 5.3, RFC 3581).

use std::time::Duration;

use strandline_sip::resolution::{Answer, Found, Server};
use strandline_sip::service::Settings;
use strandline_sip::transaction::{Flow, Protocol};

use crate::harness::{Phone, Sent, World, response, settings};
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

#[test]
fn contacts_that_lead_nowhere_use_the_flow() {
    for contact in [
        "sip:bob@localhost",
        "sip:bob@LocalHost.:5070",
        "sip:bob@bob.localhost",
        "sip:bob@127.0.0.1",
        "sip:bob@[::ffff:127.0.0.1]",
        "sip:bob@192.0.2.2:0",
    ] {
        assert_eq!(called_at_once(&bob(), contact), Some(bob().0), "{contact}");
    }
    // A phone on this host is at its contact.
    assert_eq!(called_at_once(&Phone::udp("127.0.0.1:40001"), "sip:bob@localhost:5070"), None);
}

/// The flow of an INVITE to a phone with this contact, if no name has to be resolved first.
fn called_at_once(phone: &Phone, contact: &str) -> Option<Flow> {
    let mut world = World::with(Settings { names_max: 10, ..settings() });
    world.register_with(phone, "bob", &format!("Contact: <{contact}>\r\n"));
    let sent = world.invite(&alice(), &alice().invite("bob", "1"));
    let invite = sent.iter().find(|one| one.first_line().starts_with("INVITE "));
    assert_eq!(invite.is_none(), world.service.servers_mut().take_wanted().len() == 1, "{sent:#?}");
    invite.map(|one| one.flow)
}

/// A socket for IPv4 can't send to an IPv4 address that is written as an IPv6 address.
#[test]
fn ipv4_mapped_addresses_are_ipv4_addresses() {
    assert_eq!(reached("sip:bob@[::ffff:192.0.2.2]:40001", None), "192.0.2.2:40001");
    assert_eq!(reached("sip:bob@[::ffff:192.0.2.2]:5070", None), "192.0.2.2:5070");
    let mut world = World::new();
    let register = bob().register("bob", 1, "Contact: <sip:bob@192.0.2.2>\r\n").replacen(";rport", "", 1);
    let register = register.replacen("192.0.2.2:40001", "[::ffff:192.0.2.2]:5060", 1);
    assert_eq!(world.one(&bob(), &register).flow.peer.to_string(), "192.0.2.2:5060");
    // Nothing is sent to many hosts, and the server knows its own address.
    let mut world = World::relaying();
    for (number, (address, answer)) in [
        ("224.0.0.1", "SIP/2.0 502 Unresolvable Destination"),
        ("255.255.255.255", "SIP/2.0 502 Unresolvable Destination"),
        ("0.0.0.0", "SIP/2.0 502 Unresolvable Destination"),
        ("198.51.100.1", "SIP/2.0 200 OK"),
    ]
    .into_iter()
    .enumerate()
    {
        let uri = format!("sip:[::ffff:{address}]");
        let told = world.one(&alice(), &alice().request("OPTIONS", &uri, &number.to_string(), ""));
        assert_eq!((told.flow, told.first_line()), (alice().0, answer), "{uri}");
    }
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
        world.service.handle_dns_answer(world.now, &question, answer);
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

/// A user whose contact has a host name that DNS doesn't answer, and a call to it.
fn unanswered() -> World {
    let mut world = World::with(Settings { names_max: 10, ..settings() });
    world.register_with(&bob(), "bob", "Contact: <sip:bob@phone-7.lan:5060>\r\n");
    assert!(call(&mut world, 1).is_empty());
    world
}

/// INVITEs that are sent for a call.
fn call(world: &mut World, number: u32) -> Vec<Sent> {
    let id = format!("Call-ID: {number}");
    let sent = world.invite(&alice(), &alice().invite("bob", &id[9..]).replace("Call-ID: call", &id));
    sent.into_iter().filter(|one| one.first_line().starts_with("INVITE ")).collect()
}

fn invites_until(world: &mut World, ms: u64) -> Vec<Sent> {
    let sent = world.run_until(ms);
    sent.into_iter().filter(|one| one.first_line().starts_with("INVITE ")).collect()
}

fn names_server(last: u8) -> Found {
    let addresses = vec![([192, 0, 2, last], 5060).into()];
    Found::Servers(vec![Server { protocol: Protocol::Udp, priority: 0, weight: 0, addresses }])
}

/// DNS answers all that it was asked.
fn dns_answers(world: &mut World, found: &Found) -> Vec<Sent> {
    for question in world.service.servers_mut().take_wanted() {
        let answer = Answer { found: found.clone(), ttl: Duration::from_secs(5) };
        world.service.handle_dns_answer(world.now, &question, answer);
    }
    world.sent()
}

#[test]
fn silent_dns_delays_calls_over_flows_once() {
    let mut world = unanswered();
    assert!(invites_until(&mut world, 499).is_empty());
    let sent = invites_until(&mut world, 501);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].flow, bob().0);
    // Later calls don't wait, whether DNS has given up or not.
    assert_eq!(call(&mut world, 2)[0].flow, bob().0);
    world.receive(&bob(), &response(&sent[0].text, 180, "b"));
    assert!(dns_answers(&mut world, &Found::NoAnswer).iter().all(|one| one.flow == bob().0));
    invites_until(&mut world, 10_000);
    assert_eq!(call(&mut world, 3)[0].flow, bob().0);
    assert!(world.service.servers_mut().take_wanted().is_empty());
    // The branch over the flow outlives the answer.
    let answered = world.receive(&bob(), &response(&sent[0].text, 200, "b"));
    assert!(answered.iter().any(|one| one.flow == alice().0 && one.first_line().contains("200")));
    // After half a minute DNS gets another chance.
    invites_until(&mut world, 31_000);
    assert!(call(&mut world, 4).is_empty());
    assert_eq!(world.service.servers_mut().take_wanted().len(), 1);
}

#[test]
fn late_answer_of_dns_serves_silent_flows() {
    let mut world = unanswered();
    let sent = invites_until(&mut world, 600);
    assert_eq!(sent[0].flow, bob().0);
    assert!(dns_answers(&mut world, &names_server(77)).is_empty());
    let sent = invites_until(&mut world, 5000);
    assert_eq!(sent.iter().filter(|one| one.flow.peer == "192.0.2.77:5060".parse().unwrap()).count(), 1);
    assert_eq!(call(&mut world, 2)[0].flow.peer, "192.0.2.77:5060".parse().unwrap());
}

#[test]
fn silent_dns_leaves_the_servers_known_before() {
    let mut world = unanswered();
    assert_eq!(dns_answers(&mut world, &names_server(77)).len(), 1);
    invites_until(&mut world, 6000);
    assert!(call(&mut world, 2).is_empty(), "the answer was valid for five seconds");
    let sent = invites_until(&mut world, 6501);
    assert!(sent.iter().all(|one| one.flow.peer == "192.0.2.77:5060".parse().unwrap()), "{sent:#?}");
    assert_eq!(call(&mut world, 3)[0].flow.peer, "192.0.2.77:5060".parse().unwrap());
}

#[test]
fn cancelled_call_is_not_sent_over_the_flow() {
    let mut world = unanswered();
    world.receive(
        &alice(),
        &alice().invite("bob", "1").replace("Call-ID: call", "Call-ID: 1").replace("INVITE", "CANCEL"),
    );
    assert!(invites_until(&mut world, 40_000).is_empty());
    dns_answers(&mut world, &Found::NoAnswer);
    assert_eq!(world.service.transactions().counts(), (0, 0));
    assert!(world.service.contexts().are_answered());
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
