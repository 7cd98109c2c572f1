#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::time::Duration;

use super::*;
use crate::path::Link;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

/// Returns a path with 3,000 bytes in flight, for which the peer has no room.
fn blocked(config: &AssociationConfig) -> Path {
    let mut path = Path::new("192.0.2.1:9899".parse().unwrap(), None, config, Link::UDP, Time::ZERO);
    path.confirm();
    path.on_rtt(at(100), at(0), config);
    path.on_data_sent(at(200), 3012, 3000, true, false);
    path.set_window_shut(true);
    path
}

/// The window has room, and more may wait for retransmission than the probe holds.
#[test]
fn nothing_follows_a_probe_until_an_answer() {
    let config = AssociationConfig::default();
    let mut path = blocked(&config);
    assert!(path.may_retransmit());
    for probe in 1..=2 {
        path.on_lost(1400);
        path.on_window_probe_timeout(at(2000 * probe), &config);
        assert!(path.is_exempt());
        path.on_data_sent(at(2000 * probe), 1212, 1200, false, true);
        assert!(!path.is_exempt() && !path.may_retransmit());
    }
    path.set_window_shut(true);
    assert!(path.may_retransmit(), "the peer has answered");
}

/// Loss detection of RFC 9260 retransmits everything, as the window allows (section 6.3.3).
#[test]
fn a_probe_of_rfc_9260_is_the_whole_flight() {
    let config = AssociationConfig { recovery: Recovery::Rfc9260, ..AssociationConfig::default() };
    let mut path = blocked(&config);
    path.on_lost(3000);
    path.on_window_probe_timeout(at(2000), &config);
    path.on_data_sent(at(2000), 1212, 1200, false, true);
    assert!(path.may_retransmit());
}

#[test]
fn an_open_window_ends_an_unsent_probe() {
    let config = AssociationConfig::default();
    let mut path = blocked(&config);
    path.on_window_probe_timeout(at(2000), &config);
    path.set_window_shut(false);
    assert!(!path.is_exempt() && path.may_retransmit());
}
