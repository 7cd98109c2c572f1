use std::time::Duration;

use super::{BACK_OFF_MAX, BACK_OFF_MIN, Ending, Pace, STEADY};

const SHORT: Duration = Duration::from_millis(5);

#[test]
fn a_peer_that_moves_often_is_followed_slowly() {
    let mut pace = Pace::default();
    assert!(pace.goes_on(Ending::Moved, STEADY), "a restart of the peer is followed at once");
    let mut waited = Duration::ZERO;
    for _ in 0..20 {
        assert!(!pace.goes_on(Ending::Moved, SHORT));
        let pause = pace.pause(0);
        assert!(pause >= waited && pause >= BACK_OFF_MIN / 2, "{pause:?} after {waited:?}");
        waited = pause;
    }
    assert_eq!(waited, BACK_OFF_MAX / 2);
    assert!(pace.goes_on(Ending::Moved, STEADY));
    assert_eq!(pace.pause(999), BACK_OFF_MIN.mul_f64(0.9995));
}

#[test]
fn refused_associations_are_tried_ever_more_slowly() {
    let mut pace = Pace::default();
    for _ in 0..3 {
        assert!(!pace.goes_on(Ending::Lost, SHORT));
        pace.pause(0);
    }
    assert_eq!(pace.pause(0), BACK_OFF_MIN * 4);
    assert!(!pace.goes_on(Ending::Lost, STEADY), "after a pause, if it breaks");
    assert_eq!(pace.pause(0), BACK_OFF_MIN / 2);
    assert!(pace.goes_on(Ending::Idle, SHORT), "the next one is asked for by a connection");
}
