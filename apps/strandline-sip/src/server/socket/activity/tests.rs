use super::*;

fn at(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn message_timer_starts_with_the_message() {
    let (mut begun, life) = (Begun::default(), Activity::default());
    assert_eq!(begun.look(at(1), &life, false), None);
    assert_eq!(begun.look(at(2), &life, true), Some(at(2)));
    assert_eq!(begun.look(at(9), &life, true), Some(at(2)), "more of the same");
    // The message is complete, and each read ends within the next one.
    for now in 10..100 {
        life.on_message();
        assert_eq!(begun.look(at(now), &life, true), Some(at(now)));
    }
    assert_eq!(begun.look(at(200), &life, true), Some(at(99)));
    assert_eq!(begun.look(at(201), &life, false), None);
    assert_eq!(begun.look(at(202), &life, true), Some(at(202)));
}

#[test]
fn stalled_peer_is_closed_and_slow_one_kept() {
    let life = Activity::default();
    assert_eq!([10, 40, 70].map(|now| life.stuck(now, true)), [0, 30, 60]);
    life.on_written();
    assert_eq!([100, 130].map(|now| life.stuck(now, true)), [0, 0]);
    assert_eq!([160, 190, 220].map(|now| life.stuck(now, now != 190)), [30, 0, 0]);
}
