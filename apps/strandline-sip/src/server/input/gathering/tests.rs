use super::*;

/// Runs a busy thread for a time, with `come` datagrams each millisecond, which depends on whether they are
/// gathered. Returns the milliseconds of gathering.
fn run(gathering: &mut Gathering, from: u64, ms: u64, come: impl Fn(u64, bool) -> usize) -> u64 {
    run_busy(gathering, 0.6, from..from + ms, come)
}

/// As `run`, for a thread that is busy for this share of the time, and for a third of that while gathering.
fn run_busy(
    gathering: &mut Gathering,
    busy: f64,
    ms: core::ops::Range<u64>,
    come: impl Fn(u64, bool) -> usize,
) -> u64 {
    let mut idle = gathering.idle;
    let mut on = 0;
    for now in ms {
        on += u64::from(gathering.is_on());
        let busy = if gathering.is_on() { busy / 3.0 } else { busy };
        idle += Duration::from_secs_f64((1.0 - busy) / 1000.0);
        let came = come(now, gathering.is_on());
        if came > 0 || gathering.is_on() {
            gathering.on_taken(Duration::from_millis(now), idle, came);
        }
    }
    on
}

#[test]
fn a_busy_server_gathers_nearly_all_the_time() {
    let mut gathering = Gathering::default();
    assert!(run(&mut gathering, 0, 150, |_, _| 2) == 0);
    assert!(run(&mut gathering, 150, 10_000, |_, _| 2) > 9000);
    // With little traffic, datagrams are taken one by one.
    run(&mut gathering, 10_150, 200, |now, _| usize::from(now % 10 == 0));
    assert_eq!(run(&mut gathering, 10_350, 60_000, |now, _| usize::from(now % 10 == 0)), 0);
}

#[test]
fn idle_server_answers_at_once() {
    for rate in [1, 2, 3] {
        let on = run_busy(&mut Gathering::default(), 0.4, 0..60_000, |_, _| rate);
        assert_eq!(on, 0, "{rate} each millisecond");
    }
    // A thread that becomes idle stops gathering.
    let mut gathering = Gathering::default();
    assert!(run_busy(&mut gathering, 0.6, 0..10_000, |_, _| 2) > 9000);
    run_busy(&mut gathering, 0.1, 10_000..10_200, |_, _| 2);
    assert_eq!(run_busy(&mut gathering, 0.1, 10_200..60_000, |_, _| 2), 0);
}

#[test]
fn few_and_many_are_not_gathered() {
    for come in [|now: u64| usize::from(now.is_multiple_of(3)), |_: u64| 5] {
        assert_eq!(run(&mut Gathering::default(), 0, 10_000, |now, _| come(now)), 0);
    }
}

#[test]
fn closed_loop_client_is_answered_at_once() {
    let mut gathering = Gathering::default();
    // Two senders that wait for responses: they send every millisecond, or whenever the server polls.
    let on = run(&mut gathering, 0, 60_000, |now, on| if !on || now.is_multiple_of(4) { 2 } else { 0 });
    assert!(on < 60_000 / 50, "{on} ms");
}
