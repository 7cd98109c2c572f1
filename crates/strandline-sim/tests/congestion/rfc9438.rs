//! CUBIC (RFC 9438): paths with a large bandwidth-delay product are filled again soon after a loss.

use super::*;

fn measure(algorithm: Algorithm) -> Measured {
    // A queue of a sixth of the bandwidth-delay product: halving a full window leaves the link idle, because one
    // packet more per round trip is little.
    let mut flows = Flows::new(&config(algorithm), link(200, ms(100), 400_000), 1);
    flows.run(Duration::from_secs(10));
    flows.run(Duration::from_secs(20))
}

#[test]
fn a_long_fat_path_stays_full() {
    let cubic = measure(Algorithm::Cubic);
    assert!(cubic.rates[0] > 165e6, "{cubic:?}");
    let reno = measure(Algorithm::Rfc9260);
    assert!(cubic.rates[0] > reno.rates[0] * 1.1, "{cubic:?} {reno:?}");
}

/// SACKs without room for all late data do not block the window: a reduced one recovers.
#[test]
fn a_fast_path_that_reorders_is_used() {
    let reordering = strandline_netem::Reordering { probability: 0.01, extra_delay_max: ms(10) };
    let link = LinkConfig { reordering, ..link(1000, ms(20), 2_500_000) };
    let mut flows = Flows::new(&config(Algorithm::Cubic), link, 1);
    let measured = flows.run(ms(3000));
    assert!(measured.rates[0] > 400e6, "{measured:?} {:?}", flows.stats(0));
}
