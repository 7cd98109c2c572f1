//! Interoperability with pion/sctp: each UDP datagram is one SCTP packet, and both SCTP ports are 5000. `make
//! test-deps` builds the peer. pion does not accept an INIT for an existing association, so there is no test
//! of a restart.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::Connect;
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::session::Session;
use strandline_tests::traffic::{plan, unordered};

/// SCTP port of both sides, as in pion.
const SCTP_PORT: u16 = 5000;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn driver(seed: u8) -> Driver {
    Driver::udp(SocketAddr::new(LOCALHOST, 0), EndpointConfig::default(), seed)
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
