//! UDP encapsulation over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use crate::common::{Namespace, TIMEOUT_MS, assert_silent, receive, wait_readable, wait_report};
use strandline_io::{
    Carrier, IcmpKind, OpenError, Outgoing, RecvBatch, SendStats, Steering, UdpCarrier, UdpOptions,
};

/// An address at which nobody listens. Port 1 (tcpmux) is never assigned to a socket that asks for any port.
/// A port that was free a moment ago may be taken again, or live on in a process that another test is
/// starting.
const NOBODY: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

fn bind(address: &str) -> UdpCarrier {
    UdpCarrier::bind(address.parse().unwrap(), &UdpOptions::default()).unwrap()
}

/// Returns packets that differ, of `size` bytes each.
fn burst(count: usize, size: usize) -> Vec<u8> {
    (0..count).flat_map(|index| vec![index as u8; size]).collect()
}

fn exchange(left: &str, right: &str) {
    let (left, right) = (bind(left), bind(right));
    left.send(&mut Outgoing::packet(right.local_addr(), b"there")).unwrap();
    let (meta, packet) = receive(&right, 1).remove(0);
    assert_eq!(packet, b"there");
    assert_eq!((meta.source, meta.destination), (left.local_addr(), Some(right.local_addr().ip())));
    assert_eq!(meta.ecn, Some(0));
    right.send(&mut Outgoing::packet(meta.source, b"and back")).unwrap();
    assert_eq!(receive(&left, 1)[0].1, b"and back");
}

#[test]
fn packets_go_both_ways_on_ipv4() {
    exchange("127.0.0.1:0", "127.0.0.1:0");
}

#[test]
fn packets_go_both_ways_on_ipv6() {
    exchange("[::1]:0", "[::1]:0");
}

#[test]
fn drops_of_a_full_queue_are_counted() {
    let options = UdpOptions { receive_buffer_bytes: 0, ..UdpOptions::default() };
    let carrier = UdpCarrier::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    assert_eq!(carrier.receive_drops(), Some(0));
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let more_than_fits = carrier.receive_queue_bytes().unwrap() / 1000 * 3;
    for _ in 0..more_than_fits {
        sender.send_to(&[0; 1000], carrier.local_addr()).unwrap();
    }
    let mut batch = RecvBatch::new(32);
    let mut received = 0;
    // The kernel may still be delivering what was sent.
    while received + carrier.receive_drops().unwrap() < more_than_fits {
        assert!(wait_readable(&carrier, TIMEOUT_MS), "{received} of {more_than_fits} came");
        received += u32::try_from(carrier.recv(&mut batch).unwrap()).unwrap();
    }
    assert!(received > 0 && received < more_than_fits);
    assert_eq!(carrier.receive_drops(), Some(more_than_fits - received));
    assert_silent(&carrier);
}

#[test]
fn nothing_to_receive_is_would_block() {
    let mut batch = RecvBatch::new(4);
    let error = bind("127.0.0.1:0").recv(&mut batch).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert!(batch.is_empty());
}

#[test]
fn dual_stack_socket_shows_ipv4_addresses() {
    let dual = bind("[::]:0");
    let v4 = bind("127.0.0.1:0");
    let port = dual.local_addr().port();
    v4.send(&mut Outgoing::packet(SocketAddr::from(([127, 0, 0, 1], port)), b"to dual")).unwrap();
    let (meta, _) = receive(&dual, 1).remove(0);
    assert_eq!((meta.source, meta.destination), (v4.local_addr(), Some(IpAddr::from([127, 0, 0, 1]))));
    let answer = Outgoing { source: meta.destination, ..Outgoing::packet(meta.source, b"from dual") };
    dual.send(&mut { answer }).unwrap();
    assert_eq!(receive(&v4, 1)[0].0.source, SocketAddr::from(([127, 0, 0, 1], port)));
    // ICMP errors report the destination as IPv4 likewise.
    let nobody = SocketAddr::from(NOBODY);
    dual.send(&mut Outgoing::packet(nobody, b"who is there")).unwrap();
    let report = wait_report(&dual, |_| true);
    assert_eq!(report, (nobody, IcmpKind::ProtocolUnreachable, b"who is there".to_vec()));
}

