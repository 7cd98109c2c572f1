use super::*;

fn after(contest: &mut Contest, rounds: &[bool]) -> bool {
    for &queued in rounds {
        contest.note(queued);
    }
    contest.judge();
    contest.contested()
}

#[test]
fn a_queue_all_the_time_is_others() {
    let mut contest = Contest::default();
    assert!(!after(&mut contest, &[true]), "one round says nothing");
    assert!(!after(&mut contest, &[true, true, true, false]));
    assert!(after(&mut contest, &[true; 20]));
}

#[test]
fn it_is_over_when_most_rounds_of_two_cruises_find_none() {
    const MOSTLY: [bool; 6] = [true, true, true, false, false, true];
    const RARELY: [bool; 6] = [true, false, false, false, true, false];
    let mut contest = Contest::default();
    assert!(after(&mut contest, &[true; 8]));
    assert!(after(&mut contest, &MOSTLY), "others measured their own delay");
    assert!(after(&mut contest, &RARELY), "others search for the smallest round-trip time");
    assert!(after(&mut contest, &MOSTLY), "and were back");
    assert!(after(&mut contest, &RARELY));
    assert!(!after(&mut contest, &RARELY), "nobody has come back");
    assert!(!after(&mut contest, &MOSTLY), "what is no contest needs more to become one");
}
