//! Configured routing: aliases, and trunks with failover (RFC 3261 section 16.6).

use strandline_sip::service::{Alias, Directory, Hop, Relay, Route, Settings};

use crate::harness::{Phone, Sent, World, response, settings};

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn trunk(number: u8) -> Phone {
    Phone::udp(&format!("203.0.113.{number}:5060"))
}

fn route(prefix: Option<&str>, domain: Option<&str>, hops: &[(u8, u16)]) -> Route {
    let hop =
        |(number, priority): &(u8, u16)| Hop { uri: format!("sip:203.0.113.{number}"), priority: *priority };
    Route {
        prefix: prefix.map(str::to_owned),
        domain: domain.map(str::to_owned),
        hops: hops.iter().map(hop).collect(),
        registrar: false,
        offer: None,
    }
}

fn world(directory: Directory) -> World {
    let relay = Relay { open: false, from: vec![("192.0.2.0".parse().unwrap(), 24)] };
    let mut domains = settings().domains;
    domains.extend(directory.domains.keys().cloned());
    World::with(Settings { relay, directory, domains, ..settings() })
}

fn trunks() -> World {
    let routes = vec![
        route(Some("+4"), None, &[(9, 0)]),
        route(Some("+44"), None, &[(1, 0), (2, 1), (3, 2)]),
        route(None, Some("partner.example"), &[(7, 0)]),
    ];
    world(Directory { routes, ..Directory::default() })
}

fn peers(sent: &[Sent]) -> Vec<String> {
    sent.iter().map(|one| format!("{} {}", one.first_line(), one.flow.peer.ip())).collect()
}

#[test]
fn longest_prefix_chooses_the_trunk() {
    let mut world = trunks();
    let sent = world.invite(&alice(), &alice().invite("+44200", "a"));
    assert_eq!(peers(&sent), ["INVITE sip:+44200@203.0.113.1 SIP/2.0 203.0.113.1"]);
    let sent = world.invite(&alice(), &alice().invite("+43200", "b"));
    assert_eq!(peers(&sent), ["INVITE sip:+43200@203.0.113.9 SIP/2.0 203.0.113.9"]);
    let tel = alice().request("INVITE", "tel:+44-200", "c", "");
    assert_eq!(peers(&world.invite(&alice(), &tel)), ["INVITE sip:+44200@203.0.113.1 SIP/2.0 203.0.113.1"]);
    let there = alice().request("INVITE", "sip:bob@Partner.example", "d", "");
    assert_eq!(
        peers(&world.invite(&alice(), &there)),
        ["INVITE sip:bob@Partner.example SIP/2.0 203.0.113.7"]
    );
    // A registered user of that name takes precedence. An unknown user without a route gets an error.
    let phone = Phone::udp("192.0.2.5:5060");
    world.register(&phone, "+44200");
    let sent = world.invite(&alice(), &alice().invite("+44200", "e"));
    assert_eq!(peers(&sent), ["INVITE sip:+44200@192.0.2.5:5060 SIP/2.0 192.0.2.5"]);
    assert!(world.one(&alice(), &alice().invite("+1", "f")).first_line().starts_with("SIP/2.0 404"));
}

#[test]
fn trunks_are_for_authorised_callers() {
    let mut world = trunks();
    let stranger = Phone::udp("198.51.100.77:5060");
    for (number, uri) in ["sip:+44200@example.com", "tel:+44200", "sip:b@partner.example"].iter().enumerate()
    {
        let text = stranger.request("INVITE", uri, &number.to_string(), "");
        assert_eq!(world.one(&stranger, &text).first_line(), "SIP/2.0 403 Relaying Denied");
    }
}

