//! RFC 9260 sections 8.4 and 8.5.

use strandline_wire::cause::Causes;
use strandline_wire::chunk::{Abort, CookieAck, Data, Error, Heartbeat, ShutdownAck, ShutdownComplete};
use strandline_wire::number::{Ssn, Tsn};

use super::*;

fn answer(build: impl FnOnce(&mut PacketBuilder<'_>)) -> Option<Sent> {
    let mut pair = Pair::new();
    let sent = pair.forge(CLIENT, (9, PORT), VerificationTag(0x1234), build);
    pair.deliver(&sent);
    pair.wire.pop_front()
}

fn data() -> Data<'static> {
    Data::whole(Tsn(1), StreamId(0), Ssn(0), b"x")
}

#[test]
fn oob_data_and_heartbeats_get_an_abort() {
    for answer in [
        answer(|packet| assert!(packet.push(&data()))),
        answer(|packet| assert!(packet.push(&Heartbeat { info: b"info" }))),
    ] {
        let answer = answer.expect("an ABORT");
        assert_eq!(answer.kinds(), [kind::ABORT]);
        assert_eq!(answer.tag(), VerificationTag(0x1234));
        let packet = Packet::parse(&answer.bytes).unwrap();
        assert_eq!(packet.chunks().next().unwrap().unwrap().flags & 1, 1, "T bit");
        assert_eq!((packet.source_port(), packet.destination_port()), (PORT, 9));
    }
}

#[test]
fn oob_abort_and_completions_get_no_answer() {
    let abort = Abort { tag_reflected: false, causes: Causes::new(&[]) };
    assert!(answer(|packet| assert!(packet.push(&abort))).is_none());
    let after_data = |packet: &mut PacketBuilder<'_>| assert!(packet.push(&data()) && packet.push(&abort));
    assert!(answer(after_data).is_none());
    assert!(answer(|packet| assert!(packet.push(&ShutdownComplete { tag_reflected: false }))).is_none());
    assert!(answer(|packet| assert!(packet.push(&CookieAck))).is_none());
    let stale = [0, 3, 0, 8, 0, 0, 0, 1];
    assert!(answer(|packet| assert!(packet.push(&Error { causes: Causes::new(&stale) }))).is_none());
}

#[test]
fn oob_shutdown_ack_gets_shutdown_complete() {
    let answer = answer(|packet| assert!(packet.push(&ShutdownAck))).expect("SHUTDOWN COMPLETE");
    assert_eq!(answer.kinds(), [kind::SHUTDOWN_COMPLETE]);
    assert_eq!(answer.tag(), VerificationTag(0x1234));
    let packet = Packet::parse(&answer.bytes).unwrap();
    assert_eq!(packet.chunks().next().unwrap().unwrap().flags & 1, 1, "T bit");
}

#[test]
fn a_wrong_checksum_is_dropped_before_anything_else() {
    let mut pair = Pair::new();
    let mut sent = pair.forge(CLIENT, (9, PORT), VerificationTag(1), |packet| assert!(packet.push(&data())));
    sent.bytes[8] ^= 1;
    pair.deliver(&sent);
    assert!(pair.wire.is_empty());
    assert_eq!(pair.hosts[SERVER].endpoint.stats().checksum_errors, 1);
}

#[test]
fn foreign_ports_on_a_shared_carrier_stay_silent() {
    let shared = EndpointConfig { owns_all_ports: false, ..config(1, SERVER) };
    let mut pair = Pair::with(config(1, CLIENT), shared);
    let sent = pair.forge(CLIENT, (9, 8), VerificationTag(1), |packet| assert!(packet.push(&data())));
    pair.deliver(&sent);
    assert!(pair.wire.is_empty());
}

