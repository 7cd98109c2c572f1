//! Growth and reduction of the window around the target delay.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;

use proptest::prelude::*;

use super::*;

const PMDCS: u32 = 1000;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

fn ack(now: Time, bytes: u32, flight: u32, rtt: Duration) -> Ack {
    Ack { latest_rtt: Some(rtt), ..Ack::of(now, bytes, flight) }
}

/// Acknowledges a full window packet by packet, each with the round-trip time `rtt`.
fn round(swift: &mut Swift, now: Time, rtt: Duration) -> Time {
    let packets = swift.window() / PMDCS;
    for number in 0..packets {
        let flight = swift.window();
        swift.on_ack(&ack(now + rtt * number / packets, PMDCS, flight, rtt));
    }
    now + rtt
}

#[test]
fn below_the_target_it_grows() {
    let mut swift = Swift::new(PMDCS);
    let mut now = round(&mut swift, Time::from_nanos(1), us(1000));
    assert_eq!(swift.window(), 24 * PMDCS, "slow start");
    swift.starting = false;
    for packets in 25..34 {
        now = round(&mut swift, now, us(1100));
        assert_eq!(swift.window(), packets * PMDCS);
    }
}

/// Data beyond a truncated SACK, which is reported late, is no delay sample.
#[test]
fn what_was_named_late_is_no_delay() {
    for (late, shrinks) in [(true, false), (false, true)] {
        let mut swift = Swift::new(PMDCS);
        swift.on_ack(&ack(Time::from_nanos(1), PMDCS, 10 * PMDCS, us(1000)));
        let before = swift.window();
        let now = Time::ZERO + Duration::from_millis(50);
        swift.on_ack(&Ack { latest_is_late: late, ..ack(now, PMDCS, 10 * PMDCS, us(20_000)) });
        assert_eq!(swift.window() < before, shrinks);
    }
}

/// Delay above the target shrinks the window in proportion to the excess, once per round trip.
#[test]
fn excess_delay_shrinks_in_proportion_per_rtt() {
    let shrunk = |rtt: Duration| {
        let mut swift = Swift::new(PMDCS);
        swift.on_rtt(Time::ZERO, us(1000));
        swift.cwnd = 100 * PMDCS;
        let now = Time::ZERO + Duration::from_millis(50);
        round(&mut swift, now, rtt);
        assert_eq!(swift.starting, rtt < us(3000));
        swift.window() / PMDCS
    };
    // A base of 1,000 us and a target queue of 2,000 us.
    assert_eq!(shrunk(us(2900)), 200, "slow start");
    let (little, much) = (shrunk(us(3600)), shrunk(us(20_000)));
    assert!((85..=90).contains(&little), "{little}");
    assert_eq!(much, 50, "never by more than half");
}

#[test]
fn small_windows_may_have_more_queue() {
    let mut swift = Swift::new(PMDCS);
    swift.on_rtt(Time::ZERO, us(8000));
    swift.cwnd = 4 * PMDCS;
    let few = swift.target_us();
    swift.cwnd = 400 * PMDCS;
    let many = swift.target_us();
    assert!(few > many && many >= 10_000.0, "{few} {many}");
}

#[test]
fn smallest_rtt_expires() {
    let mut swift = Swift::new(PMDCS);
    swift.on_rtt(Time::ZERO, us(1000));
    for second in 1..=30 {
        swift.on_rtt(Time::ZERO + Duration::from_secs(second), us(5000));
    }
    assert_eq!(swift.min_rtt_us(), 5000, "the path is another");
}

#[test]
fn losses_halve_the_window_and_can_be_undone() {
    let mut swift = Swift::new(PMDCS);
    swift.cwnd = 100 * PMDCS;
    let now = Time::ZERO + Duration::from_secs(1);
    swift.on_fast_retransmit(now);
    assert_eq!(swift.window(), 50 * PMDCS);
    swift.on_undo();
    assert_eq!((swift.window(), swift.starting), (100 * PMDCS, true), "and slow start goes on");
    swift.on_timeout(now);
    assert_eq!((swift.window(), swift.starting), (PMDCS, false));
    swift.on_undo();
    assert_eq!((swift.window(), swift.starting), (100 * PMDCS, true));
    swift.on_timeout(now);
    swift.on_certain();
    swift.on_undo();
    assert_eq!((swift.window(), swift.starting), (PMDCS, false));
}

/// A flow alone on a path of 100 packets per 10 ms: the queue that it keeps does not become a part of the path.
#[test]
fn own_queue_is_not_taken_for_the_path() {
    let mut swift = Swift::new(PMDCS);
    let mut now = Time::from_nanos(1);
    let end = now + Duration::from_secs(120);
    let (mut longest, mut sum, mut rounds) = (0, 0_u64, 0_u64);
    while now < end {
        let packets = u64::from(swift.window() / PMDCS);
        let rtt_us = 10_000.max(packets * 100);
        now = round(&mut swift, now, us(rtt_us));
        if now.since(Time::from_nanos(1)) > Duration::from_secs(1) {
            longest = longest.max(rtt_us);
            (sum, rounds) = (sum + packets * 10_000 / rtt_us, rounds + 1);
        }
    }
    assert!(longest <= 13_500, "{longest} us");
    assert!(sum / rounds >= 98, "{} of 100 packets", sum / rounds);
}

