use core::net::Ipv6Addr;
use core::time::Duration;

use super::*;

const KEYS: (u64, u64) = (1, 2);
const NANOS_PER_SECOND: u64 = 1_000_000_000;

fn source(number: u32) -> IpAddr {
    IpAddr::V4(number.into())
}

/// Returns how many INITs from one source are accepted at once.
fn taken(budget: &mut InitBudget, now: Time) -> u32 {
    taken_from(budget, now, source(1))
}

fn taken_from(budget: &mut InitBudget, now: Time, from: IpAddr) -> u32 {
    (0..1_000_000).take_while(|_| budget.take(now, from)).count() as u32
}

#[test]
fn total_in_a_second_is_bounded() {
    for rate in [1, 31, 32, 1_000, 200_000] {
        let mut budget = InitBudget::new(rate, KEYS, Time::ZERO);
        let everybody = |budget: &mut InitBudget, now| -> u32 {
            (0..4_096).map(|number| taken_from(budget, now, source(number))).sum()
        };
        let storm = everybody(&mut budget, Time::ZERO);
        assert!(
            (rate / 4).max(1) <= storm + SOURCES_MAX && storm <= (rate / 4).max(1) + SOURCES_MAX,
            "{rate}: {storm}"
        );
        let sum: u32 =
            (1..=50).map(|step| everybody(&mut budget, Time::ZERO + Duration::from_millis(step * 20))).sum();
        assert!(sum <= rate && sum + SOURCES_MAX >= rate, "{rate}: {sum}");
    }
}

#[test]
fn part_of_one_is_kept() {
    // One bucket for each source and the common half: a little more than 0.7 tokens become due in each step.
    let mut budget = InitBudget::new(200_000, KEYS, Time::ZERO);
    taken(&mut budget, Time::ZERO);
    let sum: u32 = (1..=1_000).map(|step| taken(&mut budget, Time::from_nanos(step * 7_000))).sum();
    let (common, own) = (budget.common_rate.tokens, budget.source_rate.tokens);
    assert_eq!(sum, (u64::from(common) * 7 / 1_000) as u32 + (u64::from(own) * 7 / 1_000) as u32);
}

#[test]
fn a_storm_after_any_time_is_as_large() {
    let mut budget = InitBudget::new(1_000, KEYS, Time::ZERO);
    let storm = taken(&mut budget, Time::ZERO);
    assert_eq!(storm, 504 / 4 + 16 / 4);
    assert_eq!(taken(&mut budget, Time::from_nanos(9 * NANOS_PER_SECOND)), storm);
    assert_eq!(taken(&mut budget, Time::ZERO + Duration::from_secs(1 << 30)), storm);
    assert_eq!(taken(&mut budget, Time::MAX), storm);
    assert_eq!(taken(&mut budget, Time::ZERO), 0, "time that goes back brings nothing");
}

#[test]
fn at_any_rate_something_is_taken() {
    let mut budget = InitBudget::new(1, KEYS, Time::ZERO);
    assert!(budget.has(Time::ZERO, source(7)));
    assert_eq!(taken(&mut budget, Time::ZERO), 1);
    assert!(!budget.has(Time::ZERO, source(7)));
    assert_eq!(taken(&mut budget, Time::from_nanos(NANOS_PER_SECOND - 1)), 0);
    assert_eq!(taken(&mut budget, Time::from_nanos(NANOS_PER_SECOND)), 1);
    let mut most = InitBudget::new(u32::MAX, KEYS, Time::ZERO);
    assert!(most.take(Time::MAX, source(1)));
}

/// A flood from one address uses up the common half and its own bucket, and no other one.
#[test]
fn one_flooder_leaves_the_others_theirs() {
    let mut budget = InitBudget::new(200_000, KEYS, Time::ZERO);
    assert_eq!(taken(&mut budget, Time::ZERO), (200_000 - 256 * 390) / 4 + 390 / 4);
    let alone = (2..1_002).filter(|number| budget.has(Time::ZERO, source(*number))).count();
    assert!(alone > 980, "of 1,000, those that share its place go without: {alone}");
    assert_eq!(taken_from(&mut budget, Time::ZERO, source(2)), 390 / 4);
}

#[test]
fn host_with_its_own_prefix_is_one_source() {
    let host = |last: u16| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last));
    let mut budget = InitBudget::new(200_000, KEYS, Time::ZERO);
    taken_from(&mut budget, Time::ZERO, host(1));
    assert_eq!(taken_from(&mut budget, Time::ZERO, host(2)), 0);
    let other = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1));
    assert_eq!(taken_from(&mut budget, Time::ZERO, other), 390 / 4);
}
