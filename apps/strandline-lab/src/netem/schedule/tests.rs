use super::*;

#[test]
fn a_schedule_is_read() {
    let text = "8s heal # works again\n5s path=2 to-right cut; 10s delay=60ms,loss=1% rate=1mbit";
    let entries = parse(text).unwrap();
    let at: Vec<u64> = entries.iter().map(|entry| entry.at.as_secs()).collect();
    assert_eq!(at, [5, 8, 10]);
    let target = Target { path: Some(2), direction: Some(Direction::ToRight) };
    assert_eq!(entries[0].change.target, target);
    assert_eq!(entries[0].change.settings.cut, Some(true));
    assert_eq!(entries[1].change.target, Target::default());
    assert_eq!(entries[2].change.settings, "delay=60ms,loss=1%,rate=1mbit".parse().unwrap());
    assert!(target.includes(2, Direction::ToRight));
    assert!(!target.includes(2, Direction::ToLeft) && !target.includes(1, Direction::ToRight));
}

#[test]
fn mistakes_name_the_entry() {
    for (text, hint) in [
        ("5s cut; 7 heal", "in '7 heal': '7' is not a time"),
        ("5s", "'5s cut'"),
        ("5s path=0 cut", "counted from 1"),
        ("5s path=1", "no setting"),
        ("5s sideways", "unknown setting 'sideways'"),
    ] {
        let message = parse(text).unwrap_err();
        assert!(message.contains(hint), "{message}");
    }
}
