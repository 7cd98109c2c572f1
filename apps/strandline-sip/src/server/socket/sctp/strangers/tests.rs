use super::*;

#[test]
fn silent_strangers_go_first_then_idle_ones() {
    let strangers = Strangers::default();
    (1..=5).for_each(|connection| strangers.add(connection));
    strangers.on_message(1, 10);
    strangers.on_message(2, 11);
    strangers.on_message(3, 12);
    strangers.on_message(1, 20);
    let taken: Vec<u64> = std::iter::from_fn(|| strangers.take(u64::MAX, |_| false)).collect();
    assert_eq!(taken, [4, 5, 2, 3, 1]);
    let all = strangers.0.borrow();
    assert!(all.silent.is_empty() && all.spoke.is_empty() && all.heard.is_empty());
}

#[test]
fn served_and_young_ones_stay() {
    let strangers = Strangers::default();
    (1..=4).for_each(|connection| strangers.add(connection));
    (1..=3).for_each(|connection| strangers.on_message(connection, 1));
    assert_eq!(strangers.take(3, |connection| connection == 1), Some(2));
    assert_eq!(strangers.take(3, |connection| connection == 1), None, "3 and 4 are young, 1 is served");
    strangers.remove(3);
    assert_eq!(strangers.take(u64::MAX, |_| false), Some(4), "1 was found to be served");
    assert_eq!(strangers.take(u64::MAX, |_| false), None);
}

#[test]
fn outgoing_associations_are_no_strangers() {
    let strangers = Strangers::default();
    strangers.on_message(7, 1);
    assert_eq!(strangers.take(u64::MAX, |_| false), None);
}
