use std::time::Duration;

use super::{Contexts, PAUSE_MAX, PAUSE_MIN, STEADY};
use crate::clock::now;

#[test]
fn failures_delay_the_next_attempt() {
    let (contexts, mut now) = (Contexts::default(), now());
    let mut pause = PAUSE_MIN;
    for _ in 0..12 {
        let coming = contexts.begin(4, now).unwrap();
        contexts.fail(coming, now);
        assert!(contexts.begin(4, now + pause - Duration::from_millis(1)).is_none());
        now += pause;
        pause = (pause * 2).min(PAUSE_MAX);
    }
    assert!(contexts.begin(4, now).is_some());
}

#[test]
fn a_short_life_counts_as_a_failure() {
    let (contexts, now) = (Contexts::default(), now());
    contexts.end(STEADY - Duration::from_millis(1), now);
    assert!(contexts.begin(4, now).is_none() && contexts.begin(4, now + PAUSE_MIN).is_some());
    contexts.end(STEADY, now);
    assert!(contexts.begin(4, now).is_some());
}

#[test]
fn there_are_as_many_as_there_may_be() {
    let (contexts, now) = (Contexts::default(), now());
    let coming = contexts.begin(3, now).unwrap();
    assert!(contexts.begin(3, now).is_some() && contexts.begin(3, now).is_none());
    // The peer moves to another process: what was begun before is told by the number of moves.
    contexts.forget();
    assert_ne!(coming.moves, contexts.lock().moves);
}
