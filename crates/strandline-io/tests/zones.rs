//! Link-local peers on two links, over real sockets in network namespaces of the tests' own.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::common::{Namespace, assert_silent, receive, run};
use strandline_io::{Carrier, OpenError, Outgoing, RawCarrier, RawOptions, UdpCarrier, UdpOptions};

const HERE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const THERE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

/// A common header and nothing else: SCTP ports 7 and 8.
const PACKET: [u8; 12] = [0, 7, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];

/// A link from the host to a peer: its number on either side.
struct Link {
    zone: u32,
    zone_of_peer: u32,
    peer: Namespace,
}

/// A host with the address `HERE` on two links, and a peer on each link, both with the address `THERE`.
fn links() -> (Namespace, [Link; 2]) {
    let host = Namespace::new();
    let links = ["v1", "v2"].map(|name| {
        let peer = Namespace::new();
        run(&format!("ip link add {name} netns {} type veth peer name v0 netns {}", host.name, peer.name));
        let [zone, zone_of_peer] =
            [(&host, name, HERE), (&peer, "v0", THERE)].map(|(namespace, interface, address)| {
                namespace.ip(&format!("link set {interface} addrgenmode none"));
                namespace.ip(&format!("link set {interface} up"));
                namespace.ip(&format!("addr add {address}/64 dev {interface} nodad"));
                let all = namespace.enter(|| strandline_io::interfaces().unwrap());
                all.into_iter().find(|(name, _)| name == interface).unwrap().1
            });
        Link { zone, zone_of_peer, peer }
    });
    (host, links)
}

fn zoned(ip: Ipv6Addr, carrier: &dyn Carrier, zone: u32) -> SocketAddr {
    SocketAddrV6::new(ip, carrier.local_addr().port(), 0, zone).into()
}

type Opened = Result<Box<dyn Carrier + Send>, OpenError>;

/// Packets reach the peer on the link that their destination names, and those that come name theirs.
fn peers_on_both_links(open: impl Fn(Ipv6Addr, u32) -> Opened + Sync) {
    let (namespace, links) = links();
    let any = Ipv6Addr::UNSPECIFIED;
    let host = namespace.enter(|| open(any, 0).unwrap());
    let peers = links.each_ref().map(|link| link.peer.enter(|| open(any, 0).unwrap()));
    for (link, peer, other) in [(&links[0], &*peers[0], &*peers[1]), (&links[1], &*peers[1], &*peers[0])] {
        let destination = zoned(THERE, peer, link.zone);
        host.send(&mut Outgoing::packet(destination, &PACKET)).unwrap();
        let (meta, bytes) = receive(peer, 1).remove(0);
        assert_eq!((meta.source, &bytes[..]), (zoned(HERE, &*host, link.zone_of_peer), &PACKET[..]));
        assert_silent(other);
        let source = meta.destination;
        peer.send(&mut Outgoing { source, ..Outgoing::packet(meta.source, &PACKET) }).unwrap();
        let (meta, _) = receive(&*host, 1).remove(0);
        assert_eq!((meta.source, meta.destination), (destination, Some(IpAddr::V6(HERE))));
    }
    drop(host);
    // Bound to the address on one link, it receives what comes by that link.
    let [first, second] = &links;
    let bound = namespace.enter(|| open(HERE, second.zone).unwrap());
    assert_eq!(bound.local_addr(), zoned(HERE, &*bound, second.zone));
    for (link, peer) in [(first, &peers[0]), (second, &peers[1])] {
        peer.send(&mut Outgoing::packet(zoned(HERE, &*bound, link.zone_of_peer), &PACKET)).unwrap();
    }
    assert_eq!(receive(&*bound, 1)[0].0.source, zoned(THERE, &*peers[1], second.zone));
    assert_silent(&*bound);
    let refused = namespace.enter(|| open(HERE, 0)).map(|_| ()).unwrap_err();
    assert!(matches!(refused, OpenError::NoZone { address } if address == HERE), "{refused}");
}

#[test]
fn udp_reaches_peers_on_both_links() {
    peers_on_both_links(|address, zone| {
        let address = SocketAddrV6::new(address, 0, 0, zone).into();
        Ok(Box::new(UdpCarrier::bind(address, &UdpOptions::default())?))
    });
}

#[test]
fn raw_ip_reaches_peers_on_both_links() {
    peers_on_both_links(|address, zone| {
        let options = RawOptions { zone, ..RawOptions::default() };
        Ok(Box::new(RawCarrier::open(address.into(), &options)?))
    });
}
