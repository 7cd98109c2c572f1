//! Explicit congestion notification (RFC 3168) with the controllers that treat a mark as a loss.

use super::*;

fn measure(algorithm: Algorithm, ecn: bool) -> (Flows, Measured, u32) {
    let mut config = config(algorithm);
    Arc::make_mut(&mut config.association).extensions.ecn = ecn;
    let link = LinkConfig { mark_bytes: 60_000, ..link(50, ms(20), 150_000) };
    let mut flows = Flows::new(&config, link, 1);
    flows.run(Duration::from_secs(5));
    let before = flows.stats(0).retransmissions;
    let measured = flows.run(Duration::from_secs(10));
    let again = flows.stats(0).retransmissions - before;
    (flows, measured, again)
}

#[test]
fn marks_keep_the_window_below_the_queue() {
    for algorithm in [Algorithm::Cubic, Algorithm::Rfc9260] {
        let (_, measured, again) = measure(algorithm, true);
        assert!(measured.rates[0] > 42e6, "{algorithm:?} {measured:?}");
        assert_eq!(again, 0, "{algorithm:?}");
        let (_, _, again) = measure(algorithm, false);
        assert!(again > 0, "{algorithm:?} without marks");
    }
}

#[test]
fn the_receiver_counts_marks_only_where_both_asked() {
    for ecn in [true, false] {
        let (flows, ..) = measure(Algorithm::Cubic, ecn);
        let stats = flows.pair.b.endpoint.status(flows.flows[0].1).unwrap().stats;
        assert_eq!(stats.marks_received > 0, ecn);
    }
}

/// Runs BBR on a link whose switch marks above `mark_bytes`. Returns the flows' shares of the rate, and the length of
/// the queue in bytes.
fn bbr_beside_marks(mbit: u64, rtt: Duration, mark_bytes: usize, flows: usize) -> (Vec<f64>, f64) {
    let mut config = config(Algorithm::Bbr);
    Arc::make_mut(&mut config.association).extensions.ecn = true;
    let link = LinkConfig { mark_bytes, ..link(mbit, rtt, 20 * mark_bytes) };
    let mut flows = Flows::new(&config, link, flows);
    flows.run(Duration::from_secs(3));
    let measured = flows.run(Duration::from_secs(12));
    (measured.rates.iter().map(|rate| rate / mbit as f64 / 1e6).collect(), measured.queue_bytes_mean)
}

/// Section 5: BBR answers marks, so that the queue stays near the marking threshold and the link full.
#[test]
fn bbr_keeps_the_queue_where_marks_begin() {
    for (mbit, rtt, mark_bytes) in [
        (100, ms(1), 30_000),
        (50, ms(20), 60_000),
        (10, ms(20), 25_000),
        (100, ms(20), 100_000),
        (20, ms(60), 60_000),
    ] {
        let (shares, queue) = bbr_beside_marks(mbit, rtt, mark_bytes, 1);
        println!("{mbit} Mbit/s {rtt:?} marks at {mark_bytes}: {:.3}, {queue:.0} bytes", shares[0]);
        assert!(queue < mark_bytes as f64 * 1.25, "{mbit} {rtt:?}: {queue} behind {mark_bytes}");
        assert!(shares[0] > 0.88, "{mbit} {rtt:?}: {shares:?}");
    }
}

#[test]
fn bbr_flows_share_a_link_that_marks() {
    let (shares, queue) = bbr_beside_marks(100, ms(20), 100_000, 2);
    println!("{shares:?} {queue}");
    let all: f64 = shares.iter().sum();
    assert!(all > 0.88 && queue < 150_000.0, "{shares:?} {queue}");
    assert!(shares.iter().all(|share| (0.6..1.4).contains(&(share / all * 2.0))), "{shares:?}");
}
