//! With the Linux kernel's SCTP, over raw IP and over UDP encapsulation, on two paths. `make interop` starts the kernel
//! and runs these tests within its network namespace, one after the other.

// What must not happen ends the test with its reason.
#![allow(clippy::expect_used, clippy::panic)]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::endpoint::Connect;
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_proto::stats::Reachability;
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, lksctp_control};
use strandline_tests::traffic::{Planned, plan};

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

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Timers for a network of milliseconds, so that failures show within seconds.
fn quick() -> AssociationConfig {
    AssociationConfig {
        rto_initial: Duration::from_millis(300),
        rto_min: Duration::from_millis(300),
        rto_max: Duration::from_millis(1200),
        heartbeat_interval: Some(Duration::from_millis(300)),
        path_retrans_max: 2,
        ..AssociationConfig::default()
    }
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

/// The kernel echoes, this side connects on both paths.
fn connected(carrier: Carrier, seed: u8) -> (Driver, PeerProcess, AssociationId) {
    let encapsulation = if matches!(carrier, Carrier::Udp) { "-U 9899" } else { "" };
    let mut peer = PeerProcess::lksctp(&format!("{ECHO} {encapsulation}"));
    let mut driver = driver(carrier, &HERE, seed);
    let id = driver.connect(to_kernel(carrier));
    driver.while_waiting(|| peer.expect("UP"));
    (driver, peer, id)
}

/// The kernel connects with these further arguments, this side listens on both paths.
fn accepted(carrier: Carrier, seed: u8, mode: &str) -> (Driver, PeerProcess, AssociationId) {
    let encapsulation = if matches!(carrier, Carrier::Udp) { "-U 9899" } else { "" };
    let mut driver = driver(carrier, &HERE, seed);
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let arguments = format!("{mode} -c {} -b {} -b {} {encapsulation}", HERE.join(","), THERE[0], THERE[1]);
    let peer = driver.while_waiting(|| PeerProcess::lksctp(&arguments));
    let id = driver.accept();
    (driver, peer, id)
}

fn shut_down(mut driver: Driver, mut peer: PeerProcess, id: AssociationId) {
    driver.endpoint.shutdown(driver.now(), id).expect("the association lives");
    assert_eq!(driver.closed(id), CloseReason::Shutdown);
    driver.while_waiting(|| peer.expect("CLOSED"));
}

/// Small and large messages, on many streams, with and without order.
fn exchange(driver: &mut Driver, id: AssociationId) {
    driver.exchange(id, &plan(1000, 64, 200));
    driver.exchange(id, &plan(3, 1 << 20, 2));
    let unordered: Vec<Planned> = plan(200, 700, 3).into_iter().map(Planned::unordered).collect();
    driver.exchange(id, &unordered);
}

#[test]
fn this_side_connects_over_raw_ip() {
    let (mut driver, peer, id) = connected(Carrier::Raw, 1);
    exchange(&mut driver, id);
    shut_down(driver, peer, id);
}

#[test]
fn this_side_connects_over_udp() {
    let (mut driver, peer, id) = connected(Carrier::Udp, 2);
    exchange(&mut driver, id);
    shut_down(driver, peer, id);
}

#[test]
fn this_side_connects_over_ipv6() {
    let mut peer = PeerProcess::lksctp(&format!("echo -b {THERE_V6}"));
    let config = EndpointConfig { association: Arc::new(quick()), ..EndpointConfig::default() };
    let mut driver = Driver::raw(ip("::"), config, 3);
    let id = driver.connect(Connect::to(SocketAddr::new(ip(THERE_V6), 0), SCTP_PORT));
    exchange(&mut driver, id);
    driver.while_waiting(|| peer.expect("UP"));
    shut_down(driver, peer, id);
}

#[test]
fn the_kernel_connects_over_raw_ip() {
    let (mut driver, mut peer, id) = accepted(Carrier::Raw, 4, "call -n 300 -l 4000 -s 30");
    driver.echo(id, 300);
    driver.while_waiting(|| peer.expect("ECHOED 300"));
    shut_down(driver, peer, id);
}

#[test]
fn the_kernel_connects_over_udp() {
    let (mut driver, mut peer, id) = accepted(Carrier::Udp, 5, "call -n 2 -l 1048576");
    driver.echo(id, 2);
    driver.while_waiting(|| peer.expect("ECHOED 2"));
    shut_down(driver, peer, id);
}

#[test]
fn the_kernel_shuts_down() {
    let (mut driver, mut peer, id) = accepted(Carrier::Raw, 6, "send -n 100 -l 2000 -s 4");
    driver.receive_all(id, &plan(100, 2000, 4));
    peer.tell("shutdown");
    assert_eq!(driver.closed(id), CloseReason::Shutdown);
    driver.while_waiting(|| peer.expect("CLOSED"));
}

#[test]
fn this_side_aborts() {
    let (mut driver, mut peer, id) = connected(Carrier::Raw, 7);
    driver.exchange(id, &plan(10, 100, 1));
    driver.endpoint.abort(driver.now(), id, "enough".into()).expect("the association lives");
    assert_eq!(driver.closed(id), CloseReason::Aborted);
    driver.while_waiting(|| peer.expect("LOST"));
}

#[test]
fn the_kernel_aborts() {
    let (mut driver, mut peer, id) = connected(Carrier::Raw, 8);
    driver.exchange(id, &plan(10, 100, 1));
    peer.tell("abort");
    let reason = driver.closed(id);
    assert!(matches!(reason, CloseReason::PeerAborted { .. }), "{reason:?}");
}

#[test]
fn losses_in_both_directions() {
    let (mut driver, peer, id) = connected(Carrier::Raw, 9);
    driver.lose(30);
    driver.exchange(id, &plan(60, 5000, 3));
    driver.lose(0);
    shut_down(driver, peer, id);
}

#[test]
fn the_kernel_restarts() {
    let (mut driver, mut first, id) = accepted(Carrier::Raw, 10, "call -B 6001 -n 20 -l 500");
    driver.echo(id, 20);
    driver.while_waiting(|| first.expect("ECHOED 20"));
    // Its crash must not be told: neither what the kernel sends for a process that ends, nor its answer to a heartbeat.
    let silent = AssociationConfig { heartbeat_interval: None, ..quick() };
    driver.endpoint.configure(driver.now(), id, Arc::new(silent)).expect("the association lives");
    driver.run_for(Duration::from_secs(1));
    driver.cut(&HERE.map(ip));
    driver.while_waiting(|| drop(first));
    driver.run_for(Duration::from_millis(200));
    driver.heal();
    let arguments =
        format!("call -B 6001 -n 20 -l 500 -c {} -b {} -b {}", HERE.join(","), THERE[0], THERE[1]);
    let mut second = driver.while_waiting(|| PeerProcess::lksctp(&arguments));
    driver.event("Restarted", |of, event| (of == id && *event == Event::Restarted).then_some(()));
    driver.echo(id, 20);
    driver.while_waiting(|| second.expect("ECHOED 20"));
    shut_down(driver, second, id);
}

#[test]
fn this_side_restarts() {
    let mut peer = PeerProcess::lksctp(ECHO);
    let request = || Connect { local_port: 6002, ..to_kernel(Carrier::Raw) };
    let mut first = driver(Carrier::Raw, &HERE, 11);
    let id = first.connect(request());
    first.exchange(id, &plan(20, 500, 1));
    drop(first);
    let mut second = driver(Carrier::Raw, &HERE, 12);
    let id = second.connect(request());
    second.while_waiting(|| peer.expect("RESTART"));
    second.exchange(id, &plan(20, 500, 1));
    shut_down(second, peer, id);
}

/// The first path fails in the middle of a transfer, which goes on over the second; then the first one comes back and
/// data returns to it.
#[test]
fn fail_over_and_return() {
    let (mut driver, peer, id) = connected(Carrier::Raw, 13);
    driver.path_is(id, ip(THERE[1]), Reachability::Active);
    driver.exchange(id, &plan(100, 1000, 1));
    lksctp_control("cut 1");
    driver.exchange(id, &plan(200, 10_000, 4));
    driver.path_is(id, ip(THERE[0]), Reachability::Inactive);
    driver.exchange(id, &plan(200, 10_000, 4));
    lksctp_control("heal 1");
    driver.path_is(id, ip(THERE[0]), Reachability::Active);
    lksctp_control("cut 2");
    driver.exchange(id, &plan(200, 10_000, 4));
    lksctp_control("heal 2");
    driver.path_is(id, ip(THERE[1]), Reachability::Active);
    shut_down(driver, peer, id);
}

/// The kernel's data fails over as well: it sends while a path of its is dead.
#[test]
fn fail_over_of_the_kernels_data() {
    let (mut driver, mut peer, id) = accepted(Carrier::Raw, 14, "call -T 300 -n 4000 -l 1000 -s 4");
    driver.path_is(id, ip(THERE[1]), Reachability::Active);
    driver.echo(id, 500);
    lksctp_control("cut 1");
    driver.echo(id, 3500);
    driver.while_waiting(|| peer.expect("ECHOED 4000"));
    lksctp_control("heal 1");
    shut_down(driver, peer, id);
}
