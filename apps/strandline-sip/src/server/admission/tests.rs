use super::*;

const TIMEOUT: Duration = Duration::from_millis(100);

/// An interval in which requests were handled and rejected.
fn window(admission: &mut Admission, number: u64, handled: u32, refused: u32, dry: bool) {
    (0..handled).for_each(|_| admission.on_handled());
    (0..refused).for_each(|_| admission.on_refused());
    if dry {
        admission.on_dry();
    }
    admission.look(Time::from_millis(number * 100));
}

#[test]
fn without_refusals_there_is_room_for_all() {
    let mut admission = Admission::default();
    window(&mut admission, 1, 100_000, 0, false);
    assert!(!admission.is_overloaded());
    assert_eq!(admission.room(TIMEOUT), usize::MAX);
}

#[test]
fn overload_queue_holds_half_the_wait() {
    let mut admission = Admission::default();
    window(&mut admission, 1, 1000, 1, false);
    assert_eq!(admission.room(TIMEOUT), 500);
    window(&mut admission, 2, 2000, 100, false);
    assert_eq!(admission.room(TIMEOUT), 750);
    // However little is handled, a few requests may wait.
    (3..20).for_each(|number| window(&mut admission, number, 0, 1, false));
    assert_eq!(admission.room(TIMEOUT), 32);
}

#[test]
fn time_that_was_left_lets_more_in() {
    let mut admission = Admission::default();
    window(&mut admission, 1, 1000, 1, false);
    window(&mut admission, 2, 900, 1, true);
    assert_eq!(admission.room(TIMEOUT), 625);
    // The growth is limited by the measured rate.
    (3..30).for_each(|number| window(&mut admission, number, 900, 1, true));
    assert_eq!(admission.room(TIMEOUT), 675);
    // An estimate that starts at zero recovers.
    let mut slow = Admission::default();
    window(&mut slow, 1, 0, 1, true);
    assert_eq!(slow.room(TIMEOUT), 32);
    window(&mut slow, 2, 1000, 1, true);
    assert_eq!(slow.room(TIMEOUT), 625);
    // Little traffic doesn't lower the estimate.
    window(&mut admission, 30, 10, 1, true);
    assert_eq!(admission.room(TIMEOUT), 675);
}

#[test]
fn overload_ends_after_a_second_without_rejects() {
    let mut admission = Admission::default();
    window(&mut admission, 1, 1000, 1, false);
    (2..11).for_each(|number| window(&mut admission, number, 10, 0, true));
    assert!(admission.is_overloaded());
    window(&mut admission, 11, 10, 0, true);
    assert!(!admission.is_overloaded());
}
