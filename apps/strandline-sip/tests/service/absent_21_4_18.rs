//! Calls to users who are not registered: 480 if the user exists, 404 otherwise (sections 16.5, 21.4.5 and
//! 21.4.18).

use std::time::Duration;

use strandline_sip::auth::{
    Algorithm, Authenticator, CacheSettings, Nonces, Secret, Source, Subscribers, Users, response,
};
use strandline_sip::codec::Digest;
use strandline_sip::service::{Alias, Directory, Mode, Relay, Settings};

use crate::harness::{Phone, Sent, World, settings};

const UNAVAILABLE: &str = "SIP/2.0 480 Temporarily Unavailable";
const NOT_FOUND: &str = "SIP/2.0 404 Not Found";

/// A service that relays requests from the gateways at 203.0.113.0/24.
fn world() -> World {
    let relay = Relay { open: false, from: vec![([203, 0, 113, 0].into(), 24)] };
    World::with(Settings { relay, ..settings() })
}

/// Sets the users of the service.
fn ask_with(world: &mut World, users: Source) {
    let nonces = Nonces::new([9; 16], Duration::from_secs(300), 1 << 10);
    let (realm, all) = ("example.com".to_owned(), vec![Algorithm::Sha256]);
    world
        .service
        .access_mut()
        .set_authenticator(Some(Authenticator::new(realm, all, users, nonces, [1; 16])));
}

fn file(text: &str) -> Source {
    Source::Users(Users::read(text).unwrap())
}

fn table() -> Source {
    let (lifetime, unknown) = (Duration::from_secs(300), Duration::from_secs(10));
    Source::Table(Subscribers::new(CacheSettings { max: 1000, lifetime, unknown }))
}

/// A service whose users are in a table.
fn with_table() -> World {
    let mut world = world();
    ask_with(&mut world, table());
    world
}

fn gateway() -> Phone {
    Phone::udp("203.0.113.1:5060")
}

/// A call from another domain.
fn call(from: &Phone, uri: &str, branch: &str) -> String {
    from.request("INVITE", uri, branch, "").replace("sip:alice@example.com", "sip:alice@example.net")
}

fn password(text: &str) -> Option<Secret> {
    Secret::of(Some(text.into()), Vec::new())
}

/// A call from alice of this domain, with credentials if there was a challenge.
fn own_call(from: &Phone, callee: &str, branch: &str, challenge: Option<&Sent>) -> String {
    let uri = format!("sip:{callee}@example.com");
    let Some(challenge) = challenge else { return from.request("INVITE", &uri, branch, "") };
    let line = challenge.line("Proxy-Authenticate").unwrap();
    let nonce = line.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap();
    let digest = Digest {
        nonce: Some(nonce.as_bytes()),
        uri: Some(uri.as_bytes()),
        qop: Some(b"auth"),
        nc: Some(b"00000001"),
        cnonce: Some(b"c"),
        ..Digest::default()
    };
    let secret = Algorithm::Sha256.hash(&[b"alice", b"example.com", b"wonder"]);
    let answer = String::from_utf8(response(Algorithm::Sha256, &secret, b"INVITE", &digest)).unwrap();
    let header = format!(
        "Proxy-Authorization: Digest username=\"alice\", realm=\"example.com\", nonce=\"{nonce}\", uri=\"{uri}\", \
         response=\"{answer}\", algorithm=SHA-256, cnonce=\"c\", qop=auth, nc=00000001\r\n"
    );
    from.request("INVITE", &uri, branch, &header)
}

#[test]
fn known_user_is_480_and_unknown_404() {
    let mut world = world();
    ask_with(&mut world, file("bob:password:x\ncarol@example.org:password:x\n"));
    let stranger = Phone::udp("192.0.2.66:5060");
    for (number, (user, line)) in
        [("bob", UNAVAILABLE), ("%62ob", UNAVAILABLE), ("carol", NOT_FOUND), ("nobody", NOT_FOUND)]
            .into_iter()
            .enumerate()
    {
        for method in ["INVITE", "MESSAGE", "OPTIONS"] {
            let text = call(&stranger, &format!("sip:{user}@example.com"), &number.to_string());
            let text = text.replace("INVITE", method);
            assert_eq!(world.one(&stranger, &text).first_line(), line, "{method} {user}");
        }
    }
    // A registered user is reached, and is unavailable again after the registration ends.
    world.service.access_mut().set_authenticator(None);
    let bob = Phone::udp("192.0.2.2:5060");
    world.register_with(&bob, "bob", &format!("Contact: {};expires=60\r\n", bob.contact("bob")));
    ask_with(&mut world, file("bob:password:x\n"));
    assert_eq!(world.invite(&stranger, &call(&stranger, "sip:bob@example.com", "r"))[0].flow, bob.0);
    world.run_until(61_000);
    let text = call(&stranger, "sip:bob@example.com", "s");
    assert_eq!(world.one(&stranger, &text).first_line(), UNAVAILABLE);
}