/// Returns the answer of a server with a shared carrier to a packet for a port.
fn shared_answer(
    prepare: impl FnOnce(&mut Endpoint),
    port: u16,
    build: impl FnOnce(&mut PacketBuilder<'_>),
) -> Option<Vec<u8>> {
    let shared = EndpointConfig { owns_all_ports: false, ..config(1, SERVER) };
    let mut pair = Pair::with(config(1, CLIENT), shared);
    prepare(&mut pair.hosts[SERVER].endpoint);
    let sent = pair.forge(CLIENT, (9, port), VerificationTag(0x1234), build);
    pair.deliver(&sent);
    pair.wire.pop_front().map(|answer| answer.kinds())
}

#[test]
fn reserved_ports_are_answered_for() {
    let reserve = |endpoint: &mut Endpoint| endpoint.set_reserved_ports(vec![100..=200, 300..=300]);
    let shutdown_ack = |packet: &mut PacketBuilder<'_>| assert!(packet.push(&ShutdownAck));
    let heartbeat = |packet: &mut PacketBuilder<'_>| assert!(packet.push(&Heartbeat { info: b"info" }));
    for port in [100, 200, 300] {
        assert_eq!(shared_answer(reserve, port, shutdown_ack), Some(vec![kind::SHUTDOWN_COMPLETE]));
        assert_eq!(shared_answer(reserve, port, heartbeat), Some(vec![kind::ABORT]));
    }
    for port in [99, 201, 301] {
        assert_eq!(shared_answer(reserve, port, shutdown_ack), None, "port {port} may be another process's");
    }
}

#[test]
fn an_init_to_a_reserved_port_is_refused() {
    for (reserved, answers) in [(vec![100..=200], vec![vec![kind::ABORT]]), (vec![], vec![])] {
        let shared = EndpointConfig { owns_all_ports: false, ..config(1, SERVER) };
        let mut pair = Pair::with(config(1, CLIENT), shared);
        pair.hosts[SERVER].endpoint.set_reserved_ports(reserved);
        let request = Connect { local_port: 5000, ..Connect::to(address(SERVER, 0), 150) };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.run();
        assert_eq!(pair.kinds()[1..], answers);
    }
}

#[test]
fn a_lost_shutdown_complete_is_made_good() {
    let shared = |host| EndpointConfig { owns_all_ports: false, ..config(1, host) };
    let (mut pair, client, server) = Pair::with(shared(CLIENT), shared(SERVER)).establish();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run_dropping(has(kind::SHUTDOWN_COMPLETE));
    assert_eq!(pair.state(SERVER, server), "SHUTDOWN-ACK-SENT");
    pair.pass(Duration::from_secs(3));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
    // When no peer can ask any more, another process may use the port again.
    pair.pass(Duration::from_secs(300));
    let sent =
        pair.forge(SERVER, (PORT, 5000), VerificationTag(1), |packet| assert!(packet.push(&ShutdownAck)));
    pair.deliver(&sent);
    assert!(pair.wire.is_empty());
}

#[test]
fn packets_with_a_wrong_tag_change_nothing() {
    let (mut pair, client, server) = Pair::established();
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    let ports = (status.peer_port, status.local_port);
    let wrong = VerificationTag(status.local_tag.0 ^ 1);
    let abort = |reflected| Abort { tag_reflected: reflected, causes: Causes::new(&[]) };
    let complete = ShutdownComplete { tag_reflected: false };
    let forged = [
        pair.forge(CLIENT, ports, wrong, |packet| assert!(packet.push(&data()))),
        pair.forge(CLIENT, ports, wrong, |packet| assert!(packet.push(&abort(false)))),
        pair.forge(CLIENT, ports, wrong, |packet| assert!(packet.push(&abort(true)))),
        // Our tag with the T bit, and the peer's tag without it, are both wrong (section 8.5.1 B).
        pair.forge(CLIENT, ports, status.local_tag, |packet| assert!(packet.push(&abort(true)))),
        pair.forge(CLIENT, ports, status.peer_tag, |packet| assert!(packet.push(&abort(false)))),
        pair.forge(CLIENT, ports, wrong, |packet| assert!(packet.push(&ShutdownAck))),
        pair.forge(CLIENT, ports, status.local_tag, |packet| assert!(packet.push(&complete))),
    ];
    for sent in forged {
        pair.deliver(&sent);
        assert!(pair.wire.is_empty(), "{:?}", sent.kinds());
    }
    assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    let reflected = pair.forge(CLIENT, ports, status.peer_tag, |packet| assert!(packet.push(&abort(true))));
    pair.deliver(&reflected);
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::PeerAborted { code: 0, reason: bytes::Bytes::new() }));
}

#[test]
fn packet_from_a_foreign_address_is_dropped() {
    let (mut pair, _, server) = Pair::established();
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    let ports = (status.peer_port, status.local_port);
    let abort = Abort { tag_reflected: false, causes: Causes::new(&[]) };
    let mut sent = pair.forge(CLIENT, ports, status.local_tag, |packet| assert!(packet.push(&abort)));
    sent.source = "198.51.100.1:9899".parse().unwrap();
    pair.deliver(&sent);
    assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
    assert_eq!(pair.hosts[SERVER].endpoint.stats().unknown_address, 1);
    assert!(pair.wire.is_empty());
}
