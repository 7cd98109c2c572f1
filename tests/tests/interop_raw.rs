//! With usrsctp over raw IP (protocol 132) and on two paths. Each side has a network namespace of its own, which
//! `make interop` makes.

// What must not happen ends the test with its reason.
#![allow(clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::endpoint::Connect;
use strandline_proto::event::{AssociationId, CloseReason};
use strandline_proto::stats::Reachability;
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::traffic::plan;

const SCTP_PORT: u16 = 5001;
/// usrsctp's addresses and this side's, path by path.
const THERE: [&str; 2] = ["10.132.1.2", "10.132.2.2"];
const HERE: [&str; 2] = ["10.132.1.1", "10.132.2.1"];

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn config() -> EndpointConfig {
    let quick = AssociationConfig {
        rto_initial: Duration::from_millis(300),
        rto_min: Duration::from_millis(300),
        rto_max: Duration::from_millis(1200),
        heartbeat_interval: Some(Duration::from_millis(300)),
        path_retrans_max: 2,
        ..AssociationConfig::default()
    };
    EndpointConfig {
        association: Arc::new(quick),
        local_addresses: HERE.iter().copied().map(ip).collect(),
        ..EndpointConfig::default()
    }
}

fn remotes(port: u16) -> Vec<SocketAddr> {
    THERE.iter().map(|text| SocketAddr::new(ip(text), port)).collect()
}

/// usrsctp echoes on both its addresses, this side connects.
fn connected(seed: u8) -> (Driver, PeerProcess, AssociationId) {
    let mut peer =
        PeerProcess::usrsctp_on_a_host_of_its_own("echo -b 10.132.1.2 -b 10.132.2.2 -p 5001 -T 300");
    let mut driver = Driver::raw(ip("0.0.0.0"), config(), seed);
    let request = Connect { remotes: remotes(0), ..Connect::to(remotes(0)[0], SCTP_PORT) };
    let id = driver.connect(request);
    driver.while_waiting(|| peer.expect("UP"));
    (driver, peer, id)
}

fn shut_down(mut driver: Driver, mut peer: PeerProcess, id: AssociationId) {
    driver.endpoint.shutdown(driver.now(), id).expect("the association lives");
    assert_eq!(driver.closed(id), CloseReason::Shutdown);
    driver.while_waiting(|| peer.expect("CLOSED"));
}

#[test]
fn this_side_connects() {
    let (mut driver, peer, id) = connected(1);
    driver.exchange(id, &plan(1000, 64, 200));
    driver.exchange(id, &plan(3, 1 << 20, 2));
    shut_down(driver, peer, id);
}

#[test]
fn usrsctp_connects() {
    let mut driver = Driver::raw(ip("0.0.0.0"), config(), 2);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let arguments = "call -n 300 -l 4000 -s 30 -c 10.132.1.1,10.132.2.1 -b 10.132.1.2 -b 10.132.2.2";
    let mut peer = PeerProcess::usrsctp_on_a_host_of_its_own(arguments);
    let id = driver.accept();
    driver.echo(id, 300);
    driver.while_waiting(|| peer.expect("ECHOED 300"));
    shut_down(driver, peer, id);
}

#[test]
fn usrsctp_aborts() {
    let (mut driver, mut peer, id) = connected(3);
    driver.exchange(id, &plan(10, 100, 1));
    peer.tell("abort");
    let reason = driver.closed(id);
    assert!(matches!(reason, CloseReason::PeerAborted { .. }), "{reason:?}");
}

/// An endpoint beside ours, with other ports, must not be disturbed by it, nor disturb it.
#[test]
fn two_endpoints_share_the_host() {
    let (mut driver, peer, id) = connected(4);
    let mut other = Driver::raw(ip("0.0.0.0"), config(), 5);
    other.endpoint.listen(SCTP_PORT + 1).expect("the port is free");
    driver.exchange(id, &plan(100, 500, 3));
    other.run_for(Duration::from_millis(200));
    driver.exchange(id, &plan(100, 500, 3));
    assert_eq!(other.endpoint.stats().packets_sent, 0);
    shut_down(driver, peer, id);
}

/// The first path fails in the middle of a transfer, which goes on over the second; then the first one comes back.
fn fails_over_and_returns(mut driver: Driver, mut peer: PeerProcess, id: AssociationId) {
    driver.path_is(id, ip(THERE[1]), Reachability::Active);
    driver.exchange(id, &plan(100, 1000, 1));
    driver.cut(&[ip(THERE[0]), ip(HERE[0])]);
    driver.exchange(id, &plan(200, 5000, 4));
    driver.path_is(id, ip(THERE[0]), Reachability::Inactive);
    driver.exchange(id, &plan(200, 5000, 4));
    driver.heal();
    driver.path_is(id, ip(THERE[0]), Reachability::Active);
    driver.until("usrsctp to find the way back", |_| peer.reaches(HERE[0]).then_some(()));
    driver.cut(&[ip(THERE[1]), ip(HERE[1])]);
    driver.exchange(id, &plan(200, 5000, 4));
    driver.heal();
    shut_down(driver, peer, id);
}

#[test]
fn fail_over_and_return_over_raw_ip() {
    let (driver, peer, id) = connected(6);
    fails_over_and_returns(driver, peer, id);
}

#[test]
fn fail_over_and_return_over_udp() {
    let (theirs, ours) = (free_udp_port(), free_udp_port());
    let arguments = format!("echo -b 10.132.1.2 -b 10.132.2.2 -p 5001 -T 300 -u {theirs} -U {ours}");
    let mut peer = PeerProcess::usrsctp_on_a_host_of_its_own(&arguments);
    let mut driver = Driver::udp(SocketAddr::new(ip("0.0.0.0"), ours), config(), 7);
    let request = Connect { remotes: remotes(theirs), ..Connect::to(remotes(theirs)[0], SCTP_PORT) };
    let id = driver.connect(request);
    driver.while_waiting(|| peer.expect("UP"));
    fails_over_and_returns(driver, peer, id);
}
