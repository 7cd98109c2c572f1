//! Interoperability of NR-SACK (draft-tuexen-tsvwg-sctp-multipath section 4) with usrsctp over UDP encapsulation on the
//! loopback interface. `make test-deps` builds the peer.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used)]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_tests::driver::Driver;
use strandline_tests::session::Session;
use strandline_tests::traffic::{plan, unordered};
use strandline_wire::chunk::kind;

const SCTP_PORT: u16 = 5001;
const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Returns a session in which this side offers NR-SACK, and usrsctp too with `-N` among its options. This side connects or
/// usrsctp does.
fn keeping(seed: u8, connects: bool, options: &str, interleaves: bool) -> Session {
    let mut association = AssociationConfig::default();
    association.extensions.nr_sack = true;
    association.extensions.interleaving = interleaves;
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    let driver = Driver::udp(SocketAddr::new(LOCALHOST, 0), config, seed);
    Session::usrsctp(driver, connects, SCTP_PORT, options)
}

fn has_nr_sack(session: &Session) -> bool {
    let status = session.driver.endpoint.status(session.id);
    status.is_some_and(|status| status.extensions.nr_sack)
}

/// Chunk types of acknowledgements that usrsctp has sent.
fn acknowledged_by(session: &Session) -> Vec<u8> {
    let kinds = session.driver.kinds_received.iter().copied();
    kinds.filter(|kind| [kind::SACK, kind::NR_SACK].contains(kind)).collect()
}

/// Both sides acknowledge with NR-SACK, without losses and with 3 %.
#[test]
fn messages_return_acknowledged_by_nr_sack() {
    for (interleaves, seed) in [false, true].into_iter().zip(90..) {
        let mut session = keeping(seed, true, if interleaves { "-N -i" } else { "-N" }, interleaves);
        assert!(has_nr_sack(&session));
        session.exchange(&plan(300, 20_000, 7));
        session.exchange(&unordered(200, 5000, 3));
        session.exchange(&plan(1000, 64, 200));
        session.driver.lose(30);
        session.exchange(&plan(200, 20_000, 7));
        session.exchange(&unordered(100, 5000, 3));
        session.driver.lose(0);
        assert_eq!(acknowledged_by(&session), [kind::NR_SACK]);
        session.shut_down();
    }
}

#[test]
fn usrsctp_connects_with_nr_sack() {
    let mut session = keeping(92, false, "-N", false);
    assert!(has_nr_sack(&session));
    session.driver.lose(30);
    session.echo(200);
    session.driver.lose(0);
    assert_eq!(acknowledged_by(&session), [kind::NR_SACK]);
    session.shut_down();
}

/// Without the option usrsctp doesn't list the chunk type, and both sides send SACKs.
#[test]
fn nr_sack_needs_both_sides() {
    let mut session = keeping(93, true, "", false);
    assert!(!has_nr_sack(&session));
    session.exchange(&plan(20, 20_000, 3));
    assert_eq!(acknowledged_by(&session), [kind::SACK]);
    session.shut_down();
}