#[test]
fn a_drain_ends_with_the_window_from_before() {
    let mut swift = Swift::new(PMDCS);
    swift.starting = false;
    let at = |ms: u64| Time::ZERO + Duration::from_millis(ms);
    swift.on_rtt(at(0), us(10_000));
    swift.on_rtt(at(10_001), us(11_000));
    swift.cwnd = 100 * PMDCS;
    swift.on_rtt(at(20_002), us(12_500));
    assert_eq!(swift.window(), 40 * PMDCS, "half of what fits in 10 ms");
    swift.on_ack(&ack(at(20_010), PMDCS, 40 * PMDCS, us(30_000)));
    assert_eq!(swift.window(), 40 * PMDCS, "the delay is that of before");
    swift.on_rtt(at(20_040), us(10_100));
    assert_eq!((swift.window(), swift.min_rtt_us()), (100 * PMDCS, 10_100));

    swift.on_rtt(at(40_000), us(12_500));
    assert!(swift.drained > 0);
    swift.on_ecn(at(40_001));
    swift.on_rtt(at(40_040), us(10_100));
    assert_eq!(swift.window(), 50 * PMDCS, "a mark during the drain counts");
}

proptest! {
    #[test]
    fn bounds(steps in proptest::collection::vec((0u8..8, 1u32..30, 1u64..50_000), 1..300)) {
        let mut swift = Swift::new(PMDCS);
        let mut now = Time::ZERO;
        for (kind, packets, rtt_us) in steps {
            now += us(rtt_us);
            let before = swift.window();
            match kind {
                0 => swift.on_fast_retransmit(now),
                1 => swift.on_timeout(now),
                2 => swift.on_undo(),
                3 => swift.on_idle(packets),
                _ => {
                    swift.on_ack(&ack(now, packets * PMDCS, before, us(rtt_us)));
                    prop_assert!(swift.window() <= before.max(2 * PMDCS) + packets * PMDCS);
                }
            }
            prop_assert!(swift.window() >= PMDCS);
        }
    }
}

#[test]
fn only_the_latest_loss_is_undone() {
    let mut swift = Swift::new(PMDCS);
    let mut now = Time::from_nanos(1);
    for _ in 0..3 {
        now = round(&mut swift, now, us(1000));
    }
    swift.on_fast_retransmit(now);
    let window = swift.window();
    now += us(10_000);
    swift.on_certain();
    swift.on_timeout(now);
    swift.on_timeout(now + us(20_000));
    swift.on_undo();
    assert_eq!(swift.window(), window);
}

/// Decision 26: a mark acts as a loss that cannot turn out to be spurious.
#[test]
fn a_mark_halves_the_window_for_good() {
    let mut swift = Swift::new(PMDCS);
    swift.cwnd = 100 * PMDCS;
    let now = Time::ZERO + Duration::from_secs(1);
    swift.on_ecn(now);
    assert_eq!((swift.window(), swift.starting), (50 * PMDCS, false), "and slow start is over");
    swift.on_undo();
    assert_eq!(swift.window(), 50 * PMDCS);
    for _ in 0..10 {
        swift.on_ecn(now);
    }
    assert_eq!(swift.window(), 2 * PMDCS, "no less than two packets");
}

/// Losses and marks of one window are one event for the calling path. Each halves the window even if the delay had
/// just shrunk it a little. The delay takes nothing more in that round trip.
#[test]
fn loss_halves_regardless_of_delay_cuts() {
    for event in [Swift::on_fast_retransmit, Swift::on_ecn] {
        let mut swift = Swift::new(PMDCS);
        let now = Time::ZERO + Duration::from_secs(1);
        swift.on_rtt(now, us(10_000));
        swift.cwnd = 100 * PMDCS;
        let flight = swift.window();
        swift.on_ack(&ack(now, PMDCS, flight, us(13_000)));
        let before = swift.window();
        assert!(before < flight && before > flight * 8 / 10, "{before}");
        event(&mut swift, now + us(5_000));
        assert_eq!(swift.window(), before / 2);
        swift.on_ack(&ack(now + us(9_000), PMDCS, before, us(40_000)));
        assert_eq!(swift.window(), before / 2);
    }
}

/// Acknowledgements that report marks do not grow the window.
#[test]
fn nothing_grows_by_what_was_marked() {
    let mut swift = Swift::new(PMDCS);
    let before = swift.window();
    swift.on_ack(&Ack { ecn_echoed: true, ..ack(Time::from_nanos(1), 10 * PMDCS, before, us(1000)) });
    assert_eq!(swift.window(), before);
}
