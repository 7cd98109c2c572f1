//! Failover between hops and servers, and when it must not happen: RFC 3261 sections 16.7 and 16.8, RFC 3263
//! section 4.3, RFC 5626 section 7.

use std::time::Duration;

use strandline_sip::resolution::{Answer, Found, Server};
use strandline_sip::service::{Directory, Hop, Relay, Route, Settings};
use strandline_sip::transaction::{ClientId, Protocol};

use crate::harness::{Phone, Sent, World, response, settings};

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn at(last: u8) -> Phone {
    Phone::udp(&format!("203.0.113.{last}:5060"))
}

/// Two hops of a trunk, or two servers of one name, for +44200.
fn world(named: bool) -> World {
    let hop = |uri: &str| Hop { uri: uri.to_owned(), priority: 0 };
    let hops = match named {
        true => vec![hop("sip:trunk.example")],
        false => vec![Hop { priority: 1, ..hop("sip:203.0.113.2") }, hop("sip:203.0.113.1")],
    };
    let mut hops = hops;
    hops.sort_by_key(|hop| hop.priority);
    let routes =
        vec![Route { prefix: Some("+44".to_owned()), domain: None, hops, registrar: false, offer: None }];
    let relay = Relay { open: true, from: Vec::new() };
    let directory = Directory { routes, ..Directory::default() };
    World::with(Settings { relay, names_max: 10, directory, ..settings() })
}

/// Sends a request, and returns it as it arrives at the first hop.
fn first(world: &mut World, method: &str) -> (Sent, ClientId) {
    let text = alice().request(method, "sip:+44200@example.com", "1", "");
    world.service.handle_message(world.now, alice().0, text.as_bytes());
    let server = |last: u8| Server {
        protocol: Protocol::Udp,
        priority: u16::from(last),
        weight: 0,
        addresses: vec![([203, 0, 113, last], 5060).into()],
    };
    for question in world.service.servers_mut().take_wanted() {
        let found = Found::Servers(vec![server(1), server(2)]);
        world.service.handle_dns_answer(
            world.now,
            &question,
            Answer { found, ttl: Duration::from_secs(600) },
        );
    }
    let client = world.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
    let sent = world.sent().into_iter().find(|sent| sent.flow.peer == at(1).0.peer).expect("the first hop");
    (sent, client)
}

fn to(sent: &[Sent], last: u8) -> Vec<&Sent> {
    sent.iter().filter(|one| one.flow.peer == at(last).0.peer).collect()
}

fn answers(sent: &[Sent]) -> Vec<&str> {
    let back = sent.iter().filter(|one| one.flow.peer == alice().0.peer);
    back.map(|one| one.first_line().strip_prefix("SIP/2.0 ").unwrap()).collect()
}

#[test]
fn ringing_hop_outlasts_timers_and_connection() {
    for named in [false, true] {
        for code in [180, 183] {
            let mut world = world(named);
            let (invite, client) = first(&mut world, "INVITE");
            assert_eq!(answers(&world.receive(&at(1), &response(&invite.text, code, "x"))).len(), 1);
            // Timer B would fire after 32 s, and failover to another hop after 4 s. Then the connection
            // fails.
            assert!(world.run_until(60_000).is_empty());
            world.service.send_failed(world.now, client);
            assert!(world.sent().is_empty(), "{named} {code}");
            let ok = world.receive(&at(1), &response(&invite.text, 200, "x"));
            assert_eq!(answers(&ok), ["200 OK"], "{named} {code}");
        }
    }
}

#[test]
fn overlong_ringing_ends_the_hunt() {
    for named in [false, true] {
        for told in [false, true] {
            let mut world = world(named);
            let (invite, _) = first(&mut world, "INVITE");
            world.receive(&at(1), &response(&invite.text, 180, "x"));
            // Timer C cancels the call. The hop responds with 487, or not at all.
            let mut sent = world.run_until(185_001);
            assert!(to(&sent, 1).iter().any(|one| one.first_line().starts_with("CANCEL")), "{sent:#?}");
            if told {
                sent.extend(world.receive(&at(1), &response(&invite.text, 487, "x")));
            }
            sent.extend(world.run_until(300_000));
            assert!(to(&sent, 2).is_empty(), "{sent:#?}");
            assert_eq!(
                answers(&sent).first(),
                Some(&if told { "487 Request Terminated" } else { "408 Request Timeout" })
            );
            assert_eq!(world.service.transactions().counts(), (0, 0));
        }
    }
}

