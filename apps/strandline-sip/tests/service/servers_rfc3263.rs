//! Requests to names: RFC 3263 section 4.3 (failover), section 5 (responses), and waiting requests.

use std::sync::Arc;
use std::time::Duration;

use strandline_sip::resolution::{Answer, Found, Question, Server};
use strandline_sip::service::{Alias, Directory, Hop, Relay, Route, Settings};
use strandline_sip::transaction::{Flow, Protocol};

use crate::harness::{Phone, Sent, World, in_dialog, response, settings};

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn world(names_max: usize, directory: Directory) -> World {
    let relay = Relay { open: true, from: Vec::new() };
    World::with(Settings { relay, names_max, directory, ..settings() })
}

fn relaying() -> World {
    world(100, Directory::default())
}

fn server(priority: u16, last: u8) -> Server {
    let addresses = vec![([203, 0, 113, last], 5060).into()];
    Server { protocol: Protocol::Udp, priority, weight: 0, addresses }
}

fn servers(lasts: &[u8]) -> Found {
    Found::Servers(lasts.iter().enumerate().map(|(number, last)| server(number as u16, *last)).collect())
}

fn wanted(world: &mut World) -> Vec<Arc<Question>> {
    world.service.servers_mut().take_wanted()
}

fn names(questions: &[Arc<Question>]) -> Vec<&str> {
    questions.iter().map(|question| &*question.name).collect()
}

/// Answers all pending DNS queries.
fn answer(world: &mut World, found: &Found) -> Vec<Sent> {
    let now = world.now;
    for question in wanted(world) {
        let answer = Answer { found: found.clone(), ttl: Duration::from_secs(60) };
        world.service.handle_dns_answer(now, &question, answer);
    }
    world.sent()
}

fn invite(user: &str, branch: &str) -> String {
    alice().request("INVITE", &format!("sip:{user}@other.example"), branch, "")
}

fn firsts(sent: &[Sent]) -> Vec<String> {
    sent.iter()
        .map(|one| format!("{} {}", one.first_line().replace(" SIP/2.0", ""), one.flow.peer.ip()))
        .collect()
}

fn at(last: u8) -> Phone {
    Phone::udp(&format!("203.0.113.{last}:5060"))
}

#[test]
fn request_waits_for_dns_once() {
    let mut world = relaying();
    assert!(world.invite(&alice(), &invite("bob", "a")).is_empty());
    // A retransmission, and another request for the same name.
    assert_eq!(firsts(&world.receive(&alice(), &invite("bob", "a"))), ["SIP/2.0 100 Trying 192.0.2.1"]);
    assert!(world.invite(&alice(), &invite("carol", "b").replace("Call-ID: call", "Call-ID: 2")).is_empty());
    let questions = wanted(&mut world);
    assert_eq!(names(&questions), ["other.example"]);
    assert_eq!(world.service.servers().counts(), (0, 1, 2));
    let known = Answer { found: servers(&[1]), ttl: Duration::from_secs(60) };
    let now = world.now;
    world.service.handle_dns_answer(now, &questions[0], known);
    let sent = world.sent();
    assert_eq!(
        firsts(&sent),
        ["INVITE sip:bob@other.example 203.0.113.1", "INVITE sip:carol@other.example 203.0.113.1"]
    );
    let third = world.invite(&alice(), &invite("dave", "c").replace("Call-ID: call", "Call-ID: 3"));
    assert_eq!(firsts(&third), ["INVITE sip:dave@other.example 203.0.113.1"]);
    assert!(wanted(&mut world).is_empty());
    // A new query once the result has expired.
    world.run_until(60_001);
    let fourth = invite("eve", "d").replace("Call-ID: call", "Call-ID: 4");
    assert!(world.invite(&alice(), &fourth).is_empty());
    assert_eq!(names(&wanted(&mut world)), ["other.example"]);
}