#[test]
fn call_waits_for_the_subscriber_lookup() {
    let mut world = with_table();
    let found = [(password("x"), UNAVAILABLE), (None, NOT_FOUND)];
    for (number, (secret, line)) in found.into_iter().enumerate() {
        let text = call(&gateway(), &format!("sip:user{number}@example.com"), &number.to_string());
        assert!(world.receive(&gateway(), &text).is_empty());
        assert!(world.receive(&gateway(), &text).is_empty(), "a repetition waits as well");
        let wanted = world.service.access_mut().take_wanted();
        assert_eq!(wanted.len(), 1);
        assert_eq!(*wanted[0].user, *format!("user{number}").as_bytes());
        assert_eq!(*wanted[0].domain, *b"example.com");
        world.service.handle_subscriber(world.now, wanted[0].clone(), Some(secret));
        let sent = world.sent();
        assert_eq!((sent.len(), sent[0].first_line()), (1, line));
        // The result is cached, for a retransmission and for other callers.
        assert_eq!(world.one(&gateway(), &text).first_line(), line);
        let other = Phone::udp("192.0.2.66:5060");
        let text = call(&other, &format!("sip:user{number}@example.com"), "other");
        assert_eq!(world.one(&other, &text).first_line(), line);
        assert!(world.service.access_mut().take_wanted().is_empty());
    }
    assert_eq!((world.service.access().waiting(), world.service.transactions().counts()), (0, (0, 0)));
}

#[test]
fn registered_users_and_strangers_need_no_lookup() {
    let mut world = world();
    let bob = Phone::udp("192.0.2.2:5060");
    world.register(&bob, "bob");
    ask_with(&mut world, table());
    assert_eq!(world.invite(&gateway(), &call(&gateway(), "sip:bob@example.com", "1"))[0].flow, bob.0);
    let stranger = Phone::udp("192.0.2.66:5060");
    let text = call(&stranger, "sip:carol@example.com", "2");
    assert_eq!(world.one(&stranger, &text).first_line(), UNAVAILABLE, "nobody knows better");
    // The domain itself is not a subscriber.
    let text = call(&gateway(), "sip:example.com", "3");
    assert_eq!(world.one(&gateway(), &text).first_line(), NOT_FOUND);
    assert!(world.service.access_mut().take_wanted().is_empty());
}

#[test]
fn while_nobody_can_look_a_callee_is_unavailable() {
    let mut world = with_table();
    let text = call(&gateway(), "sip:bob@example.com", "1");
    assert!(world.receive(&gateway(), &text).is_empty());
    let bob = world.service.access_mut().take_wanted().remove(0);
    world.service.handle_subscriber(world.now, bob, None);
    let sent = world.sent();
    // 503 would tell others that this whole server is unavailable.
    assert_eq!((sent[0].first_line(), sent[0].line("Retry-After")), (UNAVAILABLE, None));
}

#[test]
fn calls_in_lookup_leave_room_for_registers() {
    let mut world = with_table();
    let answered = (0..16)
        .filter(|number| {
            let text = call(&gateway(), "sip:bob@example.com", &format!("m{number}"));
            let sent = world.receive(&gateway(), &text.replace("Call-ID: ", &format!("Call-ID: {number}")));
            sent.iter().any(|one| one.first_line() == UNAVAILABLE)
        })
        .count();
    assert_eq!((answered, world.service.access().waiting()), (8, 8));
    assert_eq!(world.service.access_mut().take_wanted().len(), 1);
}

#[test]
fn callee_lookup_keeps_the_callers_password() {
    let mut world = with_table();
    let alice = Phone::udp("192.0.2.1:5060");
    let challenge = world.one(&alice, &own_call(&alice, "bob", "1", None));
    assert!(world.receive(&alice, &own_call(&alice, "bob", "2", Some(&challenge))).is_empty());
    let mut wanted = world.service.access_mut().take_wanted();
    assert_eq!(*wanted[0].user, *b"alice");
    world.service.handle_subscriber(world.now, wanted.remove(0), Some(password("wonder")));
    assert!(world.sent().is_empty());
    let mut wanted = world.service.access_mut().take_wanted();
    assert_eq!(*wanted[0].user, *b"bob");
    world.service.handle_subscriber(world.now, wanted.remove(0), Some(password("x")));
    let sent = world.sent();
    assert_eq!((sent.len(), sent[0].first_line()), (1, UNAVAILABLE));
}

#[test]
fn alias_target_is_480_without_directory() {
    let aliases = [(b"info@example.com".to_vec(), vec![Alias::User(b"bob@example.com".to_vec())])];
    for mode in [Mode::Proxy, Mode::Redirect] {
        let directory = Directory { users: aliases.clone().into(), ..Directory::default() };
        let mut world = World::with(Settings { mode, directory, ..settings() });
        let caller = Phone::udp("192.0.2.1:5060");
        assert_eq!(world.one(&caller, &caller.invite("info", "1")).first_line(), UNAVAILABLE);
        assert_eq!(world.one(&caller, &caller.invite("bob", "2")).first_line(), NOT_FOUND);
    }
}

#[test]
fn sips_to_phone_without_tls_is_480() {
    let (caller, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    let mut world = World::new();
    world.register(&bob, "bob");
    let text = caller.request("INVITE", "sips:bob@example.com", "1", "");
    assert_eq!(world.one(&caller, &text).first_line(), UNAVAILABLE);
}
