use core::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::*;

/// Creates a line with a task for each value: true if the task may be gone.
fn line(tasks: &[bool]) -> (Line, Vec<Token>) {
    let mut line = Line::default();
    let tokens = tasks.iter().map(|may_be_gone| {
        let mut token = None;
        line.register(&mut token, Waker::noop(), *may_be_gone, None, false);
        token
    });
    let tokens = tokens.collect();
    (line, tokens)
}

/// Returns how many tasks `act` wakes.
fn woken(act: impl FnOnce(&mut Vec<Waker>)) -> usize {
    let mut to_wake = Vec::new();
    act(&mut to_wake);
    to_wake.len()
}

#[test]
fn one_is_served_after_another() {
    let (mut line, tokens) = line(&[false, false, false]);
    assert!(!line.is_turn(None, None), "whoever comes waits behind the others");
    for (place, token) in tokens.iter().enumerate() {
        assert!(line.is_turn(*token, None));
        assert!(tokens[place + 1..].iter().all(|later| !line.is_turn(*later, None)));
        if place == 0 {
            assert_eq!(woken(|to_wake| line.wake_next(to_wake)), 1, "the first alone");
        }
        assert_eq!(woken(|to_wake| line.wake_next(to_wake)), 0, "it was woken already");
        let next = usize::from(place + 1 < tokens.len());
        assert_eq!(woken(|to_wake| line.leave(*token, to_wake)), next);
    }
    assert!(line.is_empty() && line.is_turn(None, None));
}

#[test]
fn a_woken_task_that_leaves_wakes_the_next() {
    let (mut line, tokens) = line(&[false, false, false]);
    line.wake_next(&mut Vec::new());
    // A task in the middle leaves; then the first, which was woken, leaves without being served.
    assert_eq!(woken(|to_wake| line.leave(tokens[1], to_wake)), 0);
    assert_eq!(woken(|to_wake| line.leave(tokens[0], to_wake)), 1);
    assert!(line.is_turn(tokens[2], None));
    assert_eq!(woken(|to_wake| line.leave(tokens[0], to_wake)), 0, "gone already");
}

#[test]
fn a_task_that_waits_on_keeps_its_place() {
    let (mut line, mut tokens) = line(&[false, false]);
    line.wake_next(&mut Vec::new());
    line.register(&mut tokens[0], Waker::noop(), false, None, false);
    assert!(line.is_turn(tokens[0], None) && !line.is_turn(tokens[1], None));
    assert_eq!(woken(|to_wake| line.wake_next(to_wake)), 1);
}

#[test]
fn vanished_waiter_blocks_nobody() {
    let (mut line, mut tokens) = line(&[true, true, false, false]);
    assert!(!line.is_turn(tokens[1], None), "nobody has been woken");
    assert_eq!(woken(|to_wake| line.wake_next(to_wake)), 3);
    assert!(line.is_turn(tokens[2], None) && !line.is_turn(tokens[3], None));
    // If the task was still there, it is first again.
    line.register(&mut tokens[0], Waker::noop(), true, None, false);
    assert!(line.is_turn(tokens[0], None) && !line.is_turn(tokens[2], None));
}

#[test]
fn vanished_waiter_for_a_stream_blocks_nobody() {
    let mut line = Line::default();
    let (mut first, mut second) = (None, None);
    let stream = StreamId(7);
    line.register(&mut first, Waker::noop(), true, Some(stream), true);
    assert!(line.is_behind(None, stream), "it has not been woken");
    assert_eq!(woken(|to_wake| line.wake_stream(stream, to_wake)), 1);
    // It may have stopped waiting: the next one is blocked only if it has no room itself.
    assert!(!line.is_behind(None, stream) && line.is_turn(None, Some(stream)));
    line.register(&mut second, Waker::noop(), false, Some(stream), false);
    assert_eq!(woken(|to_wake| line.wake_next(to_wake)), 1);
}

#[test]
fn none_waits_after_the_end() {
    let (mut line, tokens) = line(&[false, true, false]);
    line.wake_next(&mut Vec::new());
    assert_eq!(woken(|to_wake| line.dissolve(to_wake)), 2, "one had been woken");
    assert!(line.is_empty());
    assert!(tokens.iter().all(|token| line.is_turn(*token, None)));
}

#[test]
fn tasks_waiting_for_streams_let_others_pass() {
    let mut line = Line::default();
    let [mut first, mut second, mut third] = [None; 3];
    line.register(&mut first, Waker::noop(), false, Some(StreamId(1)), true);
    assert!(line.is_turn(None, None));
    line.register(&mut second, Waker::noop(), false, None, false);
    line.register(&mut third, Waker::noop(), false, Some(StreamId(2)), true);
    assert!(line.is_turn(second, None) && !line.is_turn(third, None) && !line.is_turn(None, None));
    let woken = |wake: &mut dyn FnMut(&mut Vec<Waker>)| {
        let mut to_wake = Vec::new();
        wake(&mut to_wake);
        to_wake.len()
    };
    // Room in the send buffer is for the task that waits for that.
    assert_eq!(woken(&mut |to_wake| line.wake_next(to_wake)), 1);
    assert_eq!(woken(&mut |to_wake| line.wake_stream(StreamId(3), to_wake)), 0);
    assert_eq!(woken(&mut |to_wake| line.wake_stream(StreamId(1), to_wake)), 1);
    assert_eq!(woken(&mut |to_wake| line.wake_stream(StreamId(1), to_wake)), 0, "it is woken already");
    // It has room on its stream, and waits for the send buffer now.
    line.register(&mut first, Waker::noop(), false, None, false);
    assert!(line.is_turn(first, None) && !line.is_turn(second, None));
    assert_eq!(woken(&mut |to_wake| line.leave(first, to_wake)), 0);
    assert!(line.is_turn(second, None));
}

