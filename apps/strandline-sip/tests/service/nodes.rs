//! Nodes that share a store: a phone registered at one node is called through another.

use std::time::Duration;

use strandline_sip::auth::{
    Algorithm, Authenticator, CacheSettings, Nonces, Secret, Source, Subscribers, response,
};
use strandline_sip::bindings::Journal;
use strandline_sip::codec::Digest;
use strandline_sip::service::{Advertised, NodeAddress, Peer, Settings};
use strandline_sip::transaction::{Flow, Protocol};

use crate::harness::{Phone, Sent, World, settings};

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";

fn address(ip: &str) -> NodeAddress {
    NodeAddress::read(&format!("tcp:{ip}:5060")).unwrap()
}

fn node(name: &str, ip: &str) -> World {
    let advertised = |protocol| Advertised::new(protocol, ip.to_owned(), 5060);
    let settings =
        Settings { advertised: Protocol::ALL.map(advertised).to_vec(), durable: true, ..settings() };
    let mut world = World::with(settings);
    world.service.join(name, Some(address(ip)));
    world
}

pub fn knows(world: &mut World, name: &str, ip: &str, is_alive: bool) {
    let peer = Peer { name: name.to_owned(), address: Some(address(ip)), is_alive };
    world.service.set_nodes(vec![peer]);
}

/// Two nodes that know each other.
pub fn two() -> (World, World) {
    let (mut a, mut b) = (node("a", A), node("b", B));
    knows(&mut a, "b", B, true);
    knows(&mut b, "a", A, true);
    (a, b)
}

/// Registers a phone, and sends the response that waits for the store.
fn register(world: &mut World, phone: &Phone, user: &str, cseq: u32, more: &str) {
    if phone.0.connection != 0 {
        world.service.connection_opened(phone.0.connection);
    }
    let contact = format!("Contact: {}\r\n{more}", phone.contact(user));
    assert!(world.receive(phone, &phone.register(user, cseq, &contact)).is_empty());
    let (_, answer) = world.service.output().held.get(0).unwrap();
    assert!(answer.starts_with(b"SIP/2.0 200"));
    world.service.output_mut().held.clear();
}

/// Delivers the changes recorded by one node to the other.
pub fn follow(from: &mut World, name: &str, to: &mut World) {
    let journal = std::mem::take(&mut from.service.output_mut().journal);
    for (aor, state) in Journal::read(journal.as_bytes()) {
        to.service.load(name, aor, state);
    }
}

fn bindings(world: &World, user: &str) -> usize {
    world.service.registrations().locations().bindings(format!("{user}@example.com").as_bytes()).len()
}

/// A phone that asks to be reached over its connection.
fn over_connection() -> (Phone, &'static str) {
    (Phone::tcp("192.0.2.7:4000", 7), "Supported: outbound\r\n")
}

fn register_over_connection(world: &mut World, user: &str, cseq: u32) -> Phone {
    let (phone, more) = over_connection();
    world.service.connection_opened(7);
    let contact = format!("Contact: <sip:{user}@10.9.9.9;transport=tcp;ob>\r\n{more}");
    assert!(world.receive(&phone, &phone.register(user, cseq, &contact)).is_empty());
    world.service.output_mut().held.clear();
    phone
}

/// A message from one node to another, as it arrives over a connection.
fn at_other(sent: &Sent) -> (Phone, &str) {
    assert_eq!(sent.flow, Flow::to(Protocol::Tcp, address(A).address));
    (Phone::tcp("10.0.0.2:40000", 99), &sent.text)
}

