//! Which peers of connections are served: others are strangers, which make way when there are too many.

use strandline_sip::service::is_identified;

use crate::credentials::{ask, register};
use crate::harness::{Phone, World, response};

fn stranger(world: &mut World) -> Phone {
    world.service.connection_opened(7);
    Phone::tcp("192.0.2.66:4000", 7)
}

/// A called phone over UDP.
fn bob(world: &mut World) -> Phone {
    let bob = Phone::udp("192.0.2.2:5060");
    world.register_with(&bob, "bob", &format!("Contact: {}\r\n", bob.contact("bob")));
    bob
}

#[test]
fn options_and_messages_make_nobody_known() {
    let mut world = World::new();
    let (bob, stranger) = (bob(&mut world), stranger(&mut world));
    let options = stranger.request("OPTIONS", "sip:198.51.100.1", "o1", "");
    assert_eq!(world.one(&stranger, &options).first_line(), "SIP/2.0 200 OK");
    assert!(!is_identified(&world.service, 7));
    for (method, branch) in [("OPTIONS", "o2"), ("MESSAGE", "m1")] {
        let text = stranger.request(method, "sip:bob@example.com", branch, "");
        let at_bob = world.one(&stranger, &text);
        let ok = response(&at_bob.text, 200, "b");
        assert_eq!(world.one(&bob, &ok).first_line(), "SIP/2.0 200 OK");
        assert!(!is_identified(&world.service, 7), "{method}");
    }
}

#[test]
fn wrong_passwords_make_nobody_known() {
    let mut world = World::new();
    ask(&mut world);
    let phone = stranger(&mut world);
    let contact = format!("Contact: {}\r\n", phone.contact("bob"));
    let wrong = register(&mut world, &phone, ("bob", "guess"), 1, &contact);
    assert!(world.one(&phone, &wrong).first_line().starts_with("SIP/2.0 401"));
    assert!(!is_identified(&world.service, 7));
    let right = register(&mut world, &phone, ("bob", "bob-secret"), 3, &contact);
    assert_eq!(world.one(&phone, &right).first_line(), "SIP/2.0 200 OK");
    assert!(is_identified(&world.service, 7));
    world.service.connection_closed(7);
    assert!(!is_identified(&world.service, 7));
}

#[test]
fn a_caller_is_known_once_the_phone_rings() {
    let mut world = World::new();
    let (bob, caller) = (bob(&mut world), stranger(&mut world));
    let sent = world.invite(&caller, &caller.invite("bob", "1"));
    assert!(!is_identified(&world.service, 7));
    let ringing = response(&sent[0].text, 180, "b");
    assert_eq!(world.one(&bob, &ringing).first_line(), "SIP/2.0 180 Ringing");
    assert!(is_identified(&world.service, 7));
}
