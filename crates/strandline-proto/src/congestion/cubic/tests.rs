//! Tests of RFC 9438 by section, and of RFC 9406 in slow start.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;

use proptest::prelude::*;

use super::*;

const PMDCS: u32 = 1000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn ack(now: Time, acked_bytes: u32, flight_before: u32, rtt: Duration) -> Ack {
    Ack { rtt: Some(rtt), latest_rtt: Some(rtt), ..Ack::of(now, acked_bytes, flight_before) }
}

/// A window of `packets` packets, as if slow start had ended there without a loss.
fn at(packets: u32) -> Cubic {
    let mut cubic = Cubic::new(PMDCS);
    cubic.cwnd = packets * PMDCS;
    cubic.ssthresh = cubic.cwnd;
    cubic
}

/// Runs a round trip in which a full window is acknowledged packet by packet. Returns the time after it.
fn round(cubic: &mut Cubic, now: Time, rtt: Duration) -> Time {
    let packets = cubic.cwnd / PMDCS;
    for number in 0..packets {
        let flight = cubic.cwnd;
        // Slow start is paced: the window is sent within half of a round trip without queueing delay.
        cubic.on_ack(&ack(now + rtt.min(ms(20)) / 2 * number / packets, PMDCS, flight, rtt));
    }
    now + rtt
}

/// Sections 4.6 and 4.8: 0.7 of the window remains after a loss, and one packet after a time-out.
#[test]
fn losses_shrink_the_window() {
    let mut cubic = at(100);
    cubic.on_fast_retransmit(Time::ZERO);
    assert_eq!((cubic.window(), cubic.slow_start_threshold(), cubic.w_max), (70_000, 70_000, 100_000));
    let mut cubic = at(100);
    cubic.on_timeout(Time::ZERO);
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), (PMDCS, 70_000));
    cubic.on_timeout(Time::ZERO);
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), (PMDCS, 70_000), "one loss, twice unanswered");
}

/// A window that is coupled with others follows the same curve, more slowly: C is scaled by the square of its
/// share, which is the time by its power of 2/3.
#[test]
fn coupled_windows_follow_the_curve_more_slowly() {
    let after = |seconds: u64, share: f32| {
        let mut cubic = at(2000);
        cubic.on_fast_retransmit(Time::ZERO);
        for number in 1..=seconds * 1000 {
            let flight = cubic.cwnd;
            cubic.on_ack(&Ack { share, ..ack(Time::ZERO + ms(number), 20 * PMDCS, flight, ms(100)) });
        }
        f64::from(cubic.window())
    };
    // 1/8 of a window's growth: a quarter of the pace.
    for seconds in [1, 2, 4] {
        let (alone, coupled) = (after(seconds, 1.0), after(4 * seconds, 0.125));
        assert!((coupled / alone - 1.0).abs() < 0.03, "{seconds} s: {alone}, {coupled}");
        assert!(after(seconds, 0.125) < 0.95 * alone);
    }
}

/// Section 4.8: after a time-out, growth begins anew where slow start ends, with K = 0 and without the earlier W_max.
#[test]
fn growth_after_a_time_out_begins_anew() {
    let mut cubic = at(100);
    cubic.on_timeout(Time::ZERO);
    cubic.cwnd = 70_000;
    let now = round(&mut cubic, Time::from_nanos(1), ms(20));
    assert_eq!((cubic.w_max, cubic.k), (70_000, 0.0));
    assert!(cubic.window() < 72_000, "{} after {now:?}", cubic.window());
    cubic.on_undo();
    assert_eq!((cubic.window(), cubic.w_max), (100_000, 0), "as it was");
}

/// Section 4.3 with windows of many megabytes, where a SACK for two packets adds less than a thirty-millionth.
#[test]
fn reno_friendly_window_grows_at_any_size() {
    let mut cubic = at(20_000);
    cubic.begin_epoch(Time::ZERO);
    let before = cubic.w_est;
    cubic.rtt_us = 1_000;
    for _ in 0..10_000 {
        cubic.congestion_avoidance(&ack(Time::from_nanos(1), 2_000, cubic.cwnd, ms(1)));
    }
    let grown = cubic.w_est - before;
    assert!((900.0..1100.0).contains(&grown), "a packet in a round trip: {grown}");
}

