//! Interoperability with the Linux kernel's SCTP, over raw IP and over UDP encapsulation, on two paths. `make
//! interop` starts the kernel and runs these tests within its network namespace, one after the other.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig, ExtensionsConfig};
use strandline_proto::endpoint::{Connect, Reconfigure};
use strandline_proto::event::{Event, SendInfo};
use strandline_proto::number::{Ppid, StreamId};
use strandline_proto::reconfiguration::{Outcome, PeerRequests, StreamDirection};
use strandline_proto::stats::Reachability;
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, lksctp_control};
use strandline_tests::session::{Session, ip, quick};
use strandline_tests::traffic::plan;

const SCTP_PORT: u16 = 5001;
/// The kernel's UDP port.
const UDP_PORT: u16 = 9899;
/// The kernel's addresses and this side's, path by path.
const THERE: [&str; 2] = ["10.132.1.11", "10.132.2.11"];
const HERE: [&str; 2] = ["10.132.1.1", "10.132.2.1"];
const THERE_V6: &str = "fd00:132:1::11";
const ECHO: &str = "echo -b 10.132.1.11 -b 10.132.2.11 -p 5001";

#[derive(Clone, Copy)]
enum Carrier {
    Raw,
    Udp,
}

fn driver(carrier: Carrier, addresses: &[&str], seed: u8) -> Driver {
    let config = EndpointConfig {
        association: Arc::new(quick()),
        local_addresses: addresses.iter().copied().map(ip).collect(),
        ..EndpointConfig::default()
    };
    match carrier {
        Carrier::Raw => Driver::raw(ip("0.0.0.0"), config, seed),
        Carrier::Udp => Driver::udp(SocketAddr::new(ip("0.0.0.0"), UDP_PORT), config, seed),
    }
}

fn to_kernel(carrier: Carrier) -> Connect {
    let port = match carrier {
        Carrier::Raw => 0,
        Carrier::Udp => UDP_PORT,
    };
    let remotes = THERE.iter().map(|text| SocketAddr::new(ip(text), port)).collect();
    Connect { remotes, ..Connect::to(SocketAddr::new(ip(THERE[0]), port), SCTP_PORT) }
}

/// Returns a session in which the kernel echoes and this side connects on both paths.
fn connected(carrier: Carrier, seed: u8) -> Session {
    let encapsulation = if matches!(carrier, Carrier::Udp) { "-U 9899" } else { "" };
    let peer = PeerProcess::lksctp(&format!("{ECHO} {encapsulation}"));
    let mut driver = driver(carrier, &HERE, seed);
    let id = driver.connect(to_kernel(carrier));
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session
}

/// Returns a session in which the kernel connects with these further arguments and this side listens on both
/// paths.
fn accepted(carrier: Carrier, seed: u8, mode: &str) -> Session {
    let encapsulation = if matches!(carrier, Carrier::Udp) { "-U 9899" } else { "" };
    let mut driver = driver(carrier, &HERE, seed);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let arguments = format!("{mode} -c {} -b {} -b {} {encapsulation}", HERE.join(","), THERE[0], THERE[1]);
    let peer = driver.while_waiting(|| PeerProcess::lksctp(&arguments));
    let id = driver.accept();
    Session { driver, peer, id }
}

#[test]
fn this_side_connects_over_raw_ip() {
    let mut session = connected(Carrier::Raw, 1);
    session.exchange_many_kinds();
    session.shut_down();
}

#[test]
fn this_side_connects_over_udp() {
    let mut session = connected(Carrier::Udp, 2);
    session.exchange_many_kinds();
    session.shut_down();
}

/// The data given before the set-up takes more than one packet with a COOKIE ECHO.
#[test]
fn more_than_fits_one_cookie_echo_arrives() {
    let _peer = PeerProcess::lksctp(ECHO);
    let mut driver = driver(Carrier::Raw, &HERE, 15);
    let id = driver.endpoint.connect(driver.now(), to_kernel(Carrier::Raw)).expect("the request is valid");
    driver.exchange(id, &plan(9, 1000, 3));
}