#[test]
fn tasks_of_a_stream_go_in_order() {
    let mut line = Line::default();
    let [mut first, mut second, mut other] = [None; 3];
    let (one, two) = (Some(StreamId(1)), Some(StreamId(2)));
    line.register(&mut first, Waker::noop(), false, one, true);
    assert!(!line.is_turn(None, one) && line.is_turn(None, two) && line.is_behind(None, StreamId(1)));
    line.register(&mut second, Waker::noop(), false, one, true);
    line.register(&mut other, Waker::noop(), false, two, true);
    assert!(line.is_turn(first, one) && !line.is_turn(second, one) && line.is_turn(other, two));
    assert_eq!(woken(|to_wake| line.wake_stream(StreamId(1), to_wake)), 1, "the first alone");
    assert!(!line.is_turn(second, one), "the first has not tried yet");
    assert_eq!(woken(|to_wake| line.leave(first, to_wake)), 1);
    assert!(line.is_turn(second, one));
    assert_eq!(woken(|to_wake| line.leave(second, to_wake)), 0, "the other one is of another stream");
    assert_eq!(woken(|to_wake| line.wake_all_of(StreamId(2), to_wake)), 1);
}

/// Streams whose readers have stopped wait for long, and each message of another stream looks at the line.
#[test]
fn stalled_streams_are_not_scanned() {
    const STALLED: u16 = 60_000;
    let mut line = Line::default();
    for stream in 1..=STALLED {
        line.register(&mut None, Waker::noop(), false, Some(StreamId(stream)), true);
    }
    // Of this thread alone, whatever else the machine does.
    let work = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let begun = work();
    for _ in 0..STALLED {
        let (stream, mut token) = (StreamId(STALLED + 1), None);
        assert!(!line.has(stream) && !line.is_behind(None, stream) && line.is_turn(None, Some(stream)));
        line.register(&mut token, Waker::noop(), false, Some(stream), false);
        assert_eq!(woken(|to_wake| line.wake_next(to_wake)), 1);
        line.leave(token, &mut Vec::new());
    }
    let work = work() - begun;
    assert!(work < Duration::from_secs(4), "a scan takes a minute: {work:?}");
}

/// Tasks as they come and go, beside a plain list that is scanned.
#[test]
fn the_order_is_that_of_a_scanned_list() {
    struct Plain {
        token: Token,
        is_woken: bool,
        may_be_gone: bool,
        stream: Option<StreamId>,
        blocked: bool,
    }
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let (mut line, mut plain) = (Line::default(), Vec::<Plain>::new());
    let is_turn = |plain: &[Plain], token: Token, stream: Option<StreamId>| {
        plain.iter().take_while(|one| token.is_none() || one.token != token).all(|one| {
            let is_other = one.blocked && (stream.is_none() || one.stream != stream);
            is_other || (one.may_be_gone && one.is_woken)
        })
    };
    for _ in 0..20_000 {
        let stream = [None, Some(StreamId(1)), Some(StreamId(2))][next(3) as usize];
        let blocked = stream.is_some() && next(2) == 0;
        let known = (!plain.is_empty()).then(|| next(plain.len() as u64) as usize);
        match (next(5), known) {
            (0, _) if plain.len() < 12 => {
                let (mut token, may_be_gone) = (None, next(4) == 0);
                line.register(&mut token, Waker::noop(), may_be_gone, stream, blocked);
                plain.push(Plain { token, is_woken: false, may_be_gone, stream, blocked });
            }
            (1, Some(at)) => {
                line.register(&mut plain[at].token, Waker::noop(), false, stream, blocked);
                (plain[at].is_woken, plain[at].stream, plain[at].blocked) = (false, stream, blocked);
            }
            (2, Some(at)) => {
                let left = plain.remove(at);
                let woken = woken(|to_wake| line.leave(left.token, to_wake));
                let mut expected = wake(&mut plain, |one| !one.blocked);
                if let Some(stream) = left.stream {
                    expected += wake(&mut plain, |one| one.blocked && one.stream == Some(stream));
                }
                assert_eq!(woken, expected);
            }
            (3, _) => {
                let woken = woken(|to_wake| line.wake_next(to_wake));
                assert_eq!(woken, wake(&mut plain, |one| !one.blocked));
            }
            _ => {}
        }
        assert_eq!(line.is_empty(), plain.is_empty());
        assert_eq!(line.is_turn(None, stream), is_turn(&plain, None, stream));
        for one in &plain {
            assert_eq!(line.is_turn(one.token, one.stream), is_turn(&plain, one.token, one.stream));
        }
    }

    /// Wakes the first of these, and the one behind each that may be gone. Returns how many were not woken yet.
    fn wake(plain: &mut [Plain], is_one: impl Fn(&Plain) -> bool) -> usize {
        let mut count = 0;
        for one in plain.iter_mut().filter(|one| is_one(one)) {
            count += usize::from(!std::mem::replace(&mut one.is_woken, true));
            if !one.may_be_gone {
                break;
            }
        }
        count
    }
}
