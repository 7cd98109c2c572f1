use bytes::BytesMut;
use strandline_sip::codec::{Index, Message, Reply, StatusCode};
use strandline_sip::transaction::{Protocol, Received};

use crate::harness::{World, flow, request};

const BRANCH: &str = "z9hG4bKone";

#[test]
fn a_retransmission_gets_the_last_provisional_response() {
    let mut world = World::new();
    let invite = request("INVITE", BRANCH);
    let id = world.server(&invite, Protocol::Udp);
    assert_eq!(world.receive(&invite), Received::Absorbed);
    assert!(world.sent().is_empty());
    assert!(world.respond(id, &invite, 100));
    assert!(world.respond(id, &invite, 180));
    world.sent();
    assert_eq!(world.receive(&invite), Received::Absorbed);
    assert_eq!(world.sent(), ["SIP/2.0 180 Ringing"]);
}

#[test]
fn trying_is_sent_after_200_ms() {
    let invite = request("INVITE", BRANCH);
    let kept = |protocol| {
        let mut world = World::new();
        let id = world.server(&invite, protocol);
        world.trying(id, &invite);
        assert!(world.sent().is_empty());
        assert!(world.run_until(199).is_empty());
        (world, id)
    };
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        let (mut world, id) = kept(protocol);
        assert_eq!(world.run_until(1000), [200], "once");
        assert!(world.respond(id, &invite, 180));
        // No 100 after another response.
        for code in [180, 200, 486] {
            let (mut world, id) = kept(protocol);
            assert!(world.respond(id, &invite, code));
            world.sent();
            assert!(world.run_until(499).is_empty(), "{code}");
        }
        let (mut world, id) = kept(protocol);
        world.transactions.forget_server(id);
        assert!(world.is_empty());
    }
}

#[test]
fn who_asks_again_before_that_hears_trying() {
    let mut world = World::new();
    let invite = request("INVITE", BRANCH);
    let id = world.server(&invite, Protocol::Udp);
    world.trying(id, &invite);
    assert_eq!(world.receive(&invite), Received::Absorbed);
    assert_eq!(world.sent(), ["SIP/2.0 100 Trying"]);
    // A response derived from the 100 has its headers.
    let code = strandline_sip::codec::StatusCode::REQUEST_TIMEOUT;
    let sent = world.transactions.respond_alike(world.now, id, code, b"mine", &mut world.out);
    assert_eq!(sent, Ok(true));
    assert_eq!(world.sent(), ["SIP/2.0 408 Request Timeout"]);
}

#[test]
fn late_trying_equals_the_prepared_one() {
    let via = "Via: SIP/2.0/UDP 10.0.0.1:5070 ;rport;branch=z9hG4bK77, SIP/2.0/UDP first.example\r\nv: SIP/2.0/UDP zero.example\r\n";
    let invite =
        request("INVITE", BRANCH).replace("Max-Forwards", &format!("Timestamp: 54 \r\n{via}Max-Forwards"));
    let invite = invite.replace("Content-Length: 0\r\n\r\n", "Content-Length: 4\r\n\r\nbody");
    assert!(invite.contains("zero.example") && invite.ends_with("body"), "{invite}");
    let expected = {
        let mut index = Index::new();
        let message = Message::parse(invite.as_bytes(), &mut index).unwrap();
        let mut out = BytesMut::new();
        let source = Some(flow(Protocol::Udp).peer);
        let reply = Reply { source, ..Reply::new(StatusCode::TRYING) };
        reply.write(&message, &mut out).finish(b"").unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    };
    assert!(expected.contains("Timestamp: 54"), "{expected}");
    let kept = |protocol| {
        let mut world = World::new();
        let id = world.server(&invite, protocol);
        world.trying(id, &invite);
        assert!(world.sent().is_empty() && world.run_until(199).is_empty());
        (world, id)
    };
    // Sent once when its timer expires, and for each retransmission before or after that.
    let (mut world, _) = kept(Protocol::Udp);
    world.now = world.transactions.next_deadline().unwrap();
    world.transactions.handle_timeout(world.now, &mut world.out);
    assert_eq!(world.sent_whole(), [expected.as_str()]);
    assert!(world.run_until(1000).is_empty());
    assert_eq!(world.receive(&invite), Received::Absorbed);
    assert_eq!(world.sent_whole(), [expected.as_str()]);
    let (mut world, _) = kept(Protocol::Udp);
    assert_eq!(world.receive(&invite), Received::Absorbed);
    assert_eq!(world.sent_whole(), [expected.as_str()]);
    // A response derived from the 100 before that was sent has its headers.
    let (mut world, id) = kept(Protocol::Tcp);
    let sent =
        world.transactions.respond_alike(world.now, id, StatusCode::REQUEST_TIMEOUT, b"mine", &mut world.out);
    assert_eq!(sent, Ok(true));
    let [sent] = &world.sent_whole()[..] else { panic!("one is sent") };
    assert!(
        sent.starts_with("SIP/2.0 408") && sent.contains("zero.example") && sent.contains(";tag=mine"),
        "{sent}"
    );
    // No 100 after another response.
    for code in [180, 200, 486] {
        let (mut world, id) = kept(Protocol::Udp);
        assert!(world.respond(id, &invite, code));
        world.sent();
        assert!(world.run_until(499).is_empty(), "{code}");
        assert_eq!(world.receive(&invite), Received::Absorbed);
        assert!(world.sent().iter().all(|line| line.starts_with(&format!("SIP/2.0 {code}"))), "{code}");
    }
}

