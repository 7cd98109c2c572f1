//! Tests of RFC 8257 sections 3.3 to 3.5.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;

use proptest::prelude::*;

use super::*;

const PMDCS: u32 = 1000;

fn ack(bytes: u32, flight: u32, marked: bool) -> Ack {
    Ack {
        latest_rtt: Some(Duration::from_millis(1)),
        ecn_echoed: marked,
        ..Ack::of(Time::ZERO, bytes, flight)
    }
}

/// Runs a round trip in which `marked` of the window's packets are marked.
fn round(dctcp: &mut Dctcp, marked: u32) {
    let packets = dctcp.window() / PMDCS;
    for number in 0..packets {
        let flight = dctcp.window();
        dctcp.on_ack(&ack(PMDCS, flight, number < marked));
    }
}

fn at(packets: u32) -> Dctcp {
    let mut dctcp = Dctcp::new(PMDCS);
    dctcp.cwnd = packets * PMDCS;
    dctcp.ssthresh = dctcp.cwnd;
    dctcp
}

#[test]
fn without_marks_it_grows_as_tcp_does() {
    let mut dctcp = Dctcp::new(PMDCS);
    assert_eq!(dctcp.window(), 12 * PMDCS);
    round(&mut dctcp, 0);
    assert_eq!(dctcp.window(), 24 * PMDCS, "slow start");
    let mut dctcp = at(50);
    round(&mut dctcp, 0);
    assert_eq!(dctcp.window(), 51 * PMDCS, "a packet each round trip");
}

#[test]
fn the_first_mark_ends_slow_start() {
    let mut dctcp = Dctcp::new(PMDCS);
    dctcp.on_ack(&ack(PMDCS, dctcp.window(), true));
    assert!(dctcp.slow_start_threshold() <= 12 * PMDCS);
}

/// Alpha approaches the share of marks, and the window shrinks by half of it.
#[test]
fn the_window_shrinks_by_the_share_of_marks() {
    let mut all = at(100);
    all.alpha = ONE;
    round(&mut all, 100);
    assert!((50..=53).contains(&(all.window() / PMDCS)), "all marked: half, {}", all.window());
    let mut few = at(100);
    few.alpha = ONE / 16;
    round(&mut few, 6);
    let left = few.window() / PMDCS;
    assert!((94..=98).contains(&left), "a sixteenth marked: a thirty-second, {left}");
    for _ in 0..200 {
        few.cwnd = 100 * PMDCS;
        round(&mut few, 10);
    }
    let share = f64::from(few.alpha) / f64::from(ONE);
    assert!((0.05..0.15).contains(&share), "{share}");
}

#[test]
fn losses_act_as_in_tcp_and_undo() {
    let mut dctcp = at(100);
    dctcp.on_fast_retransmit(Time::ZERO);
    assert_eq!((dctcp.window(), dctcp.slow_start_threshold()), (50_000, 50_000));
    dctcp.on_undo();
    assert_eq!(dctcp.window(), 100_000);
    dctcp.on_timeout(Time::ZERO);
    dctcp.on_timeout(Time::ZERO);
    assert_eq!((dctcp.window(), dctcp.slow_start_threshold()), (PMDCS, 50_000));
    dctcp.cwnd = 120_000;
    dctcp.on_fast_retransmit(Time::ZERO);
    dctcp.on_undo();
    assert_eq!(dctcp.window(), 120_000, "the largest before a loss");
}

proptest! {
    /// For any sequence the window is at least a packet, alpha is at most 1, and a round without marks shrinks
    /// nothing.
    #[test]
    fn bounds(steps in proptest::collection::vec((0u8..8, 1u32..30, any::<bool>()), 1..300)) {
        let mut dctcp = Dctcp::new(PMDCS);
        for (kind, packets, marked) in steps {
            let before = dctcp.window();
            match kind {
                0 => dctcp.on_fast_retransmit(Time::ZERO),
                1 => dctcp.on_timeout(Time::ZERO),
                2 => dctcp.on_undo(),
                3 => dctcp.on_idle(packets),
                _ => {
                    dctcp.on_ack(&ack(packets * PMDCS, before, marked));
                    prop_assert!(dctcp.window() <= before + packets * PMDCS);
                }
            }
            prop_assert!(dctcp.window() >= PMDCS && dctcp.alpha <= ONE);
        }
    }
}
