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
fn it_is_over_when_most_rounds_find_none() {
    let mut contest = Contest::default();
    assert!(after(&mut contest, &[true; 8]));
    assert!(after(&mut contest, &[true, true, true, false, false, true]), "others measured their own delay");
    assert!(!after(&mut contest, &[true, false, false, false, true, false]));
}