#[test]
fn call_goes_through_the_node_with_connection() {
    let (mut a, mut b) = two();
    let phone = register_over_connection(&mut a, "bob", 1);
    follow(&mut a, "a", &mut b);
    let caller = Phone::udp("192.0.2.1:5060");
    let sent = b.invite(&caller, &caller.invite("bob", "1"));
    let (from_b, text) = at_other(&sent[0]);
    assert!(sent[0].line("Route").unwrap().contains("@10.0.0.1:5060;transport=tcp;lr>"), "{text}");
    let at_phone = a.invite(&from_b, text);
    assert_eq!(at_phone[0].flow, phone.0);
    assert_eq!(at_phone[0].line("Route"), None);
    assert_eq!(at_phone[0].lines("Record-Route").len(), 3, "{}", at_phone[0].text);
    // The connection closes. Its node reports that, and so do others once they know.
    let again = b.invite(&caller, &caller.invite("bob", "2"));
    a.service.connection_closed(7);
    let gone = a.one(&from_b, &again[0].text);
    assert_eq!(gone.first_line(), "SIP/2.0 430 Flow Failed");
    follow(&mut a, "a", &mut b);
    let gone = b.one(&caller, &caller.invite("bob", "3"));
    assert_eq!(gone.first_line(), "SIP/2.0 404 Not Found");
}

#[test]
fn flows_are_given_to_nodes_only() {
    let (mut a, mut b) = two();
    register_over_connection(&mut a, "bob", 1);
    follow(&mut a, "a", &mut b);
    let caller = Phone::udp("192.0.2.1:5060");
    let sent = b.invite(&caller, &caller.invite("bob", "1"));
    let (_, text) = at_other(&sent[0]);
    // The request from a stranger, and from a node with a damaged token.
    let stranger = Phone::tcp("192.0.2.66:5060", 66);
    assert_eq!(a.one(&stranger, text).first_line(), "SIP/2.0 403 Relaying Denied");
    let forged = text.replacen("\r\nRoute: <sip:", "\r\nRoute: <sip:A", 1).replace("z9hG4bK", "z9hG4bKx");
    let from_b = Phone::tcp("10.0.0.2:40000", 99);
    assert_eq!(a.one(&from_b, &forged).first_line(), "SIP/2.0 403 Relaying Denied");
}

#[test]
fn lost_node_takes_its_connections_along() {
    let (mut a, mut b) = two();
    register_over_connection(&mut a, "bob", 1);
    let (udp, tcp) = (Phone::udp("192.0.2.8:5060"), Phone::tcp("192.0.2.9:5060", 9));
    register(&mut a, &udp, "eve", 1, "");
    register(&mut a, &tcp, "ann", 1, "");
    follow(&mut a, "a", &mut b);
    knows(&mut b, "a", A, false);
    let caller = Phone::udp("192.0.2.1:5060");
    let gone = b.one(&caller, &caller.invite("bob", "1"));
    assert_eq!(gone.first_line(), "SIP/2.0 480 Temporarily Unavailable");
    assert_eq!(b.invite(&caller, &caller.invite("eve", "2"))[0].flow, udp.0);
    // This phone also listens at its address.
    assert_eq!(b.invite(&caller, &caller.invite("ann", "3"))[0].flow, Flow::to(Protocol::Tcp, tcp.0.peer));
    // The phone registers at the other node, with the same CSeq because it received no response. It is then
    // reached over the new connection.
    let (phone, _) = over_connection();
    register_over_connection(&mut b, "bob", 1);
    assert_eq!(b.invite(&caller, &caller.invite("bob", "4"))[0].flow, phone.0);
    assert_eq!(bindings(&b, "bob"), 1);
}

#[test]
fn unreachable_node_counts_as_failed_flow() {
    let (mut a, mut b) = two();
    register_over_connection(&mut a, "bob", 1);
    follow(&mut a, "a", &mut b);
    let caller = Phone::udp("192.0.2.1:5060");
    b.service.handle_message(b.now, caller.0, caller.invite("bob", "1").as_bytes());
    let client = b.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
    b.sent();
    b.service.send_failed(b.now, client);
    assert_eq!(b.sent()[0].first_line(), "SIP/2.0 480 Temporarily Unavailable");
}

