use std::time::Duration;

use super::LossMeter;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn few_packets_say_nothing() {
    let mut meter = LossMeter::default();
    assert_eq!(meter.note(SECOND, 199, 50), None);
    assert_eq!(meter.note(SECOND, 200, 50), Some(0.25));
}

/// Losses of the past are forgotten.
#[test]
fn shares_are_of_late_packets() {
    let mut meter = LossMeter::default();
    assert_eq!(meter.note(SECOND, 1000, 100), Some(0.1));
    assert_eq!(meter.note(2 * SECOND, 1100, 100), Some(0.1), "the last interval, until there is more");
    assert_eq!(meter.note(3 * SECOND, 2000, 100), Some(0.0));
    assert_eq!(meter.note(40 * SECOND, 2001, 100), None, "too long ago");
    assert_eq!(meter.note(41 * SECOND, 1, 0), None, "another association");
}
