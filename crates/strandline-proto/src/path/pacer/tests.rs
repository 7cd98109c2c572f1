use proptest::prelude::*;

use super::*;

const PMDCS: u32 = 1_000;
/// 10 MB/s: 10 packets per millisecond.
const RATE: u64 = 10_000_000;

fn at(micros: u64) -> Time {
    Time::ZERO + Duration::from_micros(micros)
}

/// Sends packets while the pacer allows it.
fn drain(pacer: &mut Pacer) -> u32 {
    let mut packets = 0;
    while pacer.may_send() && packets < 1_000_000 {
        pacer.on_sent(PMDCS);
        packets += 1;
    }
    packets
}

#[test]
fn without_a_rate_anything_goes() {
    let mut pacer = Pacer::new();
    pacer.refill(at(0), None, PMDCS, Duration::ZERO);
    assert_eq!(drain(&mut pacer), 1_000_000);
    pacer.wait(None, PMDCS);
    assert!(!pacer.holds());
}

#[test]
fn a_batch_is_a_millisecond() {
    let mut pacer = Pacer::new();
    pacer.refill(at(0), Some(RATE), PMDCS, Duration::ZERO);
    assert_eq!(drain(&mut pacer), 40);
    pacer.wait(Some(RATE), PMDCS);
    assert_eq!(pacer.deadline(), at(1_000));
    pacer.clear();
    pacer.refill(at(1_000), Some(RATE), PMDCS, Duration::ZERO);
    assert_eq!(drain(&mut pacer), 10);
}

/// At 100 KB/s a millisecond is less than a packet.
#[test]
fn slow_paths_get_whole_packets() {
    let mut pacer = Pacer::new();
    pacer.refill(at(0), Some(100_000), PMDCS, Duration::ZERO);
    assert_eq!(drain(&mut pacer), 10);
    pacer.wait(Some(100_000), PMDCS);
    assert_eq!(pacer.deadline(), at(20_000));
}

#[test]
fn late_timer_is_free_and_pause_saves_little() {
    let mut pacer = Pacer::new();
    pacer.refill(at(0), Some(RATE), PMDCS, Duration::ZERO);
    drain(&mut pacer);
    pacer.refill(at(3_000), Some(RATE), PMDCS, Duration::ZERO);
    assert_eq!(drain(&mut pacer), 30);
    pacer.refill(at(1_000_000), Some(RATE), PMDCS, Duration::ZERO);
    assert_eq!(drain(&mut pacer), 40);
}

/// A host that stood still while a batch waited makes up for the delay.
#[test]
fn a_very_late_timer_is_made_good_once() {
    let mut pacer = Pacer::new();
    pacer.refill(at(0), Some(RATE), PMDCS, Duration::ZERO);
    drain(&mut pacer);
    pacer.wait(Some(RATE), PMDCS);
    assert_eq!(pacer.on_timer(at(999)), Duration::ZERO);
    assert_eq!(pacer.deadline(), at(1_000));
    let late = pacer.on_timer(at(10_000));
    assert_eq!((late, pacer.deadline()), (Duration::from_millis(9), Time::MAX));
    pacer.refill(at(10_000), Some(RATE), PMDCS, late);
    assert_eq!(drain(&mut pacer), 100);
    assert_eq!(pacer.on_timer(at(1_000_000)), Duration::ZERO, "nothing waits");
    pacer.refill(at(1_000_000), Some(RATE), PMDCS, Duration::ZERO);
    assert_eq!(drain(&mut pacer), 40);
    pacer.wait(Some(RATE), PMDCS);
    assert_eq!(pacer.on_timer(at(2_000_000)), LATE_MAX, "nothing is made good for longer than that");
}

proptest! {
    /// Over any time no more is sent than the rate and the saved tokens allow, and no less than the rate if no call
    /// comes later than can be saved up.
    #[test]
    fn the_rate_is_kept(
        rate in 10_000_u64..10_000_000_000,
        steps in prop::collection::vec(1_u64..3_000_000, 1..300),
    ) {
        let mut pacer = Pacer::new();
        pacer.refill(Time::ZERO, Some(rate), PMDCS, Duration::ZERO);
        let mut sent = 0_i64;
        let mut now = Time::ZERO;
        for nanos in steps {
            // Send all that is allowed in one piece.
            let size = pacer.allowance().unwrap_or(0);
            pacer.on_sent(size);
            sent += i64::from(size);
            now += Duration::from_nanos(nanos);
            pacer.refill(now, Some(rate), PMDCS, Duration::ZERO);
        }
        let by_rate = bytes_in(rate, now.since(Time::ZERO));
        let saved = bytes_in(rate, SAVED).max(10_000);
        prop_assert!(sent <= by_rate + saved);
        prop_assert!(sent + i64::from(pacer.allowance().unwrap_or(0)) + 300 >= by_rate);
    }
}

/// A loss lowers the rate just when its last packets were sent. Credit saved at the higher rate is not used after it.
#[test]
fn smaller_rate_has_smaller_savings() {
    let mut pacer = Pacer::new();
    pacer.refill(at(0), Some(RATE), PMDCS, Duration::ZERO);
    pacer.refill(at(0), Some(RATE / 4), PMDCS, Duration::ZERO);
    assert_eq!(drain(&mut pacer), 10);
}
