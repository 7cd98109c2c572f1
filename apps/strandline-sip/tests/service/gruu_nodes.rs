//! GRUUs at nodes that share a store.

use strandline_sip::bindings::Journal;
use strandline_sip::service::{Advertised, NodeAddress, Peer, Settings};
use strandline_sip::transaction::Protocol;

use crate::harness::{Phone, World, settings};

const INSTANCE: &str = "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
const IPS: [&str; 2] = ["10.0.0.1", "10.0.0.2"];
const NAMES: [&str; 2] = ["a", "b"];

fn address(number: usize) -> NodeAddress {
    NodeAddress::read(&format!("tcp:{}:5060", IPS[number])).unwrap()
}

fn nodes() -> [World; 2] {
    [0, 1].map(|number| {
        let advertised = |protocol| Advertised::new(protocol, IPS[number].to_owned(), 5060);
        let settings =
            Settings { advertised: Protocol::ALL.map(advertised).to_vec(), durable: true, ..settings() };
        let mut world = World::with(settings);
        world.service.join(NAMES[number], Some(address(number)));
        let other = 1 - number;
        let peer = Peer { name: NAMES[other].to_owned(), address: Some(address(other)), is_alive: true };
        world.service.set_nodes(vec![peer]);
        world
    })
}

fn follow(nodes: &mut [World; 2], from: usize) {
    let journal = std::mem::take(&mut nodes[from].service.output_mut().journal);
    for (aor, state) in Journal::read(journal.as_bytes()) {
        nodes[1 - from].service.load(NAMES[from], aor, state);
    }
}

/// Registers a flow, and returns its temporary GRUU.
fn register(world: &mut World, phone: &Phone, (id, cseq, call_id): (u32, u32, &str)) -> String {
    world.service.connection_opened(phone.0.connection);
    let contact = format!(
        "Supported: gruu, outbound\r\nContact: {};reg-id={id};+sip.instance=\"<{INSTANCE}>\"\r\n",
        phone.contact("bob")
    );
    let register = phone.register("bob", cseq, &contact).replace("reg-bob", call_id);
    assert!(world.receive(phone, &register).is_empty());
    let ok = String::from_utf8(world.service.output().held.get(0).unwrap().1.to_vec()).unwrap();
    world.service.output_mut().held.clear();
    ok.split("temp-gruu=\"").last().unwrap().split('"').next().unwrap().to_owned()
}

fn answer(world: &mut World, uri: &str, branch: &str) -> String {
    let alice = Phone::udp("192.0.2.1:5060");
    let sent = world.receive(&alice, &alice.request("INVITE", uri, branch, ""));
    sent.last().unwrap().first_line().to_owned()
}

#[test]
fn gruu_is_followed_across_nodes() {
    let mut nodes = nodes();
    let phone = Phone::tcp("192.0.2.7:4000", 7);
    let gruu = register(&mut nodes[0], &phone, (1, 1, "one"));
    assert!(answer(&mut nodes[1], &gruu, "0").starts_with("SIP/2.0 404"), "not yet");
    follow(&mut nodes, 0);
    let alice = Phone::udp("192.0.2.1:5060");
    let sent = nodes[1].invite(&alice, &alice.request("INVITE", &gruu, "1", ""));
    assert_eq!(sent[0].flow.peer, address(0).address);
    let from_b = Phone::tcp("10.0.0.2:40000", 99);
    let there = nodes[0].invite(&from_b, &sent[0].text);
    assert_eq!(there[0].flow, phone.0);
    assert!(there[0].first_line().starts_with("INVITE sip:bob@192.0.2.7"), "{}", there[0].text);
}

#[test]
fn gruus_at_two_nodes_end_with_call_id() {
    let mut nodes = nodes();
    let (one, two) = (Phone::tcp("192.0.2.7:4000", 7), Phone::tcp("192.0.2.7:4001", 8));
    // Neither node knows of the other's registration.
    let first = register(&mut nodes[0], &one, (1, 1, "one"));
    nodes[1].run_until(5);
    let second = register(&mut nodes[1], &two, (2, 1, "two"));
    follow(&mut nodes, 0);
    follow(&mut nodes, 1);
    for node in &mut nodes {
        assert!(answer(node, &first, "1").starts_with("INVITE"));
        assert!(answer(node, &second, "2").starts_with("INVITE"));
    }
    nodes[1].run_until(1000);
    let third = register(&mut nodes[1], &two, (2, 1, "three"));
    follow(&mut nodes, 1);
    for node in &mut nodes {
        assert!(answer(node, &first, "3").starts_with("SIP/2.0 404"));
        assert!(answer(node, &second, "4").starts_with("SIP/2.0 404"));
        assert!(answer(node, &third, "5").starts_with("INVITE"));
    }
    // Refreshing the first flow uses the instance's new number.
    nodes[0].run_until(2000);
    let fourth = register(&mut nodes[0], &one, (1, 2, "one"));
    follow(&mut nodes, 0);
    for node in &mut nodes {
        assert!(answer(node, &third, "6").starts_with("INVITE"));
        assert!(answer(node, &fourth, "7").starts_with("INVITE"));
        assert!(answer(node, &first, "8").starts_with("SIP/2.0 404"));
    }
}
