use crate::harness::{Phone, Sent, World, response};

fn alice() -> Phone {
    Phone::udp("192.0.2.1:5060")
}

fn phone(number: u32) -> Phone {
    Phone::udp(&format!("192.0.2.{}:5060", 10 + number))
}

/// Alice calls bob, who has phones with these `q` values.
fn call(qs: &[&str]) -> (World, Vec<Sent>) {
    let mut world = World::new();
    for (number, q) in qs.iter().enumerate() {
        let phone = phone(number as u32);
        let ok = world.one(
            &phone,
            &phone.register(
                "bob",
                number as u32 + 1,
                &format!("Contact: {};q={q}\r\n", phone.contact("bob")),
            ),
        );
        assert_eq!(ok.first_line(), "SIP/2.0 200 OK");
    }
    let mut sent = world.invite(&alice(), &alice().invite("bob", "1"));
    sent.sort_by_key(|one| one.flow.peer);
    (world, sent)
}

fn first_lines(sent: &[Sent]) -> Vec<&str> {
    sent.iter().map(Sent::first_line).collect()
}

#[test]
fn first_answer_cancels_the_other_branches() {
    let (mut world, sent) = call(&["1", "1", "1"]);
    assert_eq!(sent.len(), 3);
    for (number, one) in sent.iter().enumerate() {
        assert_eq!(one.line("Max-Breadth"), Some("20"));
        assert_eq!(one.first_line(), format!("INVITE sip:bob@192.0.2.{}:5060 SIP/2.0", 10 + number));
    }
    world.one(&phone(0), &response(&sent[0].text, 180, "a"));
    world.one(&phone(1), &response(&sent[1].text, 180, "b"));
    let answered = world.receive(&phone(0), &response(&sent[0].text, 200, "a"));
    assert_eq!(
        first_lines(&answered),
        ["SIP/2.0 200 OK", "CANCEL sip:bob@192.0.2.11:5060 SIP/2.0"],
        "the third has not rung yet, and can't be cancelled before it does"
    );
    let late = world.receive(&phone(2), &response(&sent[2].text, 180, "c"));
    assert_eq!(first_lines(&late), ["CANCEL sip:bob@192.0.2.12:5060 SIP/2.0"]);
    let ended = world.receive(&phone(1), &response(&sent[1].text, 487, "b"));
    assert_eq!(first_lines(&ended), ["ACK sip:bob@192.0.2.11:5060 SIP/2.0"], "the caller isn't told");
    // Both phones answered at once: both responses go to the caller.
    let other = world.receive(&phone(2), &response(&sent[2].text, 200, "c"));
    assert_eq!(first_lines(&other), ["SIP/2.0 200 OK"]);
    world.run_until(200_000);
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

#[test]
fn best_response_waits_for_all_branches() {
    for (codes, best) in [
        ([404, 486], "SIP/2.0 404 Not Found"),
        ([486, 503], "SIP/2.0 486 Busy Here"),
        ([503, 503], "SIP/2.0 500 Server Internal Error"),
        ([500, 302], "SIP/2.0 302 Moved Temporarily"),
        ([404, 415], "SIP/2.0 415 Unsupported Media Type"),
        ([404, 600], "SIP/2.0 600 Busy Everywhere"),
    ] {
        let (mut world, sent) = call(&["1", "1"]);
        let first = world.receive(&phone(0), &response(&sent[0].text, codes[0], "a"));
        assert_eq!(first_lines(&first), ["ACK sip:bob@192.0.2.10:5060 SIP/2.0"]);
        let second = world.receive(&phone(1), &response(&sent[1].text, codes[1], "b"));
        assert_eq!(second.len(), 2, "{codes:?}");
        assert_eq!(second[1].first_line(), best, "{codes:?}");
        assert_eq!(second[1].lines("Via").len(), 1);
    }
}

#[test]
fn challenges_of_all_phones_are_collected() {
    let (mut world, sent) = call(&["1", "1"]);
    let challenge = |request: &str, realm: &str| {
        let text = response(request, 407, "t");
        text.replace(
            "Content-Length",
            &format!("Proxy-Authenticate: Digest realm=\"{realm}\"\r\nContent-Length"),
        )
    };
    world.receive(&phone(0), &challenge(&sent[0].text, "a"));
    let answer = world.receive(&phone(1), &challenge(&sent[1].text, "b"));
    let mut found = answer[1].lines("Proxy-Authenticate");
    found.sort_unstable();
    assert_eq!(found, ["Digest realm=\"a\"", "Digest realm=\"b\""]);
}

#[test]
fn a_6xx_stops_the_others_at_once() {
    let (mut world, sent) = call(&["1", "1", "0.5"]);
    world.one(&phone(1), &response(&sent[1].text, 180, "b"));
    let declined = world.receive(&phone(0), &response(&sent[0].text, 603, "a"));
    assert_eq!(
        first_lines(&declined),
        ["ACK sip:bob@192.0.2.10:5060 SIP/2.0", "CANCEL sip:bob@192.0.2.11:5060 SIP/2.0"]
    );
    let last = world.receive(&phone(1), &response(&sent[1].text, 487, "b"));
    assert_eq!(first_lines(&last), ["ACK sip:bob@192.0.2.11:5060 SIP/2.0", "SIP/2.0 603 Decline"]);
}

#[test]
fn lower_q_is_tried_after_refusals() {
    let (mut world, sent) = call(&["0.2", "1", "0.7"]);
    assert_eq!(first_lines(&sent), ["INVITE sip:bob@192.0.2.11:5060 SIP/2.0"]);
    let next = world.receive(&phone(1), &response(&sent[0].text, 486, "b"));
    assert_eq!(
        first_lines(&next),
        ["ACK sip:bob@192.0.2.11:5060 SIP/2.0", "INVITE sip:bob@192.0.2.12:5060 SIP/2.0"]
    );
    let next = world.receive(&phone(2), &response(&next[1].text, 404, "c"));
    assert_eq!(next[1].first_line(), "INVITE sip:bob@192.0.2.10:5060 SIP/2.0");
    let last = world.receive(&phone(0), &response(&next[1].text, 486, "a"));
    assert_eq!(last[1].first_line(), "SIP/2.0 486 Busy Here");
}

#[test]
fn silence_is_408_for_invite_only() {
    let (mut world, sent) = call(&["1"]);
    assert_eq!(sent.len(), 1);
    let out = world.run_until(40_000);
    let last = out.iter().find(|one| one.first_line().starts_with("SIP/2.0")).unwrap();
    assert_eq!((last.first_line(), last.flow), ("SIP/2.0 408 Request Timeout", alice().0));
    let (mut world, _) = call(&["1"]);
    world.receive(&alice(), &alice().request("MESSAGE", "sip:bob@example.com", "2", ""));
    world.run_until(20_000);
    let out = world.run_until(33_000);
    assert!(
        !out.iter().any(|one| one.first_line().contains("408") && one.text.contains("MESSAGE")),
        "{out:?}"
    );
}

#[test]
fn a_request_that_reaches_no_phone_is_480() {
    let (mut world, _) = call(&["1"]);
    let invite = alice().invite("bob", "2");
    world.service.handle_message(world.now, alice().0, invite.as_bytes());
    let client = world.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
    world.sent();
    world.service.send_failed(world.now, client);
    assert_eq!(world.sent()[0].first_line(), "SIP/2.0 480 Temporarily Unavailable");
}

#[test]
fn refusal_precedes_an_unreachable_branch() {
    for dead_first in [true, false] {
        let mut world = World::new();
        let (one, other) = (Phone::udp("192.0.2.2:5060"), Phone::udp("192.0.2.3:5060"));
        world.register_with(
            &one,
            "bob",
            &format!("Contact: {}, {}\r\n", one.contact("bob"), other.contact("bob")),
        );
        let text = alice().invite("bob", "2");
        world.service.handle_message(world.now, alice().0, text.as_bytes());
        let client = world.service.output().out.iter().find_map(|(item, _)| item.client).unwrap();
        let sent = world.sent();
        let busy = crate::harness::response(&sent[1].text, 486, "busy");
        if dead_first {
            world.service.send_failed(world.now, client);
            world.receive(&other, &busy);
        } else {
            world.receive(&other, &busy);
            world.service.send_failed(world.now, client);
        }
        let told = world.run_until(500);
        let all: Vec<_> = told.iter().map(|one| one.first_line().to_owned()).collect();
        assert!(all.iter().any(|line| line.starts_with("SIP/2.0 486")), "{dead_first}: {all:?}");
    }
}

#[test]
fn failed_flow_at_an_edge_is_480() {
    let mut world = World::new();
    let edge = Phone::udp("192.0.2.9:5060");
    let lines = "Contact: <sip:bob@10.0.0.1>\r\nSupported: path\r\nPath: <sip:192.0.2.9;lr>\r\n";
    world.register_with(&edge, "bob", lines);
    for method in ["INVITE", "MESSAGE"] {
        let text = alice().request(method, "sip:bob@example.com", method, "");
        let sent = world.receive(&alice(), &text);
        let told = world.receive(&edge, &crate::harness::response(&sent[0].text, 430, "edge"));
        assert!(
            told.iter().any(|one| one.first_line() == "SIP/2.0 480 Temporarily Unavailable"),
            "{method}: {told:?}"
        );
    }
}

#[test]
fn challenges_of_both_kinds_are_collected() {
    for codes in [[401, 407], [407, 401]] {
        let (mut world, sent) = call(&["1", "1"]);
        let challenge = |request: &str, code: u16| {
            let name = if code == 401 { "WWW-Authenticate" } else { "Proxy-Authenticate" };
            let text = response(request, code, "t");
            text.replace("Content-Length", &format!("{name}: Digest realm=\"{code}\"\r\nContent-Length"))
        };
        world.receive(&phone(0), &challenge(&sent[0].text, codes[0]));
        let answer = world.receive(&phone(1), &challenge(&sent[1].text, codes[1]));
        assert!(answer[1].first_line().starts_with(&format!("SIP/2.0 {}", codes[0])), "{answer:?}");
        assert_eq!(answer[1].lines("WWW-Authenticate"), ["Digest realm=\"401\""]);
        assert_eq!(answer[1].lines("Proxy-Authenticate"), ["Digest realm=\"407\""]);
    }
}

#[test]
fn sequential_targets_ring_one_by_one() {
    let (mut world, _) = call(&["1", "1", "1", "0.5"]);
    let invite = alice().request("INVITE", "sip:bob@example.com", "2", "Max-Breadth: 2\r\n");
    let mut sent = world.invite(&alice(), &invite);
    let mut rung = Vec::new();
    assert_eq!(sent.len(), 2, "{sent:?}");
    while let Some(one) = sent.pop() {
        assert_eq!(one.line("Max-Breadth").is_some(), one.first_line().starts_with("INVITE"));
        rung.push(one.flow.peer);
        let from = Phone::udp(&one.flow.peer.to_string());
        let next = world.receive(&from, &response(&one.text, 486, "x"));
        sent.extend(next.iter().filter(|one| one.first_line().starts_with("INVITE")).cloned());
        if rung.len() == 4 {
            assert!(next.iter().any(|one| one.first_line() == "SIP/2.0 486 Busy Here"), "{next:?}");
        }
    }
    assert_eq!(rung.last(), Some(&phone(3).0.peer));
    rung.sort_unstable();
    assert_eq!(rung, [0, 1, 2, 3].map(|number| phone(number).0.peer));
}

#[test]
fn unforkable_request_is_440() {
    let (mut world, _) = call(&["1"]);
    for method in ["INVITE", "MESSAGE"] {
        let text = alice().request(method, "sip:bob@example.com", method, "Max-Breadth: 0\r\n");
        assert_eq!(world.one(&alice(), &text).first_line(), "SIP/2.0 440 Max-Breadth Exceeded");
    }
}

#[test]
fn own_responses_have_their_own_tags() {
    let mut tags = Vec::new();
    let (mut world, _) = call(&["1"]);
    for branch in ["2", "3"] {
        world.invite(
            &alice(),
            &alice().invite("bob", branch).replace("Call-ID: call", &format!("Call-ID: {branch}")),
        );
    }
    for one in world.run_until(40_000).iter().filter(|one| one.first_line() == "SIP/2.0 408 Request Timeout")
    {
        tags.push(one.line("To").unwrap().split_once(";tag=").unwrap().1.to_owned());
    }
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
}

#[test]
fn late_invite_over_tcp_gets_the_final_response() {
    let (mut world, _) = call(&["1"]);
    let caller = Phone::tcp("192.0.2.9:40000", 5);
    world.service.connection_opened(5);
    let invite = caller.invite("bob", "9");
    let sent = world.invite(&caller, &invite);
    world.one(&phone(0), &response(&sent[0].text, 180, "a"));
    world.receive(&phone(0), &response(&sent[0].text, 486, "a"));
    assert_eq!(world.one(&caller, &invite).first_line(), "SIP/2.0 486 Busy Here");
}

/// A response that lacks the caller's Via.
fn for_us_alone(request: &str, code: u16) -> String {
    let text = response(request, code, "x");
    let via = text.lines().filter(|line| line.starts_with("Via: ")).nth(1).unwrap().to_owned();
    text.replace(&format!("{via}\r\n"), "")
}

#[test]
fn response_without_second_via_is_dropped() {
    for code in [180, 200, 486] {
        let (mut world, sent) = call(&["1"]);
        let got = world.receive(&phone(0), &for_us_alone(&sent[0].text, code));
        let told: Vec<&Sent> = got.iter().filter(|one| one.flow == alice().0).collect();
        if code == 180 {
            assert!(told.is_empty(), "{told:#?}");
            let ok = world.one(&phone(0), &response(&sent[0].text, 200, "x"));
            assert_eq!(ok.first_line(), "SIP/2.0 200 OK");
        } else {
            // No other response remains, and the caller needs one.
            assert_eq!(told[0].first_line(), "SIP/2.0 500 Server Internal Error", "{code}: {told:#?}");
            assert_eq!((told.len(), told[0].lines("Via").len()), (1, 1));
        }
        world.run_until(300_000);
        assert_eq!(world.service.transactions().counts(), (0, 0));
    }
}
