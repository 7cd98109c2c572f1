//! CUBIC (RFC 9438): long fat paths are filled again soon after a loss.

use super::*;

fn measure(algorithm: Algorithm) -> Measured {
    // A queue of a sixth of bandwidth times delay: half of a full window leaves the link idle, for a packet more each round
    // trip is little.
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
