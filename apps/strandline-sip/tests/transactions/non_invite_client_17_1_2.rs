use strandline_sip::transaction::Protocol;

use crate::harness::{World, response};

#[test]
fn timer_e_doubles_to_t2_until_timer_f() {
    let mut world = World::new();
    world.client("BYE", Protocol::Udp);
    world.sent();
    let times = world.run_until(40_000);
    assert_eq!(times, [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert_eq!(world.events(), ["timed out"]);
    assert!(world.is_empty());
}

#[test]
fn after_provisional_it_retransmits_every_t2() {
    let mut world = World::new();
    let (_, bye) = world.client("BYE", Protocol::Udp);
    world.sent();
    assert_eq!(world.run_until(600), [500]);
    assert!(world.answer(&response(&bye, 100)));
    assert_eq!(world.run_until(13_000), [4600, 8600, 12_600]);
}

#[test]
fn final_response_passes_once_until_timer_k() {
    let mut world = World::new();
    let (_, bye) = world.client("BYE", Protocol::Udp);
    world.sent();
    assert!(world.answer(&response(&bye, 200)));
    assert!(!world.answer(&response(&bye, 200)));
    assert!(world.run_until(4999).is_empty());
    assert!(world.events().is_empty());
    world.run_until(5000);
    assert_eq!(world.events(), ["over"]);
    assert!(world.is_empty());
}

#[test]
fn reliable_transport_ends_with_final_response() {
    let mut world = World::new();
    let (_, bye) = world.client("BYE", Protocol::Sctp);
    world.sent();
    assert!(world.run_until(20_000).is_empty());
    assert!(world.answer(&response(&bye, 481)));
    assert_eq!(world.events(), ["over"]);
    assert!(world.is_empty());
}