/// Data beyond a truncated SACK, which is reported late, shows neither a queue nor a longer path.
#[test]
fn what_was_named_late_shows_no_queue() {
    for (late, left) in [(true, 80_000), (false, 70_000)] {
        let mut cubic = at(100);
        cubic.on_ack(&ack(Time::from_nanos(1), PMDCS, 10 * PMDCS, ms(50)));
        let named =
            Ack { rtt: None, latest_is_late: late, ..ack(Time::from_nanos(2), PMDCS, 10 * PMDCS, ms(500)) };
        cubic.on_ack(&named);
        cubic.cwnd = 100_000;
        cubic.on_fast_retransmit(Time::from_nanos(3));
        assert_eq!(cubic.window(), left);
    }
}

/// Decision 24: data that was sent after the lost packet and arrived met no queue, so nothing overflowed.
#[test]
fn a_loss_without_a_queue_takes_a_fifth() {
    let mut cubic = at(100);
    let say = |cubic: &mut Cubic, rtt: Duration| cubic.on_ack(&ack(Time::from_nanos(1), 0, 0, rtt));
    say(&mut cubic, ms(200));
    say(&mut cubic, ms(210));
    cubic.on_fast_retransmit(Time::ZERO);
    assert_eq!(cubic.window(), 80_000);
    say(&mut cubic, ms(215));
    cubic.on_fast_retransmit(Time::ZERO);
    assert_eq!(cubic.window(), 56_000, "a queue");
    say(&mut cubic, ms(200));
    cubic.on_ecn(Time::ZERO);
    assert_eq!(cubic.window(), 39_200, "a mark says that there is one");
    let mut cubic = at(100);
    cubic.on_fast_retransmit(Time::ZERO);
    assert_eq!(cubic.window(), 70_000, "nothing is known");
}

/// Section 4.7: a loss below the last maximum leaves room for other flows.
#[test]
fn fast_convergence() {
    let mut cubic = at(100);
    cubic.on_fast_retransmit(Time::ZERO);
    cubic.on_fast_retransmit(Time::ZERO);
    assert_eq!((cubic.window(), cubic.w_max), (49_000, 59_500));
}

/// Section 4.2: W_cubic(t) = C * (t - K)^3 + W_max reaches W_max after K, is flat there, then grows faster and
/// faster.
#[test]
fn the_window_follows_the_cubic_function() {
    let mut cubic = at(1000);
    cubic.on_fast_retransmit(Time::ZERO);
    let k = (300.0_f64 / C).cbrt();
    let rtt = ms(100);
    let mut now = Time::ZERO;
    let mut windows = vec![];
    while now.since(Time::ZERO).as_secs_f64() < 2.0 * k {
        now = round(&mut cubic, now, rtt);
        windows.push((now.since(Time::ZERO).as_secs_f64(), f64::from(cubic.window()) / f64::from(PMDCS)));
    }
    for (t, window) in windows {
        let expected = C * (t - k).powi(3) + 1000.0;
        assert!((window - expected).abs() < 20.0, "at {t:.1} s {window:.0} packets, not {expected:.0}");
    }
}

/// Section 4.3: with a short round trip the window grows by at least one packet per round trip.
#[test]
fn never_slower_than_reno() {
    let mut cubic = at(20);
    cubic.on_fast_retransmit(Time::ZERO);
    let mut now = Time::ZERO;
    for _ in 0..100 {
        now = round(&mut cubic, now, ms(1));
    }
    // 14 packets; 0.53 more per round trip up to 20, and one more per round trip beyond.
    let window = cubic.window() / PMDCS;
    assert!((90..=110).contains(&window), "{window} packets");
}

/// Decision 24: the path has become longer for good and has no queue. The controller learns it after two periods.
#[test]
fn smallest_rtt_expires() {
    let mut cubic = at(100);
    let say = |cubic: &mut Cubic, second: u64, rtt| {
        cubic.on_ack(&ack(Time::ZERO + Duration::from_secs(second), 0, 0, rtt));
        cubic.queued
    };
    assert!(!say(&mut cubic, 1, ms(50)));
    for second in 2..31 {
        assert!(say(&mut cubic, second, ms(80)), "{second}");
    }
    assert!(say(&mut cubic, 40, ms(80)), "of the period before");
    assert!((60..100).any(|second| !say(&mut cubic, second, ms(80))));
    // A pause of hours, with seconds of which only the low bits are stored.
    assert!(say(&mut cubic, 70_000, ms(100)));
    assert!(!say(&mut cubic, 70_032, ms(100)));
}

