//! Replaced flows: the same instance registers with the same reg-id over another flow (RFC 5626 section 6),
//! or the same contact registers from elsewhere.

use strandline_sip::bindings::Journal;
use strandline_sip::transaction::{Flow, Protocol};

use crate::harness::{Phone, Sent, World, in_dialog, response};
use crate::nodes::{follow, two};
use crate::workers::worker;

fn contact(port: u16, reg_id: u32) -> String {
    format!(
        "Supported: path, outbound\r\nContact: <sip:bob@192.0.2.2:{port};transport=tcp;ob>;reg-id={reg_id};\
         +sip.instance=\"<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>\"\r\n"
    )
}

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn bob(connection: u64) -> Phone {
    Phone::tcp(&format!("192.0.2.2:{}", 40_000 + connection), connection)
}

/// Bob registers over this connection.
fn register(world: &mut World, connection: u64, reg_id: u32) {
    world.service.connection_opened(connection);
    let phone = bob(connection);
    let ok =
        world.one(&phone, &phone.register("bob", connection as u32, &contact(phone.0.peer.port(), reg_id)));
    assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{}", ok.text);
}

/// A call to bob over connection 1. Returns the 200 that alice receives.
fn call(world: &mut World) -> String {
    register(world, 1, 1);
    let invite = world.invite(&alice(), &alice().invite("bob", "1")).remove(0);
    assert_eq!(invite.flow, bob(1).0);
    world.one(&bob(1), &response(&invite.text, 200, "bob")).text
}

fn bye(world: &mut World, ok: &str, cseq: u32) -> Sent {
    let bye = in_dialog("BYE", ok, "sip:bob@192.0.2.2:40001;transport=tcp;ob", &alice(), cseq, true);
    world.one(&alice(), &bye)
}

#[test]
fn dialog_follows_its_phone_to_a_new_connection() {
    let mut world = World::new();
    let ok = call(&mut world);
    assert!(world.service.output_mut().take_replaced().is_empty());
    register(&mut world, 2, 1);
    assert_eq!(world.service.output_mut().take_replaced(), [bob(1).0]);
    assert_eq!(bye(&mut world, &ok, 2).flow, bob(2).0);
    // The flow is replaced once more, and the first one has been closed.
    world.service.connection_closed(1);
    register(&mut world, 3, 1);
    world.service.connection_closed(2);
    assert_eq!(bye(&mut world, &ok, 3).flow, bob(3).0);
    // With all flows closed, bob can't be reached.
    world.service.connection_closed(3);
    assert_eq!(bye(&mut world, &ok, 4).first_line(), "SIP/2.0 430 Flow Failed");
    // It comes back, although nothing of it was registered meanwhile.
    register(&mut world, 4, 1);
    assert_eq!(bye(&mut world, &ok, 5).flow, bob(4).0);
}

/// The connection ends, which removes the binding, before the phone registers over a new one.
#[test]
fn dialog_follows_a_phone_whose_connection_ended() {
    let mut world = World::new();
    let ok = call(&mut world);
    world.service.connection_closed(1);
    assert_eq!(bye(&mut world, &ok, 2).first_line(), "SIP/2.0 430 Flow Failed");
    // Another flow of the phone isn't the one that ended.
    register(&mut world, 2, 2);
    assert_eq!(bye(&mut world, &ok, 3).first_line(), "SIP/2.0 430 Flow Failed");
    register(&mut world, 3, 1);
    assert_eq!(bye(&mut world, &ok, 4).flow, bob(3).0);
    world.service.connection_closed(3);
    register(&mut world, 4, 1);
    assert_eq!(bye(&mut world, &ok, 5).flow, bob(4).0);
}

#[test]
fn dialog_over_tls_does_not_follow_to_tcp() {
    let mut world = World::new();
    let over = |connection: u64, protocol: Protocol| {
        let mut phone = bob(connection);
        phone.0.protocol = protocol;
        phone
    };
    let secure = over(1, Protocol::Tls);
    world.service.connection_opened(1);
    let ok = world.one(&secure, &secure.register("bob", 1, &contact(40_001, 1)));
    assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{}", ok.text);
    let invite = world.invite(&alice(), &alice().invite("bob", "1")).remove(0);
    let ok = world.one(&secure, &response(&invite.text, 200, "bob")).text;
    register(&mut world, 2, 1);
    assert_eq!(bye(&mut world, &ok, 2).first_line(), "SIP/2.0 430 Flow Failed");
}

