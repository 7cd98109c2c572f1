use super::*;

#[test]
fn what_was_sent_is_before_or_after() {
    let moment = Moment { tsn: Tsn(3), again: 70_000 };
    assert!(moment.is_before(Transmission::First(Tsn(3))) && !moment.is_before(Transmission::First(Tsn(2))));
    assert!(!moment.is_before(Transmission::First(Tsn(u32::MAX))), "TSNs wrap");
    assert!(moment.is_before(Transmission::Again(70_000)) && !moment.is_before(Transmission::Again(69_999)));
    assert!(moment.is_past(Tsn(2)) && !moment.is_past(Tsn(1)));
}