/// Section 5.8 and RFC 9260 section 7.2.2: an unused window does not grow, and idle time does not count.
#[test]
fn unused_windows_do_not_grow() {
    let mut cubic = at(100);
    let unused = Ack { window_full: false, ..ack(Time::ZERO + ms(5000), 10 * PMDCS, 10 * PMDCS, ms(10)) };
    cubic.on_ack(&unused);
    assert_eq!(cubic.window(), 100_000);
    cubic.on_fast_retransmit(Time::ZERO);
    round(&mut cubic, Time::ZERO, ms(10));
    cubic.on_idle(1);
    let window = cubic.window();
    cubic.on_ack(&ack(Time::ZERO + ms(3_600_000), PMDCS, window, ms(10)));
    assert!(cubic.window() <= window + PMDCS, "an hour of silence is not an hour of growth");
}

/// Section 4.2: time in which acknowledgements show an application-limited sender does not count towards growth.
#[test]
fn a_trickle_is_no_time_to_grow_in() {
    let mut cubic = at(100);
    cubic.on_fast_retransmit(Time::ZERO);
    round(&mut cubic, Time::ZERO, ms(100));
    let later = Time::ZERO + ms(30_000);
    cubic.on_ack(&Ack { window_full: false, ..ack(later, PMDCS, 2 * PMDCS, ms(100)) });
    round(&mut cubic, later, ms(100));
    let window = cubic.window() / PMDCS;
    assert!((70..=76).contains(&window), "{window} packets");
}

/// Sections 4.2 and 5.8: a pause does not count either, however short it is and however small the window.
#[test]
fn a_pause_is_no_time_to_grow_in() {
    let mut cubic = at(10);
    cubic.on_fast_retransmit(Time::ZERO);
    round(&mut cubic, Time::ZERO, ms(100));
    let (before, later) = (cubic.window(), Time::ZERO + ms(3_600_000));
    cubic.on_idle(3600);
    cubic.on_sent(later, PMDCS);
    round(&mut cubic, later + ms(100), ms(100));
    assert!(cubic.window() <= before + PMDCS, "{before} and {}", cubic.window());

    let mut cubic = at(100);
    cubic.on_fast_retransmit(Time::ZERO);
    let mut now = round(&mut cubic, Time::ZERO, ms(100));
    for _ in 0..100 {
        cubic.on_starved(0);
        now += ms(500);
        cubic.on_idle(0);
        cubic.on_sent(now, PMDCS);
        cubic.on_ack(&ack(now + ms(1), PMDCS, cubic.cwnd, ms(1)));
    }
    let window = cubic.window() / PMDCS;
    assert!((70..=76).contains(&window), "{window} packets");
}

/// After a trickle of data as much of the cubic function is left as before.
#[test]
fn unused_window_growth_ignores_a_trickle() {
    let grown = |exchanges: u32| {
        let mut cubic = at(100);
        cubic.on_fast_retransmit(Time::ZERO);
        let rounds = |cubic: &mut Cubic, now| (0..15).fold(now, |now, _| round(cubic, now, ms(100)));
        let mut now = rounds(&mut cubic, Time::ZERO);
        for _ in 0..exchanges {
            cubic.on_ack(&Ack { window_full: false, ..ack(now, PMDCS, PMDCS, ms(100)) });
            now += ms(100);
        }
        rounds(&mut cubic, now);
        cubic.window()
    };
    let (without, with) = (grown(0), grown(1000));
    assert!(without > 95 * PMDCS && with.abs_diff(without) <= PMDCS, "{without} and {with}");
}

