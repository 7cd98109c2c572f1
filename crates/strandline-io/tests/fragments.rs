//! Fragmentation of packets longer than the path MTU, on a path that drops them without an ICMP message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, SocketAddr};

use crate::common::{Namespace, assert_silent, receive};
use strandline_io::{Carrier, Outgoing, RawCarrier, RawOptions, UdpCarrier, UdpOptions};

fn udp(address: &str) -> UdpCarrier {
    let address: IpAddr = address.parse().unwrap();
    UdpCarrier::bind(SocketAddr::new(address, 9899), &UdpOptions::default()).unwrap()
}

fn raw(address: &str) -> RawCarrier {
    RawCarrier::open(address.parse().unwrap(), &RawOptions::default()).unwrap()
}

/// Sends packets of `len` bytes in each of these ways; returns which of them arrive whole.
fn arrive(from: &dyn Carrier, to: &dyn Carrier, there: &str, len: usize, ways: &[Option<u16>]) -> Vec<bool> {
    let destination = SocketAddr::new(there.parse().unwrap(), if to.is_raw() { 0 } else { 9899 });
    let mut arrived = Vec::new();
    for (number, fragment) in ways.iter().enumerate() {
        let bytes = vec![number as u8; len];
        from.send(&mut Outgoing { fragment: *fragment, ..Outgoing::packet(destination, &bytes) }).unwrap();
        // Each packet that may be lost is followed by a short one that isn't.
        from.send(&mut Outgoing::packet(destination, b"that is all!")).unwrap();
        let mut packets = Vec::new();
        while packets.last().is_none_or(|last| last != b"that is all!") {
            packets.extend(receive(to, 1).into_iter().map(|(_, packet)| packet));
        }
        arrived.push(packets.contains(&bytes));
        assert_eq!(packets.len(), 1 + usize::from(packets.contains(&bytes)));
    }
    assert_silent(to);
    arrived
}

#[test]
fn packets_are_cut_for_a_silent_link() {
    let ways = [None, Some(1500), Some(700), Some(576)];
    // A dual-stack socket at last, which raw IP hasn't.
    for here in ["0.0.0.0", "10.77.0.1", "::"] {
        // Namespaces of their own: a program that another test starts holds closed sockets until its exec,
        // and their addresses with them.
        let (left, right) = Namespace::pair();
        // The other end drops longer packets without an ICMP message.
        right.ip("link set v0 mtu 700");
        let (one, other) = (left.enter(|| udp(here)), right.enter(|| udp("10.77.0.2")));
        assert_eq!(arrive(&one, &other, "10.77.0.2", 1400, &ways), [false, false, true, true]);
        if here != "::" {
            let (one, other) = (left.enter(|| raw(here)), right.enter(|| raw("10.77.0.2")));
            assert_eq!(arrive(&one, &other, "10.77.0.2", 1400, &ways), [false, false, true, true]);
        }
    }
}

#[test]
fn long_packets_are_fragmented_on_ipv6() {
    let (left, right) = Namespace::pair();
    right.ip("link set v0 mtu 1280");
    // The packet has 1,504 bytes with the headers of IPv6 and UDP.
    let ways = [Some(1500), Some(1280), Some(576)];
    let (one, other) = (left.enter(|| udp("fd77::1")), right.enter(|| udp("fd77::2")));
    assert_eq!(arrive(&one, &other, "fd77::2", 1456, &ways), [false, true, true]);
    let (one, other) = (left.enter(|| raw("fd77::1")), right.enter(|| raw("fd77::2")));
    assert_eq!(arrive(&one, &other, "fd77::2", 1464, &ways), [false, true, true]);
}

#[test]
fn each_destination_has_its_source() {
    let (left, right) = Namespace::pair();
    for (namespace, host) in [(&left, 1), (&right, 2)] {
        namespace.ip(&format!("addr add 10.79.0.{host}/24 dev v0"));
    }
    let (one, other) = (left.enter(|| udp("0.0.0.0")), right.enter(|| udp("0.0.0.0")));
    for (there, here) in [("10.77.0.2", "10.77.0.1"), ("10.79.0.2", "10.79.0.1"), ("10.77.0.2", "10.77.0.1")]
    {
        let destination = SocketAddr::new(there.parse().unwrap(), 9899);
        one.send(&mut Outgoing { fragment: Some(576), ..Outgoing::packet(destination, &[7; 1400]) }).unwrap();
        let (meta, bytes) = receive(&other, 1).remove(0);
        assert_eq!((meta.source.ip(), bytes.len()), (here.parse::<IpAddr>().unwrap(), 1400));
    }
}