#[test]
fn late_ringing_hop_is_cancelled_unless_it_answers() {
    for named in [false, true] {
        let mut world = world(named);
        let (invite, _) = first(&mut world, "INVITE");
        let sent = world.run_until(4001);
        let second = (*to(&sent, 2).first().expect("the next hop")).clone();
        // The first hop responds late, after many retransmissions.
        let late = world.receive(&at(1), &response(&invite.text, 180, "x"));
        assert!(to(&late, 1).iter().any(|one| one.first_line().starts_with("CANCEL")), "{late:#?}");
        assert!(answers(&late).is_empty(), "{late:#?}");
        let refused = world.receive(&at(1), &response(&invite.text, 487, "x"));
        assert!(answers(&refused).is_empty(), "{refused:#?}");
        // The call continues at the second hop.
        assert_eq!(answers(&world.receive(&at(2), &response(&second.text, 180, "y"))), ["180 Ringing"]);
        assert_eq!(answers(&world.receive(&at(2), &response(&second.text, 200, "y"))), ["200 OK"]);
        world.run_until(300_000);
        assert_eq!(world.service.transactions().counts(), (0, 0));

        // The callee answers before the CANCEL arrives.
        let mut world = self::world(named);
        let (invite, _) = first(&mut world, "INVITE");
        let sent = world.run_until(4001);
        let second = (*to(&sent, 2).first().expect("the next hop")).clone();
        world.receive(&at(2), &response(&second.text, 180, "y"));
        let ok = world.receive(&at(1), &response(&invite.text, 200, "x"));
        assert_eq!(answers(&ok), ["200 OK"], "{named}");
        assert!(to(&ok, 2).iter().any(|one| one.first_line().starts_with("CANCEL")), "{ok:#?}");
        let rest = world.receive(&at(2), &response(&second.text, 487, "y"));
        assert!(answers(&rest).is_empty(), "{rest:#?}");
        world.run_until(300_000);
        assert_eq!(world.service.transactions().counts(), (0, 0));
    }
}

#[test]
fn non_invite_takes_the_first_final_response() {
    for named in [false, true] {
        let mut world = world(named);
        let (message, _) = first(&mut world, "MESSAGE");
        let sent = world.run_until(4001);
        let second = (*to(&sent, 2).first().expect("the next hop")).clone();
        assert_eq!(answers(&world.receive(&at(1), &response(&message.text, 200, "x"))), ["200 OK"]);
        assert!(answers(&world.receive(&at(2), &response(&second.text, 200, "y"))).is_empty());
        world.run_until(300_000);
        assert_eq!(world.service.transactions().counts(), (0, 0));
    }
}

/// A phone with several flows.
fn flows(world: &mut World, user: &str, instance: u8, flows: &[(u64, &str)]) {
    for (number, (connection, q)) in flows.iter().enumerate() {
        let phone = flow(*connection);
        world.service.connection_opened(*connection);
        let contact = format!(
            "Supported: path, outbound\r\nContact: <sip:{user}@192.0.2.2:{connection};transport=tcp;ob>;reg-id={};{q}\
             +sip.instance=\"<urn:uuid:00000000-0000-1000-8000-0000000000{instance:02}>\"\r\n",
            number + 1
        );
        let text = phone
            .register(user, *connection as u32, &contact)
            .replace("Call-ID: reg", &format!("Call-ID: {connection}"));
        let ok = world.one(&phone, &text);
        assert_eq!(ok.first_line(), "SIP/2.0 200 OK", "{}", ok.text);
    }
}

fn flow(connection: u64) -> Phone {
    Phone::tcp(&format!("192.0.2.2:{connection}"), connection)
}

fn invites(sent: &[Sent]) -> Vec<u64> {
    let mut all: Vec<u64> = sent
        .iter()
        .filter(|one| one.first_line().starts_with("INVITE"))
        .map(|one| one.flow.connection)
        .collect();
    all.sort_unstable();
    all
}

fn invite_on(sent: &[Sent], connection: u64) -> String {
    let found =
        sent.iter().find(|one| one.first_line().starts_with("INVITE") && one.flow.connection == connection);
    found.expect("an INVITE there").text.clone()
}

#[test]
fn next_flow_is_tried_after_430() {
    for code in [430, 408] {
        let mut world = World::new();
        flows(&mut world, "bob", 1, &[(11, ""), (12, ""), (13, "")]);
        flows(&mut world, "bob", 2, &[(21, ""), (22, "")]);
        flows(&mut world, "bob", 3, &[(31, "q=0.5;")]);
        // One flow for each phone, the most recently refreshed.
        let sent = world.invite(&alice(), &alice().invite("bob", "1"));
        assert_eq!(invites(&sent), [13, 22]);
        world.receive(&flow(22), &response(&invite_on(&sent, 22), 180, "two"));
        let next = world.receive(&flow(13), &response(&invite_on(&sent, 13), code, "one"));
        assert_eq!(invites(&next), [12], "{next:#?}");
        let last = world.receive(&flow(12), &response(&invite_on(&next, 12), code, "one"));
        assert_eq!(invites(&last), [11], "{last:#?}");
        // Both phones reject the call. Only then are contacts of lower `q` tried.
        let refused = world.receive(&flow(11), &response(&invite_on(&last, 11), 486, "one"));
        assert!(invites(&refused).is_empty(), "{refused:#?}");
        let refused = world.receive(&flow(22), &response(&invite_on(&sent, 22), 480, "two"));
        assert_eq!(invites(&refused), [31], "{refused:#?}");
        assert!(answers(&refused).is_empty(), "{refused:#?}");
        let refused = world.receive(&flow(31), &response(&invite_on(&refused, 31), 486, "three"));
        assert_eq!(answers(&refused).len(), 1, "{refused:#?}");
        world.run_until(300_000);
        assert_eq!(world.service.transactions().counts(), (0, 0));
    }
}

