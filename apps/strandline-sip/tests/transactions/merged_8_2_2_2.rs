use strandline_sip::transaction::{BeginError, Protocol};

use crate::harness::{World, flow, request, request_with};

#[test]
fn a_request_that_came_on_two_ways_is_refused_where_it_ends_and_passes_where_it_does_not() {
    let mut world = World::new();
    let first = world.arriving(&request("OPTIONS", "z9hG4bKone"));
    let id = world.transactions.begin_server(first, flow(Protocol::Udp), true, 0).unwrap();
    let second = world.arriving(&request("OPTIONS", "z9hG4bKtwo"));
    let begun = world.transactions.begin_server(second, flow(Protocol::Udp), true, 0);
    assert_eq!(begun, Err(BeginError::Merged));
    let other = world.arriving(&request_with("OPTIONS", "z9hG4bKthree", "6 "));
    assert!(world.transactions.begin_server(other, flow(Protocol::Udp), true, 0).is_ok());
    assert!(world.transactions.begin_server(second, flow(Protocol::Udp), false, 0).is_ok());
    // Once the first is over, it is no merged request any more.
    world.transactions.forget_server(id);
    let again = world.arriving(&request("OPTIONS", "z9hG4bKfour"));
    assert!(world.transactions.begin_server(again, flow(Protocol::Udp), true, 0).is_ok());
}
