//! ECN marks (RFC 3168 section 5): each window with a mark is answered, and the queue stays at the marking threshold.

use super::*;

/// Returns a path after some time without marks, and the most bytes in flight on it in two round trips.
fn steady() -> (Path, u64) {
    let mut path = Path::new(12_500_000, MS(20), 1_250_000);
    path.run(Duration::from_secs(3));
    while path.bbr.path.as_ref().unwrap().state != State::ProbeBw(Phase::Cruise) {
        path.step();
    }
    path.run(MS(60));
    let (end, mut flight) = (path.now + MS(40), 0);
    while path.now < end {
        path.step();
        flight = flight.max(path.flight);
    }
    (path, u64::from(flight))
}

fn state(path: &Path) -> State {
    path.bbr.path.as_ref().unwrap().state
}

#[test]
fn mark_keeps_85_percent_of_inflight() {
    let (mut path, flight) = steady();
    path.bbr.on_ecn(path.now);
    let window = u64::from(path.bbr.window());
    assert!(window <= flight * 90 / 100, "{window} of {flight}");
    assert!(window >= flight * 80 / 100, "{window} of {flight}");
    // A mark in the next round trip takes the same share of what is left.
    path.run(MS(21));
    path.bbr.on_ecn(path.now);
    let again = u64::from(path.bbr.window());
    assert!((window * 84 / 100..=window * 88 / 100).contains(&again), "{again} of {window}");
    for _ in 0..60 {
        path.bbr.on_ecn(path.now);
    }
    assert_eq!(path.bbr.window(), WINDOW_MIN * PMDCS, "no less than what keeps acknowledgements coming");
}

/// The flight grows by one packet per round trip, and to the model's full value when bandwidth is probed.
#[test]
fn without_marks_it_grows_again() {
    let (mut path, _) = steady();
    for phase in [Phase::Down, Phase::Cruise] {
        while state(&path) != State::ProbeBw(phase) {
            path.step();
        }
    }
    path.bbr.on_ecn(path.now);
    let before = path.bbr.window();
    path.run(MS(200));
    let after = path.bbr.window();
    assert!(
        (before + 5 * PMDCS..=before + 11 * PMDCS).contains(&after),
        "{before}, ten round trips, {after}"
    );
    while state(&path) != State::ProbeBw(Phase::Up) {
        path.step();
    }
    path.run(MS(20));
    assert!(path.bbr.window() > before * 3 / 2, "{before}, probing {}", path.bbr.window());
}

#[test]
fn mark_ends_startup_and_bandwidth_probing() {
    let mut path = Path::new(12_500_000, MS(20), 1_250_000);
    path.run(MS(70));
    assert_eq!(state(&path), State::Startup);
    path.bbr.on_ecn(path.now);
    assert_eq!(state(&path), State::Drain);
    let (mut path, _) = steady();
    while state(&path) != State::ProbeBw(Phase::Up) {
        path.step();
    }
    path.bbr.on_ecn(path.now);
    assert_eq!(state(&path), State::ProbeBw(Phase::Down));
}

/// Marks are answered even beside competing flows, where losses do not limit the flight.
#[test]
fn beside_others_marks_count() {
    let mut path = Path::new(12_500_000, MS(60), 2_000_000);
    path.run(Duration::from_secs(5));
    path.others = MS(40);
    for _ in 0..500 {
        path.run(MS(20));
        if path.bbr.path.as_ref().unwrap().contest.contested() {
            break;
        }
    }
    assert!(path.bbr.path.as_ref().unwrap().contest.contested());
    let flight = path.flight;
    path.bbr.on_ecn(path.now);
    assert!(path.bbr.window() <= flight / 100 * 92, "{} of {flight}", path.bbr.window());
}

/// A mark may arrive before any acknowledgement, for data sent during the set-up.
#[test]
fn the_first_thing_heard_may_be_a_mark() {
    let mut bbr = Bbr::new(PMDCS);
    bbr.on_ecn(Time::ZERO);
    assert!(bbr.window() >= WINDOW_MIN * PMDCS);
    assert!(bbr.window() <= initial_window_of_ten(PMDCS));
}
