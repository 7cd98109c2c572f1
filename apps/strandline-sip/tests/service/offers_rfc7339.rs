//! The overload control offered to neighbours in this server's Via (RFC 7339 section 5.1).

use std::time::Duration;

use strandline_sip::resolution::{Answer, Found, Server};
use strandline_sip::service::{Directory, Hop, Offer, Relay, Route, Settings};
use strandline_sip::transaction::Protocol;

use crate::harness::{Phone, Sent, World, in_dialog, response, settings};

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn route(prefix: &str, hop: &str, offer: Option<Offer>) -> Route {
    let hops = vec![Hop { uri: hop.to_owned(), priority: 0 }];
    Route { prefix: Some(prefix.to_owned()), hops, offer, ..Route::default() }
}

fn world(offer: Offer, routes: Vec<Route>) -> World {
    let relay = Relay { open: true, from: Vec::new() };
    let directory = Directory { routes, offer, ..Directory::default() };
    World::with(Settings { relay, names_max: 10, directory, ..settings() })
}

fn call(world: &mut World, user: &str) -> Sent {
    let mut sent = world.receive(&alice(), &alice().invite(user, user));
    for question in world.service.servers_mut().take_wanted() {
        let server = Server {
            protocol: Protocol::Udp,
            priority: 0,
            weight: 0,
            addresses: vec!["203.0.113.9:5060".parse().unwrap()],
        };
        let answer = Answer { found: Found::Servers(vec![server]), ttl: Duration::from_secs(600) };
        world.service.handle_dns_answer(world.now, &question, answer);
    }
    sent.extend(world.sent());
    sent.into_iter()
        .find(|one| one.first_line().starts_with("INVITE "))
        .unwrap_or_else(|| panic!("no INVITE to {user}"))
}

/// The topmost Via of the first INVITE to `user` in a new world.
fn via_of(offer: Offer, routes: Vec<Route>, user: &str) -> String {
    let mut world = world(offer, routes);
    let sent = world.receive(&alice(), &alice().invite(user, "1"));
    sent[0].line("Via").unwrap().to_owned()
}

fn at(uri: &str, offer: Option<Offer>) -> Vec<Route> {
    vec![route("+", uri, offer)]
}

#[test]
fn the_default_offer_has_no_comma() {
    let via = via_of(Offer::default(), at("sip:203.0.113.1", None), "+1");
    assert!(via.ends_with(";oc;oc-algo=\"loss\""), "{via}");
    let via = via_of(Offer::default(), at("sip:203.0.113.1;transport=tcp", None), "+1");
    assert!(via.ends_with(";oc;oc-algo=\"loss\""), "{via}");
    let via = via_of(Offer::default(), at("sips:203.0.113.1", None), "+1");
    assert!(via.ends_with(";alias;oc;oc-algo=\"loss\""), "{via}");
}

#[test]
fn each_route_has_an_offer_of_its_own() {
    let via = via_of(Offer::Loss, at("sip:203.0.113.1", Some(Offer::LossAndRate)), "+1");
    assert!(via.ends_with(";oc;oc-algo=\"loss,rate\""), "{via}");
    let via = via_of(Offer::LossAndRate, at("sip:203.0.113.1", Some(Offer::None)), "+1");
    assert!(!via.contains(";oc"), "{via}");
    let via = via_of(Offer::Loss, at("sips:203.0.113.1", Some(Offer::None)), "+1");
    assert!(via.ends_with(";alias"), "{via}");
    let via = via_of(Offer::None, at("sip:203.0.113.1", None), "+1");
    assert!(!via.contains(";oc"), "{via}");
    // Two neighbours at one address.
    let two = || {
        vec![
            route("+1", "sip:203.0.113.1:5070", Some(Offer::None)),
            route("+2", "sip:203.0.113.1:5080", Some(Offer::LossAndRate)),
        ]
    };
    assert!(!via_of(Offer::Loss, two(), "+1").contains(";oc"));
    assert!(via_of(Offer::Loss, two(), "+2").ends_with("loss,rate\""));
}

#[test]
fn requests_within_the_dialog_make_the_same_offer() {
    for hop in ["sip:203.0.113.9", "sip:trunk.example"] {
        let mut world = world(Offer::Loss, at(hop, Some(Offer::None)));
        let invite = call(&mut world, "+1");
        assert!(!invite.line("Via").unwrap().contains(";oc"), "{}", invite.text);
        let trunk = Phone(invite.flow);
        let ok = response(&invite.text, 200, "trunk");
        let back = world.receive(&trunk, &ok).into_iter().find(|one| one.text.starts_with("SIP/2.0 200"));
        let target = "sip:+1@203.0.113.9";
        let bye = world.one(&alice(), &in_dialog("BYE", &back.unwrap().text, target, &alice(), 2, true));
        assert_eq!(bye.flow.peer, trunk.0.peer);
        assert!(!bye.line("Via").unwrap().contains(";oc"), "{hop}: {}", bye.text);
    }
}

#[test]
fn a_new_configuration_changes_offers() {
    let mut world = world(Offer::Loss, at("sip:203.0.113.1", None));
    assert!(call(&mut world, "+1").line("Via").unwrap().ends_with(";oc;oc-algo=\"loss\""));
    let directory = Directory { routes: at("sip:203.0.113.1", Some(Offer::None)), ..Directory::default() };
    let relay = Relay { open: true, from: Vec::new() };
    world.service.configure(&Settings { relay, directory, ..settings() });
    assert!(!call(&mut world, "+2").line("Via").unwrap().contains(";oc"));
}

/// A route for a domain that nobody calls names a neighbour that is known by the Path of its phones (RFC 3327) alone.
#[test]
fn unused_routes_set_the_offers_of_edges() {
    let edge = Phone::udp("192.0.2.50:5060");
    for (path, hop, is_offered) in [
        ("192.0.2.50", "sip:192.0.2.50", false),
        ("192.0.2.50:5070", "sip:192.0.2.50:5070", false),
        ("edge.example", "sip:edge.example", false),
        ("192.0.2.50", "sip:192.0.2.51", true),
    ] {
        let domain = Some("edge.invalid".to_owned());
        let unused = Route { prefix: None, domain, ..route("", hop, Some(Offer::None)) };
        let mut world = world(Offer::Loss, vec![unused]);
        let register =
            format!("Supported: path\r\nPath: <sip:token@{path};lr>\r\nContact: <sip:bob@10.0.0.5>\r\n");
        world.one(&edge, &edge.register("bob", 1, &register));
        let via = call(&mut world, "bob").line("Via").unwrap().to_owned();
        assert_eq!(via.contains(";oc"), is_offered, "{path}, {hop}: {via}");
    }
}
