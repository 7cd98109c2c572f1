//! Other extensions, with losses and in both roles.

use strandline_tests::extensions::{adaptation_layer, interleaving, interleaving_with_credit};
use strandline_tests::session::{LOSS_PER_MILLE, Session};
use strandline_tests::traffic::{plan, unordered};

use crate::{driver_with, session};

/// Returns a session with I-DATA, in which this side connects or usrsctp does.
fn interleaved(seed: u8, connects: bool) -> Session {
    session(driver_with(seed, interleaving), connects, ["echo -i", "call -i -n 200 -l 20000 -s 7"])
}

/// Messages of several streams alternate fragment by fragment, ordered and unordered, also under losses.
#[test]
fn interleaved_messages_return() {
    let mut session = interleaved(60, true);
    assert!(session.agreed().interleaving);
    session.exchange(&plan(300, 20_000, 7));
    session.exchange(&unordered(200, 5000, 3));
    session.exchange(&plan(1000, 64, 200));
    session.exchange_under_losses(&[plan(100, 20_000, 7), unordered(60, 5000, 3)]);
    session.shut_down();
}

#[test]
fn usrsctp_connects_and_interleaves() {
    let mut session = interleaved(61, false);
    assert!(session.agreed().interleaving);
    session.echo_under_losses(200);
    session.shut_down();
}

/// Without the option usrsctp doesn't offer I-DATA, and DATA is used.
#[test]
fn interleaving_needs_both_sides() {
    let driver = driver_with(62, |association| association.extensions.interleaving = true);
    let mut session = session(driver, true, ["echo", ""]);
    assert!(!session.agreed().interleaving);
    session.exchange(&plan(20, 20_000, 3));
    session.shut_down();
}

/// usrsctp skips the parameter of stream credit without a report, and the window of the association alone
/// limits streams.
#[test]
fn stream_credit_is_skipped() {
    for (seed, connects) in [(63, true), (64, false)] {
        let plans = [plan(100, 20_000, 7), unordered(60, 5000, 3)];
        session(
            driver_with(seed, interleaving_with_credit),
            connects,
            ["echo -i", "call -i -n 200 -l 20000 -s 7"],
        )
        .skips_stream_credit(connects, &plans, 200);
    }
}

/// Each side hears of the other's adaptation layer (RFC 5061 section 4.2.6).
#[test]
fn adaptation_layers_are_indicated() {
    for (seed, connects) in [(65, true), (66, false)] {
        let mut driver = driver_with(seed, adaptation_layer);
        driver.lose(LOSS_PER_MILLE);
        session(driver, connects, ["echo -A 9", "send -n 0 -e -A 9"]).indicates_adaptation_layers();
    }
}

/// usrsctp answers the HEARTBEAT, and skips the PAD chunk behind it.
#[test]
fn path_mtu_is_found() {
    for (seed, connects) in [(67, true), (68, false)] {
        session(driver_with(seed, |_| ()), connects, ["sink", "send -n 0"]).finds_the_path_mtu_under_losses();
    }
}
