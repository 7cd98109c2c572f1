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
