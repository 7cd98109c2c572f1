#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

const RTO: Duration = Duration::from_secs(2);
const INTERVAL: Duration = Duration::from_secs(30);
const EVERY_30_S: Pace = Pace::Interval(INTERVAL);
/// The random number that yields no jitter.
const MIDDLE: u32 = 1 << 31;

fn secs(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}

fn is_due(heartbeat: &mut Heartbeat, now: Time, last_sent: Time) -> bool {
    heartbeat.is_due(now, last_sent, EVERY_30_S, RTO, MIDDLE)
}

#[test]
fn stopped_until_started() {
    let mut heartbeat = Heartbeat::new();
    assert_eq!(heartbeat.deadline(RTO), Time::MAX);
    assert!(!is_due(&mut heartbeat, secs(1_000_000), Time::ZERO));
}

#[test]
fn section_8_3_rto_plus_interval() {
    let mut heartbeat = Heartbeat::new();
    heartbeat.start(secs(0), EVERY_30_S, RTO, MIDDLE);
    assert_eq!(heartbeat.deadline(RTO), secs(32));
    assert!(!is_due(&mut heartbeat, secs(31), Time::ZERO));
    assert!(is_due(&mut heartbeat, secs(32), Time::ZERO));
    heartbeat.on_sent(secs(32), 7, EVERY_30_S, RTO, MIDDLE);
    assert_eq!(heartbeat.on_ack(7), Some(secs(32)));
    assert_eq!(heartbeat.deadline(RTO), secs(64));
}

#[test]
fn section_8_3_jitter_is_half_of_the_rto() {
    assert_eq!(jittered(RTO, 0), Duration::from_secs(1));
    assert_eq!(jittered(RTO, MIDDLE), RTO);
    let most = jittered(RTO, u32::MAX);
    assert!(most < Duration::from_secs(3) && most > Duration::from_millis(2_999));
}

#[test]
fn section_8_3_a_path_in_use_gets_none() {
    let mut heartbeat = Heartbeat::new();
    heartbeat.start(secs(0), EVERY_30_S, RTO, MIDDLE);
    heartbeat.on_path_used();
    assert!(!is_due(&mut heartbeat, secs(32), secs(20)));
    assert_eq!(heartbeat.deadline(RTO), secs(52), "a period after the last data");
    assert!(is_due(&mut heartbeat, secs(52), secs(20)), "idle since");
}

#[test]
fn section_8_3_answer_counts_once_with_its_nonce() {
    let mut heartbeat = Heartbeat::new();
    assert_eq!(heartbeat.on_ack(0), None, "nothing was sent");
    heartbeat.on_sent(secs(1), 0xfeed, EVERY_30_S, RTO, MIDDLE);
    assert_eq!(heartbeat.on_ack(0xbeef), None);
    assert_eq!(heartbeat.on_ack(0xfeed), Some(secs(1)));
    assert_eq!(heartbeat.on_ack(0xfeed), None, "replayed");
}

#[test]
fn section_8_3_silence_for_an_rto_counts_once() {
    let mut heartbeat = Heartbeat::new();
    heartbeat.on_sent(secs(10), 1, EVERY_30_S, RTO, MIDDLE);
    assert_eq!(heartbeat.deadline(RTO), secs(12));
    assert!(!heartbeat.on_expired(secs(11), RTO));
    assert!(heartbeat.on_expired(secs(12), RTO));
    assert!(!heartbeat.on_expired(secs(13), RTO));
    heartbeat.schedule_after_loss(secs(12), EVERY_30_S, 2 * RTO, MIDDLE);
    assert_eq!(heartbeat.deadline(2 * RTO), secs(44), "the RTO is backed off");
    assert_eq!(heartbeat.on_ack(1), Some(secs(10)), "late, but an answer");
}

#[test]
fn section_5_4_unconfirmed_address_is_probed_each_rto() {
    let mut heartbeat = Heartbeat::new();
    heartbeat.start(secs(5), Pace::EachRto, RTO, MIDDLE);
    assert!(heartbeat.is_due(secs(5), Time::ZERO, Pace::EachRto, RTO, MIDDLE));
    heartbeat.on_sent(secs(5), 1, Pace::EachRto, RTO, MIDDLE);
    assert!(!heartbeat.is_due(secs(6), Time::ZERO, Pace::EachRto, RTO, MIDDLE));
    assert!(heartbeat.on_expired(secs(7), RTO));
    heartbeat.schedule_after_loss(secs(7), Pace::EachRto, 2 * RTO, MIDDLE);
    assert!(heartbeat.is_due(secs(7), Time::ZERO, Pace::EachRto, 2 * RTO, MIDDLE));
}

