use core::time::Duration;

use super::*;

fn taken(budget: &mut InitBudget, now: Time) -> usize {
    (0..1_000_000).take_while(|_| budget.take(now)).count()
}

#[test]
fn what_comes_in_a_second_is_bounded() {
    let mut budget = InitBudget::new(1_000, Time::ZERO);
    assert_eq!(taken(&mut budget, Time::ZERO), 250, "a storm");
    let mut sum = 0;
    for micros in (100..=1_000_000_u64).step_by(100) {
        sum += taken(&mut budget, Time::from_nanos(micros * 1_000));
    }
    assert_eq!(sum, 1_000, "nothing is lost by looking often");
}

#[test]
fn part_of_one_is_kept() {
    // 1.4 fall due in each step.
    let mut budget = InitBudget::new(200_000, Time::ZERO);
    taken(&mut budget, Time::ZERO);
    let sum: usize = (1..=1_000).map(|step| taken(&mut budget, Time::from_nanos(step * 7_000))).sum();
    assert_eq!(sum, 1_400);
}

#[test]
fn a_storm_after_any_time_is_as_large() {
    let mut budget = InitBudget::new(1_000, Time::ZERO);
    assert_eq!(taken(&mut budget, Time::from_nanos(9 * NANOS_PER_SECOND)), 250);
    assert_eq!(taken(&mut budget, Time::ZERO + Duration::from_secs(1 << 30)), 250);
    assert_eq!(taken(&mut budget, Time::MAX), 250);
    assert_eq!(taken(&mut budget, Time::ZERO), 0, "time that goes back brings nothing");
}

#[test]
fn at_any_rate_something_is_taken() {
    let mut budget = InitBudget::new(1, Time::ZERO);
    assert_eq!(taken(&mut budget, Time::ZERO), 1);
    assert_eq!(taken(&mut budget, Time::from_nanos(NANOS_PER_SECOND - 1)), 0);
    assert_eq!(taken(&mut budget, Time::from_nanos(NANOS_PER_SECOND)), 1);
    let mut most = InitBudget::new(u32::MAX, Time::ZERO);
    assert!(most.take(Time::MAX));
}
