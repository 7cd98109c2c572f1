//! Explicit congestion notification (RFC 3168) with the controllers that take a mark as a loss.

use super::*;

fn measure(algorithm: Algorithm, ecn: bool) -> (Flows, Measured, u32) {
    let mut config = config(algorithm);
    Arc::make_mut(&mut config.association).ecn = ecn;
    let link = LinkConfig { mark_bytes: 60_000, ..link(50, ms(20), 150_000) };
    let mut flows = Flows::new(&config, link, 1);
    flows.run(Duration::from_secs(5));
    let before = flows.stats(0).retransmissions;
    let measured = flows.run(Duration::from_secs(10));
    let again = flows.stats(0).retransmissions - before;
    (flows, measured, again)
}

#[test]
fn marks_keep_the_window_below_what_the_queue_holds() {
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