#[test]
fn dialog_continues_without_dns() {
    let mut world = relaying();
    world.invite(&alice(), &invite("bob", "a"));
    let sent = answer(&mut world, &servers(&[1])).remove(0);
    let ok = response(&sent.text, 200, "bob")
        .replace("Content-Length", "Contact: <sip:bob@pc.other.example>\r\nContent-Length");
    let passed = world.receive(&at(1), &ok);
    assert_eq!(firsts(&passed), ["SIP/2.0 200 OK 192.0.2.1"]);
    let ack = in_dialog("ACK", &passed[0].text, "sip:bob@pc.other.example", &alice(), 1, true);
    assert_eq!(firsts(&world.receive(&alice(), &ack)), ["ACK sip:bob@pc.other.example 203.0.113.1"]);
    // A proxy on the path has inserted a Route with a name, so the ACK waits too.
    let routed =
        ack.replace("Max-Forwards: 70\r\n", "Max-Forwards: 70\r\nRoute: <sip:edge.other.example;lr>\r\n");
    let (ours, theirs) = (routed.find("Route: <sip:edge").unwrap(), routed.rfind("Route: ").unwrap());
    assert!(ours < theirs, "{routed}");
    let line =
        |text: &str| text.lines().find(|line| line.starts_with("Route: <sip:edge")).unwrap().to_owned();
    let edge = line(&routed);
    let routed = routed.replace(&format!("{edge}\r\n"), "").replace("Call-ID", &format!("{edge}\r\nCall-ID"));
    assert!(world.receive(&alice(), &routed).is_empty());
    let sent = answer(&mut world, &servers(&[7]));
    assert_eq!(firsts(&sent), ["ACK sip:bob@pc.other.example 203.0.113.7"]);
}

#[test]
fn next_server_follows_503_silence_or_failure() {
    let mut world = relaying();
    world.invite(&alice(), &invite("bob", "a"));
    let first = answer(&mut world, &servers(&[1, 2, 3])).remove(0);
    let busy =
        response(&first.text, 503, "x").replace("Content-Length", "Retry-After: 100\r\nContent-Length");
    let second = world.receive(&at(1), &busy);
    assert_eq!(
        firsts(&second),
        ["ACK sip:bob@other.example 203.0.113.1", "INVITE sip:bob@other.example 203.0.113.2"]
    );
    assert_ne!(first.line("Via"), second[1].line("Via"));
    // Silence for four seconds, except for retransmissions.
    let sent = world.run_until(4000);
    let third: Vec<&Sent> =
        sent.iter().filter(|one| one.flow.peer.ip().to_string() == "203.0.113.3").collect();
    assert_eq!(third.len(), 1, "{sent:#?}");
    let ringing = world.receive(&at(3), &response(&third[0].text, 180, "z"));
    assert_eq!(firsts(&ringing), ["SIP/2.0 180 Ringing 192.0.2.1"]);
    let refused = world.receive(&at(3), &response(&third[0].text, 486, "z"));
    assert!(firsts(&refused).contains(&"SIP/2.0 486 Busy Here 192.0.2.1".to_owned()), "{refused:#?}");
    assert_eq!(world.service.servers().counters().failed_over, 2);
    // Failed or busy servers are tried last by the next request.
    let next = world.invite(&alice(), &invite("bob", "b").replace("Call-ID: call", "Call-ID: 2"));
    assert_eq!(firsts(&next), ["INVITE sip:bob@other.example 203.0.113.3"]);
}

#[test]
fn named_contact_has_several_servers() {
    let mut world = relaying();
    world.register_with(&Phone::udp("192.0.2.8:5060"), "dave", "Contact: <sip:dave@pc.example>\r\n");
    assert!(world.invite(&alice(), &alice().invite("dave", "a")).is_empty());
    let first = answer(&mut world, &servers(&[1, 2]));
    assert_eq!(firsts(&first), ["INVITE sip:dave@pc.example 203.0.113.1"]);
    let sent = world.run_until(4000);
    assert!(firsts(&sent).contains(&"INVITE sip:dave@pc.example 203.0.113.2".to_owned()), "{sent:#?}");
}

