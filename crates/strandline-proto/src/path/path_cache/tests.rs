use core::net::Ipv4Addr;

use super::*;

fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn what_was_learnt_counts_for_ten_minutes() {
    let mut known = KnownPaths::new(8, (1, 2));
    assert_eq!(known.get(at(1), address(1)), Known::default());
    known.learn_mtu(at(1), address(1), 1500);
    known.learn_rtt(at(301), address(1), 20 * MS, 5 * MS);
    assert_eq!(known.get(at(600), address(1)), Known { mtu: Some(1500), rtt: Some((20 * MS, 5 * MS)) });
    assert_eq!(known.get(at(601), address(1)), Known { mtu: None, rtt: Some((20 * MS, 5 * MS)) });
    assert_eq!(known.get(at(901), address(1)), Known::default());
    assert_eq!(known.get(at(2), address(2)), Known::default());
}

#[test]
fn failing_size_is_forgotten_and_rtt_kept() {
    let mut known = KnownPaths::new(8, (1, 2));
    known.learn_mtu(at(1), address(1), 1500);
    known.learn_rtt(at(1), address(1), 20 * MS, 5 * MS);
    known.forget_mtu(address(1));
    known.forget_mtu(address(2));
    assert_eq!(known.get(at(2), address(1)), Known { mtu: None, rtt: Some((20 * MS, 5 * MS)) });
}

#[test]
fn address_equals_its_mapped_form() {
    let mut known = KnownPaths::new(8, (1, 2));
    known.learn_mtu(at(1), "::ffff:10.0.0.1".parse().unwrap(), 1400);
    assert_eq!(known.get(at(2), "10.0.0.1".parse().unwrap()).mtu, Some(1400));
}

/// However many peers there are, the latest stay and the cache does not grow.
#[test]
fn the_latest_addresses_stay() {
    let mut known = KnownPaths::new(100, (3, 4));
    for number in 0..10_000 {
        known.learn_rtt(at(1), address(number), MS * number, MS);
        known.learn_mtu(at(1), address(number), 1500);
    }
    assert_eq!((known.entries.len(), known.by_address.len()), (100, 100));
    for number in 0..9_900 {
        assert_eq!(known.get(at(2), address(number)), Known::default());
    }
    for number in 9_900..10_000 {
        assert_eq!(known.get(at(2), address(number)).rtt, Some((MS * number, MS)));
    }
}

#[test]
fn none_is_kept_where_none_may_be() {
    let mut known = KnownPaths::new(0, (1, 2));
    known.learn_mtu(at(1), address(1), 1500);
    assert_eq!(known.get(at(1), address(1)), Known::default());
}
