use super::*;

#[test]
fn no_more_waits_than_may() {
    let waiting = Waiting::default();
    assert!(waiting.add(1, WAITING_MAX - 10));
    assert!(!waiting.add(1, 11));
    assert!(waiting.add(1, 10) && waiting.add(2, 10));
    waiting.remove(1, 10);
    assert!(!waiting.add(1, 11));
    waiting.remove(1, WAITING_MAX - 10);
    waiting.remove(2, 10);
    assert!(waiting.0.borrow().is_empty());
}
