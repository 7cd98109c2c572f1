//! Explicit congestion notification (RFC 3168): the network marks usrsctp's packets. Those of this side can't be marked
//! here, since usrsctp doesn't read the marks of UDP datagrams; interop_raw does so over raw IP.

use strandline_tests::traffic::plan;
use strandline_wire::chunk::kind;

use crate::{driver_with, session};
use strandline_tests::driver::Driver;

/// Returns an endpoint that asks for ECN.
fn with_ecn(seed: u8) -> Driver {
    driver_with(seed, |association| association.extensions.ecn = true)
}

/// usrsctp agrees to ECN.
#[test]
fn ecn_is_agreed_on() {
    let mut session = session(with_ecn(20), true, ["echo", ""]);
    session.exchange(&plan(200, 1000, 3));
    assert!(session.driver.ecn_capable_sent > 0, "it agrees");
    session.exchange(&plan(3, 1 << 20, 2));
    session.shut_down();
}

/// The network marks some of usrsctp's packets and loses others: usrsctp answers each ECNE with CWR, and everything
/// arrives.
#[test]
fn marks_are_answered() {
    let mut session = session(with_ecn(23), true, ["echo", ""]);
    session.exchange(&plan(20, 1000, 3));
    session.driver.mark_every(10);
    session.exchange_under_losses(&[plan(300, 1000, 3)]);
    session.driver.mark_every(0);
    let status = session.driver.endpoint.status(session.id).expect("it lives");
    assert!(status.stats.marks_received > 0, "{status:?}");
    assert!(session.driver.kinds_received.contains(&kind::CWR), "{:?}", session.driver.kinds_received);
    session.exchange(&plan(3, 1 << 20, 2));
    session.shut_down();
}

/// The network marks all packets: the window falls to one packet, and each then waits for this side's delayed
/// SACK.
#[test]
fn nothing_but_marks_is_slow_and_goes_on() {
    let mut session = session(with_ecn(24), true, ["echo", ""]);
    session.exchange(&plan(20, 1000, 3));
    session.driver.mark_every(1);
    session.exchange(&plan(20, 1000, 3));
    session.driver.mark_every(0);
    session.exchange(&plan(200, 1000, 3));
    session.shut_down();
}