#[test]
fn an_ipv6_only_socket_leaves_ipv4_to_others() {
    let options = UdpOptions { only_v6: true, ..UdpOptions::default() };
    let v6 = UdpCarrier::bind("[::]:0".parse().unwrap(), &options).unwrap();
    let port = v6.local_addr().port();
    let v4 = UdpCarrier::bind(SocketAddr::from(([0, 0, 0, 0], port)), &UdpOptions::default()).unwrap();
    v4.send(&mut Outgoing::packet(SocketAddr::from(([127, 0, 0, 1], port)), b"v4")).unwrap();
    assert_eq!(receive(&v4, 1)[0].1, b"v4");
    assert_silent(&v6);
}

#[test]
fn the_source_address_can_be_chosen() {
    let (any, peer) = (bind("0.0.0.0:0"), bind("127.0.0.1:0"));
    let source = Some(IpAddr::from([127, 0, 0, 42]));
    any.send(&mut Outgoing { source, ..Outgoing::packet(peer.local_addr(), b"from 42") }).unwrap();
    assert_eq!(receive(&peer, 1)[0].0.source, SocketAddr::from(([127, 0, 0, 42], any.local_addr().port())));
}

fn burst_arrives_as_train(address: &str) {
    let (left, right) = (bind(address), bind(address));
    assert_eq!(left.segments_max(), 64, "the tests need a kernel with UDP GSO (Linux 4.18 or later)");
    let bytes = [burst(40, 1_452), vec![40; 100]].concat();
    left.send(&mut Outgoing::burst(right.local_addr(), &bytes, 1_452)).unwrap();
    assert_eq!(left.send_stats(), SendStats { packets: 41, dropped: 0, calls: 1 });

    assert!(wait_readable(&right, TIMEOUT_MS));
    let mut batch = RecvBatch::new(4);
    assert_eq!(right.recv(&mut batch).unwrap(), 1, "the burst arrives in one buffer");
    let (meta, _) = batch.iter().next().unwrap();
    assert_eq!((meta.len, meta.stride), (bytes.len(), 1_452));
    let packets: Vec<_> = batch.packets().map(|(_, packet)| packet.to_vec()).collect();
    let sent: Vec<_> = bytes.chunks(1_452).map(<[u8]>::to_vec).collect();
    assert_eq!(packets, sent);
}

#[test]
fn a_burst_arrives_as_one_train_on_ipv4() {
    burst_arrives_as_train("127.0.0.1:0");
}

#[test]
fn a_burst_arrives_as_one_train_on_ipv6() {
    burst_arrives_as_train("[::1]:0");
}

