//! Interoperability with pion/sctp: each UDP datagram is one SCTP packet, and both SCTP ports are 5000. `make
//! test-deps` builds the peer. pion does not accept an INIT for an existing association, so there is no test
//! of a restart.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use strandline_proto::config::{AssociationConfig, EndpointConfig, ExtensionsConfig};
use strandline_proto::endpoint::{Connect, Reconfigure};
use strandline_proto::event::{Event, SendInfo};
use strandline_proto::number::{Ppid, Ssn, StreamId};
use strandline_proto::reconfiguration::{Outcome, PeerRequests, StreamDirection};
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::session::Session;
use strandline_tests::traffic::{plan, unordered};

/// SCTP port of both sides, as in pion.
const SCTP_PORT: u16 = 5000;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn driver(seed: u8) -> Driver {
    let peer_requests = PeerRequests { reset_streams: true, ..PeerRequests::NONE };
    let extensions = ExtensionsConfig { peer_requests, ..ExtensionsConfig::default() };
    let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    let config = EndpointConfig { association, ..EndpointConfig::default() };
    Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed)
}

/// Returns a session in which pion listens and this side connects.
fn connected(seed: u8, mode: &str) -> Session {
    let udp_port = free_udp_port();
    let peer = PeerProcess::pion(&format!("{mode} -u {udp_port}"));
    let mut driver = driver(seed);
    let there = SocketAddr::new(LOCALHOST, udp_port);
    let id = driver.connect(Connect { local_port: SCTP_PORT, ..Connect::to(there, SCTP_PORT) });
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session
}

/// Returns a session in which pion connects and this side listens.
fn accepted(seed: u8, mode: &str) -> Session {
    let mut driver = driver(seed);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let (udp_port, own) = (free_udp_port(), driver.local_addr().port());
    let peer = PeerProcess::pion(&format!("{mode} -u {udp_port} -U {own}"));
    let id = driver.accept();
    Session { driver, peer, id }
}

#[test]
fn small_messages_on_several_streams() {
    let mut session = connected(1, "echo");
    session.exchange(&plan(2000, 64, 8));
    session.shut_down();
}

/// The data given before the set-up takes more than one packet with a COOKIE ECHO.
#[test]
fn more_than_fits_one_cookie_echo_arrives() {
    let udp_port = free_udp_port();
    let _peer = PeerProcess::pion(&format!("echo -u {udp_port}"));
    let mut driver = driver(15);
    let there = SocketAddr::new(LOCALHOST, udp_port);
    let request = Connect { local_port: SCTP_PORT, ..Connect::to(there, SCTP_PORT) };
    let id = driver.endpoint.connect(driver.now(), request).expect("the request is valid");
    driver.exchange(id, &plan(9, 1000, 3));
}

#[test]
fn unordered_messages() {
    let mut session = connected(2, "echo -r");
    session.exchange(&unordered(300, 700, 3));
    session.shut_down();
}

#[test]
fn large_messages_both_ways() {
    let mut session = connected(3, "echo");
    session.exchange(&plan(3, 1 << 20, 2));
    session.shut_down();
}

#[test]
fn pion_connects_and_messages_return() {
    for (seed, count, how) in [(4, 500, "-l 100 -s 8"), (5, 3, "-l 1048576 -s 2")] {
        let mut session = accepted(seed, &format!("call -n {count} {how}"));
        session.echo(count);
        session.shut_down();
    }
}

#[test]
fn pion_shuts_down() {
    accepted(6, "send -n 100 -l 2000 -s 4").is_shut_down();
}

#[test]
fn losses_in_both_directions() {
    let mut session = connected(7, "echo");
    session.exchange_with_losses();
    session.shut_down();
}

#[test]
fn this_side_aborts() {
    connected(8, "echo").abort("CLOSED");
}

#[test]
fn pion_aborts() {
    assert_eq!(connected(9, "echo").is_aborted(), "asked to");
}

/// Our reset ends the stream at pion, which resets its own direction then. Both directions begin with SSN 0 each time.
#[test]
fn streams_are_reset_under_losses() {
    for seed in [16, 17] {
        let mut session = connected(seed, "echo -x");
        let (id, stream) = (session.id, StreamId(3));
        session.driver.lose(30);
        for _ in 0..4 {
            for number in 0..3_u16 {
                let now = session.driver.now();
                let info = SendInfo::on(stream).ppid(Ppid(1));
                session.driver.endpoint.send(now, id, info, vec![0].into()).expect("there is room");
                let echo = session.driver.until("an echo", |driver| driver.endpoint.recv(driver.now(), id));
                assert_eq!((echo.stream, echo.ssn), (stream, Ssn(number)));
            }
            let now = session.driver.now();
            let request = Reconfigure::ResetStreams(StreamDirection::Outgoing, stream.into());
            assert_eq!(request.ask(&mut session.driver.endpoint, now, id), Ok(()));
            // In either order: a response may be lost.
            let mut open = vec![StreamDirection::Outgoing, StreamDirection::Incoming];
            while !open.is_empty() {
                let (direction, outcome) = session.driver.event("StreamsReset", |_, event| match event {
                    Event::StreamsReset { direction, outcome, .. } => Some((*direction, *outcome)),
                    _ => None,
                });
                assert_eq!(outcome, Outcome::Performed, "{direction:?}");
                open.retain(|wanted| *wanted != direction);
            }
            session.expect("RESET stream=3");
        }
        session.shut_down();
    }
}
