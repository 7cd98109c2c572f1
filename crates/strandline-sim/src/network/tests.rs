use core::time::Duration;

use super::*;

fn datagram(len: usize, fragment: bool) -> Carried {
    Carried {
        source: ([10, 0, 0, 1], 9899).into(),
        destination: ([10, 0, 1, 1], 9899).into(),
        bytes: vec![0; len].into(),
        fragment,
        ecn: 0,
    }
}

#[test]
fn datagrams_arrive_in_order_of_time() {
    let mut network = Network::new(LinkConfig::with_delay(Duration::from_millis(3)), 1);
    let (early, late) = (datagram(100, false), datagram(200, false));
    let _ = network.send(Time::ZERO, late.clone());
    network.put(Time::from_nanos(5), early.clone());
    assert_eq!(network.next_arrival(), Some(Time::from_nanos(5)));
    assert_eq!(network.poll(Time::from_nanos(4)), None);
    assert_eq!(network.poll(Time::from_nanos(5)), Some(early));
    assert_eq!(network.poll(Time::from_nanos(3_000_000)), Some(late));
    assert_eq!(network.on_their_way(), 0);
}

#[test]
fn the_mtu_drops_what_may_not_be_fragmented() {
    let config = LinkConfig { size_max: 1500, ..LinkConfig::default() };
    let mut network = Network::new(config, 1);
    assert!(matches!(network.send(Time::ZERO, datagram(1473, false)), Verdict::Dropped(_)));
    assert!(matches!(network.send(Time::ZERO, datagram(1473, true)), Verdict::Delivered(_)));
    assert!(matches!(network.send(Time::ZERO, datagram(1472, false)), Verdict::Delivered(_)));
}

#[test]
fn each_direction_has_its_link() {
    let mut network = Network::new(LinkConfig::default(), 1);
    let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 1, 1].into());
    network.link(a, b).cut();
    assert!(matches!(network.send(Time::ZERO, datagram(9, false)), Verdict::Dropped(_)));
    assert!(!network.link(b, a).is_cut());
}
