//! Interoperability of authenticated chunks (RFC 4895) with usrsctp over UDP encapsulation on the loopback interface.
//! `make test-deps` builds the peer.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use strandline_proto::authentication::{Authentication, KeyId, SharedKey};
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::endpoint::KeyChange;
use strandline_proto::event::CloseReason;
use strandline_tests::driver::Driver;
use strandline_tests::session::Session;
use strandline_tests::traffic::plan;
use strandline_wire::chunk::kind;

const SCTP_PORT: u16 = 5001;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Chunk types that each side demands to be authenticated: DATA, SACK, HEARTBEAT, ABORT and the COOKIE chunks.
const DEMANDED: [u8; 6] =
    [kind::DATA, kind::SACK, kind::HEARTBEAT, kind::ABORT, kind::COOKIE_ECHO, kind::COOKIE_ACK];

/// The shared key with identifier 7.
const SECRET: &str = "known-to-both";

/// Returns a session with authenticated chunks, in which this side connects or usrsctp does.
fn authenticated(seed: u8, connects: bool, secret: Option<&str>) -> Session {
    let mut association = AssociationConfig::default();
    let chunks = DEMANDED.into_iter().collect();
    association.extensions.authentication =
        Some(Authentication { chunks, required: true, ..Authentication::default() });
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    let mut driver = Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed);
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
    let options = format!("-a {} {key}", list.join(","));
    Session::usrsctp(driver, connects, SCTP_PORT, &options)
}

fn is_authenticated(session: &Session) -> bool {
    let status = session.driver.endpoint.status(session.id);
    status.is_some_and(|status| status.extensions.authentication)
}

/// Both sides derive the same keys (RFC 4895), with the null key and with a shared one, also under losses.
#[test]
fn authenticated_messages_return() {
    for (secret, seed) in [None, Some(SECRET)].into_iter().zip(80..) {
        let mut session = authenticated(seed, true, secret);
        assert!(is_authenticated(&session));
        session.exchange(&plan(300, 20_000, 7));
        session.exchange(&plan(1000, 64, 200));
        session.exchange_with_losses();
        session.shut_down();
    }
}

#[test]
fn usrsctp_connects_with_authentication() {
    for (secret, seed) in [None, Some(SECRET)].into_iter().zip(82..) {
        let mut session = authenticated(seed, false, secret);
        assert!(is_authenticated(&session));
        session.driver.lose(30);
        session.echo(200);
        session.driver.lose(0);
        session.shut_down();
    }
}

/// An ABORT of usrsctp is authenticated.
#[test]
fn usrsctp_aborts_with_authentication() {
    let mut session = authenticated(84, true, Some(SECRET));
    session.exchange(&plan(20, 1000, 3));
    session.peer.tell("abort");
    assert!(matches!(session.closed(), CloseReason::PeerAborted { .. }));
}

/// Both sides change their key while messages are exchanged: each accepts the old one until the other has changed.
#[test]
fn keys_change_under_losses() {
    let mut session = authenticated(85, true, Some(SECRET));
    session.exchange(&plan(100, 2000, 7));
    session.driver.lose(30);
    let id = session.id;
    let apply = |session: &mut Session, change: KeyChange| {
        change.apply(&mut session.driver.endpoint, id).expect("the keys exist");
    };
    apply(&mut session, KeyChange::Set(KeyId(8), SharedKey::new(b"the-second-one")));
    session.peer.tell("key 8 the-second-one");
    session.expect("KEY 8");
    // usrsctp sends with the new key, and this side still with the old one.
    session.exchange(&plan(100, 2000, 7));
    apply(&mut session, KeyChange::Activate(KeyId(8)));
    session.exchange(&plan(100, 2000, 7));
    apply(&mut session, KeyChange::Deactivate(KeyId(7)));
    session.exchange(&plan(100, 2000, 7));
    session.driver.lose(0);
    session.shut_down();
}
