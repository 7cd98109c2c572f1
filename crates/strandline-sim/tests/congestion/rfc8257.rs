//! DCTCP (RFC 8257): the queue stays at the switch's marking threshold, the link stays full, and nothing is lost.

use super::*;

/// 100 Mbit/s and 1 ms. The switch marks above 20 packets (section 3.1 requires at least a seventh of the
/// bandwidth-delay product).
fn measure(algorithm: Algorithm, flows: usize) -> (Flows, Measured) {
    let link = LinkConfig { mark_bytes: 30_000, ..link(100, ms(1), 300_000) };
    let mut flows = Flows::new(&config(algorithm), link, flows);
    flows.run(Duration::from_secs(2));
    let measured = flows.run(Duration::from_secs(4));
    (flows, measured)
}

#[test]
fn the_link_is_full_and_the_queue_short() {
    let (mut flows, measured) = measure(Algorithm::Dctcp, 1);
    assert!(measured.rates[0] > 90e6, "{measured:?}");
    assert!(measured.queue_bytes_mean < 45_000.0, "{measured:?}");
    let (dropped, marked) = flows.dropped_and_marked();
    assert!(dropped == 0 && marked > 100, "{dropped} {marked}");
    assert_eq!(flows.stats(0).retransmissions, 0);
}

#[test]
fn without_marks_the_queue_would_fill() {
    let (_, measured) = measure(Algorithm::Cubic, 1);
    assert!(measured.queue_bytes_mean > 90_000.0, "{measured:?}");
}

#[test]
fn several_flows_share_a_short_queue() {
    let (mut flows, measured) = measure(Algorithm::Dctcp, 4);
    let all: f64 = measured.rates.iter().sum();
    assert!(all > 90e6, "{measured:?}");
    assert!(measured.rates.iter().all(|rate| (0.6..1.5).contains(&(rate / all * 4.0))), "{measured:?}");
    assert!(measured.queue_bytes_mean < 60_000.0, "{measured:?}");
    assert_eq!(flows.dropped_and_marked().0, 0);
}