#[test]
fn timer_g_repeats_errors_until_timer_h() {
    let mut world = World::new();
    let invite = request("INVITE", BRANCH);
    let id = world.server(&invite, Protocol::Udp);
    assert!(world.respond(id, &invite, 486));
    world.sent();
    let times = world.run_until(40_000);
    assert_eq!(times, [500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert_eq!(world.events(), ["no ack"]);
    assert!(world.is_empty());
}

#[test]
fn reliable_transport_sends_an_error_once() {
    let mut world = World::new();
    let invite = request("INVITE", BRANCH);
    let id = world.server(&invite, Protocol::Tcp);
    assert!(world.respond(id, &invite, 486));
    world.sent();
    assert!(world.run_until(31_999).is_empty());
    assert_eq!(world.receive(&request("ACK", BRANCH)), Received::Acknowledged(id));
    assert!(world.is_empty());
}

#[test]
fn ack_stops_retransmissions_and_timer_i_ends_it() {
    let mut world = World::new();
    let invite = request("INVITE", BRANCH);
    let id = world.server(&invite, Protocol::Udp);
    assert!(world.respond(id, &invite, 486));
    world.sent();
    assert_eq!(world.run_until(1000), [500]);
    assert_eq!(world.receive(&request("ACK", BRANCH)), Received::Acknowledged(id));
    assert!(world.run_until(5999).is_empty());
    assert_eq!(world.receive(&invite), Received::Absorbed);
    assert_eq!(world.receive(&request("ACK", BRANCH)), Received::Absorbed);
    assert!(world.sent().is_empty());
    world.run_until(6000);
    assert!(world.is_empty());
    assert!(world.events().is_empty());
}

#[test]
fn a_retransmission_gets_the_error_again() {
    let mut world = World::new();
    let invite = request("INVITE", BRANCH);
    let id = world.server(&invite, Protocol::Udp);
    assert!(world.respond(id, &invite, 603));
    world.sent();
    assert_eq!(world.receive(&invite), Received::Absorbed);
    assert_eq!(world.sent(), ["SIP/2.0 603 Decline"]);
    assert!(!world.respond(id, &invite, 200), "a final response was sent already");
}

#[test]
fn response_can_be_built_from_the_last() {
    let mut world = World::new();
    let invite = request("INVITE", BRANCH);
    let id = world.server(&invite, Protocol::Tcp);
    assert!(world.respond(id, &invite, 100));
    world.sent();
    let code = strandline_sip::codec::StatusCode::REQUEST_TIMEOUT;
    let sent = world.transactions.respond_alike(world.now, id, code, b"mine", &mut world.out);
    assert_eq!(sent, Ok(true));
    let sent = world.sent_whole();
    assert!(
        sent[0].starts_with("SIP/2.0 408 Request Timeout\r\nVia: SIP/2.0/UDP client.example.com"),
        "{sent:?}"
    );
    assert!(sent[0].contains("\r\nCSeq: 5 INVITE\r\n"), "{sent:?}");
}

#[test]
fn an_ack_before_any_final_response_says_nothing() {
    let mut world = World::new();
    let invite = request("INVITE", BRANCH);
    let id = world.server(&invite, Protocol::Udp);
    world.trying(id, &invite);
    assert_eq!(world.receive(&request("ACK", BRANCH)), Received::Absorbed);
    assert_eq!(world.receive(&invite), Received::Absorbed);
    assert_eq!(world.sent(), ["SIP/2.0 100 Trying"]);
    assert_eq!(world.receive(&request("ACK", BRANCH)), Received::Absorbed);
    let code = strandline_sip::codec::StatusCode::REQUEST_TIMEOUT;
    let sent = world.transactions.respond_alike(world.now, id, code, b"mine", &mut world.out);
    assert_eq!(sent, Ok(true));
    assert_eq!(world.sent(), ["SIP/2.0 408 Request Timeout"]);
    world.run_until(100_000);
    assert!(world.is_empty());
}
