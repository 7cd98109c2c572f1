//! Raw IP sent by a packet socket, in separate network namespaces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, SocketAddr};

use crate::common::{Namespace, assert_silent, receive, wait_report};
use strandline_io::{Carrier, IcmpKind, Outgoing, RawCarrier, RawOptions, SendStats};

const THERE: &str = "10.77.0.2";

fn open(address: &str) -> RawCarrier {
    let options = RawOptions { packet_socket: true, ..RawOptions::default() };
    RawCarrier::open(address.parse().unwrap(), &options).unwrap()
}

fn to(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 0)
}

/// Returns two namespaces whose kernels refuse to send protocol 132 (so that only a packet socket can), with
/// link-layer addresses `02:00:00:00:00:01` and `..:02`.
fn pair() -> (Namespace, Namespace) {
    let (left, right) = Namespace::pair();
    for (namespace, host) in [(&left, 1), (&right, 2)] {
        namespace.ip(&format!("link set v0 address 02:00:00:00:00:0{host}"));
        namespace.exec("iptables -A OUTPUT -p 132 -j DROP");
    }
    (left, right)
}

/// Adds the neighbour entry of `10.77.0.2` to the left namespace.
fn introduce(left: &Namespace, station: &str) {
    left.ip(&format!("neigh replace {THERE} lladdr {station} nud permanent dev v0"));
}

fn sent(carrier: &RawCarrier) -> (u64, u64) {
    let SendStats { packets, dropped, .. } = carrier.send_stats();
    (packets, dropped)
}

#[test]
fn bursts_arrive_whole_and_in_order() {
    let (left, right) = pair();
    introduce(&left, "02:00:00:00:00:02");
    for here in ["0.0.0.0", "10.77.0.1"] {
        let (one, other) = (left.enter(|| open(here)), right.enter(|| open("0.0.0.0")));
        let bytes: Vec<u8> = (0..150 * 1_400).map(|index| (index / 1_400) as u8).chain([9; 33]).collect();
        let mut batch = [Outgoing::burst(to(THERE), &bytes, 1_400)];
        one.send_batch(&mut batch).unwrap();
        assert!(batch[0].bytes.is_empty());
        let arrived = receive(&other, 151);
        assert!(arrived.iter().all(|(meta, _)| meta.source == to("10.77.0.1") && meta.ecn == Some(0)));
        assert!(arrived.into_iter().flat_map(|(_, packet)| packet).eq(bytes));
        assert_eq!(one.send_stats(), SendStats { packets: 151, dropped: 0, calls: 3 });
        // Sends from its other address, and a single packet without a segment size.
        left.ip("addr replace 10.77.0.11/24 dev v0");
        let source = (here == "0.0.0.0").then(|| "10.77.0.11".parse::<IpAddr>().unwrap());
        let single = Outgoing { source, segment_size: 0, ..Outgoing::packet(to(THERE), b"a single packet") };
        one.send(&mut { single }).unwrap();
        let (meta, packet) = receive(&other, 1).remove(0);
        assert_eq!(packet, b"a single packet");
        assert_eq!(meta.source, to(if source.is_some() { "10.77.0.11" } else { "10.77.0.1" }));
    }
}

#[test]
fn unknown_neighbour_uses_the_usual_route() {
    let (left, right) = pair();
    let (one, other) = (left.enter(|| open("0.0.0.0")), right.enter(|| open("0.0.0.0")));
    let packet = Outgoing::packet(to(THERE), &[7; 50]);
    // The kernel doesn't know the neighbour, and the raw socket can't send.
    one.send(&mut { packet }).unwrap();
    assert_eq!(sent(&one), (0, 1));
    introduce(&left, "02:00:00:00:00:02");
    one.send(&mut { packet }).unwrap();
    assert_eq!(sent(&one), (1, 1));
    assert_eq!(receive(&other, 1)[0].1, [7; 50]);
    // To the host itself, or with fragments allowed.
    one.send(&mut Outgoing::packet(to("10.77.0.1"), &[7; 50])).unwrap();
    one.send(&mut Outgoing { fragment: Some(1400), ..packet }).unwrap();
    assert_eq!(sent(&one), (1, 3));
    left.exec("iptables -D OUTPUT -p 132 -j DROP");
    one.send(&mut Outgoing::packet(to("10.77.0.1"), &[8; 50])).unwrap();
    assert_eq!(receive(&one, 1)[0].1, [8; 50]);
    one.send(&mut Outgoing { fragment: Some(1400), ..packet }).unwrap();
    assert_eq!(receive(&other, 1)[0].1, [7; 50]);
}

