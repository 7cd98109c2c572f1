//! Workers of one server at the same addresses: messages for a connection of another worker, and messages
//! that arrive at the wrong worker.

use strandline_sip::bindings::Journal;
use strandline_sip::service::Misdirected;
use strandline_sip::transaction::worker_of;

use crate::harness::{Phone, Sent, World, in_dialog, response, settings};

/// A connection of the first worker, and one of the second.
const OF_FIRST: u64 = 128;
const OF_SECOND: u64 = 129;

pub fn worker(own: u8, count: u8) -> World {
    let mut world = World::with(strandline_sip::service::Settings { durable: true, ..settings() });
    world.service.join(&format!("sip.{}", own + 1), None);
    let names: Vec<String> = (0..count).map(|worker| format!("sip.{}", worker + 1)).collect();
    world.service.set_workers(own, &names);
    world.service.setup_mut().set_workers_alive((1 << count) - 1);
    world
}

/// A TCP phone that asks to be reached over its connection and is registered at the second worker; both
/// workers know it.
fn registered(first: &mut World, second: &mut World, more: &str) -> Phone {
    let phone = Phone::tcp("192.0.2.7:4000", OF_SECOND);
    second.service.connection_opened(OF_SECOND);
    assert!(second.receive(&phone, &phone.register("bob", 1, more)).is_empty());
    second.service.output_mut().held.clear();
    follow(second, "sip.2", first);
    phone
}

const OVER_FLOW: &str = "Contact: <sip:bob@10.9.9.9;transport=tcp;ob>\r\nSupported: outbound\r\n";
/// The phone listens at another port than that of its connection, and asks for nothing.
const LISTENS: &str = "Contact: <sip:bob@192.0.2.7:5060;transport=tcp>\r\n";

fn follow(from: &mut World, name: &str, to: &mut World) {
    let journal = std::mem::take(&mut from.service.output_mut().journal);
    for (aor, state) in Journal::read(journal.as_bytes()) {
        to.service.load(name, aor, state);
    }
}

fn only(mut sent: Vec<Sent>) -> Sent {
    assert_eq!(sent.len(), 1, "{sent:#?}");
    sent.remove(0)
}

fn misdirected(world: &mut World) -> Misdirected {
    let mut misdirected = world.service.output_mut().take_misdirected();
    assert_eq!(misdirected.len(), 1, "{misdirected:#?}");
    misdirected.remove(0)
}

/// Hands over what one worker has for another.
fn handed(to: &mut World, misdirected: &Misdirected) -> Vec<Sent> {
    to.service.handle_misdirected(to.now, misdirected.flow, misdirected.first, &misdirected.bytes);
    to.sent()
}

#[test]
fn call_uses_another_workers_connection_directly() {
    let (mut first, mut second) = (worker(0, 2), worker(1, 2));
    let phone = registered(&mut first, &mut second, OVER_FLOW);
    let caller = Phone::udp("192.0.2.1:5060");
    let invite = only(first.invite(&caller, &caller.invite("bob", "1")));
    assert_eq!((invite.flow, worker_of(invite.flow.connection)), (phone.0, 1));
    assert_eq!((invite.line("Route"), invite.lines("Via").len()), (None, 2));
    assert_eq!(invite.lines("Record-Route").len(), 2, "one for each transport");
    // The response comes over the phone's connection, to the worker that owns it.
    let ok = response(&invite.text, 200, "bob");
    assert!(second.receive(&phone, &ok).is_empty());
    let stray = misdirected(&mut second);
    assert_eq!((stray.worker, stray.first), (0, 1));
    let at_caller = only(handed(&mut first, &stray));
    assert_eq!((at_caller.flow, at_caller.first_line()), (caller.0, "SIP/2.0 200 OK"));
    // Within the dialog, any worker knows the flows to both ends.
    for (number, world) in [&mut first, &mut second].into_iter().enumerate() {
        let cseq = 2 + number as u32;
        let target = "sip:bob@10.9.9.9;transport=tcp;ob";
        let bye = in_dialog("BYE", &at_caller.text, target, &caller, cseq, true);
        assert_eq!(only(world.receive(&caller, &bye)).flow, phone.0);
        let bye = in_dialog("BYE", &at_caller.text, "sip:alice@192.0.2.1:5060", &phone, cseq, false);
        assert_eq!(only(world.receive(&phone, &bye)).flow, caller.0);
    }
}

#[test]
fn stray_response_is_handed_over_once() {
    let (mut first, mut second) = (worker(0, 2), worker(1, 2));
    let phone = registered(&mut first, &mut second, OVER_FLOW);
    let caller = Phone::udp("192.0.2.1:5060");
    let invite = only(first.invite(&caller, &caller.invite("bob", "1")));
    let ok = response(&invite.text, 200, "bob");
    assert!(second.receive(&phone, &ok).is_empty());
    let stray = misdirected(&mut second);
    // Another run of the first worker doesn't know it, and it doesn't concern a third one.
    let mut again = worker(0, 2);
    assert!(handed(&mut again, &stray).is_empty());
    assert!(again.service.output_mut().take_misdirected().is_empty());
    let mut third = worker(2, 3);
    assert!(handed(&mut third, &stray).is_empty());
    assert!(third.service.output_mut().take_misdirected().is_empty());
}

