use super::*;

#[test]
fn request_steps_have_counts_and_medians() {
    let mut meter = Meter::new();
    for micros in [5, 1, 3] {
        meter.count(Part::Read, Duration::from_micros(micros));
        meter.count(Part::Read, Duration::from_micros(micros));
        meter.count(Part::Sort, Duration::from_micros(7));
        assert_eq!(meter.time(Part::Parse, || 42), 42);
        meter.end_request();
    }
    let (calls, times) = meter.report();
    assert_eq!((&calls["read"], &calls["sort"], &calls["accept"]), (&json!(2.0), &json!(1.0), &json!(0.0)));
    assert_eq!((&times["read"], &times["sort"], &times["accept"]), (&json!(6.0), &json!(7.0), &json!(0.0)));
}