#[test]
fn bursts_beyond_every_limit_arrive_whole() {
    let (left, right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let bytes = burst(150, 1_452);
    let mut outgoing = Outgoing::burst(right.local_addr(), &bytes, 1_452);
    left.send(&mut outgoing).unwrap();
    assert!(outgoing.bytes.is_empty());
    let packets: Vec<_> = receive(&right, 150).into_iter().map(|(_, packet)| packet).collect();
    assert_eq!(packets.concat(), bytes);
}

#[test]
fn without_offloads_packets_go_one_by_one() {
    let options = UdpOptions { segmentation: false, coalescing: false, ..UdpOptions::default() };
    let open = || UdpCarrier::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let (left, right) = (open(), open());
    assert_eq!(left.segments_max(), 1);
    let bytes = burst(10, 500);
    left.send(&mut Outgoing::burst(right.local_addr(), &bytes, 500)).unwrap();
    assert_eq!(left.send_stats(), SendStats { packets: 10, dropped: 0, calls: 1 });
    let packets = receive(&right, 10);
    assert!(
        packets.iter().all(|(meta, packet)| meta.len == 500 && meta.stride == 500 && packet.len() == 500)
    );
    // A burst that the sender segments late is split for a receiver that wants single datagrams.
    let gso = bind("127.0.0.1:0");
    gso.send(&mut Outgoing::burst(right.local_addr(), &bytes, 500)).unwrap();
    assert_eq!(gso.send_stats().calls, 1);
    assert_eq!(receive(&right, 10).len(), 10);
}

#[test]
fn batch_reaches_many_destinations_in_one_call() {
    let left = bind("127.0.0.1:0");
    let peers: Vec<_> = (0..5).map(|_| bind("127.0.0.1:0")).collect();
    let bytes = burst(3, 100);
    let mut batch: Vec<_> =
        peers.iter().map(|peer| Outgoing::burst(peer.local_addr(), &bytes, 100)).collect();
    left.send_batch(&mut batch).unwrap();
    assert!(batch.iter().all(|outgoing| outgoing.bytes.is_empty()));
    assert_eq!(left.send_stats(), SendStats { packets: 15, dropped: 0, calls: 1 });
    for peer in &peers {
        assert_eq!(receive(peer, 3).len(), 3);
    }
}

#[test]
fn full_send_buffer_blocks_without_duplicates() {
    let (left, right) = Namespace::pair();
    // A slow queue, so that the send buffer fills.
    left.exec("tc qdisc add dev v0 root tbf rate 8mbit burst 20kb limit 10mb");
    let options = UdpOptions { send_buffer_bytes: 20_000, segmentation: false, ..UdpOptions::default() };
    let sender = left.enter(|| UdpCarrier::bind("10.77.0.1:0".parse().unwrap(), &options)).unwrap();
    let receiver = right.enter(|| bind("10.77.0.2:0"));
    let bytes: Vec<u8> = (0..200_u8).flat_map(|index| vec![index; 1_000]).collect();
    let mut outgoing = Outgoing::burst(receiver.local_addr(), &bytes, 1_000);
    let mut blocked = 0;
    while let Err(error) = sender.send(&mut outgoing) {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        blocked += 1;
        assert!(crate::common::wait(&sender, libc::POLLOUT, TIMEOUT_MS));
    }
    assert!(blocked > 0, "the buffer never filled");
    let packets: Vec<_> = receive(&receiver, 200).into_iter().map(|(_, packet)| packet).collect();
    assert_eq!(packets.concat(), bytes);
    assert_silent(&receiver);
}

#[test]
fn closed_port_is_reported_and_harmless() {
    let (left, right) = (bind("127.0.0.1:0"), bind("127.0.0.1:0"));
    let nobody = SocketAddr::from(NOBODY);
    left.send(&mut Outgoing::packet(nobody, b"anybody there? ")).unwrap();
    // The pending error must fail neither a send to another destination nor a receive.
    left.send(&mut Outgoing::packet(right.local_addr(), b"hello")).unwrap();
    assert_eq!(receive(&right, 1)[0].1, b"hello");
    left.send(&mut Outgoing::packet(nobody, b"anybody there? ")).unwrap();
    let error = left.recv(&mut RecvBatch::new(1)).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert!(left.errors_pending());
    let report = wait_report(&left, |_| true);
    assert_eq!(report, (nobody, IcmpKind::ProtocolUnreachable, b"anybody there? ".to_vec()));
    assert_eq!(left.poll_errors(&mut |_| ()), 0);
    assert!(!left.errors_pending());
    assert_eq!(left.send_stats(), SendStats { packets: 3, dropped: 0, calls: 3 });
}

#[test]
fn oversized_packet_is_reported_with_the_mtu() {
    for (local, remote, overhead) in [("10.77.0.1:0", "10.77.0.2:0", 28), ("[fd77::1]:0", "[fd77::2]:0", 48)]
    {
        let (left, right) = Namespace::pair();
        left.ip("link set v0 mtu 1400");
        let (sender, receiver) = (left.enter(|| bind(local)), right.enter(|| bind(remote)));
        let to = receiver.local_addr();
        assert_eq!(sender.overhead(to.ip()), overhead);
        let bytes = burst(3, 1_400 - overhead + 4);
        sender.send(&mut Outgoing::packet(to, &bytes[..bytes.len() / 3])).unwrap();
        let (destination, kind, quoted) = wait_report(&sender, |_| true);
        assert_eq!((destination, kind), (to, IcmpKind::PacketTooBig { mtu: 1_400 }));
        assert_eq!(quoted, bytes[..quoted.len()]);
        assert!(quoted.len() >= 20);
        // As a burst, the error is reported once, and GSO stays enabled.
        sender.send(&mut Outgoing::burst(to, &bytes, bytes.len() / 3)).unwrap();
        assert_eq!(wait_report(&sender, |_| true).1, IcmpKind::PacketTooBig { mtu: 1_400 });
        assert_eq!(sender.send_stats().dropped, 4);
        assert_eq!(sender.segments_max(), 64);
        // Packets that fit are sent, as single packets and as a burst.
        let fitting = burst(3, 1_400 - overhead);
        sender.send(&mut Outgoing::burst(to, &fitting, 1_400 - overhead)).unwrap();
        assert_eq!(receive(&receiver, 3).len(), 3);
        // With permission, IP fragments the large packet, while the next one again may not be fragmented.
        let first = &bytes[..bytes.len() / 3];
        let mut batch =
            [Outgoing { fragment: Some(1400), ..Outgoing::packet(to, first) }, Outgoing::packet(to, first)];
        sender.send_batch(&mut batch).unwrap();
        assert_eq!(receive(&receiver, 1)[0].1, first);
        assert_eq!(wait_report(&sender, |_| true).1, IcmpKind::PacketTooBig { mtu: 1_400 });
        assert_silent(&receiver);
    }
}

#[test]
fn a_small_mtu_behind_a_router_is_reported() {
    let (left, _router, right) = Namespace::around_a_router();
    for (local, remote, overhead) in [("0.0.0.0:0", "10.78.0.2:9899", 28), ("[::]:0", "[fd78::2]:9899", 48)] {
        let (sender, receiver) = (left.enter(|| bind(local)), right.enter(|| bind(remote)));
        let to: SocketAddr = remote.parse().unwrap();
        let large = burst(1, 1_400);
        sender.send(&mut Outgoing::packet(to, &large)).unwrap();
        let (destination, kind, quoted) = wait_report(&sender, |_| true);
        assert_eq!((destination, kind), (to, IcmpKind::PacketTooBig { mtu: 1_300 }));
        assert!(quoted.len() >= 20 && quoted == large[..quoted.len()]);
        // The kernel has cached the path MTU, but must not refuse a probe of this length: the path may have
        // changed.
        sender.send(&mut Outgoing::packet(to, &large)).unwrap();
        assert_eq!(sender.send_stats(), SendStats { packets: 2, dropped: 0, calls: 2 });
        assert_eq!(wait_report(&sender, |_| true).1, IcmpKind::PacketTooBig { mtu: 1_300 });
        let fitting = burst(4, 1_300 - overhead);
        sender.send(&mut Outgoing::burst(to, &fitting, 1_300 - overhead)).unwrap();
        assert_eq!(receive(&receiver, 4).len(), 4);
        sender.send(&mut Outgoing { fragment: Some(1400), ..Outgoing::packet(to, &large) }).unwrap();
        assert_eq!(receive(&receiver, 1)[0].1, large);
    }
}

#[test]
fn unreachable_destinations_spare_the_batch() {
    let (left, right) = Namespace::pair();
    let (sender, receiver) = (left.enter(|| bind("0.0.0.0:0")), right.enter(|| bind("10.77.0.2:0")));
    let nowhere: SocketAddr = "192.0.2.1:9899".parse().unwrap();
    let other_family: SocketAddr = "[fd77::2]:9899".parse().unwrap();
    let mut batch = [nowhere, other_family, receiver.local_addr()].map(|to| Outgoing::packet(to, b"packet"));
    sender.send_batch(&mut batch).unwrap();
    assert_eq!(receive(&receiver, 1)[0].1, b"packet");
    let mut reports = Vec::new();
    sender.poll_errors(&mut |report| reports.push((report.destination, report.kind)));
    assert_eq!(reports, [nowhere, other_family].map(|to| (to, IcmpKind::NoRoute)));
    assert_eq!(sender.send_stats(), SendStats { packets: 1, dropped: 2, calls: 1 });
}

#[test]
fn vanished_source_address_keeps_gso() {
    let (left, right) = (bind("0.0.0.0:0"), bind("127.0.0.1:0"));
    let bytes = burst(10, 1_000);
    let source = Some(IpAddr::from([192, 0, 2, 1]));
    for _ in 0..5 {
        left.send(&mut Outgoing { source, ..Outgoing::burst(right.local_addr(), &bytes, 1_000) }).unwrap();
    }
    assert_eq!(left.send_stats(), SendStats { packets: 0, dropped: 50, calls: 0 });
    assert_eq!(left.segments_max(), 64);
    left.send(&mut Outgoing::burst(right.local_addr(), &bytes, 1_000)).unwrap();
    assert_eq!(left.send_stats().calls, 1);
}

#[test]
fn opening_errors_name_the_reason() {
    let holder = bind("127.0.0.1:0");
    let taken = holder.local_addr();
    let open = |address: SocketAddr| UdpCarrier::bind(address, &UdpOptions::default()).unwrap_err();
    let error = open(taken);
    assert!(matches!(error, OpenError::AddressInUse { address } if address == taken), "{error}");
    let error = open("192.0.2.1:0".parse().unwrap());
    assert!(matches!(error, OpenError::AddressNotAvailable { .. }), "{error}");
    let namespace = Namespace::new();
    namespace.exec("sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
    let error = namespace.enter(|| open("[::1]:0".parse().unwrap()));
    assert!(matches!(error, OpenError::Ipv6Disabled { .. }), "{error}");
}

#[test]
fn a_port_can_be_shared_only_by_agreement() {
    let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let first = UdpCarrier::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
    let second = UdpCarrier::bind(first.local_addr(), &options).unwrap();
    let error = UdpCarrier::bind(first.local_addr(), &UdpOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::AddressInUse { .. }), "{error}");
    // Each datagram goes to exactly one of the sockets.
    let senders: Vec<_> = (0..32).map(|_| bind("127.0.0.1:0")).collect();
    for sender in &senders {
        sender.send(&mut Outgoing::packet(first.local_addr(), b"one")).unwrap();
    }
    let mut sources = BTreeSet::new();
    let mut batch = RecvBatch::new(32);
    let (mut received, mut rounds) = (0, 0);
    while received < senders.len() {
        rounds += 1;
        assert!(rounds < 1000, "{received} of {} came", senders.len());
        for carrier in [&first, &second] {
            if wait_readable(carrier, 50) && carrier.recv(&mut batch).is_ok() {
                received += batch.packets().count();
                sources.extend(batch.packets().map(|(meta, _)| meta.source));
            }
        }
    }
    assert_eq!(sources, senders.iter().map(Carrier::local_addr).collect());
}

/// Returns a common header and a few bytes more.
fn header(ports: (u16, u16), tag: u32) -> Vec<u8> {
    [&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &tag.to_be_bytes(), &[0; 8]].concat()
}

#[test]
fn socket_group_is_steered_by_tag_and_source() {
    let cases = [
        ("127.0.0.1:0", "127.0.0.1", &["127.0.0.1", "127.7.8.9"][..]),
        ("[::1]:0", "::1", &["::1"]),
        ("[::]:0", "127.0.0.1", &["127.0.0.2", "127.0.0.3"]),
        ("[::]:0", "::1", &["::1"]),
    ];
    for (number, (bound, to, from)) in (1..).zip(cases) {
        for places in [2, 3, 4] {
            let steering = Steering::new(places, number * 1_000 + u64::from(places));
            let group =
                UdpCarrier::bind_group(bound.parse().unwrap(), &UdpOptions::default(), &steering).unwrap();
            let address = SocketAddr::new(to.parse().unwrap(), group[0].local_addr().port());
            let mut expected = vec![Vec::new(); usize::from(places)];
            for from in from {
                let source: IpAddr = from.parse().unwrap();
                let sender = bind(&SocketAddr::new(source, 0).to_string());
                for number in 0..100_u16 {
                    let tag = if number % 4 == 0 { u32::from(number).wrapping_mul(0x9e37_79b1) } else { 0 };
                    let packet = header((number.wrapping_mul(661), 5_060 + number % 3), tag);
                    sender.send(&mut Outgoing::packet(address, &packet)).unwrap();
                    expected[usize::from(steering.place_of(source, &packet))].push(packet);
                }
            }
            for (carrier, expected) in group.iter().zip(expected) {
                let packets: Vec<_> =
                    receive(carrier, expected.len()).into_iter().map(|(_, packet)| packet).collect();
                assert!(packets == expected, "{bound} from {from:?}, {places} places");
            }
        }
    }
}

#[test]
fn a_group_joins_nobody_elses_sockets() {
    let shared = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let other = UdpCarrier::bind("127.0.0.1:0".parse().unwrap(), &shared).unwrap();
    let steering = Steering::new(2, 1);
    let error = UdpCarrier::bind_group(other.local_addr(), &shared, &steering).unwrap_err();
    assert!(matches!(error, OpenError::AddressInUse { .. }), "{error}");
    let group =
        UdpCarrier::bind_group("127.0.0.1:0".parse().unwrap(), &UdpOptions::default(), &steering).unwrap();
    let error = UdpCarrier::bind_group(group[0].local_addr(), &UdpOptions::default(), &steering).unwrap_err();
    assert!(matches!(error, OpenError::AddressInUse { .. }), "{error}");
}

/// ECT(0) is set on request, for one packet as for each packet of a burst, on IPv4 and IPv6 (RFC 3168).
#[test]
fn packets_say_that_they_may_be_marked() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (left, right) = (bind(address), bind(address));
        let to = right.local_addr();
        let mut plain = Outgoing::packet(to, b"may not be marked");
        left.send(&mut plain).unwrap();
        assert_eq!(receive(&right, 1)[0].0.ecn, Some(0), "{address}");
        left.send(&mut Outgoing { ecn_capable: true, ..Outgoing::packet(to, b"may be marked") }).unwrap();
        assert_eq!(receive(&right, 1)[0].0.ecn, Some(0b10), "{address}");
        let bytes = burst(5, 1_000);
        left.send(&mut Outgoing { ecn_capable: true, ..Outgoing::burst(to, &bytes, 1_000) }).unwrap();
        let received = receive(&right, 5);
        assert!(received.iter().all(|(meta, _)| meta.ecn == Some(0b10)), "{address}: {received:?}");
    }
    // A dual-stack socket to IPv4.
    let (dual, v4) = (bind("[::]:0"), bind("127.0.0.1:0"));
    dual.send(&mut Outgoing { ecn_capable: true, ..Outgoing::packet(v4.local_addr(), b"to IPv4") }).unwrap();
    assert_eq!(receive(&v4, 1)[0].0.ecn, Some(0b10));
}
