//! Interoperability with usrsctp over raw IP (protocol 132) and on two paths. Each side has its own network
//! namespace, which `make interop` creates.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strandline_io::{Carrier, Outgoing, RawCarrier, RawOptions, RecvBatch};
use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::Connect;
use strandline_proto::event::Event;
use strandline_proto::stats::Reachability;
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::session::{Session, ip, quick};
use strandline_tests::traffic::plan;
use strandline_wire::chunk::{Heartbeat, ShutdownAck, kind};
use strandline_wire::{Packet, PacketBuilder};

const SCTP_PORT: u16 = 5001;
/// usrsctp's addresses and this side's, path by path.
const THERE: [&str; 2] = ["10.132.1.2", "10.132.2.2"];
const HERE: [&str; 2] = ["10.132.1.1", "10.132.2.1"];

fn config() -> EndpointConfig {
    EndpointConfig {
        association: Arc::new(quick()),
        local_addresses: HERE.iter().copied().map(ip).collect(),
        ..EndpointConfig::default()
    }
}

/// Returns a session in which usrsctp echoes on both its addresses and this side connects to its port of the
/// carrier.
fn connected(driver: Driver, carrier_port: u16, arguments: &str) -> Session {
    connected_to(driver, carrier_port, &format!("echo {arguments}"))
}

/// Returns a session in which usrsctp waits in this mode.
fn connected_to(mut driver: Driver, carrier_port: u16, mode: &str) -> Session {
    let addresses = "-b 10.132.1.2 -b 10.132.2.2 -p 5001 -T 300";
    let peer = PeerProcess::usrsctp_on_a_host_of_its_own(&format!("{mode} {addresses}"));
    let remotes: Vec<_> = THERE.iter().map(|text| SocketAddr::new(ip(text), carrier_port)).collect();
    let id = driver.connect(Connect { remotes: remotes.clone(), ..Connect::to(remotes[0], SCTP_PORT) });
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session
}

fn connected_over_raw_ip(seed: u8) -> Session {
    connected(Driver::raw(ip("0.0.0.0"), config(), seed), 0, "")
}

#[test]
fn this_side_connects() {
    let mut session = connected_over_raw_ip(1);
    session.exchange(&plan(1000, 64, 200));
    session.exchange(&plan(3, 1 << 20, 2));
    session.shut_down();
}

#[test]
fn usrsctp_connects() {
    let mut driver = Driver::raw(ip("0.0.0.0"), config(), 2);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let arguments = "call -n 300 -l 4000 -s 30 -c 10.132.1.1,10.132.2.1 -b 10.132.1.2 -b 10.132.2.2";
    let peer = PeerProcess::usrsctp_on_a_host_of_its_own(arguments);
    let id = driver.accept();
    let mut session = Session { driver, peer, id };
    session.echo(300);
    session.shut_down();
}

#[test]
fn usrsctp_aborts() {
    connected_over_raw_ip(3).is_aborted();
}

/// A second endpoint on the host, with other ports, and the first one must not disturb each other.
#[test]
fn two_endpoints_share_the_host() {
    let mut session = connected_over_raw_ip(4);
    let mut other = Driver::raw(ip("0.0.0.0"), config(), 5);
    other.endpoint.listen(SCTP_PORT + 1).expect("the port is free");
    session.exchange(&plan(100, 500, 3));
    other.run_for(Duration::from_millis(200));
    session.exchange(&plan(100, 500, 3));
    assert_eq!(other.endpoint.stats().packets_sent, 0);
    session.shut_down();
}

/// Returns a session in which usrsctp connects on both paths in this mode.
fn accepted(mut driver: Driver, mode: &str) -> Session {
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let arguments = format!("{mode} -T 300 -c {} -b {} -b {}", HERE.join(","), THERE[0], THERE[1]);
    let peer = PeerProcess::usrsctp_on_a_host_of_its_own(&arguments);
    let id = driver.accept();
    let mut session = Session { driver, peer, id };
    session.expect_or_seen("UP");
    session
}

/// Our new data uses both paths at once, with losses on both. The peer needs no extension for it.
#[test]
fn our_data_uses_both_paths() {
    for (seed, connects) in [(10, true), (11, false)] {
        let driver = Driver::raw(ip("0.0.0.0"), config(), seed);
        let mut session =
            if connects { connected_to(driver, 0, "sink") } else { accepted(driver, "send -n 0") };
        session.uses_both_paths(&THERE.map(ip));
        session.shut_down();
    }
}

