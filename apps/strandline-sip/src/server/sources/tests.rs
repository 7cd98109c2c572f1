use std::time::Duration;

use super::*;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn allowed(sources: &mut Sources, millis: u64, source: IpAddr, count: usize) -> usize {
    (0..count).filter(|_| sources.allows(at(millis), source)).count()
}

#[test]
fn a_source_has_its_rate_and_a_burst() {
    let mut sources = Sources::new(10, [7; 16]);
    let one: IpAddr = [192, 0, 2, 1].into();
    assert_eq!(allowed(&mut sources, 0, one, 100), 20);
    assert_eq!(allowed(&mut sources, 100, one, 100), 1);
    assert_eq!(allowed(&mut sources, 1100, one, 100), 10);
    assert_eq!(allowed(&mut sources, 1_000_000, one, 100), 20);
    // The same address, written as IPv6.
    assert_eq!(allowed(&mut sources, 1_000_000, "::ffff:192.0.2.1".parse().unwrap(), 100), 0);
}

#[test]
fn a_customer_has_a_network_of_ipv6() {
    let mut sources = Sources::new(10, [7; 16]);
    assert_eq!(allowed(&mut sources, 0, "2001:db8::1".parse().unwrap(), 100), 20);
    assert_eq!(allowed(&mut sources, 0, "2001:db8::2".parse().unwrap(), 100), 0);
    assert_eq!(allowed(&mut sources, 0, "2001:db8:0:1::1".parse().unwrap(), 100), 20);
}

#[test]
fn flooding_sources_barely_affect_others() {
    let mut sources = Sources::new(10, [7; 16]);
    for attacker in 0..1000u32 {
        allowed(&mut sources, 0, IpAddr::V4((0x0a00_0000 + attacker).into()), 100);
    }
    let hurt = (0..10_000u32)
        .filter(|other| allowed(&mut sources, 0, IpAddr::V4((0xc000_0000 + other).into()), 1) == 0)
        .count();
    // In each row, 1.5 % of the buckets are empty; for 0.02 % of the sources, both are.
    assert!(hurt < 20, "{hurt}");
}
