//! With pion/sctp: each UDP datagram is one SCTP packet, and both SCTP ports are 5000. `make test-deps` builds the peer.
//! pion does not take an INIT for an association that exists, so there is no restart to test.

// What must not happen ends the test with its reason.
#![allow(clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::Connect;
use strandline_proto::event::{AssociationId, CloseReason};
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::traffic::{Planned, plan};

/// pion's SCTP port, of both sides.
const SCTP_PORT: u16 = 5000;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn driver(seed: u8) -> Driver {
    Driver::udp(SocketAddr::new(LOCALHOST, 0), EndpointConfig::default(), seed)
}

/// pion waits, this side connects.
fn connected(seed: u8, mode: &str) -> (Driver, PeerProcess, AssociationId) {
    let udp_port = free_udp_port();
    let mut peer = PeerProcess::pion(&format!("{mode} -u {udp_port}"));
    let mut driver = driver(seed);
    let there = SocketAddr::new(LOCALHOST, udp_port);
    let id = driver.connect(Connect { local_port: SCTP_PORT, ..Connect::to(there, SCTP_PORT) });
    driver.while_waiting(|| peer.expect("UP"));
    (driver, peer, id)
}

/// pion connects, this side listens.
fn accepted(seed: u8, mode: &str) -> (Driver, PeerProcess, AssociationId) {
    let mut driver = driver(seed);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let (udp_port, own) = (free_udp_port(), driver.local_addr().port());
    let peer = PeerProcess::pion(&format!("{mode} -u {udp_port} -U {own}"));
    let id = driver.accept();
    (driver, peer, id)
}

/// This side shuts down, and both see the graceful end.
fn shut_down(mut driver: Driver, mut peer: PeerProcess, id: AssociationId) {
    driver.endpoint.shutdown(driver.now(), id).expect("the association lives");
    assert_eq!(driver.closed(id), CloseReason::Shutdown);
    driver.while_waiting(|| peer.expect("CLOSED"));
}

#[test]
fn small_messages_on_several_streams() {
    let (mut driver, peer, id) = connected(1, "echo");
    driver.exchange(id, &plan(2000, 64, 8));
    shut_down(driver, peer, id);
}

#[test]
fn unordered_messages() {
    let (mut driver, peer, id) = connected(2, "echo -r");
    let plan: Vec<Planned> = plan(300, 700, 3).into_iter().map(Planned::unordered).collect();
    driver.exchange(id, &plan);
    shut_down(driver, peer, id);
}

#[test]
fn large_messages_both_ways() {
    let (mut driver, peer, id) = connected(3, "echo");
    driver.exchange(id, &plan(3, 1 << 20, 2));
    shut_down(driver, peer, id);
}

#[test]
fn pion_connects_and_small_and_large_messages_come_back() {
    let (mut driver, mut peer, id) = accepted(4, "call -n 500 -l 100 -s 8");
    driver.echo(id, 500);
    driver.while_waiting(|| peer.expect("ECHOED 500"));
    shut_down(driver, peer, id);
    let (mut driver, mut peer, id) = accepted(5, "call -n 3 -l 1048576 -s 2");
    driver.echo(id, 3);
    driver.while_waiting(|| peer.expect("ECHOED 3"));
    shut_down(driver, peer, id);
}

#[test]
fn pion_shuts_down() {
    let (mut driver, mut peer, id) = accepted(6, "send -n 100 -l 2000 -s 4");
    driver.receive_all(id, &plan(100, 2000, 4));
    driver.while_waiting(|| peer.expect("SENT 100"));
    peer.tell("shutdown");
    assert_eq!(driver.closed(id), CloseReason::Shutdown);
}

#[test]
fn losses_in_both_directions() {
    let (mut driver, peer, id) = connected(7, "echo");
    driver.lose(30);
    driver.exchange(id, &plan(60, 5000, 3));
    driver.lose(0);
    shut_down(driver, peer, id);
}

#[test]
fn this_side_aborts() {
    let (mut driver, mut peer, id) = connected(8, "echo");
    driver.exchange(id, &plan(10, 100, 1));
    driver.endpoint.abort(driver.now(), id, "enough".into()).expect("the association lives");
    assert_eq!(driver.closed(id), CloseReason::Aborted);
    driver.while_waiting(|| peer.expect("CLOSED"));
}

#[test]
fn pion_aborts() {
    let (mut driver, mut peer, id) = connected(9, "echo");
    driver.exchange(id, &plan(10, 100, 1));
    peer.tell("abort");
    match driver.closed(id) {
        CloseReason::PeerAborted { reason, .. } => assert_eq!(&reason[..], b"asked to"),
        other => panic!("{other:?}"),
    }
}
