//! Raw IP over real sockets, in separate network namespaces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::common::{Namespace, assert_silent, receive, wait_report};
use strandline_io::{
    Carrier, EPHEMERAL_PORTS, IcmpKind, LockError, OpenError, Outgoing, PortLock, RawCarrier, RawOptions,
    RecvBatch, SendStats, Steering, UdpCarrier, UdpOptions,
};

fn open(address: &str) -> RawCarrier {
    open_ports(address, &[0..=u16::MAX])
}

fn open_ports(address: &str, ports: &[RangeInclusive<u16>]) -> RawCarrier {
    let options = RawOptions { ports: ports.to_vec(), ..RawOptions::default() };
    RawCarrier::open(address.parse().unwrap(), &options).unwrap()
}

fn to(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), 0)
}

/// Returns a packet of `size` bytes to an SCTP port, beginning with a common header.
fn packet(port: u16, size: usize) -> Vec<u8> {
    let mut bytes = vec![port as u8; size];
    bytes[..2].copy_from_slice(&7_u16.to_be_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes
}

#[test]
fn packets_go_both_ways() {
    let (left, right) = Namespace::pair();
    for (here, there, any) in [("10.77.0.1", "10.77.0.2", "0.0.0.0"), ("fd77::1", "fd77::2", "::")] {
        let (one, other) = (left.enter(|| open(here)), right.enter(|| open(any)));
        let bytes = packet(5_060, 100);
        one.send(&mut Outgoing::packet(to(there), &bytes)).unwrap();
        let (meta, arrived) = receive(&other, 1).remove(0);
        assert_eq!(arrived, bytes, "the IP header is not part of the packet");
        assert_eq!((meta.source, meta.destination), (to(here), Some(there.parse().unwrap())));
        assert_eq!(meta.ecn, Some(0));
        other
            .send(&mut Outgoing { source: meta.destination, ..Outgoing::packet(meta.source, &bytes) })
            .unwrap();
        assert_eq!(receive(&one, 1)[0].0.source, to(there));
        assert!(one.is_raw());
        assert_eq!(one.overhead(meta.source.ip()), if meta.source.is_ipv4() { 20 } else { 40 });
        let error = one.recv(&mut RecvBatch::new(1)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}

#[test]
fn a_burst_goes_out_in_one_call() {
    let (left, right) = Namespace::pair();
    for (any, there) in [("0.0.0.0", "10.77.0.2"), ("::", "fd77::2")] {
        let (one, other) = (left.enter(|| open(any)), right.enter(|| open(any)));
        let bytes: Vec<u8> = (0..70).flat_map(|port| packet(port, 1_400)).collect();
        let (first, second) = bytes.split_at(40 * 1_400);
        let mut batch = [first, second].map(|bytes| Outgoing::burst(to(there), bytes, 1_400));
        one.send_batch(&mut batch).unwrap();
        assert_eq!(one.send_stats(), SendStats { packets: 70, dropped: 0, calls: 2 });
        let packets: Vec<_> = receive(&other, 70).into_iter().map(|(_, packet)| packet).collect();
        assert!(packets.concat() == bytes);
    }
}

#[test]
fn the_source_address_can_be_chosen() {
    let (left, right) = Namespace::pair();
    left.ip("addr add 10.77.0.11/24 dev v0");
    left.ip("addr add fd77::11/64 dev v0 nodad");
    for (any, second, there) in [("0.0.0.0", "10.77.0.11", "10.77.0.2"), ("::", "fd77::11", "fd77::2")] {
        let (one, other) = (left.enter(|| open(any)), right.enter(|| open(there)));
        let source: IpAddr = second.parse().unwrap();
        one.send(&mut Outgoing { source: Some(source), ..Outgoing::packet(to(there), &packet(1, 12)) })
            .unwrap();
        assert_eq!(receive(&other, 1)[0].0.source, to(second));
    }
}

#[test]
fn link_local_addresses_keep_their_interface() {
    let (left, right) = Namespace::pair();
    let (one, other) = (left.enter(|| open("::")), right.enter(|| open("::")));
    left.ip("addr add fe80::a/64 dev v0 nodad");
    right.ip("addr add fe80::b/64 dev v0 nodad");
    let index = left.enter(|| {
        let all = strandline_io::local_addresses().unwrap();
        all.iter().find(|local| local.address.to_string() == "fe80::a").unwrap().interface_index
    });
    let peer: SocketAddr = format!("[fe80::b%{index}]:0").parse().unwrap();
    let source = Some("fe80::a".parse().unwrap());
    one.send(&mut Outgoing { source, ..Outgoing::packet(peer, &packet(1, 12)) }).unwrap();
    let meta = receive(&other, 1).remove(0).0;
    assert_eq!(meta.source.ip(), "fe80::a".parse::<IpAddr>().unwrap());
    // The source as it was reported is enough for an answer.
    other.send(&mut Outgoing::packet(meta.source, &packet(1, 12))).unwrap();
    assert_eq!(receive(&one, 1).len(), 1);
}

#[test]
fn only_packets_to_the_given_ports_arrive() {
    let (left, right) = Namespace::pair();
    for (any, there) in [("0.0.0.0", "10.77.0.2"), ("::", "fd77::2")] {
        let sender = left.enter(|| open_ports(any, &[]));
        let one = right.enter(|| open_ports(any, &[5_060..=5_060, 49_152..=49_407]));
        let other = right.enter(|| open_ports(any, &[5_061..=5_061]));
        let none = right.enter(|| open_ports(any, &[]));
        let send = |ports: &[u16]| {
            for port in ports {
                sender.send(&mut Outgoing::packet(to(there), &packet(*port, 12))).unwrap();
            }
        };
        let arrived = |carrier: &RawCarrier, count| -> Vec<u16> {
            let ports = receive(carrier, count).into_iter();
            ports.map(|(_, packet)| u16::from_be_bytes([packet[2], packet[3]])).collect()
        };
        send(&[5_059, 5_060, 5_061, 49_151, 49_152, 49_407, 49_408]);
        assert_eq!(arrived(&one, 3), [5_060, 49_152, 49_407]);
        assert_eq!(arrived(&other, 1), [5_061]);
        // Another set of ports.
        other.set_ports(&[5_059..=5_059, 5_061..=5_061]).unwrap();
        one.set_ports(&[]).unwrap();
        send(&[5_059, 5_060, 5_061]);
        assert_eq!(arrived(&other, 2), [5_059, 5_061]);
        // All ports, and again none.
        other.set_ports(&[0..=u16::MAX]).unwrap();
        send(&[0, 65_535]);
        assert_eq!(arrived(&other, 2), [0, 65_535]);
        other.set_ports(&[0..=u16::MAX]).unwrap();
        other.set_ports(&[]).unwrap();
        send(&[1]);
        // As many ranges as a program holds, and more.
        let many: Vec<_> = (0..1_000_u16).map(|index| index * 60..=index * 60).collect();
        other.set_ports(&many).unwrap();
        send(&[59_940]);
        assert_eq!(arrived(&other, 1), [59_940]);
        for carrier in [&one, &other, &none, &sender] {
            assert_silent(carrier);
        }
    }
}

#[test]
fn each_place_receives_its_own_packets() {
    let (left, right) = Namespace::pair();
    let steering = Steering::new(3, 5);
    for (here, there, any) in [("10.77.0.1", "10.77.0.2", "0.0.0.0"), ("fd77::1", "fd77::2", "::")] {
        let one = left.enter(|| open(here));
        let options = RawOptions { ports: vec![5_060..=5_061], ..RawOptions::default() };
        let all: Vec<_> = right.enter(|| {
            let open = |place| RawCarrier::open_place(any.parse().unwrap(), &options, &steering, place);
            (0..3).map(|place| open(place).unwrap()).collect()
        });
        let mut expected = vec![Vec::new(); 3];
        for number in 0..120_u16 {
            let mut bytes = packet(5_060 + number % 3, 40);
            bytes[..2].copy_from_slice(&number.wrapping_mul(547).to_be_bytes());
            let tag = if number % 4 == 0 { u32::from(number).wrapping_mul(0x9e37_79b1) } else { 0 };
            bytes[4..8].copy_from_slice(&tag.to_be_bytes());
            one.send(&mut Outgoing::packet(to(there), &bytes)).unwrap();
            if number % 3 != 2 {
                expected[usize::from(steering.place_of(here.parse().unwrap(), &bytes))].push(bytes);
            }
        }
        for (carrier, expected) in all.iter().zip(expected) {
            assert!(!expected.is_empty());
            let packets: Vec<_> =
                receive(carrier, expected.len()).into_iter().map(|(_, packet)| packet).collect();
            assert!(packets == expected, "{there}");
            // The place stays when the ports change.
            carrier.set_ports(&[7..=7]).unwrap();
        }
        for tag in 1..=3_u32 {
            let mut bytes = packet(7, 40);
            bytes[4..8].copy_from_slice(&tag.to_be_bytes());
            one.send(&mut Outgoing::packet(to(there), &bytes)).unwrap();
            assert_eq!(receive(&all[usize::from(steering.place_of_tag(tag))], 1)[0].1, bytes);
        }
        all.iter().for_each(|carrier| assert_silent(carrier));
    }
}

#[test]
fn bound_socket_receives_only_its_packets() {
    let (left, right) = Namespace::pair();
    right.ip("addr add 10.77.0.12/24 dev v0");
    let sender = left.enter(|| open_ports("0.0.0.0", &[]));
    let (one, other) = (right.enter(|| open("10.77.0.2")), right.enter(|| open("10.77.0.12")));
    sender.send(&mut Outgoing::packet(to("10.77.0.12"), &packet(1, 12))).unwrap();
    assert_eq!(receive(&other, 1)[0].0.destination, Some("10.77.0.12".parse().unwrap()));
    assert_silent(&one);
}

#[test]
fn size_errors_name_the_mtu() {
    for (here, there, overhead) in [("10.77.0.1", "10.77.0.2", 20), ("fd77::1", "fd77::2", 40)] {
        let (left, right) = Namespace::pair();
        left.ip("link set v0 mtu 1400");
        let (sender, receiver) = (left.enter(|| open_ports(here, &[])), right.enter(|| open(there)));
        let large = packet(5_060, 1_404 - overhead);
        sender.send(&mut Outgoing::packet(to(there), &large)).unwrap();
        let (destination, kind, quoted) = wait_report(&sender, |_| true);
        assert_eq!((destination, kind), (to(there), IcmpKind::PacketTooBig { mtu: 1_400 }));
        assert!(quoted.len() >= 20 && quoted == large[..quoted.len()]);
        let fitting = packet(5_060, 1_400 - overhead);
        let mut batch = [
            Outgoing { fragment: Some(1400), ..Outgoing::packet(to(there), &large) },
            Outgoing::packet(to(there), &fitting),
            Outgoing::packet(to(there), &large),
        ];
        sender.send_batch(&mut batch).unwrap();
        let sizes: Vec<_> = receive(&receiver, 2).iter().map(|(_, packet)| packet.len()).collect();
        assert_eq!(sizes, [large.len(), fitting.len()]);
        assert_eq!(sender.send_stats(), SendStats { packets: 2, dropped: 2, calls: 2 });
    }
}

#[test]
fn icmp_from_routers_and_hosts_is_reported() {
    let (left, router, right) = Namespace::around_a_router();
    router.ip("route add unreachable 10.79.0.0/24");
    router.ip("-6 route add unreachable fd79::/64");
    for (any, there, nowhere) in [("0.0.0.0", "10.78.0.2", "10.79.0.1"), ("::", "fd78::2", "fd79::1")] {
        let sender = left.enter(|| open_ports(any, &[]));
        let large = packet(5_060, 1_350);
        sender.send(&mut Outgoing::packet(to(there), &large)).unwrap();
        let (destination, kind, quoted) = wait_report(&sender, |_| true);
        assert_eq!((destination, kind), (to(there), IcmpKind::PacketTooBig { mtu: 1_300 }));
        assert!(quoted.len() >= 20 && quoted == large[..quoted.len()]);
        // The receiving host has no socket of the protocol.
        let small = packet(5_060, 60);
        sender.send(&mut Outgoing::packet(to(there), &small)).unwrap();
        let (destination, kind, quoted) = wait_report(&sender, |_| true);
        assert_eq!((destination, kind), (to(there), IcmpKind::ProtocolUnreachable));
        assert!(quoted.len() >= 20 && quoted == small[..quoted.len()]);
        sender.send(&mut Outgoing::packet(to(nowhere), &small)).unwrap();
        assert_eq!(wait_report(&sender, |_| true).1, IcmpKind::HostUnreachable);
        // With any raw socket of the protocol, even one whose filter accepts none of the packets, the kernel
        // sends no ICMP.
        let _listener = right.enter(|| open_ports(any, &[9..=9]));
        sender.send(&mut Outgoing::packet(to(there), &small)).unwrap();
        assert_silent(&sender);
        assert_eq!(sender.poll_errors(&mut |report| panic!("{report:?}")), 0);
    }
}

#[test]
fn a_full_receive_buffer_is_no_unreachable_protocol() {
    let (left, right) = Namespace::pair();
    for (here, there) in [("10.77.0.1", "10.77.0.2"), ("fd77::1", "fd77::2")] {
        let one = left.enter(|| open(here));
        let slow = RawOptions { receive_buffer_bytes: 4096, ..RawOptions::default() };
        let _other = right.enter(|| RawCarrier::open(there.parse().unwrap(), &slow).unwrap());
        for _ in 0..400 {
            one.send(&mut Outgoing::packet(to(there), &packet(5_060, 1000))).unwrap();
        }
        assert_silent(&one);
        let mut reports = Vec::new();
        one.poll_errors(&mut |report| reports.push(report.kind));
        assert!(!reports.contains(&IcmpKind::ProtocolUnreachable), "{reports:?}");
    }
}

#[test]
fn other_families_and_encapsulation_ports_are_unreachable() {
    let namespace = Namespace::new();
    for (here, other) in [("127.0.0.1", "::1"), ("::1", "127.0.0.1")] {
        let carrier = namespace.enter(|| open(here));
        carrier.send(&mut Outgoing::packet(to(other), &packet(1, 12))).unwrap();
        assert_eq!(wait_report(&carrier, |_| true).1, IcmpKind::NoRoute);
        // A destination with a port means UDP encapsulation. The other packets of the batch are sent.
        let with_port = SocketAddr::new(here.parse().unwrap(), 9_899);
        let bytes = packet(1, 12);
        let mut batch = [with_port, to(here)].map(|to| Outgoing::packet(to, &bytes));
        carrier.send_batch(&mut batch).unwrap();
        assert_eq!(receive(&carrier, 1)[0].1, bytes);
        let (destination, kind, _) = wait_report(&carrier, |_| true);
        assert_eq!((destination, kind), (with_port, IcmpKind::NoRoute));
        assert_eq!(carrier.send_stats(), SendStats { packets: 1, dropped: 2, calls: 1 });
        assert_silent(&carrier);
    }
}

/// The example program `receive` in a separate process, which ends with this value.
struct Receiver {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Receiver {
    fn start(prefix: &str, arguments: &str) -> Self {
        let (program, command) = Self::command(prefix, arguments);
        let mut child = Command::new(program)
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example");
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut receiver = Self { child, output };
        assert_eq!(receiver.line(), "ready");
        receiver
    }

    /// Expects the program to fail, and returns its message.
    fn failure(prefix: &str, arguments: &str) -> String {
        let (program, command) = Self::command(prefix, arguments);
        let output = Command::new(program).args(command).stdin(Stdio::null()).output().expect("the example");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).trim().to_owned()
    }

    fn command(prefix: &str, arguments: &str) -> (String, Vec<String>) {
        // Tests are in target/PROFILE/deps, examples in target/PROFILE/examples.
        let mut path: PathBuf = std::env::current_exe().unwrap();
        path.pop();
        path.pop();
        path.push("examples/receive");
        assert!(path.exists(), "{} is built by `cargo test`", path.display());
        let line = format!("{prefix} {} {arguments}", path.display());
        let mut words = line.split_whitespace().map(str::to_owned);
        (words.next().unwrap(), words.collect())
    }

    fn line(&mut self) -> String {
        if self.output.buffer().is_empty() {
            assert!(
                crate::common::wait_readable(self.output.get_ref(), crate::common::TIMEOUT_MS),
                "the example says nothing"
            );
        }
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn processes_share_the_protocol_by_port() {
    let (left, right) = Namespace::pair();
    let there = format!("ip netns exec {}", right.name);
    let mut sip = Receiver::start(&there, "raw 10.77.0.2 5060");
    let mut web = Receiver::start(&there, "raw 0.0.0.0 80");
    let sender = left.enter(|| open_ports("10.77.0.1", &[]));
    for port in [80, 5_060, 81, 80] {
        sender.send(&mut Outgoing::packet(to("10.77.0.2"), &packet(port, 12))).unwrap();
    }
    assert_eq!(sip.line(), "10.77.0.1:0 sctp 7 > 5060 tag c4c4c4c4 length 12");
    for _ in 0..2 {
        assert_eq!(web.line(), "10.77.0.1:0 sctp 7 > 80 tag 50505050 length 12");
    }
    // A port has one owner, whichever of its addresses is requested ...
    let message = Receiver::failure(&there, "raw 10.77.0.2 5060");
    assert!(message.starts_with("SCTP port 5060 is in use by another process"), "{message}");
    for address in ["0.0.0.0", "10.77.0.2"] {
        let message = Receiver::failure(&there, &format!("raw {address} 80"));
        assert!(message.starts_with("SCTP port 80 is in use"), "{message}");
    }
    let error = right.enter(|| PortLock::range(79..=81, None)).unwrap_err();
    assert!(matches!(error, LockError::InUse { .. }), "{error}");
    // ... until the owner ends; and another network namespace has its own ports.
    left.enter(|| PortLock::port(80, None)).unwrap();
    drop(web);
    right.enter(|| PortLock::range(79..=81, None)).unwrap();
}

#[test]
fn ephemeral_ports_are_locked_in_blocks() {
    let namespace = Namespace::new();
    namespace.enter(|| {
        let first = PortLock::any(EPHEMERAL_PORTS, 256, None).unwrap();
        let second = PortLock::any(EPHEMERAL_PORTS, 256, None).unwrap();
        for lock in [&first, &second] {
            assert_eq!((lock.ports().len(), lock.ports().start() % 256), (256, 0));
            assert!(
                EPHEMERAL_PORTS.contains(lock.ports().start())
                    && EPHEMERAL_PORTS.contains(lock.ports().end())
            );
        }
        assert_ne!(first.ports(), second.ports());
        let within = PortLock::port(*first.ports().start() + 7, Some("192.0.2.1".parse().unwrap()));
        assert!(matches!(within, Err(LockError::InUse { .. })));
        // Locks all 64 blocks, and not one more.
        let rest: Vec<_> = (2..64).map(|_| PortLock::any(EPHEMERAL_PORTS, 256, None).unwrap()).collect();
        assert!(matches!(PortLock::any(EPHEMERAL_PORTS, 256, None), Err(LockError::Exhausted { .. })));
        drop(rest);
        PortLock::any(EPHEMERAL_PORTS, 256, None).unwrap();
        // Locks of different addresses don't exclude each other.
        let address = |text: &str| Some(text.parse().unwrap());
        let _one = PortLock::port(5_060, address("192.0.2.1")).unwrap();
        let _other = PortLock::port(5_060, address("2001:db8::1")).unwrap();
        assert!(matches!(PortLock::port(5_060, address("192.0.2.1")), Err(LockError::InUse { .. })));
        assert!(matches!(PortLock::port(5_060, None), Err(LockError::InUse { .. })));
    });
}

#[test]
fn a_missing_privilege_is_named_with_its_cure() {
    crate::common::require_root();
    let message =
        Receiver::failure("setpriv --bounding-set=-net_raw --inh-caps=-net_raw", "raw 127.0.0.1 5060");
    assert_eq!(message, OpenError::Privilege.to_string());
    assert!(message.contains("CAP_NET_RAW") && message.contains("setcap"));
    // UDP needs no privilege.
    let namespace = Namespace::new();
    let without = format!("ip netns exec {} setpriv --bounding-set=-all --inh-caps=-all", namespace.name);
    let mut receiver = Receiver::start(&without, "udp 127.0.0.1:9899");
    let sender =
        namespace.enter(|| UdpCarrier::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap());
    sender.send(&mut Outgoing::packet("127.0.0.1:9899".parse().unwrap(), &packet(5_060, 20))).unwrap();
    let expected = format!("{} sctp 7 > 5060 tag c4c4c4c4 length 20", sender.local_addr());
    assert_eq!(receiver.line(), expected);
}

#[test]
fn opening_errors_name_the_reason() {
    let namespace = Namespace::new();
    namespace.exec("sysctl -qw net.ipv6.conf.all.disable_ipv6=1");
    let error = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        namespace.enter(|| RawCarrier::open(address, &RawOptions::default()).unwrap_err())
    };
    assert!(matches!(error("::1"), OpenError::Ipv6Disabled { .. }));
    assert!(matches!(error("192.0.2.1"), OpenError::AddressNotAvailable { .. }));
}

#[test]
fn local_addresses_come_from_running_interfaces() {
    let (left, _right) = Namespace::pair();
    left.ip("addr add 10.77.0.11/24 dev v0");
    left.ip("addr add fd77::dead/64 dev v0 preferred_lft 0 nodad");
    left.ip("link add down0 type veth peer name down1");
    left.ip("addr add 198.51.100.1/24 dev down0");
    let all = left.enter(|| strandline_io::local_addresses().unwrap());
    let found: Vec<_> =
        all.iter().map(|local| local.address.to_string()).filter(|text| !text.starts_with("fe80")).collect();
    assert_eq!(found, ["127.0.0.1", "10.77.0.1", "10.77.0.11", "::1", "fd77::1"]);
    assert!(all.iter().all(|local| local.interface == "lo" || local.interface == "v0"));
    let towards = strandline_io::addresses_towards("10.77.0.2:0".parse().unwrap(), &all);
    assert_eq!(
        towards.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.77.0.1", "10.77.0.11", "fd77::1"]
    );
}
