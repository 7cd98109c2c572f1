//! The delay-based controller: a full link with a short queue, without help of the switches.

use super::*;

fn measure(algorithm: Algorithm, link: LinkConfig, flows: usize) -> Measured {
    let mut flows = Flows::new(&config(algorithm), link, flows);
    flows.run(Duration::from_secs(5));
    flows.run(Duration::from_secs(10))
}

#[test]
fn data_center_link_is_full_with_short_queue() {
    let measured = measure(Algorithm::Swift, link(100, ms(1), 300_000), 1);
    assert!(measured.rates[0] > 85e6, "{measured:?}");
    assert!(measured.queue_bytes_mean < 45_000.0, "{measured:?}");
}

/// 10 Mbit/s with a queue of a second: the delay is less than a quarter of CUBIC's.
#[test]
fn a_long_queue_stays_empty() {
    let long = || link(10, ms(20), 1_250_000);
    let (swift, cubic) = (measure(Algorithm::Swift, long(), 1), measure(Algorithm::Cubic, long(), 1));
    assert!(swift.rates[0] > 8.5e6, "{swift:?}");
    assert!(swift.queue_bytes_mean < cubic.queue_bytes_mean / 4.0, "{swift:?} {cubic:?}");
}

#[test]
fn flows_that_begin_together_share_the_link() {
    let measured = measure(Algorithm::Swift, link(100, ms(2), 300_000), 2);
    let all: f64 = measured.rates.iter().sum();
    assert!(all > 80e6, "{measured:?}");
    assert!(measured.rates.iter().all(|rate| (0.6..1.4).contains(&(rate / all * 2.0))), "{measured:?}");
}
