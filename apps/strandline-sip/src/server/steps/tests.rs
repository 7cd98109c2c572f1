use std::time::Duration;

use super::Steps;

#[test]
fn each_time_counts_from_its_bound_on() {
    let mut steps = Steps::default();
    for micros in [0, 500, 501, 1_000, 5_000_000, 5_000_001, u64::MAX] {
        steps.record(Duration::from_micros(micros));
    }
    let cumulative: Vec<(f64, u64)> = steps.cumulative().collect();
    assert_eq!(cumulative.len(), 13);
    assert_eq!(&cumulative[..3], [(0.0005, 2), (0.001, 4), (0.002, 4)]);
    // Two durations are beyond the last bound.
    assert_eq!(cumulative.last(), Some(&(5.0, 5)));
    assert_eq!(steps.count(), 7);
    assert!(steps.sum() >= Duration::from_micros(u64::MAX));
}