/// RFC 7661 section 4.3: exchanges that use at least half of the window validate it, and slow start continues up to
/// twice what they use. Smaller exchanges do not, and after slow start only a full window grows.
#[test]
fn half_a_window_validates_slow_start() {
    let mut cubic = Cubic::new(PMDCS);
    let exchange = |cubic: &mut Cubic, packets: u32| {
        for acked in (0..packets).step_by(2) {
            let flight = (packets - acked) * PMDCS;
            cubic.on_ack(&Ack { window_full: false, ..ack(Time::ZERO, 2 * PMDCS, flight, ms(10)) });
        }
    };
    exchange(&mut cubic, 4);
    assert_eq!(cubic.window(), 12 * PMDCS);
    for _ in 0..20 {
        exchange(&mut cubic, 8);
    }
    assert_eq!(cubic.window(), 18 * PMDCS, "16 and what the last of them acknowledged");
    cubic.on_fast_retransmit(Time::ZERO);
    let reduced = cubic.window();
    exchange(&mut cubic, 8);
    assert_eq!(cubic.window(), reduced);
}

/// RFC 5681 section 4.1: a pause lowers cwnd but not ssthresh, so the sender starts afterwards as fast as before.
#[test]
fn a_pause_does_not_end_slow_start() {
    let mut cubic = Cubic::new(PMDCS);
    for _ in 0..3 {
        round(&mut cubic, Time::ZERO, ms(10));
    }
    let grown = cubic.window();
    assert!(grown > 60 * PMDCS, "{grown}");
    cubic.on_idle(2);
    assert!(cubic.window() < grown / 2);
    assert_eq!(cubic.slow_start_threshold(), u32::MAX);

    let mut cubic = at(100);
    cubic.on_idle(1);
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), (50_000, 100_000));
    cubic.on_idle(1);
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), (25_000, 100_000));
}

#[test]
fn nothing_grows_in_recovery() {
    let mut cubic = at(100);
    cubic.on_fast_retransmit(Time::ZERO);
    cubic.on_ack(&Ack { in_fast_recovery: true, ..ack(Time::ZERO + ms(10), 50_000, 70_000, ms(10)) });
    assert_eq!(cubic.window(), 70_000);
}

#[test]
fn a_needless_reduction_is_undone_once() {
    let mut cubic = at(100);
    cubic.on_fast_retransmit(Time::ZERO);
    cubic.on_undo();
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), (100_000, 100_000));
    cubic.on_timeout(Time::ZERO);
    cubic.on_timeout(Time::ZERO);
    cubic.on_undo();
    assert_eq!(cubic.window(), 100_000);
    cubic.on_undo();
    assert_eq!(cubic.window(), 100_000);
    cubic.on_timeout(Time::ZERO);
    cubic.cwnd = 120_000;
    cubic.on_timeout(Time::ZERO);
    cubic.on_undo();
    assert_eq!(cubic.window(), 120_000, "the largest before a time-out");
}

/// RFC 6928: ten packets, also of the larger size that a probe confirms before the first one is sent.
#[test]
fn initial_window_follows_the_packet_size() {
    let mut cubic = Cubic::new(1248);
    cubic.on_mtu(1468);
    assert_eq!(cubic.window(), initial_window_of_ten(1468));
    // Later the number of packets is kept.
    let mut cubic = Cubic::new(1248);
    cubic.on_ack(&ack(Time::ZERO, 12_480, 12_480, ms(60)));
    let packets = cubic.window() / 1248;
    cubic.on_mtu(1468);
    assert_eq!(cubic.window() / 1468, packets);
    let mut cubic = Cubic::new(1248);
    cubic.on_fast_retransmit(Time::ZERO);
    let window = cubic.window();
    cubic.on_mtu(1468);
    assert_eq!(cubic.window(), window);
}

/// RFC 9406: the window doubles while the delay stays constant. Slow start ends when the delay grows, without any
/// loss.
#[test]
fn slow_start_ends_when_the_delay_grows() {
    let mut cubic = Cubic::new(PMDCS);
    let mut now = Time::ZERO;
    while cubic.window() < 64 * PMDCS {
        now = round(&mut cubic, now, ms(20));
        assert_eq!(cubic.slow_start_threshold(), u32::MAX);
    }
    let before = cubic.window();
    for _ in 0..8 {
        now = round(&mut cubic, now, ms(30));
    }
    assert_ne!(cubic.slow_start_threshold(), u32::MAX);
    assert!(cubic.window() < before * 6, "conservative rounds grow by a quarter: {}", cubic.window());
}