#[test]
fn concurrent_changes_at_nodes_keep_all_contacts() {
    let (mut a, mut b) = two();
    let (first, second) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    register(&mut a, &first, "bob", 1, "");
    register(&mut b, &second, "bob", 1, "");
    let (from_a, from_b) = (a.service.output().journal.clone(), b.service.output().journal.clone());
    follow(&mut a, "a", &mut b);
    for (aor, state) in Journal::read(from_b.as_bytes()) {
        a.service.load("b", aor, state);
    }
    assert_eq!((bindings(&a, "bob"), bindings(&b, "bob")), (2, 2));
    // A third node reaches the same state, whatever the order and number of deliveries.
    for order in [["a", "b", "a"], ["b", "a", "b"]] {
        let mut c = node("c", "10.0.0.3");
        for name in order {
            let journal = if name == "a" { &from_a } else { &from_b };
            Journal::read(journal.as_bytes()).for_each(|(aor, state)| {
                c.service.load(name, aor, state);
            });
        }
        assert_eq!(bindings(&c, "bob"), 2);
    }
}

#[test]
fn moved_or_removed_bindings_stay_so_everywhere() {
    let (mut a, mut b) = two();
    let phone = Phone::udp("192.0.2.1:5060");
    register(&mut a, &phone, "bob", 1, "");
    let old = a.service.output().journal.clone();
    follow(&mut a, "a", &mut b);
    register(&mut b, &phone, "bob", 2, "");
    let moved = b.service.output().journal.clone();
    follow(&mut b, "b", &mut a);
    // The node that lost the binding removes it, from the store too.
    let forgotten = a.service.output().journal.clone();
    assert_eq!(Journal::read(forgotten.as_bytes()).last(), Some((&b"bob@example.com"[..], &b""[..])));
    assert_eq!((bindings(&a, "bob"), bindings(&b, "bob")), (1, 1));
    // Removed at a node that didn't create it.
    a.service.output_mut().journal.clear();
    register(&mut a, &phone, "bob", 3, "Expires: 0\r\n");
    let removed = a.service.output().journal.clone();
    follow(&mut a, "a", &mut b);
    assert_eq!((bindings(&a, "bob"), bindings(&b, "bob")), (0, 0));
    // A node that reads everything in another order, or outdated states, agrees.
    let mut c = node("c", "10.0.0.3");
    for (name, journal) in [("a", &removed), ("b", &moved), ("a", &removed)] {
        Journal::read(journal.as_bytes()).for_each(|(aor, state)| {
            c.service.load(name, aor, state);
        });
    }
    assert_eq!(bindings(&c, "bob"), 0);
    // A removal is kept until the binding would have expired, and is then removed from the store.
    let mut d = node("d", "10.0.0.4");
    for (name, journal) in [("b", &moved), ("a", &old)] {
        Journal::read(journal.as_bytes()).for_each(|(aor, state)| {
            d.service.load(name, aor, state);
        });
    }
    assert_eq!(bindings(&d, "bob"), 1);
    let later = strandline_sip::transaction::Time::from_millis(4_000_000);
    for _ in 0..3 {
        a.service.sweep(later, 1000);
        register(&mut a, &phone, "other", 9, "");
        a.service.sweep(later, 1000);
    }
    let swept = Journal::read(a.service.output().journal.as_bytes())
        .any(|(aor, state)| aor == b"bob@example.com" && state.is_empty());
    assert!(swept);
}

/// A request at one node may remove a binding created at another.
#[test]
fn removal_by_another_node_reaches_the_owner() {
    let (mut a, mut b) = two();
    register_over_connection(&mut a, "bob", 1);
    follow(&mut a, "a", &mut b);
    let now = b.now + Duration::from_secs(1);
    let removed = b.service.unbind(now, b"bob@example.com", None);
    assert!(removed.len() == 1 && removed[0].origin.is_some());
    assert_eq!(bindings(&b, "bob"), 0);
    follow(&mut b, "b", &mut a);
    assert_eq!(bindings(&a, "bob"), 0);
}

#[test]
fn contact_changes_elsewhere_spare_the_others() {
    let (mut a, mut b) = two();
    let (first, second) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    register(&mut a, &first, "bob", 1, "");
    register(&mut a, &second, "bob", 2, "");
    follow(&mut a, "a", &mut b);
    // The most recent contact is removed at the other node.
    register(&mut b, &second, "bob", 3, "Expires: 0\r\n");
    follow(&mut b, "b", &mut a);
    assert_eq!((bindings(&a, "bob"), bindings(&b, "bob")), (1, 1));
    // Once the first node has reported the removal, the other node needn't keep it.
    let note = b"\tremoved\ta\t";
    follow(&mut a, "a", &mut b);
    let told = b.service.output().journal.clone();
    let (_, state) = Journal::read(told.as_bytes()).last().unwrap();
    assert!(!state.windows(note.len()).any(|part| part == note), "{}", String::from_utf8_lossy(state));
    follow(&mut b, "b", &mut a);
    assert!(a.service.output().journal.is_empty());
    assert_eq!((bindings(&a, "bob"), bindings(&b, "bob")), (1, 1));
}