#[test]
fn another_flow_of_the_phone_replaces_nothing() {
    let mut world = World::new();
    let ok = call(&mut world);
    register(&mut world, 2, 2);
    assert!(world.service.output_mut().take_replaced().is_empty());
    assert_eq!(bye(&mut world, &ok, 2).flow, bob(1).0);
}

#[test]
fn a_connection_that_others_need_stays() {
    let mut world = World::new();
    let ok = call(&mut world);
    // A second account of the same phone.
    let carol = |connection: u64| {
        let contact = contact(40_000 + connection as u16, 1).replace("bob@", "carol@");
        bob(connection).register("carol", connection as u32, &contact)
    };
    assert_eq!(world.one(&bob(1), &carol(1)).first_line(), "SIP/2.0 200 OK");
    register(&mut world, 2, 1);
    assert!(world.service.output_mut().take_replaced().is_empty());
    assert_eq!(bye(&mut world, &ok, 2).flow, bob(1).0);
    // It moves too, and then the old flow is no longer needed.
    assert_eq!(world.one(&bob(2), &carol(2)).first_line(), "SIP/2.0 200 OK");
    assert_eq!(world.service.output_mut().take_replaced(), [bob(1).0]);
    assert_eq!(bye(&mut world, &ok, 3).flow, bob(2).0);
}

/// A phone behind a NAT, at this port of the NAT.
fn behind_nat(port: u16) -> Phone {
    Phone::udp(&format!("203.0.113.7:{port}"))
}

/// A call over UDP to bob, who registers with these headers from port 1000 and then from port 2000. Returns
/// the 200 that alice receives.
fn moved(world: &mut World, more: &str) -> String {
    let (old, new) = (behind_nat(1000), behind_nat(2000));
    assert_eq!(world.one(&old, &old.register("bob", 1, more)).first_line(), "SIP/2.0 200 OK");
    let invite = world.invite(&alice(), &alice().invite("bob", "1")).remove(0);
    assert_eq!(invite.flow, old.0);
    let ok = world.one(&old, &response(&invite.text, 200, "bob")).text;
    assert_eq!(world.one(&new, &new.register("bob", 2, more)).first_line(), "SIP/2.0 200 OK");
    ok
}

const AT_HOME: &str = "Contact: <sip:bob@192.168.1.10:5060>\r\n";

fn bye_over_udp(world: &mut World, ok: &str, cseq: u32) -> Flow {
    world.one(&alice(), &in_dialog("BYE", ok, "sip:bob@192.168.1.10:5060", &alice(), cseq, true)).flow
}

#[test]
fn a_dialog_over_udp_follows_its_phone() {
    let instance = "Supported: outbound\r\nContact: <sip:bob@192.168.1.10:5060;ob>;reg-id=1;+sip.instance=\"<urn:x>\"\r\n";
    for more in [instance, AT_HOME] {
        let mut world = World::new();
        let ok = moved(&mut world, more);
        assert_eq!(bye_over_udp(&mut world, &ok, 2), behind_nat(2000).0, "{more}");
        assert!(world.service.output_mut().take_replaced().is_empty());
        // Back again.
        let old = behind_nat(1000);
        world.one(&old, &old.register("bob", 3, more));
        assert_eq!(bye_over_udp(&mut world, &ok, 3), old.0, "{more}");
    }
}

#[test]
fn source_reused_by_another_phone_is_its_own() {
    let mut world = World::new();
    moved(&mut world, AT_HOME);
    // The NAT reassigns the port to carol. Her dialogs stay with her, whether she is registered or not.
    let carol = behind_nat(1000);
    let invite = world.invite(&carol, &carol.invite("bob", "2").replace("Call-ID: call", "Call-ID: 2"));
    let ok = response(&invite[0].text, 200, "bob");
    world.one(&behind_nat(2000), &ok);
    let bye = in_dialog("BYE", &ok, "sip:carol@203.0.113.7:1000", &behind_nat(2000), 9, false);
    assert_eq!(world.one(&behind_nat(2000), &bye).flow, carol.0);
}

