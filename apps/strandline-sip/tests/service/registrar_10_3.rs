use strandline_sip::bindings::Journal;
use strandline_sip::registrar::RegistrarSettings;
use strandline_sip::service::Settings;

use crate::harness::{Phone, World, settings};

fn phone() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

#[test]
fn bindings_are_added_listed_refreshed_and_removed() {
    let (mut world, phone) = (World::new(), phone());
    let first =
        world.one(&phone, &phone.register("bob", 1, "Contact: <sip:bob@192.0.2.1>;expires=600;q=0.5\r\n"));
    assert_eq!(first.line("Contact"), Some("<sip:bob@192.0.2.1>;q=0.5;expires=600"));
    assert!(first.line("To").unwrap().contains(";tag="));
    let second =
        world.one(&phone, &phone.register("bob", 2, "Contact: <sip:bob@192.0.2.1:5062>\r\nExpires: 120\r\n"));
    assert_eq!(second.lines("Contact").len(), 2);
    world.run_until(20_000);
    let list = world.one(&phone, &phone.register("bob", 3, ""));
    assert_eq!(
        list.lines("Contact"),
        ["<sip:bob@192.0.2.1>;q=0.5;expires=580", "<sip:bob@192.0.2.1:5062>;expires=100"]
    );
    let removed = world.one(&phone, &phone.register("bob", 4, "Contact: <sip:bob@192.0.2.1>;expires=0\r\n"));
    assert_eq!(removed.lines("Contact"), ["<sip:bob@192.0.2.1:5062>;expires=100"]);
    world.run_until(121_000);
    assert_eq!(world.one(&phone, &phone.register("bob", 5, "")).lines("Contact"), [""; 0]);
}

#[test]
fn contacts_that_mean_the_same_are_one() {
    let (mut world, phone) = (World::new(), phone());
    world.register_with(&phone, "bob", "Contact: <sip:bob@phone.example.com;Transport=tcp>\r\n");
    let again = "m: <sip:%62ob@PHONE.example.com;transport=TCP>\r\n";
    let ok = world.one(&phone, &phone.register("bob", 2, again));
    assert_eq!(ok.lines("Contact").len(), 1);
}

#[test]
fn older_cseq_of_a_call_id_changes_nothing() {
    let (mut world, phone) = (World::new(), phone());
    let contact = "Contact: <sip:bob@192.0.2.1>\r\n";
    world.one(&phone, &phone.register("bob", 5, contact));
    let old = world.one(&phone, &phone.register("bob", 4, "Contact: <sip:bob@192.0.2.1>;expires=0\r\n"));
    assert_eq!(old.first_line(), "SIP/2.0 500 CSeq Out Of Order");
    // A retransmission doesn't count as old, and gets the same response.
    let again = world.one(&phone, &phone.register("bob", 5, contact));
    assert_eq!(again.lines("Contact"), ["<sip:bob@192.0.2.1>;expires=3600"]);
    // All or nothing: the second contact isn't bound either.
    let both = "Contact: <sip:new@192.0.2.1>, <sip:bob@192.0.2.1>\r\n";
    assert_eq!(
        world.one(&phone, &phone.register("bob", 4, both)).first_line(),
        "SIP/2.0 500 CSeq Out Of Order"
    );
    assert_eq!(world.one(&phone, &phone.register("bob", 6, "")).lines("Contact").len(), 1);
}

#[test]
fn star_removes_all_only_with_expires_0() {
    let (mut world, phone) = (World::new(), phone());
    world.register(&phone, "bob");
    let not_zero = "SIP/2.0 400 Contact * Requires Expires: 0";
    for (more, expected) in [
        ("Contact: *\r\n", not_zero),
        ("Contact: *\r\nExpires: 60\r\n", not_zero),
        ("Contact: *, <sip:b@192.0.2.1>\r\nExpires: 0\r\n", "SIP/2.0 400 Malformed Contact"),
    ] {
        let refused = world.one(&phone, &phone.register("bob", 2, more));
        assert_eq!(refused.first_line(), expected, "{more}: {}", refused.text);
    }
    let ok = world.one(&phone, &phone.register("bob", 3, "Contact: *\r\nExpires: 0\r\n"));
    assert_eq!((ok.first_line(), ok.lines("Contact").len()), ("SIP/2.0 200 OK", 0));
    assert!(world.service.registrations().locations().is_empty());
}

