//! Messages that are given up (RFC 3758, RFC 7496), with losses and in both roles.

use std::time::Duration;

use strandline_proto::config::AssociationConfig;
use strandline_proto::reliability::Reliability;
use strandline_tests::cases;
use strandline_tests::traffic::plan;

use crate::{driver_with, session};

/// The cases of a test: which of two limits it has, whether this side connects, and whether messages are
/// interleaved, so that both sides skip them with I-FORWARD-TSN (RFC 8260 section 2.3.1).
const CASES: [(usize, bool, bool); 8] = [
    (0, true, false),
    (1, false, true),
    (0, false, false),
    (0, true, true),
    (0, false, true),
    (1, true, false),
    (1, false, false),
    (1, true, true),
];

/// Changes a configuration, and returns the option of usrsctp.
fn interleaving(interleaves: bool) -> (impl FnOnce(&mut AssociationConfig), &'static str) {
    let change = move |association: &mut AssociationConfig| association.extensions.interleaving = interleaves;
    (change, if interleaves { "-i" } else { "" })
}

/// Messages of ours.
#[test]
fn messages_given_up_under_losses() {
    let limits = [Reliability::retransmissions(0), Reliability::lifetime(Duration::from_millis(20))];
    for (seed, (limit, connects, interleaves)) in (50..).zip(cases(CASES)) {
        let (change, option) = interleaving(interleaves);
        let modes = [format!("sink -v {option}"), format!("send -n 0 -v {option}")];
        let mut session = session(driver_with(seed, change), connects, modes.each_ref().map(String::as_str));
        let agreed = session.agreed();
        assert_eq!((agreed.partial_reliability, agreed.interleaving), (true, interleaves));
        session.send_with_limits(&plan(600, 2000, 3), limits[limit]);
        session.shut_down();
    }
}

/// Messages of usrsctp.
#[test]
fn messages_given_up_by_usrsctp() {
    let limits = ["-R 0", "-T 100 -L 20 -t 2"];
    for (seed, (limit, connects, interleaves)) in (70..).zip(cases(CASES)) {
        let (change, option) = interleaving(interleaves);
        let what = format!("-n 600 -l 2000 -s 3 {} {option}", limits[limit]);
        let modes = [format!("sink {what}"), format!("send -w {what}")];
        let session = session(driver_with(seed, change), connects, modes.each_ref().map(String::as_str));
        assert_eq!(session.agreed().interleaving, interleaves);
        session.receive_with_limits(&plan(600, 2000, 3), true);
    }
}

/// Messages of low priority make room for others (RFC 7496 section 4.1), and usrsctp skips them.
#[test]
fn messages_give_way_to_priority() {
    for (seed, connects) in [(112, true), (113, false)] {
        let driver = driver_with(seed, |association| association.send_buffer = Some(64 << 10));
        let mut session = session(driver, connects, ["sink -v", "send -n 0 -v"]);
        session.send_by_priority();
        session.shut_down();
    }
}
