#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use super::*;

fn event(t: f64, socket: usize, peer: &str, change: PathChange) -> PathEvent {
    PathEvent { t, socket, peer: peer.parse().unwrap(), change: name(change) }
}

#[test]
fn only_the_failed_path_comes_back() {
    let (one, two) = ("10.0.1.2:9899", "10.0.2.2:9899");
    let events = [
        event(0.5, 1, two, PathChange::Confirmed),
        event(1.0, 1, one, PathChange::Active),
        event(3.25, 1, one, PathChange::PotentiallyFailed),
        event(4.0, 1, two, PathChange::Active),
        event(4.5, 2, one, PathChange::Active),
        event(9.0, 1, one, PathChange::Inactive),
        event(10.5, 1, one, PathChange::Active),
    ];
    assert_eq!(failure(&events), (Some(3.25), Some(10.5)));
    assert_eq!(failure(&events[..5]), (Some(3.25), None), "it did not come back");
    assert_eq!(failure(&events[..2]), (None, None), "none failed");
}

#[test]
fn noise_before_the_cut_is_no_failure() {
    let (one, two) = ("10.0.1.2:9899", "10.0.2.2:9899");
    let events = [
        event(0.5, 1, one, PathChange::PotentiallyFailed),
        event(0.75, 1, one, PathChange::Active),
        event(3.25, 1, one, PathChange::PotentiallyFailed),
        event(4.0, 2, one, PathChange::PotentiallyFailed),
        event(8.5, 2, one, PathChange::Active),
        event(9.5, 1, one, PathChange::Active),
        event(10.0, 1, two, PathChange::PotentiallyFailed),
    ];
    assert_eq!(failure(&events[..6]), (Some(3.25), Some(9.5)));
    assert_eq!(failure(&events), (Some(10.0), None), "it was never back");
}
