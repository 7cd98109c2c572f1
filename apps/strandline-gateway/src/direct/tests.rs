use std::net::IpAddr;
use std::time::Duration;

use super::{DirectNetworks, Moved, NETWORKS_MAX};
use crate::clock::now;

const SECOND: Duration = Duration::from_secs(1);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn failures_are_tried_again_later_and_later() {
    let (networks, begun) = (DirectNetworks::default(), now());
    let has_failed = |after| networks.look(ip("192.0.2.7"), begun + after * SECOND).has_failed;
    networks.on_failed(ip("192.0.2.1"), begun);
    assert_eq!([has_failed(9), has_failed(10)], [true, false]);
    networks.on_failed(ip("192.0.2.1"), begun + 10 * SECOND);
    assert_eq!([has_failed(29), has_failed(30)], [true, false]);
    networks.on_failed(ip("192.0.2.1"), begun + 30 * SECOND);
    networks.on_connected(ip("192.0.2.1"), SECOND, begun + 31 * SECOND);
    assert!(!has_failed(31));
    networks.on_failed(ip("192.0.2.1"), begun + 32 * SECOND);
    assert_eq!([has_failed(41), has_failed(42)], [true, false], "as the first one");
}

#[test]
fn networks_share_what_is_known() {
    let (networks, now) = (DirectNetworks::default(), now());
    networks.on_connected(ip("192.0.2.1"), SECOND, now);
    networks.on_connected(ip("192.0.2.200"), SECOND / 2, now);
    networks.on_connected(ip("2001:db8::1"), SECOND / 4, now);
    let rtt = |text| networks.look(ip(text), now).rtt;
    assert_eq!(rtt("::ffff:192.0.2.9"), Some(SECOND / 2));
    assert_eq!((rtt("2001:db8::9"), rtt("192.0.3.1")), (Some(SECOND / 4), None));
    assert_eq!(networks.look(ip("192.0.2.1"), now + 600 * SECOND).rtt, None, "it is too old");
}

#[test]
fn rates_are_of_large_transfers() {
    let (networks, now) = (DirectNetworks::default(), now());
    let rate_after = |bytes| {
        let moved = Moved { bytes, per_sec: bytes as f64 };
        networks.on_moved(ip("192.0.2.1"), None, [moved, Moved { bytes: 0, per_sec: 1e12 }], now);
        networks.look(ip("192.0.2.1"), now).rate
    };
    assert_eq!(rate_after(1000), None);
    assert_eq!(rate_after(4_000_000), Some(4e6));
    assert_eq!(rate_after(1_000_000), Some(2e6), "half of the better one");
    assert_eq!(rate_after(1_000_000), Some(1e6));
}

#[test]
fn the_oldest_network_is_forgotten() {
    let (networks, begun) = (DirectNetworks::default(), now());
    for at in 0..=NETWORKS_MAX as u32 {
        networks.on_connected(
            (0x0a00_0000 + (at << 8)).to_be_bytes().into(),
            SECOND,
            begun + at * SECOND / 1000,
        );
    }
    let known = |text| networks.look(ip(text), begun + 2 * SECOND).rtt.is_some();
    assert!(!known("10.0.0.0") && known("10.0.1.0") && known("10.4.0.0"));
}