#[test]
fn times_are_bounded() {
    let (mut world, phone) = (World::new(), phone());
    let brief = world.one(&phone, &phone.register("bob", 1, "Contact: <sip:bob@192.0.2.1>;expires=59\r\n"));
    assert_eq!(brief.first_line(), "SIP/2.0 423 Interval Too Brief");
    assert_eq!(brief.line("Min-Expires"), Some("60"));
    let long =
        world.one(&phone, &phone.register("bob", 2, "Contact: <sip:bob@192.0.2.1>;expires=4294967295\r\n"));
    assert_eq!(long.line("Contact"), Some("<sip:bob@192.0.2.1>;expires=86400"));
    let nonsense =
        world.one(&phone, &phone.register("bob", 3, "Contact: <sip:bob@192.0.2.1>;expires=soon\r\n"));
    assert_eq!(nonsense.line("Contact").unwrap().rsplit('=').next(), Some("3600"));
}

#[test]
fn there_are_limits_for_contacts_and_users() {
    let registrar = RegistrarSettings { contacts_max: 2, ..RegistrarSettings::default() };
    let mut world = World::with(Settings { registrar, users_max: 1, ..settings() });
    let phone = phone();
    let two = "Contact: <sip:a@192.0.2.1>, <sip:b@192.0.2.1>\r\n";
    world.register_with(&phone, "bob", two);
    let third = world.one(&phone, &phone.register("bob", 2, "Contact: <sip:c@192.0.2.1>\r\n"));
    assert_eq!(third.first_line(), "SIP/2.0 403 Too Many Contacts");
    let other = world.one(&phone, &phone.register("eve", 1, "Contact: <sip:c@192.0.2.1>\r\n"));
    assert!(other.first_line().starts_with("SIP/2.0 503"), "{}", other.text);
    assert!(other.line("Retry-After").is_some());
    let long = format!("Contact: <sip:{}@192.0.2.1>\r\n", "x".repeat(3000));
    assert!(world.one(&phone, &phone.register("bob", 3, &long)).first_line().starts_with("SIP/2.0 400"));
}

#[test]
fn only_our_domains_and_known_extensions() {
    let (mut world, phone) = (World::new(), phone());
    let elsewhere =
        phone.register("bob", 1, "").replace("To: <sip:bob@example.com>", "To: <sip:bob@example.org>");
    assert_eq!(world.one(&phone, &elsewhere).first_line(), "SIP/2.0 404 Not Our Domain");
    let extension = world.one(&phone, &phone.register("bob", 1, "Require: path, magic\r\n"));
    assert_eq!(extension.first_line(), "SIP/2.0 420 Bad Extension");
    assert_eq!(extension.line("Unsupported"), Some("magic"));
}

#[test]
fn the_journal_has_what_a_restart_needs() {
    let (mut world, phone) = (World::journaled(), phone());
    world.register_with(&phone, "bob", "Contact: <sip:bob@192.0.2.1>;q=0.3\r\n");
    world.register(&phone, "eve");
    world.receive(&phone, &phone.register("eve", 2, "Contact: *\r\nExpires: 0\r\n"));
    let mut after = World::new();
    for (aor, state) in Journal::read(world.service.output().journal.as_bytes()) {
        after.service.load("", aor, state);
    }
    assert_eq!(after.service.registrations().locations().len(), 1);
    let kept = after.service.registrations().locations().bindings(b"bob@example.com");
    assert_eq!(kept, world.service.registrations().locations().bindings(b"bob@example.com"));
    assert_eq!(kept.len(), 1);
}

#[test]
fn register_waits_until_bindings_are_durable() {
    let mut world = World::with(Settings { durable: true, ..settings() });
    let phone = phone();
    let contact = "Contact: <sip:bob@192.0.2.1>\r\n";
    assert!(world.receive(&phone, &phone.register("bob", 1, contact)).is_empty());
    assert_eq!((world.service.output().held.len(), world.service.output().journal.len()), (1, 1));
    // Submitted to the store, but not yet durable.
    world.service.output_mut().held.clear();
    world.service.output_mut().journal.clear();
    world.service.output_mut().unsettled = true;
    assert!(world.receive(&phone, &phone.register("bob", 1, contact)).is_empty());
    assert_eq!((world.service.output().held.len(), world.service.output().journal.len()), (1, 0));
    world.service.output_mut().unsettled = false;
    assert_eq!(world.receive(&phone, &phone.register("bob", 1, contact)).len(), 1);
}

#[test]
fn expired_bindings_are_swept() {
    let (mut world, phone) = (World::journaled(), phone());
    for number in 0..100 {
        world.register(&phone, &format!("user{number}"));
    }
    world.run_until(3_599_000);
    world.service.sweep(world.now, 1000);
    assert_eq!(world.service.registrations().locations().len(), 100);
    world.run_until(3_601_000);
    world.service.output_mut().journal.clear();
    world.service.sweep(world.now, 60);
    assert_eq!(world.service.registrations().locations().len(), 40);
    world.service.sweep(world.now, 60);
    assert!(world.service.registrations().locations().is_empty());
    assert_eq!(world.service.output().journal.len(), 100, "the store forgets them too");
}

