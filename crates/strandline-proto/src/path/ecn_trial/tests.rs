use super::*;

const RTT: Duration = Duration::from_millis(10);

fn at(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Sends ECN-capable data and reports its loss after three round trips.
fn strike(trial: &mut EcnTrial, ms: u64) -> bool {
    trial.on_new_data(at(ms), true);
    trial.on_lost(at(ms + 30), RTT)
}

#[test]
fn three_losses_of_everything_end_it() {
    let mut trial = EcnTrial::default();
    assert!(!strike(&mut trial, 0) && !strike(&mut trial, 100));
    assert!(!trial.has_failed());
    assert!(strike(&mut trial, 200) && trial.has_failed());
    assert!(!strike(&mut trial, 300), "told once");
}

#[test]
fn losses_of_one_flight_count_once() {
    let mut trial = EcnTrial::default();
    trial.on_new_data(at(0), true);
    for ms in [5, 15, 19] {
        assert!(!trial.on_lost(at(ms), RTT));
    }
    for ms in 20..60 {
        assert!(!trial.on_lost(at(ms), RTT), "all of the same flight");
    }
    assert_eq!(trial.strikes, 1);
}

#[test]
fn an_acknowledgement_clears_what_was_held_against_it() {
    let mut trial = EcnTrial::default();
    assert!(!strike(&mut trial, 0) && !strike(&mut trial, 100));
    trial.on_new_data(at(200), true);
    trial.on_acked(at(210), at(200));
    assert!(!trial.on_lost(at(225), RTT), "something arrived a moment ago");
    assert!(!trial.on_lost(at(260), RTT) && trial.strikes == 1);
}

#[test]
fn what_went_without_it_says_nothing() {
    let mut trial = EcnTrial::default();
    // Data without ECN went before, or together with retransmissions.
    trial.on_new_data(at(0), false);
    trial.on_new_data(at(10), true);
    trial.on_new_data(at(20), false);
    for sent in [0, 5, 20, 25] {
        trial.on_acked(at(30), at(sent));
    }
    assert!(!trial.on_lost(at(35), RTT) && trial.strikes == 1, "none of them was of the stretch");
    let mut trial = EcnTrial::default();
    trial.on_new_data(at(0), false);
    assert!(!trial.on_lost(at(500), RTT) && trial.strikes == 0, "nothing could be marked");
}

#[test]
fn marks_that_nothing_helps_against_end_it() {
    let mut trial = EcnTrial::default();
    let mut ms = 0;
    let mut mark = |trial: &mut EcnTrial, after_ms: u64, window: u32| {
        ms += after_ms;
        trial.on_mark(at(ms), RTT, window, 1000)
    };
    for _ in 0..MARKS_AT_FLOOR_MAX - 1 {
        assert!(!mark(&mut trial, 20, 2000));
    }
    // A window that can still shrink: marks may depend on the amount sent.
    assert!(!mark(&mut trial, 20, 9000));
    for _ in 0..MARKS_AT_FLOOR_MAX - 1 {
        assert!(!mark(&mut trial, 20, 2000));
    }
    // Marks many round trips apart are not consecutive.
    let pause = RTT.as_millis() as u64 * u64::from(IN_A_ROW) + 201;
    for _ in 0..3 * MARKS_AT_FLOOR_MAX {
        assert!(!mark(&mut trial, pause, 2000));
    }
    for _ in 0..MARKS_AT_FLOOR_MAX - 2 {
        assert!(!mark(&mut trial, 20, 2000));
    }
    assert!(mark(&mut trial, 20, 2000) && trial.has_failed());
}
