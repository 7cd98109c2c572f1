use core::time::Duration;

use super::*;

fn datagram(len: usize, fragment: Option<u16>) -> Carried {
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
    let (early, late) = (datagram(100, None), datagram(200, None));
    let _ = network.send(Time::ZERO, late.clone());
    network.put(Time::from_nanos(5), early.clone());
    assert_eq!(network.next_arrival(), Some(Time::from_nanos(5)));
    assert_eq!(network.poll(Time::from_nanos(4)), None);
    assert_eq!(network.poll(Time::from_nanos(5)), Some(early));
    assert_eq!(network.poll(Time::from_nanos(3_000_000)), Some(late));
    assert_eq!(network.on_their_way(), 0);
}

#[test]
fn link_fragments_or_drops_long_packets() {
    for cuts in [false, true] {
        let config = LinkConfig { size_max: 1400, cuts, ..LinkConfig::default() };
        let mut network = Network::new(config, 1);
        let mut passes = |len, fragment| {
            matches!(network.send(Time::ZERO, datagram(len, fragment)), Verdict::Delivered(_))
        };
        assert!(passes(1372, None), "as long as the link takes");
        assert!(!passes(1373, None), "may not be cut");
        assert!(passes(1373, Some(1400)), "its sender cuts it");
        assert!(passes(1372, Some(1500)));
        assert_eq!(passes(1472, Some(1500)), cuts, "too long as its sender cuts it");
        assert_eq!(passes(3000, Some(1401)), cuts);
        let v6 = |host: u16| ([0xfd00, 0, 0, 0, 0, 0, 0, host], 9899).into();
        let long = Carried { source: v6(1), destination: v6(2), ..datagram(1452, Some(1500)) };
        assert!(matches!(network.send(Time::ZERO, long), Verdict::Dropped(_)), "no router fragments IPv6");
    }
}

#[test]
fn each_direction_has_its_link() {
    let mut network = Network::new(LinkConfig::default(), 1);
    let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 1, 1].into());
    network.link(a, b).cut();
    assert!(matches!(network.send(Time::ZERO, datagram(9, None)), Verdict::Dropped(_)));
    assert!(!network.link(b, a).is_cut());
}
