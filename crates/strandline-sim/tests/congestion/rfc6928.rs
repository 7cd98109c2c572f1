//! An initial window of ten packets (RFC 6928): a message that fits it takes one round trip.

use strandline_netem::LinkConfig;

use super::*;

/// Returns the number of round trips from `send` until the whole message has arrived.
fn round_trips(algorithm: Algorithm, bytes: usize) -> f64 {
    let rtt = ms(100);
    let mut pair = Pair::new(config(algorithm), config(algorithm), LinkConfig::with_delay(rtt / 2));
    let (sender, receiver) = pair.connect();
    let began = pair.now;
    pair.send(Side::A, sender, 0, vec![1; bytes]);
    let mut arrived = None;
    pair.run_until(Duration::from_secs(20), |pair| {
        if !pair.recv_all(Side::B, receiver).is_empty() {
            arrived = Some(pair.now);
        }
        arrived.is_some()
    });
    arrived.unwrap().since(began).as_secs_f64() / rtt.as_secs_f64()
}

#[test]
fn short_messages_take_fewer_round_trips() {
    for algorithm in [Algorithm::Cubic, Algorithm::Bbr, Algorithm::Dctcp, Algorithm::Swift] {
        let [ten, hundred] = [12_000, 100_000].map(|bytes| round_trips(algorithm, bytes));
        assert!(ten < 0.8, "{algorithm:?}: {ten}");
        assert!(hundred < 4.0, "{algorithm:?}: {hundred}");
    }
    assert!(round_trips(Algorithm::Rfc9260, 12_000) > 1.4);
}
