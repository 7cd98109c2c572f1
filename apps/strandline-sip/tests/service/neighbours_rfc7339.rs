//! Overload control as a client (RFC 7339): the server obeys the reductions that downstream neighbours
//! request.

use std::time::Duration;

use strandline_sip::resolution::{Answer, Found, Server};
use strandline_sip::transaction::Protocol;

use crate::harness::{Phone, response};
use crate::neighbours::{ASKED, Fate, Neighbours, alice, at};

const IN_DIALOG: &str = "X-Dialog: yes\r\n";
const EMERGENCY: &str = "Priority: emergency\r\n";

#[test]
fn neighbours_get_oc_in_via_5_1() {
    let mut all = Neighbours::new();
    let Fate::Sent(sent) = all.send(5060, "") else { panic!("withheld") };
    assert!(sent.line("Via").unwrap().ends_with(ASKED), "{}", sent.text);
    let bob = Phone::udp("192.0.2.7:5060");
    all.world.register(&bob, "bob");
    let sent = all.world.invite(&alice(), &alice().invite("bob", "x"));
    assert!(!sent[0].text.contains(";oc"), "{}", sent[0].text);
}

#[test]
fn share_is_dropped_with_503_without_retry_5_10() {
    let mut all = Neighbours::new();
    assert_eq!(all.sent_of_1000(""), 1000);
    all.told(5060, ";oc=25;oc-algo=\"loss\";oc-validity=100000;oc-seq=1.0");
    all.sent_of_1000("");
    // The share of low-priority requests has been measured; now it is nearly all.
    all.at_millis(6000);
    let sent = all.sent_of_1000("");
    assert!((690..810).contains(&sent), "{sent}");
    let withheld = std::iter::repeat_with(|| all.send(5060, "")).take(100).find_map(|fate| match fate {
        Fate::Withheld(sent) => Some(sent),
        Fate::Sent(_) => None,
    });
    let withheld = withheld.unwrap();
    assert_eq!(withheld.first_line(), "SIP/2.0 503 Service Unavailable");
    assert_eq!(withheld.line("Retry-After"), None);
    let (counters, limited) = all.world.service.overload().throttled(all.world.now);
    assert_eq!((counters.heeded, limited), (1, 1));
    assert!(counters.withheld > 200, "{counters:?}");
    // The reduction applies to that address and port only.
    assert!((0..200).all(|_| all.is_sent(5070, "")));
}

#[test]
fn dropped_invite_gets_503() {
    let mut all = Neighbours::new();
    all.told(5060, ";oc=100;oc-validity=100000;oc-seq=1.0");
    let invite = alice().request("INVITE", "sip:bob@203.0.113.1:5060", "i", "");
    let sent = all.world.receive(&alice(), &invite);
    let last = sent.last().unwrap();
    assert_eq!(last.first_line(), "SIP/2.0 503 Service Unavailable");
    assert_eq!(last.line("Retry-After"), None);
    all.at_millis(90_000);
    assert_eq!(all.world.service.transactions().counts(), (0, 0));
}

#[test]
fn throttling_ends_by_time_or_request_5_7() {
    let mut all = Neighbours::new();
    all.told(5060, ";oc=100;oc-algo=\"loss\";oc-validity=2000;oc-seq=1.0");
    assert!(!all.is_sent(5060, ""));
    all.at_millis(1999);
    assert!(!all.is_sent(5060, ""));
    all.at_millis(2000);
    assert!(all.is_sent(5060, ""));
    // Without a validity, it lasts for 500 ms (section 4.3).
    all.told(5060, ";oc=100;oc-seq=2.0");
    all.at_millis(2499);
    assert!(!all.is_sent(5060, ""));
    all.at_millis(2500);
    assert!(all.is_sent(5060, ""));
    // A neighbour may end it, even in a response to an earlier request.
    let Fate::Sent(earlier) = all.send(5060, "") else { panic!("withheld") };
    all.told(5060, ";oc=100;oc-validity=60000;oc-seq=3.0");
    assert!(!all.is_sent(5060, ""));
    all.answer(&earlier, ";oc=0;oc-validity=0;oc-seq=3.1");
    assert!(all.is_sent(5060, ""));
}

#[test]
fn late_or_invalid_oc_changes_nothing_5_4() {
    let mut all = Neighbours::new();
    let mut requests = Vec::new();
    for _ in 0..12 {
        let Fate::Sent(request) = all.send(5060, "") else { panic!("withheld") };
        requests.push(request);
    }
    let mut answers = |all: &mut Neighbours, says: &str| all.answer(&requests.pop().unwrap(), says);
    answers(&mut all, ";oc=100;oc-algo=\"loss\";oc-validity=1000;oc-seq=1700000010.5");
    for late in [
        ";oc=0;oc-validity=1000;oc-seq=1700000010.4",
        ";oc=0;oc-validity=1000;oc-seq=1700000009.9",
        ";oc=0;oc-algo=\"other\";oc-seq=1700000011.0",
        ";oc=many;oc-seq=1700000011.0",
        ";oc=0;oc-validity=1000;oc-seq=x",
        ";oc",
        ";oc;oc-validity=100;oc-seq=1700000011.0",
    ] {
        answers(&mut all, late);
        assert!(!all.is_sent(5060, ""), "{late}");
    }
    // An equal sequence number doesn't restart the validity; a larger one does.
    all.at_millis(600);
    answers(&mut all, ";oc=100;oc-algo=\"loss\";oc-validity=1000;oc-seq=1700000010.5");
    all.at_millis(1000);
    assert!(all.is_sent(5060, ""));
    answers(&mut all, ";oc=100;oc-algo=\"loss\";oc-validity=1000;oc-seq=1700000012.0");
    assert!(!all.is_sent(5060, ""));
    // A much smaller sequence number means that the neighbour has restarted (section 4.4).
    answers(&mut all, ";oc=0;oc-algo=\"loss\";oc-validity=1000;oc-seq=1.0");
    assert!(all.is_sent(5060, ""));
}