/// A temporary delay is not the queue of this flow, and slow start continues.
#[test]
fn slow_start_survives_a_passing_delay() {
    let mut cubic = Cubic::new(PMDCS);
    let mut now = Time::ZERO;
    for rtt in [20, 20, 20, 20, 28, 20, 20, 20, 20] {
        now = round(&mut cubic, now, ms(rtt));
    }
    assert_eq!(cubic.slow_start_threshold(), u32::MAX);
}

#[derive(Debug, Clone)]
enum Op {
    Ack { acked: u32, full: bool, recovery: bool, rtt_us: u32 },
    FastRetransmit,
    Timeout,
    Undo,
    Idle(u32),
    Mtu(u32),
    Wait(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (any::<u32>(), any::<bool>(), any::<bool>(), any::<u32>())
            .prop_map(|(acked, full, recovery, rtt_us)| Op::Ack { acked, full, recovery, rtt_us }),
        1 => Just(Op::FastRetransmit),
        1 => Just(Op::Timeout),
        1 => Just(Op::Undo),
        1 => any::<u32>().prop_map(Op::Idle),
        1 => any::<u32>().prop_map(Op::Mtu),
        2 => any::<u32>().prop_map(Op::Wait),
    ]
}

proptest! {
    /// For any sequence the window is at least a packet and grows by at most what was acknowledged.
    #[test]
    fn any_sequence_keeps_the_bounds(ops in prop::collection::vec(op(), 1..200)) {
        let mut cubic = Cubic::new(PMDCS);
        let (mut now, mut most) = (Time::ZERO, 0);
        for op in ops {
            let before = cubic.window();
            let mut grows_by = 0;
            match op {
                Op::Ack { acked, full, recovery, rtt_us } => {
                    let rtt = Duration::from_micros(u64::from(rtt_us));
                    let flight = if full { before } else { acked % before };
                    let ack = ack(now, acked, flight, rtt);
                    most = most.max(flight);
                    // The first slow start counts what was in flight before, too, in its round trip.
                    let tested = if cubic.slow_start_threshold() == u32::MAX { most } else { flight };
                    let used = full || (before < cubic.slow_start_threshold() && tested >= before.div_ceil(2));
                    cubic.on_ack(&Ack { window_full: full, in_fast_recovery: recovery, ..ack });
                    grows_by = if used && !recovery { acked.saturating_add(1) } else { 0 };
                }
                Op::FastRetransmit => cubic.on_fast_retransmit(now),
                Op::Timeout => cubic.on_timeout(now),
                Op::Undo => {
                    cubic.on_undo();
                    grows_by = u32::MAX;
                }
                Op::Idle(periods) => cubic.on_idle(periods),
                Op::Mtu(pmdcs) => {
                    let old = u64::from(cubic.pmdcs);
                    cubic.on_mtu(pmdcs % 9000);
                    // At most to the initial window of such packets, or to the same number of them.
                    let scaled = u64::from(before) * u64::from(cubic.pmdcs) / old;
                    let scaled = u32::try_from(scaled).unwrap_or(u32::MAX).saturating_sub(before);
                    grows_by = scaled.max(initial_window_of_ten(9000));
                }
                Op::Wait(micros) => now += Duration::from_micros(u64::from(micros)),
            }
            prop_assert!(cubic.window() >= cubic.pmdcs());
            // A loss below two packets leaves two.
            let least = cubic.pmdcs().saturating_mul(2);
            prop_assert!(cubic.window() <= before.saturating_add(grows_by).max(least));
        }
    }
}

/// Of two losses the first is certain. Undoing the second restores the window between them.
#[test]
fn certain_loss_is_not_undone() {
    let mut cubic = Cubic::new(1_000);
    cubic.on_fast_retransmit(Time::ZERO);
    let between = (cubic.window(), cubic.slow_start_threshold());
    cubic.on_certain();
    cubic.on_fast_retransmit(Time::ZERO);
    assert!(cubic.window() < between.0);
    cubic.on_undo();
    assert_eq!((cubic.window(), cubic.slow_start_threshold()), between);
}