#[test]
fn answered_phone_gets_no_second_flow() {
    let mut world = World::new();
    flows(&mut world, "bob", 1, &[(11, ""), (12, "")]);
    flows(&mut world, "bob", 2, &[(21, "")]);
    let sent = world.invite(&alice(), &alice().invite("bob", "1"));
    assert_eq!(invites(&sent), [12, 21]);
    let busy = world.receive(&flow(12), &response(&invite_on(&sent, 12), 486, "one"));
    assert!(invites(&busy).is_empty(), "{busy:#?}");
    let ok = world.receive(&flow(21), &response(&invite_on(&sent, 21), 200, "two"));
    assert_eq!(answers(&ok), ["200 OK"]);
    // Nor after another phone has answered, or the caller has hung up.
    let sent = world.invite(&alice(), &alice().invite("bob", "2").replace("Call-ID: call", "Call-ID: 2"));
    world.receive(&flow(21), &response(&invite_on(&sent, 21), 200, "two"));
    let late = world.receive(&flow(12), &response(&invite_on(&sent, 12), 430, "one"));
    assert!(invites(&late).is_empty(), "{late:#?}");
}

#[test]
fn parallel_users_use_one_flow_each() {
    use strandline_sip::service::Alias;
    let aliases = vec![Alias::User(b"bob@example.com".to_vec()), Alias::User(b"carol@example.com".to_vec())];
    let directory =
        Directory { users: [(b"team@example.com".to_vec(), aliases)].into(), ..Directory::default() };
    let mut world = World::with(Settings { directory, ..settings() });
    flows(&mut world, "bob", 1, &[(11, ""), (12, "")]);
    flows(&mut world, "carol", 2, &[(21, ""), (22, "")]);
    let sent = world.invite(&alice(), &alice().invite("team", "1"));
    assert_eq!(invites(&sent), [12, 22]);
    let next = world.receive(&flow(22), &response(&invite_on(&sent, 22), 430, "c"));
    assert_eq!(invites(&next), [21]);
}

#[test]
fn ended_connection_moves_to_the_next_flow() {
    let mut world = World::new();
    flows(&mut world, "bob", 1, &[(11, ""), (12, "")]);
    flows(&mut world, "bob", 2, &[(21, "")]);
    let sent = world.invite(&alice(), &alice().invite("bob", "1"));
    assert_eq!(invites(&sent), [12, 21]);
    world.service.connection_closed(12);
    assert_eq!(invites(&world.run_until(20)), [11]);
    // A phone that has responded is waited for: its final response may come over another connection.
    let mut world = World::new();
    flows(&mut world, "bob", 1, &[(11, ""), (12, "")]);
    let sent = world.invite(&alice(), &alice().invite("bob", "1"));
    world.receive(&flow(12), &response(&invite_on(&sent, 12), 180, "one"));
    world.service.connection_closed(12);
    assert!(invites(&world.run_until(20)).is_empty());
}

#[test]
fn earlier_ended_connections_do_not_block() {
    let mut world = World::new();
    let alice = Phone::tcp("192.0.2.1:4000", 1);
    for number in 0..3000 {
        let [one, two, three] = [0, 1, 2].map(|add| 10 + number * 3 + add);
        flows(&mut world, "bob", 1, &[(one, ""), (two, ""), (three, "")]);
        let invite = alice.invite("bob", &number.to_string()).replace("ID: call", &format!("ID: {number}"));
        let sent = world.invite(&alice, &invite);
        // The service is not told of this closed connection, because nothing depends on it yet.
        world.service.connection_closed(two);
        let failed = response(&invite_on(&sent, three), 430, "x");
        world.service.handle_message(world.now, flow(three).0, failed.as_bytes());
        let client = world.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
        assert_eq!(invites(&world.sent()), [two]);
        world.service.send_failed(world.now, client);
        let sent = world.sent();
        let busy = world.receive(&flow(one), &response(&invite_on(&sent, one), 486, "x"));
        assert!(busy.iter().any(|one| one.first_line() == "SIP/2.0 486 Busy Here"), "{busy:#?}");
        [one, three].into_iter().for_each(|connection| world.service.connection_closed(connection));
        assert!(
            world.service.contexts().watched_connections() <= 1100,
            "{}",
            world.service.contexts().watched_connections()
        );
    }
}