#[test]
fn stored_contact_data_is_bounded() {
    let (mut world, phone) = (World::new(), phone());
    let contact = "Contact: <sip:bob@192.0.2.1>\r\n";
    let path = format!("Supported: path\r\nPath: <sip:{}@192.0.2.50;lr>\r\n{contact}", "x".repeat(3000));
    let long_path = world.one(&phone, &phone.register("bob", 1, &path));
    let call_id = phone.register("bob", 2, contact).replace("reg-bob", &"c".repeat(3000));
    let long_call_id = world.one(&phone, &call_id);
    for refused in [long_path, long_call_id] {
        assert_eq!(
            refused.first_line(),
            "SIP/2.0 400 Contact, Path And Call-ID Too Long",
            "{}",
            refused.text
        );
    }
    assert!(world.service.registrations().locations().is_empty());
}

#[test]
fn expired_binding_is_ignored_before_its_sweep() {
    let (mut world, phone) = (World::new(), phone());
    let contact = "Contact: <sip:bob@192.0.2.1>;expires=60\r\n";
    world.one(&phone, &phone.register("bob", 7, contact));
    world.run_until(61_000);
    // A restarted phone counts from 1 again.
    let ok = world.one(&phone, &phone.register("bob", 1, contact));
    assert_eq!(
        (ok.first_line(), ok.line("Contact")),
        ("SIP/2.0 200 OK", Some("<sip:bob@192.0.2.1>;expires=60"))
    );
    world.run_until(122_000);
    let again = world.one(&phone, &phone.register("bob", 1, contact));
    assert_eq!(again.lines("Contact").len(), 1, "{}", again.text);
    world.run_until(183_000);
    let all = world.one(&phone, &phone.register("bob", 0, "Contact: *\r\nExpires: 0\r\n"));
    assert_eq!(all.first_line(), "SIP/2.0 200 OK");
}

#[test]
fn contact_may_replace_another_at_the_limit() {
    let registrar = RegistrarSettings { contacts_max: 2, ..RegistrarSettings::default() };
    let mut world = World::with(Settings { registrar, ..settings() });
    let phone = phone();
    world.register_with(&phone, "bob", "Contact: <sip:a@192.0.2.1>, <sip:b@192.0.2.1>\r\n");
    let moved = "Contact: <sip:a@192.0.2.1>;expires=0, <sip:c@192.0.2.1>\r\n";
    let ok = world.one(&phone, &phone.register("bob", 2, moved));
    assert_eq!(ok.lines("Contact").len(), 2, "{}", ok.text);
    // Removing a contact twice doesn't make room for two.
    let twice = "Contact: <sip:c@192.0.2.1>;expires=0, <sip:c@192.0.2.1>;expires=0\r\n\
                 Contact: <sip:d@192.0.2.1>, <sip:e@192.0.2.1>\r\n";
    let refused = world.one(&phone, &phone.register("bob", 3, twice));
    assert!(refused.first_line().starts_with("SIP/2.0 403"), "{}", refused.text);
    assert_eq!(world.one(&phone, &phone.register("bob", 4, "")).lines("Contact").len(), 2);
}

#[test]
fn all_extensions_that_are_not_known_are_told() {
    let (mut world, phone) = (World::new(), phone());
    let more = "Require: magic, path\r\nRequire: tricks\r\n";
    let refused = world.one(&phone, &phone.register("bob", 1, more));
    assert_eq!(refused.line("Unsupported"), Some("magic, tricks"));
    // The response is no larger than the request: of a long list, only the first options are reported.
    let endless = format!("Require: {}\r\n", vec!["x"; 2000].join(","));
    let refused = world.one(&phone, &phone.register("bob", 2, &endless));
    assert!(refused.text.len() < 1000, "{}", refused.text.len());
}

#[test]
fn a_path_that_is_folded_is_followed() {
    let (alice, phone) = (Phone::udp("192.0.2.9:5060"), phone());
    let mut world = World::new();
    let path = "Supported: path\r\nPath: <sip:a@192.0.2.50;lr>,\r\n <sip:192.0.2.51;lr>\r\n\
                Contact: <sip:bob@10.0.0.5>\r\n";
    world.register_with(&phone, "bob", path);
    let sent = world.invite(&alice, &alice.invite("bob", "1"));
    let routes: String = sent[0].lines("Route").concat().split_ascii_whitespace().collect();
    assert_eq!(routes, "<sip:a@192.0.2.50;lr>,<sip:192.0.2.51;lr>", "{}", sent[0].text);
}
