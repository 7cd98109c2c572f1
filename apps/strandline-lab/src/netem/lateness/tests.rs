use super::*;

#[test]
fn percentiles_are_those_of_what_was_recorded() {
    let (mut one, mut two) = (Lateness::new(), Lateness::new());
    for late_us in 1..=990 {
        one.record(late_us * 1000);
    }
    for _ in 0..10 {
        two.record(5_000_000);
    }
    one.add(&two);
    let summary = one.summary();
    assert_eq!(summary.count, 1000);
    assert!((495.0..=510.0).contains(&summary.p50_us), "{summary:?}");
    assert!((985.0..=1000.0).contains(&summary.p99_us), "{summary:?}");
    assert!((4990.0..=5060.0).contains(&summary.p999_us), "{summary:?}");
    assert!((4990.0..=5060.0).contains(&summary.max_us), "{summary:?}");
}
