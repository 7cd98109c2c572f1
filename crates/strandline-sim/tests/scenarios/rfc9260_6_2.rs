//! RFC 9260 section 6.2: how many packets an adaptive acknowledgement covers.

use strandline_proto::config::SackFrequency;
use strandline_sim::pair::Fate;

use super::*;

/// 60 ms and 100 Mbit/s: every second packet at the beginning, later every 16th.
#[test]
fn sacks_start_frequent_and_become_rare() {
    // Less than fills the queue, so that nothing is lost.
    let a_config = endpoint(|config| config.send_buffer = Some(2 << 20));
    let mut pair = Pair::new(a_config, endpoint(|_| ()), link(ms(30), 100));
    let (a, b) = pair.connect();
    let since = received(&pair, b);
    stream(&mut pair, a, b, ms(300));
    let begin = packets_for_a_sack(&pair, b, since);
    assert!(begin <= 2.1, "{begin}");
    stream(&mut pair, a, b, ms(4000));
    let since = received(&pair, b);
    let bytes = stream(&mut pair, a, b, ms(1000));
    let steady = packets_for_a_sack(&pair, b, since);
    assert!((8.0..17.0).contains(&steady), "{steady}");
    assert!(bytes > 11_000_000, "{bytes} bytes in a second");
}

/// A fixed number stays fixed.
#[test]
fn fixed_sack_ratio_holds() {
    for packets in [1, 2, 6] {
        let fixed = |config: &mut AssociationConfig| config.sack_frequency = SackFrequency::Every(packets);
        let mut pair = Pair::new(endpoint(fixed), endpoint(fixed), link(ms(30), 100));
        let (a, b) = pair.connect();
        stream(&mut pair, a, b, ms(1000));
        let since = received(&pair, b);
        stream(&mut pair, a, b, ms(1000));
        let measured = packets_for_a_sack(&pair, b, since);
        assert!((measured - f64::from(packets)).abs() < 0.3, "{measured} instead of {packets}");
    }
}

/// After a loss each packet is acknowledged while something is missing, then every second one for a while.
#[test]
fn a_loss_makes_acknowledgements_frequent() {
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(30), 100));
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(5000));
    let lost = pair.a.endpoint.status(a).unwrap().stats.fast_recoveries;
    pair.drop_next(Side::A, strandline_sim::pair::with_chunk(kind::DATA));
    while pair.a.endpoint.status(a).unwrap().stats.fast_recoveries == lost {
        stream(&mut pair, a, b, ms(1));
    }
    let since = received(&pair, b);
    stream(&mut pair, a, b, ms(20));
    let measured = packets_for_a_sack(&pair, b, since);
    assert!(measured < 1.1, "{measured}");
}

/// A sender with a small window never waits for an acknowledgement that waits for the sender.
#[test]
fn a_small_window_is_acknowledged_without_waiting() {
    let small = |config: &mut AssociationConfig| {
        config.receive_buffer = Some(12_000);
        config.partial_delivery_point = 6000;
    };
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(small), link(ms(5), 100));
    let (a, b) = pair.connect();
    let received = stream(&mut pair, a, b, ms(2000));
    // 8 packets of 1,448 bytes in each round trip of 10 ms; their acknowledgements make the window grow in steps.
    assert!(received > 200 * 4 * FULL as u64, "{received}");
}

/// While much data arrives, a HEARTBEAT measures the round-trip time; not if heartbeats are switched off.
#[test]
fn receiver_measures_the_rtt() {
    for interval in [Some(ms(30_000)), None] {
        let heartbeats = |config: &mut AssociationConfig| config.heartbeat_interval = interval;
        let mut pair = Pair::new(endpoint(heartbeats), endpoint(heartbeats), link(ms(30), 100));
        let (a, b) = pair.connect();
        pair.clear_captured();
        stream(&mut pair, a, b, ms(1000));
        assert_eq!(count(&pair, Side::B, kind::HEARTBEAT), usize::from(interval.is_some()));
    }
}

/// The loss of that HEARTBEAT is no sign of a failing path.
#[test]
fn lost_measurement_is_no_path_error() {
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(30), 100));
    let (a, b) = pair.connect();
    pair.filter(|side, packet| {
        let heartbeat = packet.chunks().flatten().any(|chunk| chunk.kind == kind::HEARTBEAT);
        if side == Side::B && heartbeat { Fate::Drop } else { Fate::Pass }
    });
    stream(&mut pair, a, b, ms(10_000));
    let paths = pair.b.endpoint.paths(b).unwrap();
    assert!(paths.iter().all(|path| path.error_count == 0), "{paths:?}");
}