#[test]
fn full_report_of_a_node_replaces_its_state() {
    let (mut a, mut b) = two();
    register(&mut a, &Phone::udp("192.0.2.1:5060"), "bob", 1, "");
    register(&mut a, &Phone::udp("192.0.2.2:5060"), "eve", 1, "");
    follow(&mut a, "a", &mut b);
    register(&mut b, &Phone::udp("192.0.2.3:5060"), "bob", 1, "");
    b.service.forget_node("a");
    assert_eq!((bindings(&b, "bob"), bindings(&b, "eve")), (1, 0));
    // A node never drops its own bindings.
    b.service.forget_node("b");
    assert_eq!(bindings(&b, "bob"), 1);
}

fn subscribers(world: &mut World) {
    let cache =
        CacheSettings { max: 100, lifetime: Duration::from_secs(300), unknown: Duration::from_secs(10) };
    let nonces = Nonces::new([9; 16], Duration::from_secs(300), 16);
    let users = Source::Table(Subscribers::new(cache));
    let realm = "example.com".to_owned();
    world.service.access_mut().set_authenticator(Some(Authenticator::new(
        realm,
        vec![Algorithm::Sha256],
        users,
        nonces,
        [1; 16],
    )));
}

pub fn with_credentials(phone: &Phone, user: &str, challenge: &Sent, password: &str, cseq: u32) -> String {
    let line = challenge.line("WWW-Authenticate").unwrap();
    let nonce = line.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap();
    let secret = Algorithm::Sha256.hash(&[user.as_bytes(), b"example.com", password.as_bytes()]);
    let digest = Digest {
        nonce: Some(nonce.as_bytes()),
        uri: Some(b"sip:example.com"),
        qop: Some(b"auth"),
        nc: Some(b"00000001"),
        cnonce: Some(b"c"),
        ..Digest::default()
    };
    let answer = String::from_utf8(response(Algorithm::Sha256, &secret, b"REGISTER", &digest)).unwrap();
    let header = format!(
        "Authorization: Digest username=\"{user}\", realm=\"example.com\", nonce=\"{nonce}\", uri=\"sip:example.com\", \
         response=\"{answer}\", algorithm=SHA-256, cnonce=\"c\", qop=auth, nc=00000001\r\n"
    );
    phone.register(user, cseq, &header)
}

#[test]
fn request_waits_for_its_users_lookup() {
    let mut world = World::new();
    subscribers(&mut world);
    let phone = Phone::udp("192.0.2.1:5060");
    // No lookup for a request without one of this server's nonces.
    let challenge = world.one(&phone, &phone.register("bob", 1, ""));
    assert!(challenge.first_line().starts_with("SIP/2.0 401"));
    assert!(world.service.access_mut().take_wanted().is_empty());
    let text = with_credentials(&phone, "bob", &challenge, "wonder", 2);
    assert!(world.receive(&phone, &text).is_empty());
    assert!(world.receive(&phone, &text).is_empty(), "a repetition waits as well");
    let wanted = world.service.access_mut().take_wanted();
    assert_eq!(wanted.len(), 1);
    assert_eq!((&*wanted[0].user, &*wanted[0].domain), (&b"bob"[..], &b"example.com"[..]));
    let secret = Secret::of(Some(b"wonder".to_vec()), Vec::new());
    world.service.handle_subscriber(world.now, wanted[0].clone(), Some(secret));
    let sent = world.sent();
    assert_eq!(sent.len(), 1, "{sent:#?}");
    assert_eq!(sent[0].first_line(), "SIP/2.0 200 OK");
    assert_eq!(world.service.access().waiting(), 0);
    // The next time, no lookup is needed.
    let challenge = world.one(&phone, &phone.register("bob", 3, ""));
    let text = with_credentials(&phone, "bob", &challenge, "wonder", 4);
    assert_eq!(world.one(&phone, &text).first_line(), "SIP/2.0 200 OK");
}

