//! Other extensions, with losses and in both roles.

use strandline_proto::config::{StreamCredit, StreamScheduler};
use strandline_tests::session::Session;
use strandline_tests::traffic::{plan, unordered};

use crate::{driver_with, session};

/// Returns a session with I-DATA, in which this side connects or usrsctp does.
fn interleaving(seed: u8, connects: bool) -> Session {
    let driver = driver_with(seed, |association| {
        association.extensions.interleaving = true;
        association.stream_scheduler = StreamScheduler::RoundRobin;
    });
    session(driver, connects, ["echo -i", "call -i -n 200 -l 20000 -s 7"])
}

/// Messages of several streams alternate fragment by fragment, ordered and unordered, also under losses.
#[test]
fn interleaved_messages_return() {
    let mut session = interleaving(60, true);
    assert!(session.agreed().interleaving);
    session.exchange(&plan(300, 20_000, 7));
    session.exchange(&unordered(200, 5000, 3));
    session.exchange(&plan(1000, 64, 200));
    session.driver.lose(30);
    session.exchange(&plan(100, 20_000, 7));
    session.exchange(&unordered(60, 5000, 3));
    session.driver.lose(0);
    session.shut_down();
}

#[test]
fn usrsctp_connects_and_interleaves() {
    let mut session = interleaving(61, false);
    assert!(session.agreed().interleaving);
    session.driver.lose(30);
    session.echo(200);
    session.driver.lose(0);
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

/// usrsctp skips the parameter of stream credit without a report, and the window of the association alone limits streams.
#[test]
fn stream_credit_is_skipped() {
    for (seed, connects) in [(63, true), (64, false)] {
        let driver = driver_with(seed, |association| {
            association.extensions.interleaving = true;
            association.extensions.stream_credit = Some(StreamCredit::default());
        });
        let mut session = session(driver, connects, ["echo -i", "call -i -n 200 -l 20000 -s 7"]);
        let agreed = session.agreed();
        assert_eq!((agreed.interleaving, agreed.stream_credit), (true, false));
        session.driver.lose(30);
        if connects {
            session.exchange(&plan(100, 20_000, 7));
            session.exchange(&unordered(60, 5000, 3));
        } else {
            session.echo(200);
        }
        session.nothing_was_reported();
        session.driver.lose(0);
        session.shut_down();
    }
}

/// Each side hears of the other's adaptation layer (RFC 5061 section 4.2.6).
#[test]
fn adaptation_layers_are_indicated() {
    for (seed, connects) in [(65, true), (66, false)] {
        let driver = driver_with(seed, |association| association.extensions.adaptation_layer = Some(7));
        let mut session = session(driver, connects, ["echo -A 9", "send -n 0 -A 9"]);
        session.hears_of_the_adaptation_layer(9);
        session.expect_or_seen("ADAPTATION 7");
        session.shut_down();
    }
}

/// usrsctp answers the HEARTBEAT, and skips the PAD chunk behind it.
#[test]
fn path_mtu_is_found() {
    for (seed, connects) in [(67, true), (68, false)] {
        let mut session = session(driver_with(seed, |_| ()), connects, ["sink", "send -n 0"]);
        session.driver.lose(30);
        session.finds_the_path_mtu();
        session.driver.lose(0);
        session.shut_down();
    }
}
