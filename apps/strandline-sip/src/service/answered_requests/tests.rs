use super::*;

fn answered() -> Answered {
    Answered::new(SipHasher13::new_with_key(&[7; 16]))
}

#[test]
fn an_outcome_lasts_as_long_as_retransmissions() {
    let mut answered = answered();
    let at = Time::from_millis;
    answered.insert(at(40_000), RequestKey(1), Outcome::Bound);
    answered.insert(at(71_999), RequestKey(2), Outcome::Bound);
    assert_eq!(answered.get(RequestKey(1)), Some(Outcome::Bound));
    answered.insert(at(72_001), RequestKey(3), Outcome::Challenged);
    assert_eq!(answered.get(RequestKey(2)), Some(Outcome::Bound));
    answered.insert(at(105_000), RequestKey(4), Outcome::Bound);
    assert_eq!(answered.get(RequestKey(2)), None);
    assert_eq!(answered.get(RequestKey(3)), Some(Outcome::Challenged));
}

#[test]
fn a_flood_of_outcomes_has_a_limit() {
    let mut answered = answered();
    for number in 0..3 * EACH_MAX as u64 {
        answered.insert(Time::ZERO, RequestKey(number), Outcome::Bound);
    }
    assert!(answered.current.len() + answered.last.len() <= 2 * EACH_MAX);
    assert_eq!(answered.get(RequestKey(3 * EACH_MAX as u64 - 1)), Some(Outcome::Bound));
}