#[test]
fn unavailable_hop_is_replaced_and_refusing_kept() {
    let mut world = trunks();
    let first = world.invite(&alice(), &alice().invite("+44200", "a")).remove(0);
    let second = world.receive(&trunk(1), &response(&first.text, 503, "x"));
    assert_eq!(
        peers(&second),
        [
            "ACK sip:+44200@203.0.113.1 SIP/2.0 203.0.113.1",
            "INVITE sip:+44200@203.0.113.2 SIP/2.0 203.0.113.2"
        ]
    );
    // The second trunk is silent, so after four seconds the third is tried.
    let sent = world.run_until(4000);
    let third: Vec<&Sent> =
        sent.iter().filter(|one| one.flow.peer.ip().to_string() == "203.0.113.3").collect();
    assert_eq!(third.len(), 1, "{sent:#?}");
    // Its rejection is passed to the caller.
    let refused = world.receive(&trunk(3), &response(&third[0].text, 486, "z"));
    assert!(refused.iter().any(|one| one.first_line() == "SIP/2.0 486 Busy Here"), "{refused:#?}");
    // A trunk that rings is waited for, and one that rejects the call is the last.
    let mut world = trunks();
    let first = world.invite(&alice(), &alice().invite("+44201", "b")).remove(0);
    assert_eq!(world.receive(&trunk(1), &response(&first.text, 180, "x")).len(), 1);
    assert_eq!(peers(&world.run_until(20_000)), [""; 0]);
    let refused = world.receive(&trunk(1), &response(&first.text, 404, "x"));
    assert!(refused.iter().all(|one| one.flow.peer.ip().to_string() != "203.0.113.2"), "{refused:#?}");
    assert!(refused.iter().any(|one| one.first_line() == "SIP/2.0 404 Not Found"), "{refused:#?}");
}

#[test]
fn caller_is_told_without_any_hop() {
    let mut world = trunks();
    world.invite(&alice(), &alice().invite("+44200", "a"));
    let sent = world.run_until(300_000);
    let answers: Vec<&str> =
        sent.iter().filter(|one| one.flow.peer == alice().0.peer).map(Sent::first_line).collect();
    assert!(
        answers
            .first()
            .is_some_and(|line| line.starts_with("SIP/2.0 408") || line.starts_with("SIP/2.0 500")),
        "{answers:?}"
    );
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

#[test]
fn hops_of_one_priority_have_their_turns() {
    let routes = vec![route(Some("+44"), None, &[(1, 0), (2, 0)])];
    let mut world = world(Directory { routes, ..Directory::default() });
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..32 {
        let text = alice()
            .invite("+44200", &number.to_string())
            .replace("Call-ID: call", &format!("Call-ID: {number}"));
        let sent = world.invite(&alice(), &text);
        assert_eq!(sent.len(), 1);
        seen.insert(sent[0].flow.peer.ip().to_string());
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn domains_and_users_stand_for_others() {
    let users = [
        (
            b"team@example.com".to_vec(),
            vec![Alias::User(b"bob@example.com".to_vec()), Alias::Uri(b"sip:desk@192.0.2.99".to_vec())],
        ),
        (b"empty@example.com".to_vec(), vec![Alias::User(b"nobody@example.com".to_vec())]),
    ];
    let domains = [("example.net".to_owned(), "example.com".to_owned())];
    let directory = Directory { domains: domains.into(), users: users.into(), ..Directory::default() };
    let mut world = world(directory);
    let bob = Phone::udp("192.0.2.5:5060");
    // A user registered in one domain is reached in the other.
    let text = bob
        .register("bob", 1, &format!("Contact: {}\r\n", bob.contact("bob")))
        .replace("example.com", "example.net");
    assert_eq!(world.one(&bob, &text).first_line(), "SIP/2.0 200 OK");
    assert_eq!(world.service.registrations().locations().bindings(b"bob@example.com").len(), 1);
    for (branch, uri) in [("a", "sip:bob@example.com"), ("b", "sip:bob@EXAMPLE.net")] {
        let sent = world.invite(&alice(), &alice().request("INVITE", uri, branch, ""));
        assert_eq!(peers(&sent), ["INVITE sip:bob@192.0.2.5:5060 SIP/2.0 192.0.2.5"]);
    }
    let sent = world.invite(&alice(), &alice().invite("team", "c"));
    let mut all = peers(&sent);
    all.sort();
    assert_eq!(
        all,
        ["INVITE sip:bob@192.0.2.5:5060 SIP/2.0 192.0.2.5", "INVITE sip:desk@192.0.2.99 SIP/2.0 192.0.2.99"]
    );
    assert!(world.one(&alice(), &alice().invite("empty", "d")).first_line().starts_with("SIP/2.0 480"));
}
