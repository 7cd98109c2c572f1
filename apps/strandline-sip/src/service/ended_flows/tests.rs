use super::*;
use crate::bindings::Binding;

fn flow() -> Before {
    let line = b"sip:a@192.0.2.1\t\tc1\t\t\t1\t4000000000\t1000\t1\to\ttcp\t7\t192.0.2.1:5060";
    Binding::read(line).as_ref().map(Before::of).unwrap()
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut ended = EndedFlows::default();
    for number in 0..USERS_MAX + 10 {
        ended.note(format!("u{number}").as_bytes(), flow());
    }
    assert_eq!((ended.of.len(), ended.order.len()), (USERS_MAX, USERS_MAX));
    assert!(ended.take(b"u9", |_| true).is_empty());
    assert_eq!(ended.take(b"u10", |_| true).len(), 1);
    assert!(ended.take(b"u10", |_| true).is_empty());
    // Of one user, the last ones.
    (0..2 * EACH_MAX).for_each(|_| ended.note(b"u11", flow()));
    assert!(ended.take(b"u11", |_| false).is_empty());
    assert_eq!(ended.take(b"u11", |_| true).len(), EACH_MAX);
}
