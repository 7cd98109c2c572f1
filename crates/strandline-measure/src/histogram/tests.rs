use super::*;

#[test]
fn histograms_pass_between_processes_and_add_up() {
    let mut times = Times::default();
    for micros in [50, 120, 120, 9000] {
        times.record(Duration::from_micros(micros));
    }
    let text = serde_json::to_string(&times).unwrap();
    let mut back: Times = serde_json::from_str(&text).unwrap();
    assert_eq!(back.count(), 4);
    back.merge(&times);
    let summary = back.summary().unwrap();
    assert_eq!(summary.count, 8);
    assert!((0.119..0.121).contains(&summary.p50_ms), "{}", summary.p50_ms);
    assert!((8.9..9.1).contains(&summary.max_ms), "{}", summary.max_ms);

    let mut nothing = Times::default();
    assert!(nothing.summary().is_none());
    times.merge(&nothing);
    assert_eq!(times.count(), 4);
    nothing.merge(&times);
    assert_eq!(nothing.count(), 4);
}

#[test]
fn distributions_have_the_deviation_of_a_sample() {
    let mut times = Times::default();
    assert!(times.distribution().is_none());
    times.record(Duration::from_millis(10));
    assert_eq!(times.distribution().unwrap().stddev, 0.0);
    for millis in [20, 30] {
        times.record(Duration::from_millis(millis));
    }
    let distribution = times.distribution().unwrap();
    assert_eq!(distribution.count, 3);
    for (value, expected) in
        [(distribution.min, 10.0), (distribution.mean, 20.0), (distribution.stddev, 10.0)]
    {
        assert!((expected * 0.998..expected * 1.002).contains(&value), "{distribution:?}");
    }
    assert!((29.9..30.1).contains(&distribution.max), "{distribution:?}");
}
