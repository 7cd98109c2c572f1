//! Extensions, over raw IP on one path, with losses and with either side setting up.

use std::net::SocketAddr;
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::endpoint::Connect;
use strandline_proto::reliability::Reliability;
use strandline_tests::driver::Driver;
use strandline_tests::extensions::{adaptation_layer, interleaving, interleaving_with_credit};
use strandline_tests::peer::PeerProcess;
use strandline_tests::reconfiguration::{PEER_STREAMS, performs_all_requests};
use strandline_tests::session::{LOSS_PER_MILLE, Session, ip, quick};
use strandline_tests::traffic::{plan, unordered};

use crate::SCTP_PORT;

const THERE: &str = "10.132.1.11";
const HERE: &str = "10.132.1.1";

/// Returns an endpoint whose configuration is changed.
pub fn driver(change: impl FnOnce(&mut AssociationConfig), seed: u8) -> Driver {
    let mut association = quick();
    change(&mut association);
    let config = EndpointConfig {
        association: association.into(),
        local_addresses: vec![ip(HERE)],
        ..EndpointConfig::default()
    };
    Driver::raw(ip("0.0.0.0"), config, seed)
}

/// Returns a session in which this side connects to the kernel in the first mode, or the kernel connects in
/// the second one.
pub fn session(driver: Driver, connects: bool, [server, client]: [&str; 2]) -> Session {
    if connects { connected(driver, server) } else { accepted(driver, client) }
}

/// Returns a session in which this side connects to the kernel, which runs in this mode.
fn connected(mut driver: Driver, mode: &str) -> Session {
    let peer = PeerProcess::lksctp(&format!("{mode} -b {THERE} -p {SCTP_PORT}"));
    let id = driver.connect(Connect::to(SocketAddr::new(ip(THERE), 0), SCTP_PORT));
    let mut session = Session { driver, peer, id };
    session.expect("UP");
    session
}

/// Returns a session in which the kernel connects.
fn accepted(mut driver: Driver, mode: &str) -> Session {
    driver.endpoint.listen(SCTP_PORT).expect("the port is free");
    let arguments = format!("{mode} -c {HERE} -b {THERE} -p {SCTP_PORT}");
    let peer = driver.while_waiting(|| PeerProcess::lksctp(&arguments));
    let id = driver.accept();
    let mut session = Session { driver, peer, id };
    session.expect_or_seen("UP");
    session
}

/// I-DATA chunks, ordered and unordered, of messages that fit a packet. The kernel numbers the fragments of
/// longer ones from the second on, and the others' fragments are numbered from the first (RFC 8260 section
/// 2.1). It does not list I-FORWARD-TSN, so that no message is given up.
#[test]
fn messages_in_i_data_return() {
    let mut session = connected(driver(interleaving, 30), "echo -i");
    let agreed = session.agreed();
    assert!(agreed.interleaving && !agreed.partial_reliability);
    session.exchange(&plan(1000, 64, 200));
    session.exchange_under_losses(&[plan(1000, 1000, 7), unordered(600, 1000, 3)]);
    session.shut_down();
}

#[test]
fn the_kernel_connects_with_i_data() {
    let mut session = accepted(driver(interleaving, 31), "call -i -n 1000 -l 1000 -s 7");
    assert!(session.agreed().interleaving);
    session.echo_under_losses(1000);
    session.shut_down();
}

/// Without the option of its socket the kernel doesn't offer I-DATA.
#[test]
fn interleaving_needs_both_sides() {
    let mut session = connected(driver(interleaving, 32), "echo");
    assert!(!session.agreed().interleaving);
    session.exchange(&plan(20, 20_000, 3));
    session.shut_down();
}

/// The kernel skips the parameter of stream credit without a report, and the window of the association alone
/// limits streams.
#[test]
fn stream_credit_is_skipped() {
    for (seed, connects) in [(50, true), (51, false)] {
        let driver = driver(interleaving_with_credit, seed);
        session(driver, connects, ["echo -i", "call -i -n 1000 -l 1000 -s 7"]).skips_stream_credit(
            connects,
            &[plan(1000, 1000, 7)],
            1000,
        );
    }
}

/// Messages of ours that are given up, after retransmissions or a time.
#[test]
fn messages_given_up_under_losses() {
    let limits = [Reliability::retransmissions(0), Reliability::lifetime(Duration::from_millis(20))];
    for (number, connects) in (40..44).zip([true, false].into_iter().cycle()) {
        let limit = limits[usize::from(number / 2 % 2)];
        let mut session = session(driver(|_| (), number), connects, ["sink -v", "send -n 0 -v"]);
        assert!(session.agreed().partial_reliability);
        session.send_with_limits(&plan(600, 2000, 3), limit);
        session.shut_down();
    }
}

