use super::*;

#[test]
fn there_are_so_many_lines_a_second() {
    let mut refused = RefusedLog::default();
    let at = Time::from_millis;
    assert_eq!((0..50).filter(|_| refused.allows(at(5_500)).is_some()).count(), 20);
    assert_eq!(refused.allows(at(6_000)), Some(30));
    assert_eq!(refused.allows(at(6_001)), Some(0));
}

#[test]
fn other_limits_are_possible() {
    let mut refused = RefusedLog::new(1);
    assert_eq!((0..50).filter(|_| refused.allows(Time::from_millis(500)).is_some()).count(), 1);
    assert_eq!(refused.allows(Time::from_millis(1_000)), Some(49));
}

#[test]
fn what_a_sender_wrote_ends_no_field() {
    assert_eq!(Escaped(b"a b=\"c\\\n\xff").to_string(), r"a\x20b\x3d\x22c\x5c\n\xff");
    assert_eq!(Escaped(&[b'a'; 500]).to_string().len(), USER_MAX);
}
