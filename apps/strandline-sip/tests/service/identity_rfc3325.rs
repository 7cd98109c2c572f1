//! Identities that a peer asserts are passed on only if it is trusted.

use strandline_sip::service::{Relay, Settings, Trusted};

use crate::harness::{Phone, Sent, World, response, settings};

const ASSERTED: &str = "P-Asserted-Identity: \"The Mayor\" <sip:+18005550199@example.com>\r\n";
const ALL: &str = "P-Asserted-Identity: \"The Mayor\" <sip:+18005550199@example.com>\r\n\
                   P-Asserted-Identity: <tel:+18005550199>\r\np-preferred-identity: <sip:m@example.com>\r\n\
                   Remote-party-ID: <sip:911@example.com>;party=calling\r\nX-Other: kept\r\n";
const NETWORK: [u8; 4] = [198, 51, 100, 0];

fn networks() -> Vec<(std::net::IpAddr, u8)> {
    vec![(NETWORK.into(), 24)]
}

fn trunk() -> Phone {
    Phone::udp("198.51.100.9:5060")
}

fn phone() -> Phone {
    Phone::udp("192.0.2.2:5060")
}

/// Peers in 198.51.100.0/24 are trusted.
fn world(settings: Settings) -> World {
    let mut world = World::with(settings);
    world.register(&phone(), "bob");
    world.register(&trunk(), "trunk");
    world
}

fn relaying() -> Settings {
    Settings { relay: Relay { open: false, from: networks() }, ..settings() }
}

fn identities(sent: &Sent) -> usize {
    let is_one = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default().to_lowercase();
        ["p-asserted-identity", "p-preferred-identity", "remote-party-id"].contains(&&*name)
    };
    sent.text.lines().filter(is_one).count()
}

#[test]
fn a_phone_asserts_nothing() {
    let open = Settings { relay: Relay { open: true, from: Vec::new() }, ..settings() };
    for settings in [settings(), relaying(), open] {
        let mut world = world(settings);
        let alice = Phone::udp("192.0.2.1:5060");
        for (number, to) in ["bob", "trunk"].into_iter().enumerate() {
            let uri = format!("sip:{to}@example.com");
            let sent = &world.invite(&alice, &alice.request("INVITE", &uri, &number.to_string(), ALL))[0];
            assert_eq!((identities(sent), sent.line("X-Other")), (0, Some("kept")), "{}", sent.text);
        }
    }
}

#[test]
fn a_trusted_neighbour_does() {
    let trusting = Settings { trusted: Trusted(networks()), ..settings() };
    for settings in [relaying(), trusting] {
        let mut world = world(settings);
        let sent = &world.invite(&trunk(), &trunk().request("INVITE", "sip:bob@example.com", "1", ALL))[0];
        assert_eq!((sent.flow, identities(sent)), (phone().0, 4), "{}", sent.text);
    }
}

#[test]
fn a_private_identity_stays_in_the_trust_domain() {
    for (number, (privacy, at_phone)) in
        [("id", 0), ("user; ID", 0), ("none", 1), ("header", 1), ("idle", 1)].into_iter().enumerate()
    {
        let mut world = world(relaying());
        let more = format!("{ASSERTED}Privacy: {privacy}\r\n");
        for (to, expected) in [("bob", at_phone), ("trunk", 1)] {
            let uri = format!("sip:{to}@example.com");
            let text = trunk().request("INVITE", &uri, &format!("{number}{to}"), &more);
            let sent = &world.invite(&trunk(), &text)[0];
            assert_eq!(identities(sent), expected, "{privacy} to {to}: {}", sent.text);
        }
    }
}

#[test]
fn responses_follow_the_same_rules() {
    let alice = Phone::udp("192.0.2.1:5060");
    for code in [180, 200, 486] {
        for (callee, user, expected) in [(phone(), "bob", 0), (trunk(), "trunk", 1)] {
            let mut world = world(relaying());
            let invite = &world.invite(&alice, &alice.invite(user, "1"))[0];
            let answer = response(&invite.text, code, "b").replacen("From:", &format!("{ASSERTED}From:"), 1);
            let sent = world.receive(&callee, &answer);
            let told = sent.iter().find(|one| one.flow == alice.0).unwrap();
            assert_eq!(identities(told), expected, "{code} {user}: {}", told.text);
        }
    }
}

#[test]
fn the_best_of_several_responses_asserts_nothing() {
    let mut world = world(relaying());
    let (alice, other) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.3:5060"));
    let contacts = format!("Contact: {}, {}\r\n", phone().contact("eve"), other.contact("eve"));
    world.register_with(&phone(), "eve", &contacts);
    let invites = world.invite(&alice, &alice.invite("eve", "1"));
    assert_eq!(invites.len(), 2);
    let mut told = Vec::new();
    for invite in &invites {
        let answer = response(&invite.text, 486, "b").replacen("From:", &format!("{ASSERTED}From:"), 1);
        told.extend(world.receive(&Phone(invite.flow), &answer));
    }
    let told = told.iter().find(|one| one.flow == alice.0).unwrap();
    assert_eq!((told.first_line(), identities(told)), ("SIP/2.0 486 Busy Here", 0), "{}", told.text);
}