#[test]
fn source_of_two_users_stays_until_both_left() {
    let (mut world, old, new) = (World::new(), behind_nat(1000), behind_nat(2000));
    let at_home = |user: &str| AT_HOME.replace("bob@", &format!("{user}@"));
    let mut dialogs = Vec::new();
    for user in ["bob", "carol"] {
        world.one(&old, &old.register(user, 1, &at_home(user)));
        let call = format!("Call-ID: {user}");
        let invite = alice().invite(user, user).replace("Call-ID: call", &call);
        let invite = world.invite(&alice(), &invite).remove(0);
        dialogs.push((world.one(&old, &response(&invite.text, 200, user)).text, user, call));
    }
    let goes_to = |world: &mut World, mut cseq: u32| -> Vec<Flow> {
        let mut bye = |(ok, user, call): &(String, &str, String)| {
            cseq += 1;
            let target = format!("sip:{user}@192.168.1.10:5060");
            in_dialog("BYE", ok, &target, &alice(), cseq, true).replace("Call-ID: call", call)
        };
        dialogs.iter().map(|dialog| world.one(&alice(), &bye(dialog)).flow).collect()
    };
    world.one(&new, &new.register("bob", 2, &at_home("bob")));
    assert_eq!(goes_to(&mut world, 1), [old.0, old.0], "carol is still there");
    world.one(&new, &new.register("carol", 2, &at_home("carol")));
    assert_eq!(goes_to(&mut world, 3), [new.0, new.0]);
}

#[test]
fn phone_with_equal_private_address_replaces_nothing() {
    let mut world = World::new();
    let old = behind_nat(1000);
    world.one(&old, &old.register("bob", 1, AT_HOME));
    let invite = world.invite(&alice(), &alice().invite("bob", "1")).remove(0);
    let ok = world.one(&old, &response(&invite.text, 200, "bob")).text;
    let new = Phone::udp("198.51.100.9:1000");
    let other = new.register("bob", 1, AT_HOME).replace("Call-ID: reg-bob", "Call-ID: other");
    assert_eq!(world.one(&new, &other).first_line(), "SIP/2.0 200 OK");
    assert_eq!(bye_over_udp(&mut world, &ok, 2), old.0);
}

/// Bob registers at a service where responses wait for the store.
fn register_durably(world: &mut World, connection: u64) {
    world.service.connection_opened(connection);
    let phone = bob(connection);
    let register = phone.register("bob", connection as u32, &contact(phone.0.peer.port(), 1));
    assert!(world.receive(&phone, &register).is_empty());
    world.service.output_mut().held.clear();
}

#[test]
fn phone_moving_to_another_worker_is_followed() {
    // Connection numbers identify their workers.
    let (old, new) = (129, 130);
    let mut workers = [worker(0, 3), worker(1, 3), worker(2, 3)];
    register_durably(&mut workers[1], old);
    let invite = workers[1].invite(&alice(), &alice().invite("bob", "1")).remove(0);
    let ok = workers[1].one(&bob(old), &response(&invite.text, 200, "bob")).text;
    let [first, second, third] = &mut workers;
    let journal = second.service.output().journal.clone();
    for other in [&mut *first, &mut *third] {
        Journal::read(journal.as_bytes()).for_each(|(aor, state)| {
            other.service.load("sip.2", aor, state);
        });
    }
    register_durably(third, new);
    let journal = third.service.output().journal.clone();
    for other in [&mut *first, &mut *second] {
        Journal::read(journal.as_bytes()).for_each(|(aor, state)| {
            other.service.load("sip.3", aor, state);
        });
    }
    // The worker that owns the connection closes it, and all workers know the new one.
    assert_eq!(second.service.output_mut().take_replaced(), [bob(old).0]);
    assert!(
        first.service.output_mut().take_replaced().is_empty()
            && third.service.output_mut().take_replaced().is_empty()
    );
    for (number, world) in workers.iter_mut().enumerate() {
        assert_eq!(bye(world, &ok, 2 + number as u32).flow, bob(new).0, "{number}");
    }
}

