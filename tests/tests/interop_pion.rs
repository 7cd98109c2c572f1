//! Interoperability with pion/sctp: each UDP datagram is one SCTP packet, and both SCTP ports are 5000. `make
//! test-deps` builds the peer. pion does not accept an INIT for an existing association, so there is no test
//! of a restart.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig, ExtensionsConfig, StreamCredit};
use strandline_proto::endpoint::{Connect, Reconfigure};
use strandline_proto::event::{Event, SendInfo};
use strandline_proto::number::{Ppid, Ssn, StreamId};
use strandline_proto::reconfiguration::{Outcome, PeerRequests, StreamDirection};
use strandline_proto::reliability::Reliability;
use strandline_tests::cases;
use strandline_tests::driver::Driver;
use strandline_tests::dynamic::Opened;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::session::Session;
use strandline_tests::traffic::{plan, unordered};

/// SCTP port of both sides, as in pion.
const SCTP_PORT: u16 = 5000;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn driver(seed: u8) -> Driver {
    let peer_requests = PeerRequests { reset_streams: true, ..PeerRequests::NONE };
    driver_with(seed, ExtensionsConfig { peer_requests, ..ExtensionsConfig::default() })
}

fn driver_with(seed: u8, extensions: ExtensionsConfig) -> Driver {
    let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    let config = EndpointConfig { association, ..EndpointConfig::default() };
    Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed)
}

/// Returns a session in which pion listens and this side connects.
fn connected(seed: u8, mode: &str) -> Session {
    connected_to(driver(seed), mode)
}

fn connected_to(mut driver: Driver, mode: &str) -> Session {
    let udp_port = free_udp_port();
    let peer = PeerProcess::pion(&format!("{mode} -u {udp_port}"));
    let there = SocketAddr::new(LOCALHOST, udp_port);
    let id = driver.connect(Connect { local_port: SCTP_PORT, ..Connect::to(there, SCTP_PORT) });
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session
}

/// Returns a session in which pion connects and this side listens.
fn accepted(seed: u8, mode: &str) -> Session {
    accepted_by(driver(seed), mode)
}

fn accepted_by(mut driver: Driver, mode: &str) -> Session {
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

/// Streams that are opened and closed at run time, as data channels are, by this side and by pion.
#[test]
fn streams_are_opened_and_closed_under_losses() {
    connected(18, "echo -x").open_and_close_streams_under_losses(true);
    accepted(32, "send -n 0 -e -x").open_and_close_streams_under_losses(true);

    let mut session = accepted(19, "call -x -y -w -f 3 -s 1 -n 40 -l 1500");
    let id = session.id;
    session.driver.lose(30);
    for _ in 0..8 {
        let mut opened = Opened::new(&mut session.driver.endpoint, id, false, 1);
        // pion performs a request of ours again if it is repeated: its numbers are not to be used again
        // before that is over.
        session.peer.tell("go");
        session.driver.echo(id, 40);
        session.driver.until("the ends of the streams", |driver| {
            driver.events.drain(..).for_each(|(_, event)| opened.note(&event));
            opened.have_ended().then_some(())
        });
        let now = session.driver.now();
        opened.close(&mut session.driver.endpoint, id, now);
        session.driver.until("both directions are closed", |driver| {
            driver.events.drain(..).for_each(|(_, event)| opened.note(&event));
            opened.take_closed().then_some(())
        });
    }
    session.driver.lose(0);
    session.shut_down();
}

/// Messages of ours that are given up, after retransmissions or a time (RFC 3758, RFC 7496), in both roles.
#[test]
fn messages_given_up_under_losses() {
    let limits = [Reliability::retransmissions(0), Reliability::lifetime(Duration::from_millis(20))];
    let all = [(20, 0, true), (21, 1, false), (22, 0, false), (23, 1, true)];
    for (seed, limit, connects) in cases(all) {
        let mut session = if connects { connected(seed, "sink -v") } else { accepted(seed, "send -n 0 -v") };
        // pion opens a stream at its first message, and would not know of a message before it that was given up.
        for planned in plan(903, 100, 3).split_off(900) {
            session.driver.send(session.id, planned.info(), planned.data());
            session.expect(&format!("RX len=100 stream={} ppid=", planned.stream));
        }
        session.send_with_limits(&plan(600, 1000, 3), limits[limit]);
        session.shut_down();
    }
}

/// Messages that pion gives up. It does not report them.
#[test]
fn messages_given_up_by_pion() {
    let limits = ["-R 0", "-L 20"];
    let all = [(24, 0, true), (25, 0, false), (26, 1, false), (27, 1, true)];
    for (seed, limit, connects) in cases(all) {
        let what = format!("-n 600 -l 1000 -s 3 {}", limits[limit]);
        let session = if connects {
            connected(seed, &format!("sink {what}"))
        } else {
            accepted(seed, &format!("send -w {what}"))
        };
        session.receive_with_limits(&plan(600, 1000, 3), false);
    }
}

/// pion skips the parameter of stream credit without a report. It has no interleaving, so that neither is agreed on.
#[test]
fn stream_credit_is_skipped() {
    for (seed, connects) in [(28, true), (29, false)] {
        let stream_credit = Some(StreamCredit::default());
        let extensions =
            ExtensionsConfig { interleaving: true, stream_credit, ..ExtensionsConfig::default() };
        let driver = driver_with(seed, extensions);
        let mut session = if connects {
            connected_to(driver, "echo")
        } else {
            accepted_by(driver, "call -n 60 -l 5000 -s 3")
        };
        let agreed = session.agreed();
        assert_eq!((agreed.interleaving, agreed.stream_credit), (false, false));
        if connects {
            session.exchange_with_losses();
        } else {
            session.driver.lose(30);
            session.echo(60);
            session.driver.lose(0);
        }
        session.nothing_was_reported();
        session.shut_down();
    }
}

/// pion drops packets with a chunk that it doesn't know, such as PAD, so that the search for the path MTU
/// (RFC 8899) finds no larger one, and messages pass in packets of the size that it began with.
#[test]
fn path_mtu_stays() {
    for (seed, connects) in [(30, true), (31, false)] {
        let mut session =
            if connects { connected(seed, "echo") } else { accepted(seed, "call -n 300 -l 5000 -s 3") };
        session.driver.lose(30);
        if connects {
            session.exchange(&plan(300, 5000, 3));
        } else {
            session.echo(300);
        }
        session.driver.lose(0);
        let paths = session.driver.endpoint.paths(session.id).expect("the association lives");
        assert_eq!(paths[0].mtu, 1280);
        session.shut_down();
    }
}
