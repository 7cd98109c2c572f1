use super::*;

#[test]
fn a_task_is_entered_once_and_leaves_nothing() {
    let mut queue = WaitQueue::default();
    let (mut one, mut other) = (None, None);
    for _ in 0..3 {
        queue.register(&mut one, Waker::noop());
        queue.register(&mut other, Waker::noop());
    }
    assert_eq!(queue.entries().count(), 2);
    assert!(queue.remove(other));
    assert!(!queue.remove(other), "gone already");
    let mut woken = Vec::new();
    queue.wake_all(&mut woken);
    assert_eq!(woken.len(), 1);
    assert!(!queue.remove(one), "woken, so no longer waiting");
    assert!(queue.is_empty());
}

#[test]
fn one_is_woken_after_another() {
    let mut queue = WaitQueue::default();
    let mut tokens = [None, None, None];
    for token in &mut tokens {
        queue.register(token, Waker::noop());
    }
    let mut woken = Vec::new();
    for expected in 1..=3 {
        queue.wake_one(&mut woken);
        assert_eq!(woken.len(), expected);
    }
    queue.wake_one(&mut woken);
    assert_eq!(woken.len(), 3);
}
