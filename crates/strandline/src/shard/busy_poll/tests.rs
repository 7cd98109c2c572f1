use super::*;

const LIMIT: Duration = Duration::from_micros(50);

fn at(micros: u64) -> Time {
    Time::from_nanos(micros * 1000)
}

/// Waits from `begin` on, and returns the microseconds that were spent polling, in steps of one.
fn wait(poll: &mut BusyPoll, begin: u64, steps: u64) -> u64 {
    (0..).find(|&after| !poll.goes_on(at(begin + after), steps)).unwrap()
}

/// Waits from `begin` on for a packet that arrives `after` microseconds later. Returns whether it was polled for.
fn answered(poll: &mut BusyPoll, begin: u64, after: u64) -> bool {
    let polled = (0..after).all(|micros| poll.goes_on(at(begin + micros), begin));
    poll.on_received(at(begin + after));
    polled
}

#[test]
fn polls_after_a_step_of_a_set_up() {
    let mut poll = BusyPoll::new(LIMIT);
    assert_eq!(wait(&mut poll, 0, 0), 0, "nothing was set up");
    assert_eq!(wait(&mut poll, 10, 1), 50);
}

#[test]
fn near_peers_are_always_polled_for() {
    let mut poll = BusyPoll::new(LIMIT);
    assert!((1..=1000).all(|step| answered(&mut poll, step * 40, 20)));
}

#[test]
fn established_associations_do_not_poll() {
    let mut poll = BusyPoll::new(LIMIT);
    assert!(poll.goes_on(at(0), 1));
    poll.on_received(at(1));
    assert!(poll.goes_on(at(250), 1));
    poll.on_received(at(251));
    assert!(!poll.goes_on(at(252), 1));
}

#[test]
fn distant_peers_cost_little() {
    let mut poll = BusyPoll::new(LIMIT);
    let mut polled = 0;
    for step in 1..=10_000 {
        polled += wait(&mut poll, step * 1000, step);
        poll.on_received(at(step * 1000 + 900));
    }
    // Pauses of 2, 4 ... 1,024 waits, and the last one again and again.
    assert_eq!(polled, 50 * (10 + (10_000 - 2056) / 1025 + 1));
}

#[test]
fn a_shared_core_is_left_to_the_peer() {
    let mut poll = BusyPoll::new(LIMIT);
    let mut polled = 0;
    for step in 1..=10_000 {
        // The peer gets the core after the second look, and answers.
        if poll.goes_on(at(step * 40), step) && poll.goes_on(at(step * 40 + 1), step) {
            polled += 1;
        }
        poll.on_received(at(step * 40 + 20));
    }
    assert!(polled <= 20, "{polled} waits");
}

#[test]
fn answers_make_pauses_shorter() {
    let mut poll = BusyPoll::new(LIMIT);
    for step in 1..2000 {
        wait(&mut poll, step * 100, step * 100);
    }
    let slept = (2000..6000).filter(|step| !answered(&mut poll, step * 100, 20)).count();
    assert!(slept <= 1024, "{slept} waits slept");
    wait(&mut poll, 700_000, 700_000);
    let pause = (7_001..).take_while(|step| !answered(&mut poll, step * 100, 20)).count();
    assert_eq!(pause, 2, "as after the first period in vain");
}

#[test]
fn a_clock_that_stands_still_ends_the_period() {
    let mut poll = BusyPoll::new(LIMIT);
    let looks = (0..).take_while(|_| poll.goes_on(at(7), 1)).count();
    assert_eq!(looks, 4097);
    assert!(!poll.goes_on(at(7), 1), "and a pause follows");
}

#[test]
fn a_limit_of_zero_never_polls() {
    let mut poll = BusyPoll::new(Duration::ZERO);
    assert!((0..100).all(|step| !poll.goes_on(at(step), step)));
}
