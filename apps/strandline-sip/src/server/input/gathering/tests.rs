use super::*;

/// Lets datagrams come for so long, `come` each millisecond while they are gathered or not; returns how long they were gathered.
fn run(gathering: &mut Gathering, from: u64, ms: u64, come: impl Fn(u64, bool) -> usize) -> u64 {
    let mut on = 0;
    for now in from..from + ms {
        on += u64::from(gathering.is_on());
        let came = come(now, gathering.is_on());
        if came > 0 || gathering.is_on() {
            gathering.on_taken(Duration::from_millis(now), came);
        }
    }
    on
}

#[test]
fn a_citys_traffic_is_gathered_nearly_all_the_time() {
    let mut gathering = Gathering::default();
    assert!(run(&mut gathering, 0, 150, |_, _| 1) == 0);
    assert!(run(&mut gathering, 150, 10_000, |_, _| 1) > 9000);
    // When little comes they are taken one by one.
    run(&mut gathering, 10_150, 200, |now, _| usize::from(now % 10 == 0));
    assert_eq!(run(&mut gathering, 10_350, 60_000, |now, _| usize::from(now % 10 == 0)), 0);
}

#[test]
fn few_and_many_are_not_gathered() {
    for come in [|now: u64| usize::from(now.is_multiple_of(3)), |_: u64| 5] {
        assert_eq!(run(&mut Gathering::default(), 0, 10_000, |now, _| come(now)), 0);
    }
}

#[test]
fn who_waits_for_each_answer_is_answered_at_once() {
    let mut gathering = Gathering::default();
    // Two that go on when they are answered: every millisecond, or when it is looked for them.
    let on = run(&mut gathering, 0, 60_000, |now, on| if !on || now.is_multiple_of(4) { 2 } else { 0 });
    assert!(on < 60_000 / 50, "{on} ms");
}
