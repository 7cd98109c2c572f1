//! Slots with very many deadlines: the work of one advance stays bounded, and nothing expires early or late.

use super::*;

const MANY: u32 = 1_000_000;

/// A wheel with `MANY` deadlines at the ticks that `at` returns.
fn full(at: impl Fn(u32) -> u64) -> TimerWheel {
    let mut wheel = TimerWheel::new(Time::ZERO);
    (0..MANY).for_each(|key| wheel.schedule(key, at_tick(at(key))));
    wheel
}

/// Spreads keys over `ticks` so that neighbouring numbers are not neighbours in time.
fn scattered(key: u32, ticks: u64) -> u64 {
    (u64::from(key.wrapping_mul(2_654_435_761)) * ticks) >> 32
}

/// Advances to `tick`. Returns how many deadlines expired and how many were moved.
fn advance(wheel: &mut TimerWheel, tick: u64, mut each: impl FnMut(&mut TimerWheel, u32)) -> (u64, u64) {
    let before = wheel.steps;
    let mut expired = 0;
    while let Some(key) = wheel.pop_expired(at_tick(tick)) {
        expired += 1;
        each(wheel, key);
    }
    (expired, wheel.steps - before - expired)
}

/// A million heartbeats of 30 seconds: 140,000 of them in each slot of level 2, and all in one slot of level 3 until
/// the wheel's time reaches a multiple of 275 seconds.
#[test]
fn a_million_in_30_seconds_never_move_at_once() {
    let ticks = 28_610;
    let mut wheel = full(|key| 1 + scattered(key, ticks));
    let mut due: Vec<u64> = (0..MANY).map(|key| 1 + scattered(key, ticks)).collect();
    let (mut expired, mut moved_max) = (0, 0);
    for tick in 1..5 * ticks {
        let (now, moved) = advance(&mut wheel, tick, |wheel, key| {
            assert_eq!(due[key as usize], tick, "not early, not late");
            due[key as usize] += ticks;
            wheel.schedule(key, at_tick(due[key as usize]));
        });
        expired += now;
        moved_max = moved_max.max(moved);
    }
    assert_eq!(expired, u64::from(MANY) * 5 - wheel_left(&due, 5 * ticks));
    // In each tick 35 expire on average, and as many are moved at each of the levels.
    assert!(moved_max <= 2_500, "{moved_max} moved in one tick");
}

fn wheel_left(due: &[u64], tick: u64) -> u64 {
    due.iter().filter(|due| **due == tick).count() as u64
}

#[test]
fn crowded_high_level_slots_cascade_in_slices() {
    // All in half a minute that begins 300 seconds (or 6 hours) from now.
    for begin in [300_000, 21_600_000] {
        let mut wheel = full(|key| begin + scattered(key, 28_610));
        let (mut moved_max, mut wakes) = (0, 0_u64);
        let mut expired = 0;
        while let Some(next) = wheel.next_deadline() {
            wakes += 1;
            let (now, moved) = advance(&mut wheel, tick_before(next), |_, _| ());
            moved_max = moved_max.max(moved);
            expired += now;
        }
        assert_eq!(expired, u64::from(MANY));
        assert!(moved_max <= 2_500, "{moved_max} moved at once");
        assert!(wakes <= 28_610 + 4 * u64::from(MANY) / 256, "{wakes} wakes");
    }
}

#[test]
fn crowded_tick_is_ready_in_time() {
    let mut wheel = full(|_| 40_003);
    let mut moved_max = 0;
    while let Some(next) = wheel.next_deadline().filter(|next| *next < at_tick(40_003)) {
        let (expired, moved) = advance(&mut wheel, tick_before(next), |_, _| ());
        assert_eq!(expired, 0, "early");
        moved_max = moved_max.max(moved);
    }
    // The slot of level 1 has 64 ticks to be moved in.
    assert!(moved_max <= u64::from(MANY) / 64 * 6, "{moved_max} moved at once");
    let (expired, moved) = advance(&mut wheel, 40_003, |_, _| ());
    assert_eq!(expired, u64::from(MANY));
    assert!(moved <= 256, "{moved} moved when all expired");
}

/// A timer that is set and cancelled again and again counts as a crowd only until the slot is visited.
#[test]
fn one_deadline_moved_often_is_no_crowd() {
    let mut wheel = TimerWheel::new(Time::ZERO);
    wheel.schedule(0, at_tick(10_000));
    for step in 0..100_000 {
        wheel.schedule(1, at_tick(10_001 + step % 50));
    }
    let mut wakes = 0;
    while let Some(next) = wheel.next_deadline() {
        wakes += 1;
        while wheel.pop_expired(next).is_some() {}
    }
    assert!(wakes <= 8, "{wakes} wakes for two deadlines");
}

/// A process that was stopped for a while finds everything that expired meanwhile, and nothing else.
#[test]
fn an_advance_over_many_slots_loses_nothing() {
    for stopped in [70, 5_000, 300_000] {
        let mut wheel = full(|key| 20 + scattered(key, 28_610));
        let mut expired = 0;
        for tick in (0..400_000).step_by(stopped) {
            let (now, _) = advance(&mut wheel, tick, |_, key| {
                let due = 20 + scattered(key, 28_610);
                assert!(due <= tick && due + stopped as u64 > tick, "{due} at {tick}");
            });
            expired += now;
        }
        assert_eq!((expired, wheel.len()), (u64::from(MANY), 0));
    }
}