#[test]
fn dialogs_and_emergencies_come_first_5_10_1() {
    let mut all = Neighbours::new();
    all.told(5060, ";oc=50;oc-algo=\"loss\";oc-validity=100000;oc-seq=1.0");
    assert_eq!(all.sent_of_1000(IN_DIALOG), 1000);
    assert_eq!(all.sent_of_1000("Resource-Priority: esnet.0\r\n"), 1000);
    let spared = all.sent_of_1000("");
    // Half of all requests, where initially 4 in 5 count as low priority: 50 / 80.
    assert!((300..450).contains(&spared), "{spared}");
    // Now every second request has low priority. Reducing by nine tenths takes all of these, and four fifths
    // of the others.
    let mut all = Neighbours::new();
    for _ in 0..500 {
        all.is_sent(5060, "");
        all.is_sent(5060, EMERGENCY);
    }
    all.told(5060, ";oc=90;oc-algo=\"loss\";oc-validity=100000;oc-seq=1.0");
    for _ in 0..500 {
        all.is_sent(5060, "");
        all.is_sent(5060, EMERGENCY);
    }
    all.at_millis(6000);
    let sent = (0..1000).filter(|_| all.is_sent(5060, EMERGENCY)).count();
    assert!((130..270).contains(&sent), "{sent}");
    assert_eq!((0..100).filter(|_| all.is_sent(5060, "")).count(), 0);
}

#[test]
fn other_server_takes_the_excess_5_10() {
    let mut all = Neighbours::new();
    all.told(5060, ";oc=100;oc-validity=100000;oc-seq=1.0");
    let text = alice().request("MESSAGE", "sip:bob@other.example", "name", "");
    assert!(all.world.receive(&alice(), &text).is_empty());
    let server = |priority, port| Server {
        protocol: Protocol::Udp,
        priority,
        weight: 0,
        addresses: vec![([203, 0, 113, 1], port).into()],
    };
    let found = Found::Servers(vec![server(0, 5060), server(1, 5070)]);
    let now = all.world.now;
    for question in all.world.service.servers_mut().take_wanted() {
        let answer = Answer { found: found.clone(), ttl: Duration::from_secs(60) };
        all.world.service.handle_dns_answer(now, &question, answer);
    }
    assert_eq!(all.world.sent()[0].flow, at(5070).0);
}

#[test]
fn silent_neighbour_gets_only_probes_5_9() {
    let mut all = Neighbours::new();
    // Three requests in a row are lost.
    for _ in 0..3 {
        assert!(all.is_sent(5060, ""));
    }
    all.at_millis(32_001);
    assert!(!all.is_sent(5060, ""), "the next one waits for the time of a probe");
    all.at_millis(33_100);
    assert!(all.is_sent(5060, ""), "a probe");
    assert!(!all.is_sent(5060, ""), "one at a time");
    // Lost probes are sent at increasing intervals.
    all.at_millis(66_000);
    assert!(!all.is_sent(5060, ""));
    all.at_millis(68_000);
    let Fate::Sent(probe) = all.send(5060, "") else { panic!("no probe") };
    // Any response ends the pause.
    all.answer(&probe, ASKED);
    assert_eq!(all.sent_of_1000(""), 1000);
    assert!(all.world.service.overload().throttled(all.world.now).0.silent >= 3);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut all = Neighbours::new();
    for port in 10_000..15_000 {
        all.told(port, ";oc=100;oc-validity=1000;oc-seq=1.0");
    }
    assert_eq!(all.world.service.overload().throttled(all.world.now).1, 4096);
    // Reports of the last neighbours are ignored until there is room.
    assert!(all.is_sent(14_999, "") && !all.is_sent(10_000, ""));
    all.at_millis(200_000);
    all.told(14_999, ";oc=100;oc-validity=1000;oc-seq=1.0");
    assert!(!all.is_sent(14_999, ""));
}

#[test]
fn foreign_oc_values_are_not_forwarded_5_4() {
    let mut all = Neighbours::new();
    let Fate::Sent(request) = all.send(5060, "") else { panic!("withheld") };
    let ok = response(&request.text, 200, "b");
    // The second Via is the caller's.
    let (ours, theirs) = ok.split_once("Via: SIP/2.0/UDP 192.0.2.1:5060").unwrap();
    let meddled = format!(
        "{ours}Via: SIP/2.0/UDP 192.0.2.1:5060;oc=100;oc-algo=\"loss\";oc-validity=9999;oc-seq=9.9{theirs}"
    );
    let passed = all.world.receive(&at(5060), &meddled);
    assert_eq!(passed[0].first_line(), "SIP/2.0 200 OK");
    assert!(!passed[0].text.contains("oc"), "{}", passed[0].text);
    assert!(passed[0].line("Via").unwrap().contains("branch=z9hG4bKn1"), "{}", passed[0].text);
}
