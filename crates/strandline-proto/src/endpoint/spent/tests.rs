use super::*;

#[test]
fn tags_expire_and_are_bounded() {
    let mut spent = SpentCookies::default();
    let minute = Duration::from_secs(60);
    spent.insert(Time::ZERO, VerificationTag(1), minute);
    assert!(spent.contains(VerificationTag(1)));
    spent.insert(Time::ZERO + minute, VerificationTag(2), minute);
    assert!(!spent.contains(VerificationTag(1)));
    for tag in 0..SPENT_MAX as u32 {
        spent.insert(Time::ZERO + minute, VerificationTag(10 + tag), minute);
    }
    assert!(!spent.contains(VerificationTag(2)));
    assert!(spent.order.len() <= SPENT_MAX && spent.tags.len() <= SPENT_MAX);
}
