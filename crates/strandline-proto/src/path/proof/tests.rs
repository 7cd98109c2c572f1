use super::*;

const RTO: Duration = Duration::from_millis(300);

fn secs(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}

fn proof() -> Proof {
    Proof::new(PathIndex::FIRST)
}

#[test]
fn an_answer_holds_for_a_while() {
    let mut proof = proof();
    assert_eq!(proof.step(secs(1), RTO), Step::Rest, "nobody asks");
    proof.want();
    assert_eq!(proof.step(secs(1), RTO), Step::Send);
    proof.on_sent(secs(1), 7);
    proof.want();
    assert_eq!(proof.step(secs(1), RTO), Step::Rest, "one at a time");
    assert_eq!((proof.on_answer(secs(1), 8), proof.on_answer(secs(1), 0)), (None, None));
    assert!(!proof.holds(secs(1)));
    assert_eq!(proof.on_answer(secs(2), 7), Some(secs(1)));
    assert_eq!(proof.on_answer(secs(2), 7), None, "once");
    assert_eq!((proof.holds(secs(11)), proof.holds(secs(12))), (true, false));
}

#[test]
fn a_proof_is_renewed_before_it_ends() {
    let mut proof = proof();
    proof.want();
    proof.on_sent(secs(1), 7);
    assert!(proof.on_answer(secs(2), 7).is_some());
    assert_eq!(proof.step(secs(8), RTO), Step::Rest, "not needed any more");
    proof.want();
    assert_eq!((proof.step(secs(6), RTO), proof.step(secs(7), RTO)), (Step::Rest, Step::Send));
}

#[test]
fn a_doubt_ends_a_proof() {
    let mut proof = proof();
    proof.want();
    proof.on_sent(secs(1), 7);
    assert!(proof.on_answer(secs(1), 7).is_some());
    proof.revoke();
    assert!(!proof.holds(secs(1)));
    proof.want();
    assert_eq!(proof.step(secs(1), RTO), Step::Send);
}

#[test]
fn three_unanswered_questions_are_enough() {
    let mut proof = proof();
    for nonce in 1..=3 {
        proof.want();
        assert_eq!(proof.step(secs(nonce), RTO), Step::Send);
        proof.on_sent(secs(nonce), nonce);
    }
    proof.want();
    assert_eq!(proof.step(secs(9), RTO), Step::GiveUp);
    assert_eq!(proof.step(secs(9), RTO), Step::Rest, "it begins anew");
}