#[test]
fn ringing_server_is_final_and_refusing_too() {
    for code in [404, 500, 600] {
        let mut world = relaying();
        world.invite(&alice(), &invite("bob", "a"));
        let first = answer(&mut world, &servers(&[1, 2])).remove(0);
        world.receive(&at(1), &response(&first.text, 180, "x"));
        assert!(firsts(&world.run_until(20_000)).is_empty());
        let refused = world.receive(&at(1), &response(&first.text, code, "x"));
        assert!(refused.iter().all(|one| one.flow.peer.ip().to_string() != "203.0.113.2"), "{refused:#?}");
        assert!(refused.iter().any(|one| one.first_line().contains(&code.to_string())), "{refused:#?}");
    }
}

#[test]
fn caller_is_told_without_any_server() {
    // 503 from all servers becomes 500, because it would keep the caller away from this server. Silence of
    // all becomes 408.
    let mut world = relaying();
    world.invite(&alice(), &invite("bob", "a"));
    let first = answer(&mut world, &servers(&[1, 2])).remove(0);
    let second = world.receive(&at(1), &response(&first.text, 503, "x")).remove(1);
    let told = world.receive(&at(2), &response(&second.text, 503, "x"));
    assert!(told.iter().any(|one| one.first_line() == "SIP/2.0 500 Server Internal Error"), "{told:#?}");
    let mut world = relaying();
    world.invite(&alice(), &invite("bob", "a"));
    answer(&mut world, &servers(&[1, 2]));
    let sent = world.run_until(300_000);
    assert!(sent.iter().any(|one| one.first_line().starts_with("SIP/2.0 408")), "{sent:#?}");
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

#[test]
fn what_dns_doesnt_know_is_told_and_remembered() {
    for (found, line) in [
        (Found::Nothing, "SIP/2.0 502 Unresolvable Destination"),
        (Found::NoAnswer, "SIP/2.0 504 No Answer From DNS"),
    ] {
        let mut world = relaying();
        let options = alice().request("OPTIONS", "sip:bob@other.example", "o", "");
        assert!(world.receive(&alice(), &options).is_empty());
        let told = answer(&mut world, &found);
        assert_eq!(told.len(), 1, "{told:#?}");
        assert_eq!(told[0].first_line(), line);
        // The caller of an INVITE receives the status code.
        let sent = world.receive(&alice(), &invite("bob", "a"));
        assert!(sent.iter().any(|one| one.first_line().starts_with(&line[..11])), "{sent:#?}");
        assert!(wanted(&mut world).is_empty());
        world.run_until(40_000);
        assert_eq!(world.service.transactions().counts(), (0, 0));
    }
    // Without name resolution, names lead nowhere.
    let mut world = World::relaying();
    let options = alice().request("OPTIONS", "sip:bob@other.example", "o", "");
    assert!(world.one(&alice(), &options).first_line().starts_with("SIP/2.0 502"));
    assert!(wanted(&mut world).is_empty());
}

#[test]
fn cancel_during_dns_is_answered_at_once() {
    let mut world = relaying();
    world.invite(&alice(), &invite("bob", "a"));
    let cancel = invite("bob", "a").replace("INVITE", "CANCEL");
    let told: Vec<String> = firsts(&world.receive(&alice(), &cancel));
    assert_eq!(told, ["SIP/2.0 200 OK 192.0.2.1", "SIP/2.0 487 Request Terminated 192.0.2.1"]);
    assert!(answer(&mut world, &servers(&[1])).is_empty());
    world.run_until(40_000);
    assert_eq!(world.service.transactions().counts(), (0, 0));
    assert!(world.service.contexts().are_answered());
}

#[test]
fn names_work_in_routes_contacts_and_hops() {
    let hop = |uri: &str, priority| Hop { uri: uri.to_owned(), priority };
    let hops = vec![hop("sip:trunk.example", 0), hop("sip:198.51.100.99", 1)];
    let routes =
        vec![Route { prefix: Some("+44".to_owned()), domain: None, hops, registrar: false, offer: None }];
    let users = [(b"desk@example.com".to_vec(), vec![Alias::Uri(b"sip:desk@branch.example".to_vec())])];
    let mut world = world(100, Directory { routes, users: users.into(), ..Directory::default() });
    let route = "Route: <sip:next.example;transport=tcp;lr>\r\n";
    assert!(world.receive(&alice(), &alice().request("OPTIONS", "sip:x@192.0.2.99", "1", route)).is_empty());
    assert!(world.invite(&alice(), &alice().invite("+44200", "2")).is_empty());
    assert!(world.invite(&alice(), &alice().invite("desk", "3")).is_empty());
    let carol = Phone::udp("192.0.2.7:5060");
    world.register_with(
        &carol,
        "carol",
        "Contact: <sip:carol@pc.example>\r\nPath: <sip:path.example;lr>\r\nSupported: path\r\n",
    );
    world.register_with(&Phone::udp("192.0.2.8:5060"), "dave", "Contact: <sip:dave@pc.example>;q=1\r\n");
    assert!(world.invite(&alice(), &alice().invite("carol", "4")).is_empty());
    let mut questions = wanted(&mut world);
    questions.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!(names(&questions), ["branch.example", "next.example", "path.example", "trunk.example"]);
    assert_eq!(questions[1].protocol, Some(Protocol::Tcp));
    // The trunk's name can't be resolved; its next hop is an address.
    let now = world.now;
    let nothing = Answer { found: Found::Nothing, ttl: Duration::from_secs(60) };
    world.service.handle_dns_answer(now, &questions[3], nothing);
    assert_eq!(firsts(&world.sent()), ["INVITE sip:+44200@198.51.100.99 198.51.100.99"]);
    let known = Answer { found: servers(&[4]), ttl: Duration::from_secs(60) };
    world.service.handle_dns_answer(now, &questions[2], known);
    let sent = world.sent();
    assert_eq!(firsts(&sent), ["INVITE sip:carol@pc.example 203.0.113.4"]);
    assert_eq!(sent[0].line("Route"), Some("<sip:path.example;lr>"));
}

#[test]
fn tls_next_hop_is_known_by_name() {
    let mut world = relaying();
    let secure = alice().request("INVITE", "sips:bob@other.example", "a", "");
    world.invite(&alice(), &secure);
    let mut one = server(0, 1);
    one.protocol = Protocol::Tls;
    let sent = answer(&mut world, &Found::Servers(vec![one])).remove(0);
    assert_eq!((sent.flow.protocol, sent.flow.connection), (Protocol::Tls, 0));
    assert_eq!(world.service.servers().domain(&sent.flow), Some("other.example"));
    assert_eq!(world.service.servers().domain(&Flow::to(Protocol::Tls, sent.flow.peer)), None);
    // A request in the dialog goes to the domain again, not to the current owner of the address.
    let ok = response(&sent.text, 200, "bob");
    let passed = world.receive(&Phone(sent.flow), &ok);
    let bye = in_dialog("BYE", &passed[0].text, "sips:bob@other.example", &alice(), 2, true);
    let sent = world.receive(&alice(), &bye);
    assert_eq!(world.service.servers().domain(&sent[0].flow), Some("other.example"), "{sent:#?}");
}

#[test]
fn what_is_remembered_and_what_waits_is_bounded() {
    let mut world = world(16, Directory::default());
    for number in 0..2000 {
        let uri = format!("sip:bob@host{number}.example");
        let text = alice().request("OPTIONS", &uri, &number.to_string(), "");
        let told = world.receive(&alice(), &text);
        if number < 16 {
            assert!(told.is_empty(), "{told:#?}");
        } else {
            assert!(told[0].first_line().starts_with("SIP/2.0 503"), "{told:#?}");
        }
    }
    assert_eq!(world.service.servers().counts(), (0, 16, 16));
    answer(&mut world, &servers(&[1]));
    assert_eq!(world.service.servers().counts(), (16, 0, 0));
    // New names replace old ones.
    world.receive(&alice(), &alice().request("OPTIONS", "sip:bob@new.example", "new", ""));
    assert_eq!(names(&wanted(&mut world)), ["new.example"]);
    assert_eq!(world.service.servers().counts(), (15, 1, 1));
}

#[test]
fn response_without_connection_follows_its_via() {
    let mut world = relaying();
    let via = "Via: SIP/2.0/TCP proxy.other.example;branch=z9hG4bKx;received=203.0.113.50\r\n";
    let ok = format!(
        "SIP/2.0 200 OK\r\n{via}From: <sip:a@b>;tag=1\r\nTo: <sip:c@d>;tag=2\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n"
    );
    let gone = Phone::tcp("203.0.113.50:40000", 7).0;
    let now = world.now;
    world.service.response_failed(now, gone, ok.as_bytes());
    let sent = world.sent();
    assert_eq!(sent[0].flow, Flow::to(Protocol::Tcp, "203.0.113.50:5060".parse().unwrap()));
    // The connection fails, so the name is looked up, with the transport of the Via.
    world.service.response_failed(now, sent[0].flow, ok.as_bytes());
    assert!(world.sent().is_empty());
    let mut other = server(1, 51);
    other.protocol = Protocol::Tcp;
    let mut same = server(0, 50);
    same.protocol = Protocol::Tcp;
    let questions = wanted(&mut world);
    assert_eq!(
        (names(&questions), questions[0].protocol),
        (vec!["proxy.other.example"], Some(Protocol::Tcp))
    );
    let known = Answer { found: Found::Servers(vec![same, other]), ttl: Duration::from_secs(60) };
    world.service.handle_dns_answer(now, &questions[0], known);
    let sent = world.sent();
    assert_eq!(sent[0].flow, Flow::to(Protocol::Tcp, "203.0.113.51:5060".parse().unwrap()));
    // The second connection fails too, and the response is dropped.
    world.service.response_failed(now, sent[0].flow, ok.as_bytes());
    assert!(world.sent().is_empty() && wanted(&mut world).is_empty());
    // A peer that keeps closing connections causes only a limited number of new ones per second.
    for number in 0..1000 {
        world.service.response_failed(now, Phone::tcp("203.0.113.50:40000", 100 + number).0, ok.as_bytes());
    }
    assert!(world.sent().len() < 100);
    world.run_until(1000);
    let now = world.now;
    let nameless = ok.replace(";received=203.0.113.50", "");
    world.service.response_failed(now, sent[0].flow, nameless.as_bytes());
    assert!(world.sent().is_empty() && wanted(&mut world).is_empty());
}

#[test]
fn cached_servers_serve_while_dns_fails() {
    let mut world = relaying();
    let call = |world: &mut World, number: u32, found: &Found| {
        let text = invite("bob", &number.to_string()).replace("ID: call", &format!("ID: {number}"));
        let mut sent = world.invite(&alice(), &text);
        sent.extend(answer(world, found));
        world.run_until(world.now.as_millis() + 1);
        firsts(&sent)
    };
    assert_eq!(call(&mut world, 1, &servers(&[1])), ["INVITE sip:bob@other.example 203.0.113.1"]);
    // A new query once the last result has expired.
    for (number, secs) in [(2, 61), (3, 130), (4, 355)] {
        world.run_until(secs * 1000);
        assert_eq!(
            call(&mut world, number, &Found::NoAnswer),
            ["INVITE sip:bob@other.example 203.0.113.1"],
            "{secs}"
        );
    }
    world.run_until(420_000);
    let told = |sent: Vec<String>, status: &str| sent.len() == 1 && sent[0].starts_with(status);
    assert!(told(call(&mut world, 5, &Found::NoAnswer), "SIP/2.0 504"));
    // DNS works again, and an authoritative negative result is obeyed.
    world.run_until(500_000);
    assert_eq!(call(&mut world, 6, &servers(&[2])), ["INVITE sip:bob@other.example 203.0.113.2"]);
    world.run_until(561_000);
    assert!(told(call(&mut world, 7, &Found::Nothing), "SIP/2.0 502"));
    world.run_until(622_000);
    assert!(told(call(&mut world, 8, &Found::NoAnswer), "SIP/2.0 504"));
}
