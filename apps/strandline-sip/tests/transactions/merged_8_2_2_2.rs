use strandline_sip::transaction::Protocol;

use crate::harness::{World, request, request_with};

#[test]
fn merged_request_is_refused_at_its_end_only() {
    let mut world = World::new();
    let id = world.ending(&request("OPTIONS", "z9hG4bKone")).unwrap();
    let second = request("OPTIONS", "z9hG4bKtwo");
    assert_eq!(world.ending(&second), None);
    assert!(world.ending(&request_with("OPTIONS", "z9hG4bKthree", "6 ")).is_some());
    world.server(&second, Protocol::Udp);
    // Once the first transaction is over, the request no longer counts as merged.
    world.transactions.forget_server(id);
    assert!(world.ending(&request("OPTIONS", "z9hG4bKfour")).is_some());
}