#[test]
fn failed_lookup_is_503_and_unknown_challenged() {
    let mut world = World::new();
    subscribers(&mut world);
    let phone = Phone::udp("192.0.2.1:5060");
    let challenge = world.one(&phone, &phone.register("eve", 1, ""));
    let text = with_credentials(&phone, "eve", &challenge, "guess", 2);
    assert!(world.receive(&phone, &text).is_empty());
    let eve = world.service.access_mut().take_wanted().remove(0);
    world.service.handle_subscriber(world.now, eve.clone(), None);
    let later = world.sent().remove(0);
    assert_eq!(later.first_line(), "SIP/2.0 503 Service Unavailable");
    assert_eq!(later.line("Retry-After"), Some("10"));
    assert!(world.receive(&phone, &text.replace("z9hG4bK", "z9hG4bKx")).is_empty());
    assert_eq!(world.service.access_mut().take_wanted(), std::slice::from_ref(&eve));
    world.service.handle_subscriber(world.now, eve, Some(None));
    assert!(world.sent().remove(0).first_line().starts_with("SIP/2.0 401"));
    // The user is known not to exist, so no lookup is made.
    let sent = world.one(&phone, &text.replace("z9hG4bK", "z9hG4bKy"));
    assert!(sent.first_line().starts_with("SIP/2.0 401"));
    assert!(world.service.access_mut().take_wanted().is_empty());
}

#[test]
fn nonce_of_another_node_is_stale() {
    let mut nonces = Nonces::new([9; 16], Duration::from_secs(300), 16).of_run(1);
    let users = || strandline_sip::auth::Users::read("bob:password:wonder\n").unwrap();
    let mut world = World::new();
    let own = Nonces::new([9; 16], Duration::from_secs(300), 16).of_run(2);
    let realm = "example.com".to_owned();
    let source = Source::Users(users());
    world.service.access_mut().set_authenticator(Some(Authenticator::new(
        realm,
        vec![Algorithm::Sha256],
        source,
        own,
        [1; 16],
    )));
    let phone = Phone::udp("192.0.2.1:5060");
    let mut challenge = world.one(&phone, &phone.register("bob", 1, ""));
    let foreign = nonces.make(world.now, phone.0.peer.ip());
    let nonce = challenge.text.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    challenge.text = challenge.text.replace(&nonce, &foreign);
    let answer = world.one(&phone, &with_credentials(&phone, "bob", &challenge, "wonder", 2));
    assert!(answer.line("WWW-Authenticate").unwrap().contains("stale=true"), "{}", answer.text);
}

#[test]
fn alias_subscribers_are_sought_in_their_domain() {
    use strandline_sip::service::{Directory, Settings};
    let base = crate::harness::settings();
    let domains = [("Example.net", "example.com")].map(|(a, b)| (a.to_lowercase(), b.to_owned()));
    let mut named = base.domains.clone();
    named.push("example.net".to_owned());
    let directory = Directory { domains: domains.into(), ..Directory::default() };
    let mut world = World::with(Settings { directory, domains: named, ..base });
    subscribers(&mut world);
    let phone = Phone::udp("192.0.2.1:5060");
    let challenge = world.one(&phone, &phone.register("bob", 1, ""));
    let text = with_credentials(&phone, "bob", &challenge, "wonder", 2);
    let text = text.replace("<sip:bob@example.com>", "<sip:bob@Example.NET>");
    assert!(world.receive(&phone, &text).is_empty());
    let wanted = world.service.access_mut().take_wanted().remove(0);
    assert_eq!((&*wanted.user, &*wanted.domain), (&b"bob"[..], &b"example.com"[..]));
    world.service.handle_subscriber(
        world.now,
        wanted,
        Some(Secret::of(Some(b"wonder".to_vec()), Vec::new())),
    );
    assert_eq!(world.sent()[0].first_line(), "SIP/2.0 200 OK");
}
