//! Authenticated chunks (RFC 4895).

use strandline_proto::authentication::HmacAlgorithms;
use strandline_proto::event::CloseReason;
use strandline_proto::reliability::Reliability;
use strandline_tests::authentication::{OF_EXTENSIONS, SECRET, SHA_1, demand, options, share_key};
use strandline_tests::cases;
use strandline_tests::reconfiguration::performs_all_requests;
use strandline_tests::session::Session;
use strandline_tests::traffic::plan;
use strandline_wire::chunk::kind;

use crate::{driver_with, session};

/// Chunk types that each side demands to be authenticated: DATA, SACK, HEARTBEAT, ABORT and the COOKIE chunks.
const DEMANDED: [u8; 6] =
    [kind::DATA, kind::SACK, kind::HEARTBEAT, kind::ABORT, kind::COOKIE_ECHO, kind::COOKIE_ACK];

/// Returns a session with authenticated chunks, in which this side connects or usrsctp does.
fn authenticated(seed: u8, connects: bool, secret: Option<&str>) -> Session {
    with_algorithms(seed, connects, secret, HmacAlgorithms::default())
}

fn with_algorithms(seed: u8, connects: bool, secret: Option<&str>, hmacs: HmacAlgorithms) -> Session {
    let mut driver = driver_with(seed, |association| demand(association, &DEMANDED, hmacs));
    driver.demanded = DEMANDED.into();
    if let Some(secret) = secret {
        share_key(&mut driver, secret);
    }
    let options = options(&DEMANDED, secret);
    let modes = [format!("echo {options}"), format!("call -n 200 -l 20000 -s 7 {options}")];
    session(driver, connects, modes.each_ref().map(String::as_str))
}

/// Both sides derive the same keys (RFC 4895), with the null key and with a shared one, also under losses.
#[test]
fn authenticated_messages_return() {
    for (secret, seed) in [None, Some(SECRET)].into_iter().zip(80..) {
        let mut session = authenticated(seed, true, secret);
        assert!(session.agreed().authentication);
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
        assert!(session.agreed().authentication);
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
    authenticated(85, true, Some(SECRET)).change_keys_under_losses();
}

/// usrsctp has HMAC-SHA-1 alone, whatever this side prefers.
#[test]
fn sha_1_is_used() {
    let preferences = [HmacAlgorithms::Sha1Only, HmacAlgorithms::Sha256, HmacAlgorithms::Sha1];
    let all = preferences.into_iter().flat_map(|hmacs| [(hmacs, true), (hmacs, false)]);
    for (seed, (hmacs, connects)) in (86..).zip(cases(all)) {
        with_algorithms(seed, connects, Some(SECRET), hmacs).uses_algorithms(connects, SHA_1, SHA_1);
    }
}

/// Returns a session in which each side demands that chunks of other extensions are authenticated, too.
fn with_extensions(seed: u8, connects: bool, modes: [&str; 2]) -> Session {
    let demanded = [&DEMANDED[..], &OF_EXTENSIONS].concat();
    let mut driver = driver_with(seed, |association| {
        performs_all_requests(association);
        demand(association, &demanded, HmacAlgorithms::default());
    });
    share_key(&mut driver, SECRET);
    driver.demanded = demanded.iter().copied().collect();
    let options = options(&demanded, Some(SECRET));
    let session = session(
        driver,
        connects,
        modes.map(|mode| format!("{mode} {options}")).each_ref().map(String::as_str),
    );
    assert!(session.agreed().authentication);
    session
}

/// Streams are reset, and messages are abandoned, of each side, by authenticated RE-CONFIG and FORWARD TSN chunks.
#[test]
fn chunks_of_extensions_are_authenticated() {
    for (seed, connects) in cases([(123, true), (126, false)]) {
        with_extensions(seed, connects, ["echo -v", "send -v -n 1"]).reset_streams_under_losses();
        let mut session = with_extensions(seed + 1, connects, ["sink -v", "send -n 0 -v"]);
        session.send_with_limits(&plan(600, 2000, 3), Reliability::retransmissions(0));
        session.shut_down();
        let what = "-n 600 -l 2000 -s 3 -R 0";
        let modes = [format!("sink {what}"), format!("send -w {what}")];
        let session = with_extensions(seed + 2, connects, modes.each_ref().map(String::as_str));
        session.receive_with_limits(&plan(600, 2000, 3), true);
    }
}
