//! Interoperability of extensions with the Linux kernel's SCTP, over raw IP on one path: interleaving (RFC 8260),
//! authenticated chunks (RFC 4895) and partial reliability (RFC 3758, RFC 7496), with either side setting up, under
//! losses. `make interop` starts the kernel and runs these tests within its network namespace, one after the other.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::SocketAddr;
use std::time::Duration;

use strandline_proto::authentication::{Authentication, KeyId, SharedKey};
use strandline_proto::config::{AssociationConfig, EndpointConfig, StreamScheduler};
use strandline_proto::endpoint::{Connect, KeyChange};
use strandline_proto::event::CloseReason;
use strandline_proto::reliability::Reliability;
use strandline_proto::stats::AgreedExtensions;
use strandline_tests::driver::Driver;
use strandline_tests::peer::PeerProcess;
use strandline_tests::session::{Session, ip, quick};
use strandline_tests::traffic::{plan, unordered};
use strandline_wire::chunk::kind;

const SCTP_PORT: u16 = 5001;
const THERE: &str = "10.132.1.11";
const HERE: &str = "10.132.1.1";

/// Chunk types that each side demands to be authenticated. The kernel takes no others into its list than these and
/// those of extensions.
const DEMANDED: [u8; 4] = [kind::DATA, kind::SACK, kind::HEARTBEAT, kind::COOKIE_ECHO];

/// The shared key with identifier 7.
const SECRET: &str = "known-to-both";

fn driver(change: impl Fn(&mut AssociationConfig), seed: u8) -> Driver {
    let mut association = quick();
    change(&mut association);
    let config = EndpointConfig {
        association: association.into(),
        local_addresses: vec![ip(HERE)],
        ..EndpointConfig::default()
    };
    Driver::raw(ip("0.0.0.0"), config, seed)
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
    Session { driver, peer, id }
}

fn agreed(session: &Session) -> AgreedExtensions {
    session.driver.endpoint.status(session.id).expect("the association lives").extensions
}

fn interleaving(association: &mut AssociationConfig) {
    association.extensions.interleaving = true;
    association.stream_scheduler = StreamScheduler::RoundRobin;
}

/// I-DATA chunks, ordered and unordered, of messages that fit a packet. The kernel numbers the fragments of longer ones from
/// the second on, and the others' fragments are numbered from the first (RFC 8260 section 2.1). It does not list
/// I-FORWARD-TSN, so that no message is given up.
#[test]
fn messages_in_i_data_return() {
    let mut session = connected(driver(interleaving, 30), "echo -i");
    let agreed = agreed(&session);
    assert!(agreed.interleaving && !agreed.partial_reliability);
    session.exchange(&plan(1000, 64, 200));
    session.driver.lose(30);
    session.exchange(&plan(1000, 1000, 7));
    session.exchange(&unordered(600, 1000, 3));
    session.driver.lose(0);
    session.shut_down();
}

#[test]
fn the_kernel_connects_with_i_data() {
    let mut session = accepted(driver(interleaving, 31), "call -i -n 1000 -l 1000 -s 7");
    assert!(agreed(&session).interleaving);
    session.driver.lose(30);
    session.echo(1000);
    session.driver.lose(0);
    session.shut_down();
}

/// Without the option of its socket the kernel doesn't offer I-DATA.
#[test]
fn interleaving_needs_both_sides() {
    let mut session = connected(driver(interleaving, 32), "echo");
    assert!(!agreed(&session).interleaving);
    session.exchange(&plan(20, 20_000, 3));
    session.shut_down();
}

/// Returns the driver of a side that demands authentication, with the null key or a shared one, and the options of the
/// kernel's side.
fn authenticated(seed: u8, secret: Option<&str>) -> (Driver, String) {
    let demands = |association: &mut AssociationConfig| {
        let chunks = DEMANDED.into_iter().collect();
        association.extensions.authentication =
            Some(Authentication { chunks, required: true, ..Authentication::default() });
    };
    let mut driver = driver(demands, seed);
    if let Some(secret) = secret {
        let key = KeyId(7);
        let changes = [
            KeyChange::Set(key, SharedKey::new(secret.as_bytes())),
            KeyChange::Activate(key),
            KeyChange::Deactivate(KeyId(0)),
            KeyChange::Delete(KeyId(0)),
        ];
        for change in changes {
            change.apply_to_new(&mut driver.endpoint).expect("the keys exist");
        }
    }
    let list: Vec<_> = DEMANDED.iter().map(u8::to_string).collect();
    let key = secret.map(|secret| format!("-k {secret}")).unwrap_or_default();
    (driver, format!("-a {} {key}", list.join(",")))
}

#[test]
fn authenticated_messages_return() {
    for (secret, seed) in [None, Some(SECRET)].into_iter().zip(33..) {
        let (driver, options) = authenticated(seed, secret);
        let mut session = connected(driver, &format!("echo {options}"));
        assert!(agreed(&session).authentication);
        session.exchange(&plan(300, 20_000, 7));
        session.exchange(&plan(1000, 64, 200));
        session.exchange_with_losses();
        session.shut_down();
    }
}

#[test]
fn the_kernel_connects_with_authentication() {
    for (secret, seed) in [None, Some(SECRET)].into_iter().zip(35..) {
        let (driver, options) = authenticated(seed, secret);
        let mut session = accepted(driver, &format!("call {options} -n 200 -l 20000 -s 7"));
        assert!(agreed(&session).authentication);
        session.driver.lose(30);
        session.echo(200);
        session.driver.lose(0);
        session.shut_down();
    }
}

#[test]
fn the_kernel_aborts_with_authentication() {
    let (driver, options) = authenticated(37, Some(SECRET));
    let mut session = connected(driver, &format!("echo {options}"));
    session.exchange(&plan(20, 1000, 3));
    session.peer.tell("abort");
    assert!(matches!(session.closed(), CloseReason::PeerAborted { .. }));
}

/// Messages of ours that are given up, after retransmissions or a time.
#[test]
fn messages_given_up_under_losses() {
    let limits = [Reliability::retransmissions(0), Reliability::lifetime(Duration::from_millis(20))];
    for (limit, seed) in limits.into_iter().zip(40..) {
        let mut session = connected(driver(|_| (), seed), "sink -v");
        assert!(agreed(&session).partial_reliability);
        session.send_with_limits(&plan(600, 2000, 3), limit);
        session.shut_down();
    }
}

/// It reports none of them to its application. Messages with a lifetime fit a packet: of longer ones the kernel may send the
/// first fragment and never the others, and a receiver finds the next message begin within them.
#[test]
fn messages_given_up_by_the_kernel() {
    for (options, length, seed) in [("-R 0", 2000, 43), ("-T 50 -L 150", 1000, 44)] {
        let session = accepted(driver(|_| (), seed), &format!("send -n 600 -l {length} -s 3 {options}"));
        session.receive_with_limits(&plan(600, length, 3), false);
    }
}