#[test]
fn switched_off_a_requested_one_is_still_watched() {
    let mut heartbeat = Heartbeat::new();
    heartbeat.start(secs(0), Pace::Off, RTO, MIDDLE);
    assert_eq!(heartbeat.deadline(RTO), Time::MAX);
    heartbeat.on_sent(secs(1), 9, Pace::Off, RTO, MIDDLE);
    assert_eq!(heartbeat.deadline(RTO), secs(3));
    assert!(heartbeat.on_expired(secs(3), RTO));
    heartbeat.schedule_after_loss(secs(3), Pace::Off, RTO, MIDDLE);
    assert_eq!(heartbeat.deadline(RTO), Time::MAX);
}

#[test]
fn deferred_and_stopped() {
    let mut heartbeat = Heartbeat::new();
    heartbeat.start(secs(0), EVERY_30_S, RTO, MIDDLE);
    heartbeat.defer(secs(34));
    assert_eq!(heartbeat.deadline(RTO), secs(34));
    heartbeat.on_sent(secs(34), 3, EVERY_30_S, RTO, MIDDLE);
    heartbeat.stop();
    assert_eq!((heartbeat.deadline(RTO), heartbeat.on_ack(3)), (Time::MAX, None));
}

proptest! {
    #[test]
    fn jitter_keeps_to_half_whatever_the_numbers(nanos: u64, random: u32) {
        let rto = Duration::from_nanos(nanos);
        let jittered = jittered(rto, random);
        prop_assert!(jittered >= rto / 2);
        prop_assert!(jittered <= rto.saturating_add(rto / 2));
    }

    /// A caller that sleeps until the deadline and does what is due never sees the same deadline again.
    #[test]
    fn deadlines_make_progress(
        rtos in proptest::collection::vec(1_u64..100_000, 1..50),
        randoms in proptest::collection::vec(any::<u32>(), 50),
        interval in proptest::option::of(1_u64..100_000),
        used: u64,
    ) {
        let pace = interval.map_or(Pace::EachRto, |ms| Pace::Interval(Duration::from_millis(ms)));
        let mut heartbeat = Heartbeat::new();
        let mut now = Time::ZERO;
        let mut last_sent = now;
        heartbeat.start(now, pace, Duration::from_millis(1), 0);
        for (step, (rto, random)) in rtos.into_iter().zip(randoms).enumerate() {
            let rto = Duration::from_millis(rto);
            now = now.max(heartbeat.deadline(rto));
            if heartbeat.on_expired(now, rto) {
                heartbeat.schedule_after_loss(now, pace, rto, random);
            }
            if heartbeat.is_due(now, last_sent, pace, rto, random) {
                heartbeat.on_sent(now, 1, pace, rto, random);
            }
            prop_assert!(heartbeat.deadline(rto) > now);
            if used >> (step % 64) & 1 == 1 {
                last_sent = now;
                heartbeat.on_path_used();
            }
        }
    }
}

/// A packet from an address shows that a HEARTBEAT to it may be answered.
#[test]
fn address_that_was_heard_is_probed_again() {
    let sent = |now: u64| {
        let mut heartbeat = Heartbeat::new();
        heartbeat.start(secs(now), Pace::EachRto, RTO, MIDDLE);
        heartbeat.on_sent(secs(now), 7, Pace::EachRto, RTO, MIDDLE);
        heartbeat
    };
    let probes = |heartbeat: &mut Heartbeat, now| heartbeat.is_due(now, now, Pace::EachRto, RTO, MIDDLE);
    let mut early = sent(0);
    early.on_heard();
    assert!(!probes(&mut early, secs(1)), "the answer may still be on its way");
    assert_eq!(early.deadline(RTO), secs(2));
    assert!(!early.on_expired(secs(2), RTO), "no error");
    assert!(probes(&mut early, secs(2)));
    let mut silent = sent(0);
    assert!(silent.on_expired(secs(2), RTO));
    // What was heard counts for one HEARTBEAT.
    early.on_sent(secs(2), 8, Pace::EachRto, RTO, MIDDLE);
    assert!(early.on_expired(secs(4), RTO));
}
