//! Two flows with the same controller share a link fairly.

use super::*;

#[test]
fn two_flows_get_nearly_the_same() {
    for algorithm in [Algorithm::Rfc9260, Algorithm::Cubic, Algorithm::Bbr] {
        let mut flows = Flows::new(&config(algorithm), link(20, ms(20), 100_000), 2);
        flows.run(Duration::from_secs(10));
        let measured = flows.run(Duration::from_secs(60));
        let all: f64 = measured.rates.iter().sum();
        assert!(all > 17e6, "{algorithm:?} {measured:?}");
        let shares: Vec<f64> = measured.rates.iter().map(|rate| rate / all * 2.0).collect();
        assert!(shares.iter().all(|share| (0.7..1.3).contains(share)), "{algorithm:?} {shares:?}");
    }
}
