//! Interoperability with usrsctp over UDP encapsulation on the loopback interface. `make test-deps` builds
//! the peer.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

mod authentication;
mod ecn;
mod extensions;
mod nr_sack;
mod reliability;
mod restart;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::endpoint::Connect;
use strandline_tests::cases;
use strandline_tests::driver::Driver;
use strandline_tests::peer::{PeerProcess, free_udp_port};
use strandline_tests::reconfiguration::{PEER_STREAMS, performs_all_requests};
use strandline_tests::session::Session;
use strandline_tests::traffic::{Planned, plan, unordered};
use strandline_wire::chunk::kind;

const SCTP_PORT: u16 = 5001;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Returns an endpoint on its own UDP port.
fn driver(seed: u8) -> Driver {
    Driver::udp(SocketAddr::new(LOCALHOST, 0), EndpointConfig::default(), seed)
}

/// Returns an endpoint whose configuration is changed.
fn driver_with(seed: u8, change: impl FnOnce(&mut AssociationConfig)) -> Driver {
    driver_at(SocketAddr::new(LOCALHOST, 0), seed, change)
}

/// Returns an endpoint at this address, whose configuration is changed.
fn driver_at(own: SocketAddr, seed: u8, change: impl FnOnce(&mut AssociationConfig)) -> Driver {
    let mut association = AssociationConfig::default();
    change(&mut association);
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    Driver::udp(own, config, seed)
}

/// Returns a session in which this side connects to usrsctp in the first mode, or usrsctp connects in the second one.
fn session(mut driver: Driver, connects: bool, [server, client]: [&str; 2]) -> Session {
    let udp_port = free_udp_port();
    let (peer, id) = if connects {
        let peer = PeerProcess::usrsctp(&format!("{server} -u {udp_port} -p {SCTP_PORT}"));
        let id = driver.connect(Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT));
        (peer, id)
    } else {
        driver.endpoint.listen(SCTP_PORT).expect("the port is free");
        let own = driver.local_addr().port();
        let peer = PeerProcess::usrsctp(&format!(
            "{client} -c 127.0.0.1 -b 127.0.0.1 -u {udp_port} -U {own} -p {SCTP_PORT}"
        ));
        (peer, driver.accept())
    };
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session
}

/// Returns a session in which usrsctp echoes and this side connects.
fn connected(seed: u8) -> Session {
    session(driver(seed), true, ["echo", ""])
}

/// Returns a session in which usrsctp connects with these further arguments and this side listens.
fn accepted(seed: u8, mode: &str) -> Session {
    session(driver(seed), false, ["", mode])
}

/// A default endpoint sends nothing that usrsctp would have to report as unrecognised.
#[test]
fn nothing_is_reported_to_a_default_endpoint() {
    let mut session = connected(21);
    session.exchange_many_kinds();
    assert_eq!(session.driver.ecn_capable_sent, 0);
    for never in [kind::ERROR, kind::ABORT, kind::ECNE] {
        assert!(!session.driver.kinds_received.contains(&never), "chunk type {never}");
    }
    session.shut_down();
}

#[test]
fn small_messages_on_many_streams() {
    let mut session = connected(1);
    session.exchange(&plan(2000, 64, 200));
    session.shut_down();
}

#[test]
fn unordered_messages() {
    let mut session = connected(2);
    session.exchange(&unordered(500, 300, 3));
    session.shut_down();
}

#[test]
fn large_messages_both_ways() {
    let mut session = connected(3);
    session.exchange(&plan(3, 1 << 20, 2));
    session.shut_down();
}

#[test]
fn messages_of_every_length_around_a_fragment() {
    let mut session = connected(4);
    let of_its_length = |planned: Planned| Planned { length: 1150 + planned.number as usize, ..planned };
    let plan: Vec<_> = plan(240, 0, 1).into_iter().map(of_its_length).collect();
    session.exchange(&plan);
    session.shut_down();
}

