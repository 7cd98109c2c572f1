//! Authenticated chunks (RFC 4895), over raw IP on one path.

use strandline_proto::authentication::HmacAlgorithms;
use strandline_proto::event::CloseReason;
use strandline_proto::reliability::Reliability;
use strandline_tests::authentication::{ALGORITHMS, OF_EXTENSIONS, SECRET, demand, options, share_key};
use strandline_tests::reconfiguration::performs_all_requests;
use strandline_tests::session::Session;
use strandline_tests::traffic::plan;
use strandline_wire::chunk::kind;

use crate::extensions::{driver, session};

/// Chunk types that each side demands to be authenticated. The kernel takes no others into its list than these and
/// those of extensions.
const DEMANDED: [u8; 4] = [kind::DATA, kind::SACK, kind::HEARTBEAT, kind::COOKIE_ECHO];

/// Returns a session with authenticated chunks, the null key or a shared one, in which this side connects or the kernel
/// does.
fn authenticated(seed: u8, connects: bool, secret: Option<&str>) -> Session {
    with_algorithms(seed, connects, secret, (HmacAlgorithms::default(), ""))
}

fn with_algorithms(
    seed: u8,
    connects: bool,
    secret: Option<&str>,
    (hmacs, option): (HmacAlgorithms, &str),
) -> Session {
    let mut driver = driver(|association| demand(association, &DEMANDED, hmacs), seed);
    driver.demanded = DEMANDED.into();
    if let Some(secret) = secret {
        share_key(&mut driver, secret);
    }
    let options = options(&DEMANDED, secret);
    let modes = [format!("echo {options} {option}"), format!("call -n 200 -l 20000 -s 7 {options} {option}")];
    let session = session(driver, connects, modes.each_ref().map(String::as_str));
    assert!(session.agreed().authentication);
    session
}

#[test]
fn authenticated_messages_return() {
    for (secret, seed) in [None, Some(SECRET)].into_iter().zip(33..) {
        let mut session = authenticated(seed, true, secret);
        session.exchange(&plan(300, 20_000, 7));
        session.exchange(&plan(1000, 64, 200));
        session.exchange_with_losses();
        session.shut_down();
    }
}

#[test]
fn the_kernel_connects_with_authentication() {
    for (secret, seed) in [None, Some(SECRET)].into_iter().zip(35..) {
        let mut session = authenticated(seed, false, secret);
        session.echo_under_losses(200);
        session.shut_down();
    }
}

#[test]
fn the_kernel_aborts_with_authentication() {
    let mut session = authenticated(37, true, Some(SECRET));
    session.exchange(&plan(20, 1000, 3));
    session.peer.tell("abort");
    assert!(matches!(session.closed(), CloseReason::PeerAborted { .. }));
}

/// Both sides change their key while messages are exchanged: each accepts the old one until the other has changed.
#[test]
fn keys_change_under_losses() {
    authenticated(38, true, Some(SECRET)).change_keys_under_losses();
}

/// Each side uses the algorithm that the other one prefers, of those that it has itself.
#[test]
fn algorithms_are_selected() {
    for (seed, algorithms) in (52..).zip(ALGORITHMS) {
        let option = format!("-H {}", algorithms.theirs);
        let with = |connects| with_algorithms(seed, connects, Some(SECRET), (algorithms.ours, &option));
        with(true).uses_algorithms(true, algorithms.received, algorithms.sent);
        with(false).uses_algorithms(false, algorithms.received, algorithms.sent);
    }
}

/// Returns a session in which each side demands that chunks of other extensions are authenticated, too.
fn with_extensions(seed: u8, connects: bool, modes: [&str; 2]) -> Session {
    let demanded = [&DEMANDED[..], &OF_EXTENSIONS].concat();
    let change = |association: &mut _| {
        performs_all_requests(association);
        demand(association, &demanded, HmacAlgorithms::default());
    };
    let mut driver = driver(change, seed);
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
    for (seed, connects) in [(90, true), (93, false)] {
        with_extensions(seed, connects, ["echo -v", "send -v -n 1"]).reset_streams_under_losses();
        let mut session = with_extensions(seed + 1, connects, ["sink -v", "send -n 0 -v"]);
        session.send_with_limits(&plan(600, 2000, 3), Reliability::retransmissions(0));
        session.shut_down();
        let what = "-n 600 -l 2000 -s 3 -R 0";
        let modes = [format!("sink {what}"), format!("send -w {what}")];
        let session = with_extensions(seed + 2, connects, modes.each_ref().map(String::as_str));
        session.receive_with_limits(&plan(600, 2000, 3), false);
    }
}
