//! Interoperability with the Linux kernel's SCTP, over raw IP and over UDP encapsulation, on two paths. `make
//! interop` starts the kernel and runs these tests within its network namespace, one after the other.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

mod authentication;
mod extensions;
mod restart;

use std::net::SocketAddr;
use std::sync::Arc;

use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::endpoint::Connect;
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
    driver_with(carrier, addresses, seed, quick())
}

/// Returns an endpoint whose associations have this configuration.
fn driver_with(carrier: Carrier, addresses: &[&str], seed: u8, association: AssociationConfig) -> Driver {
    let config = EndpointConfig {
        association: Arc::new(association),
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
    connected_to(carrier, seed, ECHO)
}

/// Returns a session in which the kernel waits with these arguments and this side connects on both paths.
fn connected_to(carrier: Carrier, seed: u8, mode: &str) -> Session {
    let encapsulation = if matches!(carrier, Carrier::Udp) { "-U 9899" } else { "" };
    let peer = PeerProcess::lksctp(&format!("{mode} {encapsulation}"));
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

/// Acknowledgements of the kernel take 10 ms on each path, so that the windows limit what is in flight.
struct Delay;

impl Delay {
    fn begin() -> Self {
        lksctp_control("netem 1 delay 10ms");
        lksctp_control("netem 2 delay 10ms");
        Self
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        lksctp_control("netem 1 none");
        lksctp_control("netem 2 none");
    }
}

/// Our new data uses both paths at once, with losses on both. The peer needs no extension for it.
#[test]
fn our_data_uses_both_paths() {
    for (seed, connects) in [(19, true), (20, false)] {
        let mut session = if connects {
            connected_to(Carrier::Raw, seed, "sink -b 10.132.1.11 -b 10.132.2.11")
        } else {
            accepted(Carrier::Raw, seed, "send -n 0")
        };
        let _slow = Delay::begin();
        session.uses_both_paths(&THERE.map(ip));
        session.shut_down();
    }
}

/// A NAT gives this side another UDP port (RFC 6951 section 5.4): the kernel sends to it, also what was under way.
#[test]
fn the_kernel_follows_another_port() {
    for (seed, connects) in [(21, true), (22, false)] {
        let session = if connects {
            connected(Carrier::Udp, seed)
        } else {
            accepted(Carrier::Udp, seed, "send -n 0 -e")
        };
        session.changes_port_under_losses();
    }
}