/// usrsctp's data uses both paths at once (CMT), with losses on both.
#[test]
fn the_data_of_usrsctp_uses_both_paths() {
    for (seed, connects) in [(12, true), (13, false)] {
        let mut driver = Driver::raw(ip("0.0.0.0"), config(), seed);
        driver.lose(30);
        let what = "-M -n 200 -l 20000 -s 7";
        let mut session = if connects {
            connected_to(driver, 0, &format!("sink {what}"))
        } else {
            accepted(driver, &format!("send -w {what}"))
        };
        // The second path is used once usrsctp has confirmed it.
        let plan = plan(200, 20_000, 7);
        let both = (0..20).any(|_| {
            session.driver.data_packets.clear();
            session.peer.tell("go");
            session.driver.receive_all(session.id, &plan);
            session.both_have_data(&HERE.map(ip))
        });
        assert!(both, "{:?}", session.driver.data_packets);
        session.driver.lose(0);
        session.shut_down();
    }
}

/// The network marks packets in both directions (RFC 3168). usrsctp reads the marks of raw IP packets.
#[test]
fn marks_are_answered() {
    for (seed, connects) in [(14, true), (15, false)] {
        let mut association = quick();
        association.extensions.ecn = true;
        let config = EndpointConfig { association: Arc::new(association), ..config() };
        let driver = Driver::raw(ip("0.0.0.0"), config, seed);
        let mut session =
            if connects { connected(driver, 0, "") } else { accepted(driver, "call -n 1000 -l 1000 -s 3") };
        assert!(session.agreed().ecn);
        session.answers_marks(connects);
        session.shut_down();
    }
}

/// The first path fails in the middle of a transfer, which continues over the second; then the first one
/// recovers.
fn fails_over_and_returns(mut session: Session) {
    session.path_is(THERE[1], Reachability::Active);
    session.exchange(&plan(100, 1000, 1));
    session.driver.cut(&[ip(THERE[0]), ip(HERE[0])]);
    session.exchange(&plan(200, 5000, 4));
    session.path_is(THERE[0], Reachability::Inactive);
    session.exchange(&plan(200, 5000, 4));
    session.driver.heal();
    session.path_is(THERE[0], Reachability::Active);
    let peer = &mut session.peer;
    session.driver.until("usrsctp to find the way back", |_| peer.reaches(HERE[0]).then_some(()));
    session.driver.cut(&[ip(THERE[1]), ip(HERE[1])]);
    session.exchange(&plan(200, 5000, 4));
    session.driver.heal();
    session.shut_down();
}

#[test]
fn fail_over_and_return_over_raw_ip() {
    fails_over_and_returns(connected_over_raw_ip(6));
}

#[test]
fn fail_over_and_return_over_udp() {
    let (theirs, ours) = (free_udp_port(), free_udp_port());
    let driver = Driver::udp(SocketAddr::new(ip("0.0.0.0"), ours), config(), 7);
    fails_over_and_returns(connected(driver, theirs, &format!("-u {theirs} -U {ours}")));
}

/// The peer's SHUTDOWN ACK comes again, as our SHUTDOWN COMPLETE was lost (RFC 9260 section 8.4, rule 5), and
/// a packet of the association that it can't know to have ended (rule 8).
#[test]
fn an_ended_association_is_answered_for() {
    let (here, there) = (ip("127.0.132.1"), ip("127.0.132.2"));
    let config = || EndpointConfig { association: Arc::new(quick()), ..EndpointConfig::default() };
    let mut server = Driver::raw(there, config(), 8);
    server.endpoint.listen(SCTP_PORT).expect("the port is free");
    let mut client = Driver::raw(here, config(), 9);
    let request = Connect::to(SocketAddr::new(there, 0), SCTP_PORT);
    let status = server.while_waiting(|| {
        let id = client.connect(request);
        let status = client.endpoint.status(id).expect("it stands");
        client.endpoint.shutdown(client.now(), id).expect("it stands");
        client.event("the end", |of, event| (of == id && matches!(event, Event::Closed(_))).then_some(()));
        status
    });
    drop(server);
    let peer = RawCarrier::open(there, &RawOptions::default()).expect("a raw socket");
    let heard = |client: &mut Driver, chunk: &dyn Fn(&mut PacketBuilder<'_>) -> bool| {
        let mut bytes = [0; 64];
        let mut packet = PacketBuilder::new(&mut bytes, SCTP_PORT, status.local_port, status.local_tag);
        assert!(chunk(&mut packet));
        let len = packet.finish();
        peer.send(&mut Outgoing::packet(SocketAddr::new(here, 0), &bytes[..len])).expect("it is sent");
        client.until("an answer", |_| {
            let mut batch = RecvBatch::new(8);
            peer.recv(&mut batch).ok()?;
            batch.packets().find_map(|(_, bytes)| {
                let packet = Packet::parse(bytes).ok()?;
                let chunk = packet.chunks().next()?.ok()?;
                let ours = packet.verification_tag() == status.local_tag
                    && packet.source_port() == status.local_port;
                ours.then_some((chunk.kind, chunk.flags))
            })
        })
    };
    assert_eq!(heard(&mut client, &|packet| packet.push(&ShutdownAck)), (kind::SHUTDOWN_COMPLETE, 1));
    assert_eq!(heard(&mut client, &|packet| packet.push(&Heartbeat { info: &[0; 8] })), (kind::ABORT, 1));
}