#[test]
fn this_side_connects_over_ipv6() {
    let peer = PeerProcess::lksctp(&format!("echo -b {THERE_V6}"));
    let config = EndpointConfig { association: Arc::new(quick()), ..EndpointConfig::default() };
    let mut driver = Driver::raw(ip("::"), config, 3);
    let id = driver.connect(Connect::to(SocketAddr::new(ip(THERE_V6), 0), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    session.exchange_many_kinds();
    session.expect("UP");
    session.shut_down();
}

#[test]
fn the_kernel_connects_over_raw_ip() {
    let mut session = accepted(Carrier::Raw, 4, "call -n 300 -l 4000 -s 30");
    session.echo(300);
    session.shut_down();
}

#[test]
fn the_kernel_connects_over_udp() {
    let mut session = accepted(Carrier::Udp, 5, "call -n 2 -l 1048576");
    session.echo(2);
    session.shut_down();
}

#[test]
fn the_kernel_shuts_down() {
    accepted(Carrier::Raw, 6, "send -n 100 -l 2000 -s 4").is_shut_down();
}

#[test]
fn this_side_aborts() {
    connected(Carrier::Raw, 7).abort("LOST");
}

#[test]
fn the_kernel_aborts() {
    connected(Carrier::Raw, 8).is_aborted();
}

#[test]
fn losses_in_both_directions() {
    let mut session = connected(Carrier::Raw, 9);
    session.exchange_with_losses();
    session.shut_down();
}

#[test]
fn the_kernel_restarts() {
    let mut session = accepted(Carrier::Raw, 10, "call -B 6001 -n 20 -l 500");
    session.echo(20);
    // Its crash must not be announced: neither by the kernel at the end of the process, nor by its answer to
    // a heartbeat.
    let silent = AssociationConfig { heartbeat_interval: None, ..quick() };
    let Session { mut driver, peer: first, id } = session;
    driver.endpoint.configure(driver.now(), id, Arc::new(silent)).expect("the association lives");
    driver.run_for(Duration::from_secs(1));
    driver.cut(&HERE.map(ip));
    driver.while_waiting(|| drop(first));
    driver.run_for(Duration::from_millis(200));
    driver.heal();
    let arguments =
        format!("call -B 6001 -n 20 -l 500 -c {} -b {} -b {}", HERE.join(","), THERE[0], THERE[1]);
    let second = driver.while_waiting(|| PeerProcess::lksctp(&arguments));
    let mut session = Session { driver, peer: second, id };
    session.restarted();
    session.echo(20);
    session.shut_down();
}

#[test]
fn this_side_restarts() {
    let peer = PeerProcess::lksctp(ECHO);
    let request = || Connect { local_port: 6002, ..to_kernel(Carrier::Raw) };
    let mut first = driver(Carrier::Raw, &HERE, 11);
    let id = first.connect(request());
    first.exchange(id, &plan(20, 500, 1));
    drop(first);
    let mut second = driver(Carrier::Raw, &HERE, 12);
    let id = second.connect(request());
    let mut session = Session { driver: second, peer, id };
    session.expect("RESTART");
    session.exchange(&plan(20, 500, 1));
    session.shut_down();
}

/// The first path fails in the middle of a transfer, which continues over the second; then the first one
/// recovers and data returns to it.
#[test]
fn fail_over_and_return() {
    let mut session = connected(Carrier::Raw, 13);
    session.path_is(THERE[1], Reachability::Active);
    session.exchange(&plan(100, 1000, 1));
    lksctp_control("cut 1");
    session.exchange(&plan(200, 10_000, 4));
    session.path_is(THERE[0], Reachability::Inactive);
    session.exchange(&plan(200, 10_000, 4));
    lksctp_control("heal 1");
    session.path_is(THERE[0], Reachability::Active);
    lksctp_control("cut 2");
    session.exchange(&plan(200, 10_000, 4));
    lksctp_control("heal 2");
    session.path_is(THERE[1], Reachability::Active);
    session.shut_down();
}

/// The kernel's data fails over as well: it sends while one of its paths is down.
#[test]
fn fail_over_of_the_kernels_data() {
    let mut session = accepted(Carrier::Raw, 14, "call -T 300 -n 4000 -l 1000 -s 4");
    session.path_is(THERE[1], Reachability::Active);
    session.driver.echo(session.id, 500);
    lksctp_control("cut 1");
    session.driver.echo(session.id, 3500);
    session.expect("ECHOED 4000");
    lksctp_control("heal 1");
    session.shut_down();
}

/// Returns a session in which the kernel echoes and each side performs every request of the other (RFC 6525).
fn reconfiguring(seed: u8) -> Session {
    let peer = PeerProcess::lksctp(&format!("{ECHO} -v"));
    let extensions = ExtensionsConfig { peer_requests: PeerRequests::ALL, ..ExtensionsConfig::default() };
    let association = AssociationConfig { extensions, outbound_streams: 50, ..quick() };
    let config = EndpointConfig {
        association: Arc::new(association),
        local_addresses: HERE.into_iter().map(ip).collect(),
        ..EndpointConfig::default()
    };
    let mut driver = Driver::raw(ip("0.0.0.0"), config, seed);
    let id = driver.connect(to_kernel(Carrier::Raw));
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session
}

/// Sends messages on a stream, and waits for their echoes. Returns their SSNs as the kernel reports them.
fn ssns_at_the_kernel(session: &mut Session, stream: u16, count: usize) -> Vec<String> {
    let id = session.id;
    for _ in 0..count {
        let info = SendInfo::on(StreamId(stream)).ppid(Ppid(1));
        let now = session.driver.now();
        session.driver.endpoint.send(now, id, info, vec![0].into()).expect("there is room");
    }
    let wanted = format!("RX len=1 stream={stream} ");
    let lines: Vec<_> = (0..count).map(|_| session.expect(&wanted)).collect();
    for _ in 0..count {
        session.driver.until("an echo", |driver| driver.endpoint.recv(driver.now(), id));
    }
    lines
        .iter()
        .map(|line| line.split_once("ssn=").map_or(String::new(), |(_, ssn)| ssn.to_owned()))
        .collect()
}

fn ask(session: &mut Session, request: Reconfigure) {
    let now = session.driver.now();
    assert_eq!(request.ask(&mut session.driver.endpoint, now, session.id), Ok(()));
}

fn streams_reset(session: &mut Session, wanted: StreamDirection) {
    let outcome = session.driver.event("StreamsReset", |_, event| match event {
        Event::StreamsReset { direction, outcome, .. } if *direction == wanted => Some(*outcome),
        _ => None,
    });
    assert_eq!(outcome, Outcome::Performed);
}

/// Resets in each direction and more streams, by each side.
#[test]
fn streams_are_reset_under_losses() {
    let mut session = reconfiguring(16);
    session.driver.lose(30);
    for _ in 0..3 {
        assert_eq!(ssns_at_the_kernel(&mut session, 7, 3), ["0", "1", "2"]);
        ask(&mut session, Reconfigure::ResetStreams(StreamDirection::Outgoing, StreamId(7).into()));
        streams_reset(&mut session, StreamDirection::Outgoing);
        session.expect("RESET flags=1 streams=1");
        assert_eq!(ssns_at_the_kernel(&mut session, 7, 2), ["0", "1"]);
        session.peer.tell("reset in 7");
        streams_reset(&mut session, StreamDirection::Outgoing);
        session.expect("RESET flags=1 streams=1");
        session.driver.run_for(Duration::from_millis(500));
    }
    session.peer.tell("reset out 3");
    streams_reset(&mut session, StreamDirection::Incoming);
    session.expect("RESET flags=2 streams=1");
    ask(&mut session, Reconfigure::ResetStreams(StreamDirection::Incoming, StreamId(7).into()));
    streams_reset(&mut session, StreamDirection::Incoming);
    session.shut_down();
}

/// Each side adds outgoing streams.
#[test]
fn streams_are_added_under_losses() {
    let mut session = reconfiguring(17);
    session.driver.lose(30);
    let id = session.id;
    let until = |session: &mut Session, outbound: u16| {
        session.driver.until("the number of streams", |driver| {
            (driver.endpoint.status(id)?.outbound_streams == outbound).then_some(())
        });
    };
    ask(&mut session, Reconfigure::AddStreams { outgoing: 5, incoming: 0 });
    until(&mut session, 55);
    assert_eq!(ssns_at_the_kernel(&mut session, 54, 2), ["0", "1"]);
    session.peer.tell("add 0 6");
    until(&mut session, 61);
    assert_eq!(ssns_at_the_kernel(&mut session, 60, 2), ["0", "1"]);
    session.shut_down();
}

/// All numbers begin anew, at the request of each side.
#[test]
fn all_numbers_are_reset() {
    let mut session = reconfiguring(18);
    for round in 0..2 {
        assert_eq!(ssns_at_the_kernel(&mut session, 7, 3), ["0", "1", "2"]);
        session.driver.run_for(2 * AssociationConfig::default().sack_delay);
        if round == 0 {
            ask(&mut session, Reconfigure::ResetAssociation);
        } else {
            session.peer.tell("renumber");
        }
        let outcome = session.driver.event("AssociationReset", |_, event| match event {
            Event::AssociationReset { outcome, .. } => Some(*outcome),
            _ => None,
        });
        assert_eq!(outcome, Outcome::Performed);
        session.expect("RENUMBERED flags=0");
    }
    assert_eq!(ssns_at_the_kernel(&mut session, 7, 3), ["0", "1", "2"]);
    session.shut_down();
}
