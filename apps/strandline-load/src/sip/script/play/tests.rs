use super::*;
use crate::sip::engine::Engine;
use crate::sip::plan::Scenario;
use crate::sip::test_support::{self, assert_given_up, sent, start};

/// A call with a re-INVITE, as shipped.
const CALL: &str = include_str!("../../../../scenarios/reinvite.toml");

fn engine(script: &str, begin: Instant, closed: bool) -> Engine {
    let mut engine = test_support::engine(Scenario::File, closed, begin);
    engine.play_by(Players::new(Script::read(script).unwrap()));
    engine
}

/// Forwards each message to the other party, like a proxy that adds Record-Route to the INVITE. Returns the
/// messages that result.
fn pass(engine: &mut Engine, now: Instant, said: &[(usize, String)]) -> Vec<(usize, String)> {
    for (source, text) in said {
        let text = if text.starts_with("INVITE sip:u1@example.com") {
            text.replacen("\r\n", "\r\nRecord-Route: <sip:proxy;lr>\r\n", 1)
        } else {
            text.clone()
        };
        engine.handle(now, 1 - source, text.as_bytes());
    }
    sent(engine)
}

/// Returns the first words of the messages sent.
fn first(said: &[(usize, String)]) -> Vec<String> {
    let words =
        |text: &str| text.split("\r\n").next().unwrap().split(' ').take(2).collect::<Vec<_>>().join(" ");
    said.iter().map(|(source, text)| format!("{source}: {}", words(text))).collect()
}

#[test]
fn call_with_reinvite_follows_its_route() {
    let begin = start();
    let mut engine = engine(CALL, begin, false);
    engine.begin(begin, begin);
    let mut said = sent(&mut engine);
    let mut all = Vec::new();
    for round in 0..30u32 {
        all.extend(first(&said));
        for (_, text) in said.iter().filter(|(source, text)| *source == 0 && text.starts_with("BYE")) {
            assert!(text.starts_with("BYE sip:u1@127.0.0.3:1001 SIP/2.0\r\n"), "{text}");
            assert!(text.contains("\r\nRoute: <sip:proxy;lr>\r\n") && text.contains(";tag=b"), "{text}");
        }
        said = pass(&mut engine, begin, &said);
        if said.is_empty() && engine.under_way() > 0 {
            // A pause.
            engine.handle_timeout(begin + Duration::from_millis(200) * (round + 1));
            said = sent(&mut engine);
        }
    }
    assert_eq!(
        all,
        [
            "0: INVITE sip:u1@example.com",
            "1: SIP/2.0 180",
            "1: SIP/2.0 200",
            "0: ACK sip:u1@127.0.0.3:1001",
            "0: INVITE sip:u1@127.0.0.3:1001",
            "1: SIP/2.0 200",
            "0: ACK sip:u1@127.0.0.3:1001",
            "0: BYE sip:u1@127.0.0.3:1001",
            "1: SIP/2.0 200",
        ]
    );
    let outcome = &engine.outcome;
    assert_eq!((outcome.succeeded, outcome.answered, engine.under_way()), (1, 1, 0));
    assert_eq!(outcome.retransmitted, 0);
    assert!(outcome.response.summary().is_some() && outcome.whole.summary().is_some());
}

#[test]
fn unanswered_step_is_retransmitted_then_abandoned() {
    let begin = start();
    let engine =
        engine("name = \"ping\"\n[[step]]\nsend = \"OPTIONS\"\n[[step]]\nexpect = 200\n", begin, false);
    assert_given_up(engine, begin);
}

fn reply(request: &str, status: &str) -> Vec<u8> {
    let rest = request.split_once("\r\n").unwrap().1.split_once("\r\n\r\n").unwrap().0;
    format!("SIP/2.0 {status}\r\n{rest}\r\n\r\n").into_bytes()
}

#[test]
fn unexpected_response_fails_the_call() {
    let begin = start();
    let mut engine =
        engine("name = \"ping\"\n[[step]]\nsend = \"OPTIONS\"\n[[step]]\nexpect = \"2xx\"\n", begin, true);
    engine.begin(begin, begin);
    for status in ["404 Not Found", "503 Busy", "202 Accepted"] {
        let ping = sent(&mut engine);
        assert_eq!(ping.len(), 1);
        engine.handle(begin, 0, &reply(&ping[0].1, "100 Trying"));
        engine.handle(begin, 0, &reply(&ping[0].1, status));
        // A duplicate message counts once.
        engine.handle(begin, 0, &reply(&ping[0].1, status));
    }
    let outcome = &engine.outcome;
    assert_eq!(
        (outcome.codes.get(&404), outcome.refused, outcome.succeeded, outcome.begun),
        (Some(&1), 1, 1, 4)
    );
}

#[test]
fn refused_invite_is_acknowledged_hop_by_hop() {
    let begin = start();
    let mut engine =
        engine("name = \"x\"\n[[step]]\nsend = \"INVITE\"\n[[step]]\nexpect = 486\n", begin, false);
    engine.begin(begin, begin);
    let invite = sent(&mut engine).remove(0).1;
    let busy = reply(&invite, "486 Busy Here");
    engine.handle(begin, 0, &busy);
    let ack = sent(&mut engine).remove(0).1;
    let line = |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(ack.starts_with("ACK sip:u1@example.com SIP/2.0\r\n"), "{ack}");
    assert_eq!(line(&ack, "Via"), line(&invite, "Via"));
    assert_eq!(line(&ack, "CSeq"), "CSeq: 1 ACK");
    assert_eq!(engine.outcome.succeeded, 1);
}

#[test]
fn templates_are_filled_and_bodies_measured() {
    let begin = start();
    let text = "name = \"x\"\n[[step]]\nsend = \"MESSAGE\"\nheaders = [\"Subject: {number} of {run}\"]\n\
                content_type = \"text/plain\"\nbody = \"{{{user}}} to {other}\\nat {address}\"\n[[step]]\nexpect = 200\n";
    let mut engine = engine(text, begin, false);
    engine.begin(begin, begin);
    let message = sent(&mut engine).remove(0).1;
    let body = "{u0} to u1\r\nat 127.0.0.2:1000";
    assert!(message.contains("\r\nSubject: 0 of 7\r\nContent-Type: text/plain\r\n"), "{message}");
    assert!(message.ends_with(&format!("Content-Length: {}\r\n\r\n{body}", body.len())), "{message}");
}
