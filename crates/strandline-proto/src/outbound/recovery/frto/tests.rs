use core::time::Duration;

use super::*;

const HIGH: Tsn = Tsn(107);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// Chunks 100 to 107 were outstanding, and the first was retransmitted after a second.
fn timed_out() -> Frto {
    let mut frto = Frto::default();
    frto.begin(HIGH);
    frto
}

/// The first is acknowledged, and new data tests the time-out.
fn asked() -> Frto {
    let mut frto = timed_out();
    assert!(frto.holds(at(1000), Tsn(100), true));
    assert_eq!(frto.decide(Tsn(100), true), Decision::SendNew);
    frto
}

#[test]
fn without_a_time_out_there_is_no_question() {
    let mut frto = Frto::default();
    frto.on_acked(Tsn(1), Tsn(9));
    assert!(!frto.holds(at(1), Tsn(1), true));
    assert_eq!(frto.decide(Tsn(9), true), Decision::Wait);
}

#[test]
fn step_2_waits_for_the_first() {
    let mut frto = timed_out();
    frto.on_acked(Tsn(103), Tsn(105));
    assert_eq!(frto.decide(Tsn(99), true), Decision::Wait);
    // Earlier information no longer counts.
    frto.holds(at(1000), Tsn(100), true);
    assert_eq!(frto.decide(Tsn(100), false), Decision::Genuine(Some((at(1000), Tsn(100)))));
}

#[test]
fn step_2a_all_at_once_proves_nothing() {
    let mut frto = timed_out();
    frto.holds(at(1000), Tsn(100), true);
    frto.on_acked(Tsn(101), HIGH);
    assert_eq!(frto.decide(HIGH, true), Decision::Genuine(Some((at(1000), Tsn(100)))));
    assert_eq!(frto.decide(HIGH, true), Decision::Wait, "once");
}

#[test]
fn step_2b_asks_or_gives_up() {
    asked();
    let mut frto = timed_out();
    frto.holds(at(1000), Tsn(100), true);
    assert_eq!(frto.decide(Tsn(100), false), Decision::Genuine(Some((at(1000), Tsn(100)))));
}

/// An answer that arrives too soon: waiting loses nothing.
#[test]
fn a_hasty_answer_waits_for_the_next() {
    let mut frto = timed_out();
    assert!(frto.holds(at(1000), Tsn(100), false));
    assert_eq!(frto.decide(Tsn(100), false), Decision::SendNew);
    frto.on_acked(Tsn(101), Tsn(101));
    assert_eq!(frto.decide(Tsn(101), false), Decision::Spurious);
}

#[test]
fn together_with_the_first() {
    let mut frto = timed_out();
    frto.holds(at(1000), Tsn(100), true);
    frto.on_acked(Tsn(101), Tsn(101));
    assert_eq!(frto.decide(Tsn(101), true), Decision::Spurious);
}

#[test]
fn step_3a_only_newer_data() {
    let mut frto = asked();
    assert_eq!(frto.decide(Tsn(100), true), Decision::Wait, "a SACK that says nothing new");
    frto.on_acked(Tsn(108), Tsn(108));
    assert_eq!(frto.decide(Tsn(100), true), Decision::Genuine(Some((at(1000), Tsn(100)))));
    assert_eq!(frto.decide(Tsn(100), true), Decision::Wait);
}

#[test]
fn step_3b_older_data() {
    for (first, last) in [(101, 102), (101, 107), (104, 109)] {
        let mut frto = asked();
        frto.on_acked(Tsn(first), Tsn(last));
        assert_eq!(frto.decide(Tsn(last), true), Decision::Spurious);
        assert_eq!(frto.decide(Tsn(last), true), Decision::Wait);
    }
}