#[test]
fn usrsctp_connects_and_messages_return() {
    for (seed, count, how) in [(5, 500, "-l 100 -s 50"), (6, 3, "-l 1048576 -s 2")] {
        let mut session = accepted(seed, &format!("call -n {count} {how}"));
        session.echo(count);
        session.shut_down();
    }
}

#[test]
fn usrsctp_shuts_down() {
    accepted(7, "send -n 100 -l 2000 -s 4").is_shut_down();
}

/// Messages are given before the set-up: they go with one COOKIE ECHO, or with as many as they need.
#[test]
fn messages_on_the_cookie_echo_arrive() {
    for (seed, messages) in [(8, plan(5, 200, 5)), (15, plan(9, 1000, 3))] {
        let udp_port = free_udp_port();
        let _peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT}"));
        let mut driver = driver(seed);
        let request = Connect::to(SocketAddr::new(LOCALHOST, udp_port), SCTP_PORT);
        let id = driver.endpoint.connect(driver.now(), request).expect("the request is valid");
        driver.exchange(id, &messages);
    }
}

#[test]
fn losses_in_both_directions() {
    let mut session = connected(9);
    session.exchange_with_losses();
    session.shut_down();
}

#[test]
fn losses_during_setup_and_shutdown() {
    for seed in 10..13 {
        let udp_port = free_udp_port();
        let peer = PeerProcess::usrsctp(&format!("echo -u {udp_port} -p {SCTP_PORT} -T 200"));
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
        let mut session = Session { driver, peer, id };
        session.exchange(&plan(3, 100, 1));
        session.shut_down();
    }
}

#[test]
fn this_side_aborts() {
    connected(15).abort("LOST");
}

#[test]
fn usrsctp_aborts() {
    connected(16).is_aborted();
}

/// A NAT gives this side another UDP port (RFC 6951 section 5.4): usrsctp sends to it, also what was under way.
#[test]
fn usrsctp_follows_another_port() {
    for (seed, connects) in [(113, true), (114, false)] {
        session(driver(seed), connects, ["echo", "send -n 0 -e"]).changes_port_under_losses();
    }
}

/// Resets in each direction and more streams, by each side and in both roles.
#[test]
fn streams_are_reset_under_losses() {
    for (seed, connects) in [(40, true), (41, false)] {
        let driver = driver_with(seed, performs_all_requests);
        session(driver, connects, ["echo -v", "send -v -n 1"]).reset_streams_under_losses();
    }
}

/// All numbers begin anew at our request. One of usrsctp's own is never sent if DATA of its own is unacknowledged.
#[test]
fn all_numbers_are_reset_under_losses() {
    for (seed, connects) in [(42, true), (43, false), (46, true), (47, false), (48, true), (49, false)] {
        let driver = driver_with(seed, performs_all_requests);
        session(driver, connects, ["echo -v", "send -v -n 1"]).renumber_under_losses(connects, false);
    }
}

/// More streams in each direction, by each side and in both roles.
#[test]
fn streams_are_added_under_losses() {
    for (seed, connects) in [(44, true), (45, false)] {
        let driver = driver_with(seed, performs_all_requests);
        let modes = [format!("echo -v -O {PEER_STREAMS}"), format!("send -v -n 1 -O {PEER_STREAMS}")];
        session(driver, connects, modes.each_ref().map(String::as_str)).add_streams_under_losses();
    }
}

/// Streams that either side opens and closes at run time, with DATA and with I-DATA.
#[test]
fn streams_are_opened_and_closed_under_losses() {
    let all = [(50, true, ""), (51, false, "-i"), (52, true, "-i"), (53, false, "")];
    for (seed, connects, option) in cases(all) {
        let driver = driver_with(seed, |association| association.extensions.interleaving = option == "-i");
        let modes = [format!("echo -v {option}"), format!("send -n 0 -e -v {option}")];
        let session = session(driver, connects, modes.each_ref().map(String::as_str));
        assert_eq!(session.agreed().interleaving, option == "-i");
        session.open_and_close_streams_under_losses(false);
    }
}