#[test]
fn vanished_connection_at_a_worker_is_480() {
    let (mut first, mut second) = (worker(0, 2), worker(1, 2));
    registered(&mut first, &mut second, OVER_FLOW);
    let caller = Phone::udp("192.0.2.1:5060");
    // The other worker reports that sending failed.
    let message = caller.request("MESSAGE", "sip:bob@example.com", "m", "");
    let client = client_of(&mut first, &caller, &message);
    first.service.send_failed(first.now, client);
    assert_eq!(only(first.sent()).first_line(), "SIP/2.0 480 Temporarily Unavailable");
    // The worker has ended.
    first.service.setup_mut().set_workers_alive(1);
    let gone = first.one(&caller, &caller.invite("bob", "2").replace("Call-ID: call", "Call-ID: other"));
    assert_eq!(gone.first_line(), "SIP/2.0 480 Temporarily Unavailable");
}

/// The transaction of the request that is forwarded.
fn client_of(world: &mut World, phone: &Phone, text: &str) -> strandline_sip::transaction::ClientId {
    world.service.handle_message(world.now, phone.0, text.as_bytes());
    let client = world.service.output().out.iter().find_map(|(item, _)| item.client);
    world.service.output_mut().out.clear();
    client.unwrap()
}

#[test]
fn connection_ending_at_a_worker_falls_back() {
    let (mut first, mut second) = (worker(0, 2), worker(1, 2));
    let phone = registered(&mut first, &mut second, LISTENS);
    let caller = Phone::udp("192.0.2.1:5060");
    let invite = only(first.invite(&caller, &caller.invite("bob", "1")));
    assert_eq!(invite.flow, phone.0);
    second.service.connection_closed(OF_SECOND);
    assert_eq!(second.service.output_mut().take_closed(), [OF_SECOND]);
    first.service.worker_connection_closed(OF_SECOND);
    let again = only(first.run_until(1));
    assert_eq!((again.flow.connection, again.flow.peer), (0, "192.0.2.7:5060".parse().unwrap()));
}

#[test]
fn cancel_visits_one_worker_after_another() {
    let mut workers = [worker(0, 3), worker(1, 3), worker(2, 3)];
    let callee = Phone::udp("192.0.2.2:5060");
    let contact = format!("Contact: {}\r\n", callee.contact("bob"));
    assert!(workers[2].receive(&callee, &callee.register("bob", 1, &contact)).is_empty());
    let caller = Phone::udp("192.0.2.1:5060");
    let invite = only(workers[2].invite(&caller, &caller.invite("bob", "1")));
    let ringing = response(&invite.text, 180, "bob");
    assert_eq!(only(workers[2].receive(&callee, &ringing)).first_line(), "SIP/2.0 180 Ringing");
    // The CANCEL comes from another port, to a worker that doesn't know the call.
    let other = Phone::udp("192.0.2.1:6060");
    let cancel = caller.request("CANCEL", "sip:bob@example.com", "1", "");
    assert!(workers[0].receive(&other, &cancel).is_empty());
    let stray = misdirected(&mut workers[0]);
    assert_eq!((stray.worker, stray.first, stray.flow), (1, 0, other.0));
    assert!(handed(&mut workers[1], &stray).is_empty());
    let stray = misdirected(&mut workers[1]);
    assert_eq!((stray.worker, stray.first), (2, 0));
    let sent = handed(&mut workers[2], &stray);
    assert_eq!((sent[0].flow, sent[0].first_line()), (other.0, "SIP/2.0 200 OK"));
    assert!(sent[1].text.starts_with("CANCEL ") && sent[1].flow.peer == callee.0.peer);
    // A CANCEL that matches nothing is answered by the last worker.
    let unknown = caller.request("CANCEL", "sip:bob@example.com", "9", "");
    assert!(workers[1].receive(&other, &unknown).is_empty());
    let stray = misdirected(&mut workers[1]);
    assert!(handed(&mut workers[2], &stray).is_empty());
    let stray = misdirected(&mut workers[2]);
    assert_eq!((stray.worker, stray.first), (0, 1));
    let refused = only(handed(&mut workers[0], &stray));
    assert_eq!(refused.first_line(), "SIP/2.0 481 Call/Transaction Does Not Exist");
    assert!(workers[0].service.output_mut().take_misdirected().is_empty());
}

#[test]
fn contact_moving_between_workers_exists_once() {
    let (mut first, mut second) = (worker(0, 2), worker(1, 2));
    registered(&mut first, &mut second, LISTENS);
    // The phone reconnects, and the kernel assigns the connection to the other worker.
    let phone = Phone::tcp("192.0.2.7:4001", OF_FIRST);
    first.service.connection_opened(OF_FIRST);
    assert!(first.receive(&phone, &phone.register("bob", 2, LISTENS)).is_empty());
    first.service.output_mut().held.clear();
    follow(&mut first, "sip.1", &mut second);
    for world in [&first, &second] {
        let bindings = world.service.registrations().locations().bindings(b"bob@example.com");
        assert_eq!(bindings.iter().map(|one| one.flow).collect::<Vec<_>>(), [phone.0]);
    }
    // The second worker drops its binding and reports that.
    follow(&mut second, "sip.2", &mut first);
    assert_eq!(first.service.registrations().locations().bindings(b"bob@example.com").len(), 1);
}