#[test]
fn stations_that_the_kernel_asks_for_are_found() {
    let (left, right) = pair();
    for namespace in [&left, &right] {
        namespace.exec("iptables -D OUTPUT -p 132 -j DROP");
    }
    let (one, other) = (left.enter(|| open("0.0.0.0")), right.enter(|| open("0.0.0.0")));
    // The first packet waits in the kernel until the neighbour has answered.
    one.send(&mut Outgoing::packet(to(THERE), &[1; 50])).unwrap();
    assert_eq!(receive(&other, 1)[0].1, [1; 50]);
    left.exec("iptables -A OUTPUT -p 132 -j DROP");
    one.send(&mut Outgoing::packet(to(THERE), &[2; 50])).unwrap();
    assert_eq!(receive(&other, 1)[0].1, [2; 50]);
    // A stale entry is used, but the kernel is first made to probe it.
    left.ip(&format!("neigh replace {THERE} lladdr 02:00:00:00:00:02 nud stale dev v0"));
    for _ in 0..2 {
        one.send(&mut Outgoing::packet(to(THERE), &[3; 50])).unwrap();
    }
    assert_eq!(sent(&one), (3, 1));
    assert_eq!(receive(&other, 1)[0].1, [3; 50]);
}

#[test]
fn changes_of_stations_routes_and_interfaces_are_followed() {
    let (left, right) = pair();
    introduce(&left, "02:00:00:00:00:02");
    let (one, other) = (left.enter(|| open("0.0.0.0")), right.enter(|| open("0.0.0.0")));
    let packet = Outgoing::packet(to(THERE), &[7; 50]);
    one.send(&mut { packet }).unwrap();
    receive(&other, 1);
    // The neighbour's link-layer address changes. Packets to the old one reach nobody.
    right.ip("link set v0 address 02:00:00:00:00:09");
    one.send(&mut { packet }).unwrap();
    assert_silent(&other);
    introduce(&left, "02:00:00:00:00:09");
    one.send(&mut { packet }).unwrap();
    receive(&other, 1);
    // A route by a gateway that doesn't exist.
    left.ip(&format!("route add {THERE}/32 via 10.77.0.3 dev v0"));
    one.send(&mut { packet }).unwrap();
    assert_eq!(sent(&one), (3, 1), "the kernel's usual way, which is closed");
    // Netfilter may let the next packet pass.
    assert_eq!(wait_report(&one, |_| true).1, IcmpKind::HostUnreachable);
    left.ip("neigh add 10.77.0.3 lladdr 02:00:00:00:00:09 nud permanent dev v0");
    one.send(&mut { packet }).unwrap();
    receive(&other, 1);
    // No route at all.
    left.ip(&format!("route replace prohibit {THERE}/32 metric 0"));
    one.send(&mut { packet }).unwrap();
    assert_eq!(sent(&one), (4, 2));
    left.ip(&format!("route del prohibit {THERE}/32"));
    left.ip("link set v0 down");
    one.send(&mut { packet }).unwrap();
    assert_eq!(wait_report(&one, |_| true).1, IcmpKind::NoRoute);
    assert_eq!(sent(&one), (4, 3));
}

#[test]
fn refusals_of_network_and_interface_are_reported() {
    let (left, right) = Namespace::pair();
    right.ip("link set v0 address 02:00:00:00:00:02");
    introduce(&left, "02:00:00:00:00:02");
    left.ip("link set v0 mtu 1400");
    let one = left.enter(|| open("0.0.0.0"));
    let (large, fitting) = (vec![1; 1_381], vec![2; 1_380]);
    // An ICMP message about a packet sent by the packet socket arrives.
    one.send(&mut Outgoing::packet(to(THERE), &fitting)).unwrap();
    assert_eq!(wait_report(&one, |_| true).1, IcmpKind::ProtocolUnreachable);
    let other = right.enter(|| open("0.0.0.0"));
    let mut batch = [&fitting, &large, &fitting].map(|bytes| Outgoing::packet(to(THERE), bytes));
    one.send_batch(&mut batch).unwrap();
    assert_eq!(receive(&other, 2).iter().map(|(_, packet)| packet.len()).collect::<Vec<_>>(), [1_380; 2]);
    let (destination, kind, _) = wait_report(&one, |_| true);
    assert_eq!((destination, kind), (to(THERE), IcmpKind::PacketTooBig { mtu: 1_400 }));
    assert_eq!(sent(&one), (3, 1));
}

#[test]
fn ipv6_goes_as_it_does_without() {
    let (left, right) = Namespace::pair();
    let (one, other) = (left.enter(|| open("::")), right.enter(|| open("::")));
    one.send(&mut Outgoing::packet(to("fd77::2"), &[7; 50])).unwrap();
    assert_eq!(receive(&other, 1)[0].1, [7; 50]);
}
