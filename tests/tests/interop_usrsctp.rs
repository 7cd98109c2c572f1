//! With usrsctp over UDP encapsulation on the loopback interface. `make test-deps` builds the peer.

// What must not happen ends the test with its reason.
#![allow(clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::Connect;
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::traffic::plan;

const SCTP_PORT: u16 = 5001;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// An endpoint on a UDP port of its own.
fn driver(seed: u8) -> Driver {
    Driver::udp(SocketAddr::new(LOCALHOST, 0), EndpointConfig::default(), seed)
}

/// usrsctp echoes, this side connects.
fn connected(seed: u8) -> (Driver, PeerProcess, AssociationId) {
    let udp_port = free_udp_port();
    let mut peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let mut driver = driver(seed);
    let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
    driver.while_waiting(|| peer.expect("UP"));
    (driver, peer, id)
}

/// usrsctp connects with these further arguments, this side listens.
fn accepted(seed: u8, mode: &str) -> (Driver, PeerProcess, AssociationId) {
    let udp_port = free_udp_port();
    let mut driver = driver(seed);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let own = driver.local_addr().port();
    let peer = PeerProcess::usrsctp(&format!(
        "{mode} -c 127.0.0.1 -b 127.0.0.1 -u {udp_port} -U {own} -p {SCTP_PORT}"
    ));
    let id = driver.accept();
    (driver, peer, id)
}

/// This side shuts down, and both see the graceful end.
fn shut_down(mut driver: Driver, mut peer: PeerProcess, id: AssociationId) {
    driver.endpoint.shutdown(driver.now(), id).expect("the association lives");
    assert_eq!(driver.closed(id), CloseReason::Shutdown);
    driver.while_waiting(|| peer.expect("CLOSED"));
    assert!(!peer.seen().iter().any(|line| line.starts_with("LOST")), "{:?}", peer.seen());
}

#[test]
fn small_messages_on_many_streams() {
    let (mut driver, peer, id) = connected(1);
    driver.exchange(id, &plan(2000, 64, 200));
    shut_down(driver, peer, id);
}

#[test]
fn unordered_messages() {
    let (mut driver, peer, id) = connected(2);
    let plan: Vec<_> = plan(500, 300, 3).into_iter().map(|planned| planned.unordered()).collect();
    driver.exchange(id, &plan);
    shut_down(driver, peer, id);
}

#[test]
fn large_messages_both_ways() {
    let (mut driver, peer, id) = connected(3);
    driver.exchange(id, &plan(3, 1 << 20, 2));
    shut_down(driver, peer, id);
}

#[test]
fn messages_of_every_length_around_a_fragment() {
    let (mut driver, peer, id) = connected(4);
    let plan: Vec<_> = plan(240, 0, 1)
        .into_iter()
        .map(|planned| strandline_tests::traffic::Planned {
            length: 1150 + planned.number as usize,
            ..planned
        })
        .collect();
    driver.exchange(id, &plan);
    shut_down(driver, peer, id);
}

#[test]
fn usrsctp_connects_and_small_and_large_messages_come_back() {
    let (mut driver, mut peer, id) = accepted(5, "call -n 500 -l 100 -s 50");
    driver.echo(id, 500);
    driver.while_waiting(|| peer.expect("ECHOED 500"));
    shut_down(driver, peer, id);
    let (mut driver, mut peer, id) = accepted(6, "call -n 3 -l 1048576 -s 2");
    driver.echo(id, 3);
    driver.while_waiting(|| peer.expect("ECHOED 3"));
    shut_down(driver, peer, id);
}

#[test]
fn usrsctp_shuts_down() {
    let (mut driver, mut peer, id) = accepted(7, "send -n 100 -l 2000 -s 4");
    driver.receive_all(id, &plan(100, 2000, 4));
    peer.tell("shutdown");
    assert_eq!(driver.closed(id), CloseReason::Shutdown);
    driver.while_waiting(|| peer.expect("CLOSED"));
}

#[test]
fn messages_on_the_cookie_echo_arrive() {
    let udp_port = free_udp_port();
    let _peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let mut driver = driver(8);
    let request = Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT);
    let id = driver.endpoint.connect(driver.now(), request).expect("the request is valid");
    driver.exchange(id, &plan(5, 200, 5));
}

#[test]
fn losses_in_both_directions() {
    let (mut driver, peer, id) = connected(9);
    driver.lose(30);
    driver.exchange(id, &plan(60, 5000, 3));
    driver.lose(0);
    shut_down(driver, peer, id);
}

#[test]
fn losses_during_setup_and_shutdown() {
    for seed in 10..13 {
        let udp_port = free_udp_port();
        let mut peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT} -T 200"));
        let mut config = EndpointConfig::default();
        let mut timing = (*config.association).clone();
        timing.rto_initial = Duration::from_millis(250);
        timing.rto_min = Duration::from_millis(250);
        timing.rto_max = Duration::from_millis(500);
        timing.init_retrans_max = 30;
        timing.association_retrans_max = 30;
        timing.shutdown_guard = Some(Duration::from_secs(25));
        config.association = timing.into();
        let mut driver = Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed);
        driver.lose(250);
        let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
        driver.exchange(id, &plan(3, 100, 1));
        driver.endpoint.shutdown(driver.now(), id).expect("the association lives");
        assert_eq!(driver.closed(id), CloseReason::Shutdown);
        driver.while_waiting(|| peer.expect("CLOSED"));
    }
}

#[test]
fn this_side_aborts() {
    let (mut driver, mut peer, id) = connected(15);
    driver.exchange(id, &plan(10, 100, 1));
    driver.endpoint.abort(driver.now(), id, "enough".into()).expect("the association lives");
    assert_eq!(driver.closed(id), CloseReason::Aborted);
    driver.while_waiting(|| peer.expect("LOST"));
}

#[test]
fn usrsctp_aborts() {
    let (mut driver, mut peer, id) = connected(16);
    driver.exchange(id, &plan(10, 100, 1));
    peer.tell("abort");
    let reason = driver.closed(id);
    assert!(matches!(reason, CloseReason::PeerAborted { .. }), "{reason:?}");
}

#[test]
fn usrsctp_restarts() {
    let udp_port = free_udp_port();
    let mut driver = driver(17);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let own = driver.local_addr().port();
    let start = || {
        PeerProcess::usrsctp(&format!(
            "call -n 20 -l 500 -c 127.0.0.1 -b 127.0.0.1 -B 6001 -u {udp_port} -U {own} -p {SCTP_PORT}"
        ))
    };
    let mut first = start();
    let id = driver.accept();
    driver.echo(id, 20);
    driver.while_waiting(|| first.expect("ECHOED 20"));
    first.vanish();
    let mut second = start();
    driver.event("Restarted", |of, event| (of == id && *event == Event::Restarted).then_some(()));
    driver.echo(id, 20);
    driver.while_waiting(|| second.expect("ECHOED 20"));
    shut_down(driver, second, id);
}

#[test]
fn this_side_restarts() {
    let udp_port = free_udp_port();
    let mut peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
    let there = SocketAddr::new(LOCALHOST, udp_port);
    let request = || Connect { local_port: 6002, ..Connect::to(there, SCTP_PORT) };
    let mut first = driver(18);
    let own = first.local_addr();
    let id = first.connect(request());
    first.exchange(id, &plan(20, 500, 1));
    drop(first);
    let mut second = Driver::udp(own, EndpointConfig::default(), 19);
    let id = second.connect(request());
    second.while_waiting(|| peer.expect("RESTART"));
    second.exchange(id, &plan(20, 500, 1));
    shut_down(second, peer, id);
}
