#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crowds;
mod model;

use core::time::Duration;

use super::*;

const TICK: u64 = 1 << TICK_SHIFT;

fn at_tick(tick: u64) -> Time {
    Time::from_nanos(tick * TICK)
}

fn pop_all(wheel: &mut TimerWheel, now: Time) -> Vec<u32> {
    let mut keys: Vec<u32> = core::iter::from_fn(|| wheel.pop_expired(now)).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn an_entry_takes_16_bytes() {
    assert_eq!(TimerWheel::ENTRY_BYTES, 16);
    let mut wheel = TimerWheel::new(Time::ZERO);
    assert_eq!(wheel.heap_bytes(), 0);
    wheel.schedule(0, at_tick(5));
    assert!(wheel.heap_bytes() >= 16);
}

#[test]
fn never_early_and_at_most_one_tick_late() {
    for at in [1, TICK - 1, TICK, TICK + 1, 70 * TICK + 12_345, 5000 * TICK - 1] {
        let mut wheel = TimerWheel::new(Time::ZERO);
        wheel.schedule(3, Time::from_nanos(at));
        assert_eq!(wheel.pop_expired(Time::from_nanos(at - 1)), None, "{at}");
        assert_eq!(wheel.pop_expired(Time::from_nanos(at + TICK - 1)), Some(3), "{at}");
        assert!(wheel.is_empty());
    }
}

#[test]
fn far_deadlines_are_rounded_and_near_exact() {
    let wheel = TimerWheel::new(at_tick(1000));
    let near = at_tick(1000 + FAR - 1) + Duration::from_nanos(1);
    assert_eq!(wheel.rounded(near), near);
    assert_eq!(wheel.rounded(Time::ZERO), Time::ZERO);
    for after in [0, 1, TICK, COARSE_NANOS - 1, 30_000_000_000] {
        let far = at_tick(1000 + FAR) + Duration::from_nanos(after);
        let rounded = wheel.rounded(far);
        assert_eq!(rounded.as_nanos() % COARSE_NANOS, 0, "{after}");
        assert!(rounded >= far && rounded.since(far) < Duration::from_nanos(COARSE_NANOS), "{after}");
        assert_eq!(wheel.rounded(rounded), rounded);
    }
    let last = Time::from_nanos(u64::MAX - 1);
    assert_eq!(wheel.rounded(last), last, "there is no later one");
}

#[test]
fn scheduling_again_replaces() {
    let mut wheel = TimerWheel::new(Time::ZERO);
    wheel.schedule(7, at_tick(10));
    wheel.schedule(7, at_tick(100));
    assert_eq!(wheel.len(), 1);
    assert_eq!(wheel.deadline(7), Some(at_tick(100)));
    assert_eq!(wheel.pop_expired(at_tick(99)), None);
    wheel.schedule(7, at_tick(101));
    assert_eq!(wheel.pop_expired(at_tick(100)), None);
    assert_eq!(wheel.pop_expired(at_tick(101)), Some(7));
    assert_eq!(wheel.deadline(7), None);
}

#[test]
fn never_is_no_deadline() {
    let mut wheel = TimerWheel::new(Time::ZERO);
    wheel.schedule(1, at_tick(10));
    wheel.schedule(1, Time::MAX);
    assert_eq!((wheel.len(), wheel.deadline(1), wheel.next_deadline()), (0, None, None));
    wheel.cancel(1);
    wheel.cancel(12_345);
    assert_eq!(wheel.deadline(12_345), None);
}

#[test]
fn every_list_position_can_be_cancelled() {
    for cancelled in 0..3 {
        let mut wheel = TimerWheel::new(Time::ZERO);
        for key in 0..3 {
            wheel.schedule(key, at_tick(9));
        }
        wheel.cancel(cancelled);
        let left: Vec<u32> = (0..3).filter(|&key| key != cancelled).collect();
        assert_eq!(pop_all(&mut wheel, at_tick(9)), left);
    }
}

#[test]
fn past_deadline_waits_for_the_next_tick() {
    let mut wheel = TimerWheel::new(at_tick(1000));
    wheel.schedule(0, at_tick(3));
    assert_eq!(wheel.next_deadline(), Some(at_tick(1001)));
    assert_eq!(wheel.pop_expired(at_tick(1000)), None);
    assert_eq!(wheel.pop_expired(at_tick(1001)), Some(0));
}

#[test]
fn a_loop_that_sets_past_deadlines_ends() {
    let mut wheel = TimerWheel::new(Time::ZERO);
    for key in 0..100 {
        wheel.schedule(key, at_tick(1));
    }
    let mut expired = 0;
    while let Some(key) = wheel.pop_expired(at_tick(100_000)) {
        expired += 1;
        wheel.schedule(key, Time::ZERO);
    }
    assert_eq!((expired, wheel.len()), (100, 100));
}

#[test]
fn time_that_goes_backwards_does_no_harm() {
    let mut wheel = TimerWheel::new(at_tick(50));
    wheel.schedule(0, at_tick(60));
    assert_eq!(wheel.pop_expired(at_tick(10)), None);
    wheel.schedule(1, at_tick(20));
    assert_eq!(pop_all(&mut wheel, at_tick(60)), [0, 1]);
}

#[test]
fn deadlines_beyond_the_span_expire_in_time() {
    let span = 1u64 << (LEVEL_BITS * LEVELS as u32);
    let mut wheel = TimerWheel::new(at_tick(span - 5));
    let deadlines = [span + 3, 2 * span - 1, 2 * span, 7 * span + 123, u64::MAX / TICK - 1];
    for (key, tick) in deadlines.iter().enumerate() {
        wheel.schedule(key as u32, at_tick(*tick));
    }
    for (key, tick) in deadlines.iter().enumerate() {
        let mut wakes = 0;
        let expired = loop {
            let next = wheel.next_deadline().unwrap();
            assert!(next <= at_tick(*tick));
            wakes += 1;
            if let Some(key) = wheel.pop_expired(next) {
                break key;
            }
        };
        assert_eq!(expired as usize, key);
        assert_eq!(wheel.present, *tick, "not early, not late");
        // Each turn of the top level on the way costs one wake-up; the last deadline is 2^44 ticks away.
        assert!(wakes < 100 || key == 4, "{wakes}");
        if key == 3 {
            break;
        }
    }
    assert_eq!(wheel.pop_expired(at_tick(deadlines[4])), Some(4));
}

#[test]
fn shrinking_keeps_what_is_set() {
    let mut wheel = TimerWheel::new(Time::ZERO);
    for key in 0..1000 {
        wheel.schedule(key, at_tick(10));
    }
    for key in 5..1000 {
        wheel.cancel(key);
    }
    wheel.shrink();
    assert!(wheel.heap_bytes() <= 8 * TimerWheel::ENTRY_BYTES);
    assert_eq!(pop_all(&mut wheel, at_tick(10)), [0, 1, 2, 3, 4]);
    wheel.shrink();
    assert_eq!(wheel.heap_bytes(), 0);
}

/// Cost is counted, not timed: the work of an operation must not depend on the number of entries.
#[test]
fn million_entries_cost_as_much_as_few() {
    let steps_for_each = |count: u32| {
        let mut wheel = TimerWheel::new(Time::ZERO);
        let mut random = 12_345_u64;
        let mut last = 0;
        for key in 0..count {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let tick = 1 + (random >> 33) % 60_000; // A minute.
            last = last.max(tick);
            wheel.schedule(key, at_tick(tick));
        }
        assert_eq!(wheel.len(), count as usize);
        let (mut expired, mut wakes) = (0, 0_u64);
        while let Some(next) = wheel.next_deadline() {
            wakes += 1;
            while wheel.pop_expired(next).is_some() {
                expired += 1;
            }
        }
        assert_eq!(expired, count);
        // One wake-up for each tick that has a deadline, and one for each slot of the levels above.
        assert!(wakes <= last + last / 64 + last / 4096 + 2, "{wakes} wakes for {last} ticks");
        wheel.steps as f64 / f64::from(count)
    };
    let (few, many) = (steps_for_each(1000), steps_for_each(1_000_000));
    // An entry is removed once and moved down at most once per level.
    assert!(many <= LEVELS as f64 + 1.0, "{many}");
    assert!(many <= few + 0.1, "{few} steps each for 1,000, {many} for 1,000,000");
}
