use super::*;

#[test]
fn who_waits_for_nobody_waits_seldom() {
    let mut gathering = Gathering::default();
    let waited = (0..100 * (ALONE_MAX + AT_ONCE)).filter(|_| {
        let waits = gathering.waits();
        if waits {
            gathering.waited(1);
        }
        waits
    });
    assert_eq!(waited.count() as u32, 100 * ALONE_MAX);
}

#[test]
fn while_others_come_each_commit_waits_for_them() {
    let mut gathering = Gathering::default();
    for number in 0..1000 {
        assert!(gathering.waits());
        gathering.waited(if number % ALONE_MAX == 0 { 2 } else { 1 });
    }
}
