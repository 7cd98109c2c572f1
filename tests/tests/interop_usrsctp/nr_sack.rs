//! NR-SACK (draft-tuexen-tsvwg-sctp-multipath section 4).

use strandline_tests::session::Session;
use strandline_tests::traffic::{plan, unordered};
use strandline_wire::chunk::kind;

use crate::{driver_with, session};

/// Returns a session in which this side offers NR-SACK, and usrsctp too with `-N` among its options. This
/// side connects or usrsctp does.
fn keeping(seed: u8, connects: bool, options: &str, interleaves: bool) -> Session {
    let driver = driver_with(seed, |association| {
        association.extensions.nr_sack = true;
        association.extensions.interleaving = interleaves;
    });
    let modes = [format!("echo {options}"), format!("call {options} -n 200 -l 20000 -s 7")];
    session(driver, connects, modes.each_ref().map(String::as_str))
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
        assert!(session.agreed().nr_sack);
        session.exchange(&plan(300, 20_000, 7));
        session.exchange(&unordered(200, 5000, 3));
        session.exchange(&plan(1000, 64, 200));
        session.exchange_under_losses(&[plan(200, 20_000, 7), unordered(100, 5000, 3)]);
        assert_eq!(acknowledged_by(&session), [kind::NR_SACK]);
        session.shut_down();
    }
}

#[test]
fn usrsctp_connects_with_nr_sack() {
    for (interleaves, seed) in [(false, 92), (true, 94)] {
        let mut session = keeping(seed, false, if interleaves { "-N -i" } else { "-N" }, interleaves);
        let agreed = session.agreed();
        assert_eq!((agreed.nr_sack, agreed.interleaving), (true, interleaves));
        session.echo_under_losses(200);
        assert_eq!(acknowledged_by(&session), [kind::NR_SACK]);
        session.shut_down();
    }
}

/// Without the option usrsctp doesn't list the chunk type, and both sides send SACKs.
#[test]
fn nr_sack_needs_both_sides() {
    let mut session = keeping(93, true, "", false);
    assert!(!session.agreed().nr_sack);
    session.exchange(&plan(20, 20_000, 3));
    assert_eq!(acknowledged_by(&session), [kind::SACK]);
    session.shut_down();
}
