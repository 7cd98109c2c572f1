use strandline_sip::transaction::Protocol;

use crate::harness::{World, response};

#[test]
fn a_response_with_another_branch_belongs_to_nothing() {
    let mut world = World::new();
    let (_, bye) = world.client("BYE", Protocol::Udp);
    let ok = response(&bye, 200);
    let at = ok.find("z9hG4bK").unwrap() + 20;
    for digit in ['0', '1'] {
        let mut other = ok.clone();
        other.replace_range(at..=at, &digit.to_string());
        assert_eq!(world.answer(&other), other == ok, "{other}");
    }
    assert!(!world.answer(&ok.replace("z9hG4bK", "z9hG4bK1")));
    assert!(!world.answer(&ok.replace("z9hG4bK", "z9hG4bJ")));
}

#[test]
fn response_with_other_cseq_method_matches_nothing() {
    let mut world = World::new();
    let (_, invite) = world.client("INVITE", Protocol::Udp);
    let ok = response(&invite, 200);
    assert!(!world.answer(&ok.replace("5 INVITE", "5 BYE")));
    assert!(!world.answer(&ok.replace("5 INVITE", "5 CANCEL")));
    assert!(world.answer(&ok));
}

#[test]
fn reused_slot_ignores_old_responses() {
    let mut world = World::new();
    let (id, first) = world.client("BYE", Protocol::Tcp);
    world.transactions.forget_client(id);
    let (_, second) = world.client("BYE", Protocol::Tcp);
    assert!(!world.answer(&response(&first, 200)));
    assert!(world.answer(&response(&second, 200)));
}