/// It reports none of them to its application. Messages with a lifetime fit a packet: of longer ones the
/// kernel may send the first fragment and never the others, and a receiver finds the next message begin
/// within them.
#[test]
fn messages_given_up_by_the_kernel() {
    let limits = [("-R 0", 600, 2000), ("-T 50 -L 80 -t 2", 200, 1000)];
    for (number, connects) in (44..48).zip([true, false].into_iter().cycle()) {
        let (limit, count, length) = limits[usize::from(number / 2 % 2)];
        let what = format!("-n {count} -l {length} -s 3 {limit}");
        let modes = [format!("sink {what}"), format!("send -w {what}")];
        let session = session(driver(|_| (), number), connects, modes.each_ref().map(String::as_str));
        session.receive_with_limits(&plan(count, length, 3), false);
    }
}

/// Messages of low priority make room for others (RFC 7496 section 4.1), and the kernel skips them.
#[test]
fn messages_give_way_to_priority() {
    for (seed, connects) in [(56, true), (57, false)] {
        let driver = driver(|association| association.send_buffer = Some(64 << 10), seed);
        let mut session = session(driver, connects, ["sink -v", "send -n 0 -v"]);
        session.send_by_priority();
        session.driver.lose(0);
        session.shut_down();
    }
}

/// Messages of the kernel give way to others: all of these fit its send buffer only without some of low priority.
#[test]
fn messages_of_the_kernel_give_way_to_priority() {
    for (seed, connects) in [(58, true), (59, false)] {
        let what = "-n 40 -l 2000 -s 3 -P 20 -S 65536";
        let modes = [format!("sink {what}"), format!("send -w {what}")];
        let session = session(driver(|_| (), seed), connects, modes.each_ref().map(String::as_str));
        session.receive_by_priority(&plan(40, 2000, 3), 20, false);
    }
}

/// Resets in each direction, by each side and in both roles.
#[test]
fn streams_are_reset_under_losses() {
    for (seed, connects) in [(60, true), (61, false)] {
        let driver = driver(performs_all_requests, seed);
        session(driver, connects, ["echo -v", "send -v -n 1"]).reset_streams_under_losses();
    }
}

#[test]
fn all_numbers_are_reset_under_losses() {
    for (seed, connects) in [(62, true), (63, false), (64, true), (65, false)] {
        let driver = driver(performs_all_requests, seed);
        session(driver, connects, ["echo -v", "send -v -n 1"]).renumber_under_losses(connects, true);
    }
}

#[test]
fn streams_are_added_under_losses() {
    for (seed, connects) in [(66, true), (67, false)] {
        let driver = driver(performs_all_requests, seed);
        let modes = [format!("echo -v -O {PEER_STREAMS}"), format!("send -v -n 1 -O {PEER_STREAMS}")];
        session(driver, connects, modes.each_ref().map(String::as_str)).add_streams_under_losses();
    }
}

/// Streams that either side opens and closes at run time.
#[test]
fn streams_are_opened_and_closed_under_losses() {
    for (seed, connects) in [(68, true), (77, false)] {
        session(driver(|_| (), seed), connects, ["echo -v", "send -n 0 -e -v"])
            .open_and_close_streams_under_losses(false);
    }
}

/// Each side hears of the other's adaptation layer (RFC 5061 section 4.2.6).
#[test]
fn adaptation_layers_are_indicated() {
    for (seed, connects) in [(69, true), (70, false)] {
        let mut driver = driver(adaptation_layer, seed);
        driver.lose(LOSS_PER_MILLE);
        session(driver, connects, ["echo -A 9", "send -n 0 -e -A 9"]).indicates_adaptation_layers();
    }
}

/// The kernel answers our HEARTBEAT, and skips the PAD chunk behind it.
#[test]
fn path_mtu_is_found() {
    for (seed, connects) in [(71, true), (72, false)] {
        session(driver(|_| (), seed), connects, ["sink", "send -n 0"]).finds_the_path_mtu_under_losses();
    }
}

/// The kernel searches by the same chunks (RFC 8899), beginning with a small one, and we answer.
#[test]
fn the_kernel_finds_the_path_mtu() {
    for (seed, connects) in [(73, true), (74, false)] {
        let mut session = session(driver(|_| (), seed), connects, ["echo -m 5000", "call -n 1 -m 5000"]);
        session.kernel_finds_the_path_mtu();
        session.shut_down();
    }
}

/// Each side marks packets of the other: it answers with ECNE, and the sender with CWR (RFC 3168).
#[test]
fn marks_are_answered() {
    for (seed, connects) in [(75, true), (76, false)] {
        let driver = driver(|association| association.extensions.ecn = true, seed);
        let mut session = session(driver, connects, ["echo", "call -n 1000 -l 1000 -s 3"]);
        assert!(session.agreed().ecn);
        session.answers_marks(connects);
        session.shut_down();
    }
}
