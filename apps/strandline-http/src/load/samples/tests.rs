use super::*;

fn samples(millis: &[u64]) -> Samples {
    let mut samples = Samples::default();
    millis.iter().for_each(|millis| samples.count(Duration::from_millis(*millis)));
    samples
}

#[test]
fn rates_come_from_whole_periods() {
    // 2 events in the first five seconds, 4 in the second, 1 in a part of the third.
    let samples = samples(&[0, 4999, 5000, 6000, 7000, 9999, 10_500]);
    let rate = samples.rate(Duration::from_secs(14));
    assert_eq!((rate.min, rate.avg, rate.max, rate.samples), (Some(0.4), Some(0.6), Some(0.8), 2));
    assert_eq!(rate.overall, 0.5);
    // With n - 1 = 1 in the denominator.
    assert!((rate.stddev.unwrap() - 0.08_f64.sqrt()).abs() < 1e-9, "{rate:?}");
}

#[test]
fn short_tests_have_no_samples() {
    let rate = samples(&[100, 200]).rate(Duration::from_secs(4));
    assert_eq!((rate.min, rate.avg, rate.max, rate.stddev, rate.samples), (None, None, None, None, 0));
    assert_eq!(rate.overall, 0.5);
    assert_eq!(samples(&[0]).rate(Duration::ZERO).overall, 0.0);
}

#[test]
fn periods_without_events_are_samples() {
    let rate = samples(&[0, 1, 2, 3, 4]).rate(Duration::from_secs(10));
    assert_eq!((rate.min, rate.avg, rate.max, rate.samples), (Some(0.0), Some(0.5), Some(1.0), 2));
}
