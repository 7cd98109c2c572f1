use super::*;

#[test]
fn the_newest_request_counts() {
    let states = Arc::<ReverseStates>::default();
    assert_eq!(states.of(0), ReverseState::Waiting);
    let before = states.begin(0);
    before.set(ReverseState::Listening);
    assert_eq!([states.of(0), states.of(1)], [ReverseState::Listening, ReverseState::Waiting]);
    let next = states.begin(0);
    assert_eq!(states.of(0), ReverseState::Waiting);
    next.set(ReverseState::Refused(Reason::NotAllowed));
    // Another association's, which ends later.
    before.set(ReverseState::Listening);
    drop(before);
    assert_eq!(states.of(0).name(), ("refused", Some("not_allowed")));
    drop(next);
    assert_eq!(states.of(0).name(), ("waiting", None));
}
