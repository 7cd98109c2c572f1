//! ECN on paths that mishandle it, after RFC 9000 section 13.4.2: ECN-capable packets are dropped, cleared, or all
//! marked. None of it may break or blind the association (decision 38).

use strandline_proto::congestion::Algorithm;
use strandline_proto::stats::AssociationStats;
use strandline_sim::pair::EcnPath;

use super::*;

/// Returns two hosts that negotiated ECN, with 20 ms and 50 Mbit/s between them.
fn agreed(algorithm: Algorithm, path: EcnPath) -> (Pair, AssociationId, AssociationId) {
    let config = || {
        endpoint(|config| {
            config.extensions.ecn = true;
            config.congestion = algorithm;
        })
    };
    let mut pair = Pair::new(config(), config(), link(ms(10), 50));
    pair.set_ecn_path(path);
    let (a, b) = pair.connect();
    (pair, a, b)
}

fn stats(pair: &Pair, a: AssociationId) -> AssociationStats {
    pair.a.endpoint.status(a).unwrap().stats
}

/// Returns the number of ECN-capable packets of A.
fn capable(pair: &Pair) -> usize {
    pair.captured().iter().filter(|captured| captured.from == Side::A && captured.datagram.ecn != 0).count()
}

/// Bytes that arrive in a second at full rate, less a tenth.
const NEARLY_FULL: u64 = 50_000_000 / 8 * 9 / 10;

#[test]
fn ecn_capable_path_keeps_its_marks() {
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Bbr] {
        let (mut pair, a, b) = agreed(algorithm, EcnPath::Carries);
        stream(&mut pair, a, b, ms(5000));
        pair.clear_captured();
        stream(&mut pair, a, b, ms(1000));
        assert!(capable(&pair) > 1000, "{algorithm:?}: {}", capable(&pair));
        assert_eq!(stats(&pair, a).ecn_failures, 0, "{algorithm:?}");
    }
}

#[test]
fn path_dropping_ecn_is_used_without() {
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp] {
        let (mut pair, a, b) = agreed(algorithm, EcnPath::Drops);
        stream(&mut pair, a, b, ms(10_000));
        assert_eq!(stats(&pair, a).ecn_failures, 1, "{algorithm:?}");
        pair.clear_captured();
        stream(&mut pair, a, b, ms(3000));
        let received = stream(&mut pair, a, b, ms(1000));
        assert_eq!(capable(&pair), 0, "{algorithm:?}");
        assert!(received > NEARLY_FULL * 3 / 4, "{algorithm:?}: {received} in a second");
    }
}

/// Also if the path begins to drop them later, on another route.
#[test]
fn route_starting_to_drop_ecn_is_found() {
    let (mut pair, a, b) = agreed(Algorithm::Cubic, EcnPath::Carries);
    stream(&mut pair, a, b, ms(3000));
    pair.set_ecn_path(EcnPath::Drops);
    stream(&mut pair, a, b, ms(15_000));
    assert_eq!(stats(&pair, a).ecn_failures, 1);
    pair.clear_captured();
    assert!(stream(&mut pair, a, b, ms(1000)) > 0);
    assert_eq!(capable(&pair), 0);
}

/// Random loss is no reason to give up ECN.
#[test]
fn a_path_that_loses_much_keeps_it() {
    let config = || endpoint(|config| config.extensions.ecn = true);
    let loss = strandline_netem::Loss::Random(0.05);
    let mut pair = Pair::new(config(), config(), LinkConfig { loss, ..link(ms(10), 50) });
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(20_000));
    assert!(stats(&pair, a).retransmissions > 100);
    assert_eq!(stats(&pair, a).ecn_failures, 0);
}

/// If the bits are cleared nothing is marked, and losses reveal a full queue as without ECN.
#[test]
fn path_clearing_ecn_is_no_worse() {
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp] {
        let (mut pair, a, b) = agreed(algorithm, EcnPath::Clears);
        // Slow start ends before the queue is full; CUBIC takes a while from there.
        stream(&mut pair, a, b, ms(20_000));
        let received = stream(&mut pair, a, b, ms(2000));
        let stats = stats(&pair, a);
        assert!(received > NEARLY_FULL * 2, "{algorithm:?}: {received} in two seconds");
        assert!(
            stats.retransmissions > 0,
            "{algorithm:?}: the queue was full, and that was noticed: {stats:?}"
        );
    }
}

/// If all packets are marked, marks are no sign of a queue: after some windows at their minimum they are ignored.
#[test]
fn path_marking_everything_recovers_its_window() {
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp] {
        let (mut pair, a, b) = agreed(algorithm, EcnPath::MarksAll);
        stream(&mut pair, a, b, ms(10_000));
        assert_eq!(stats(&pair, a).ecn_failures, 1, "{algorithm:?}");
        pair.clear_captured();
        stream(&mut pair, a, b, ms(10_000));
        let received = stream(&mut pair, a, b, ms(1000));
        assert_eq!(capable(&pair), 0, "{algorithm:?}");
        assert!(received > NEARLY_FULL / 2, "{algorithm:?}: {received} in a second");
    }
}