/// What one of three workers has recorded reaches the others.
fn share(workers: &mut [World; 3], from: usize) {
    let journal = std::mem::take(&mut workers[from].service.output_mut().journal);
    for (aor, state) in Journal::read(journal.as_bytes()) {
        for (_, other) in workers.iter_mut().enumerate().filter(|(number, _)| *number != from) {
            other.service.load(&format!("sip.{}", from + 1), aor, state);
        }
    }
}

/// The connection ends, which removes the binding at all workers, before the phone registers at another one.
#[test]
fn phone_disconnected_from_another_worker_is_followed() {
    let (old, new) = (129, 130);
    let mut workers = [worker(0, 3), worker(1, 3), worker(2, 3)];
    register_durably(&mut workers[1], old);
    let invite = workers[1].invite(&alice(), &alice().invite("bob", "1")).remove(0);
    let ok = workers[1].one(&bob(old), &response(&invite.text, 200, "bob")).text;
    share(&mut workers, 1);
    workers[1].service.connection_closed(old);
    share(&mut workers, 1);
    for world in [0, 2].map(|number| &workers[number]) {
        assert!(world.service.registrations().locations().bindings(b"bob@example.com").is_empty());
    }
    register_durably(&mut workers[2], new);
    share(&mut workers, 2);
    for (number, world) in workers.iter_mut().enumerate() {
        assert!(world.service.output_mut().take_replaced().is_empty(), "{number}");
        assert_eq!(bye(world, &ok, 2 + number as u32).flow, bob(new).0, "{number}");
    }
}

/// A phone that moves from one worker to another and back leaves nothing behind that is followed later.
#[test]
fn phone_back_at_its_worker_is_followed_there() {
    let (old, new, last) = (129, 130, 257);
    let mut workers = [worker(0, 3), worker(1, 3), worker(2, 3)];
    register_durably(&mut workers[1], old);
    let invite = workers[1].invite(&alice(), &alice().invite("bob", "1")).remove(0);
    let ok = workers[1].one(&bob(old), &response(&invite.text, 200, "bob")).text;
    share(&mut workers, 1);
    for (connection, owner, next) in [(old, 1, new), (new, 2, last)] {
        workers[owner].service.connection_closed(connection);
        share(&mut workers, owner);
        let to = 3 - owner;
        register_durably(&mut workers[to], next);
        share(&mut workers, to);
    }
    for (number, world) in workers.iter_mut().enumerate() {
        assert_eq!(bye(world, &ok, 2 + number as u32).flow, bob(last).0, "{number}");
    }
}

#[test]
fn phone_disconnected_from_another_node_is_followed() {
    let (mut a, mut b) = two();
    register_durably(&mut a, 7);
    let invite = a.invite(&alice(), &alice().invite("bob", "1")).remove(0);
    let ok = a.one(&bob(7), &response(&invite.text, 200, "bob")).text;
    follow(&mut a, "a", &mut b);
    a.service.connection_closed(7);
    follow(&mut a, "a", &mut b);
    register_durably(&mut b, 8);
    follow(&mut b, "b", &mut a);
    let between = bye(&mut a, &ok, 2);
    assert_eq!(between.flow.peer, "10.0.0.2:5060".parse().unwrap());
    let at_phone = b.one(&Phone::tcp("10.0.0.1:40000", 99), &between.text);
    assert_eq!((at_phone.flow, at_phone.line("Route")), (bob(8).0, None));
}

#[test]
fn phone_moving_to_another_node_is_followed() {
    let (mut a, mut b) = two();
    register_durably(&mut a, 7);
    let invite = a.invite(&alice(), &alice().invite("bob", "1")).remove(0);
    let ok = a.one(&bob(7), &response(&invite.text, 200, "bob")).text;
    follow(&mut a, "a", &mut b);
    register_durably(&mut b, 8);
    follow(&mut b, "b", &mut a);
    assert_eq!(a.service.output_mut().take_replaced(), [bob(7).0]);
    let between = bye(&mut a, &ok, 2);
    assert_eq!(between.flow.peer, "10.0.0.2:5060".parse().unwrap());
    let at_phone = b.one(&Phone::tcp("10.0.0.1:40000", 99), &between.text);
    assert_eq!((at_phone.flow, at_phone.line("Route")), (bob(8).0, None));
}
