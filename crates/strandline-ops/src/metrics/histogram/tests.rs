use std::time::Duration;

use super::Histogram;

#[test]
fn each_time_counts_from_its_bound_on() {
    let mut times = Histogram::default();
    for micros in [0, 500, 501, 1_000, 5_000_000, 5_000_001, u64::MAX] {
        times.record(Duration::from_micros(micros));
    }
    let buckets: Vec<(f64, u64)> = times.buckets().collect();
    assert_eq!(buckets.len(), 13);
    assert_eq!(&buckets[..3], [(0.0005, 2), (0.001, 2), (0.002, 0)]);
    // Two took longer than the last bound.
    assert_eq!(buckets.last(), Some(&(5.0, 1)));
    assert_eq!(times.count(), 7);
    assert!(times.sum() >= Duration::from_micros(u64::MAX));
}
