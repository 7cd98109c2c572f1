use std::time::Duration;

use super::super::outcome::SipReport;
use super::super::test_support::{assert_given_up, engine, sent, start};
use super::*;

/// Returns the answer of a server that only evaluates Via.
fn reply(request: &str, first_line: &str) -> Vec<u8> {
    let rest = request.split_once("\r\n").unwrap().1;
    let header = rest.split_once("\r\n\r\n").unwrap().0;
    let header = header.replace("To: <sip:u1@example.com>", "To: <sip:u1@example.com>;tag=b");
    format!(
        "SIP/2.0 {first_line}\r\nRecord-Route: <sip:one;lr>\r\nRecord-Route: <sip:two;lr>\r\n{header}\r\n\r\n"
    )
    .into_bytes()
}

#[test]
fn closed_loop_starts_the_next_after_one() {
    let begin = start();
    let mut engine = engine(Scenario::Register, true, begin);
    engine.begin(begin, begin);
    let first = sent(&mut engine);
    assert!(
        first[0].1.starts_with("REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.2:1000;branch=")
    );
    engine.handle(begin + T1, 0, &reply(&first[0].1, "200 OK"));
    let second = sent(&mut engine);
    assert_eq!((second.len(), second[0].0), (1, 1));
    assert!(second[0].1.contains("From: <sip:u1@example.com>") && second[0].1.contains("CSeq: 2 REGISTER"));
    // A duplicate answer counts once.
    engine.handle(begin + T1, 0, &reply(&first[0].1, "200 OK"));
    assert!(sent(&mut engine).is_empty());
    assert_eq!((engine.outcome.succeeded, engine.outcome.begun, engine.under_way()), (1, 2, 1));
    assert_eq!(engine.outcome.response.summary().map(|times| times.max_ms.round()), Some(500.0));
}

#[test]
fn unanswered_request_is_retransmitted_then_abandoned() {
    let begin = start();
    assert_given_up(engine(Scenario::Register, false, begin), begin);
}

#[test]
fn call_is_answered_and_ended_along_its_route() {
    let begin = start();
    let mut engine = engine(Scenario::Call, false, begin);
    engine.begin(begin, begin);
    let invite = sent(&mut engine).remove(0).1;
    assert!(invite.starts_with("INVITE sip:u1@example.com SIP/2.0\r\n"));
    engine.handle(begin, 1, invite.as_bytes());
    let answers = sent(&mut engine);
    assert_eq!(answers.iter().map(|(source, _)| *source).collect::<Vec<_>>(), [1, 1]);
    assert!(
        answers[0].1.starts_with("SIP/2.0 180 Ringing\r\n") && answers[1].1.starts_with("SIP/2.0 200 OK")
    );
    // The 200 is retransmitted until ACK arrives, and the ACK for each 200.
    engine.handle(begin, 0, &reply(&invite, "180 Ringing"));
    engine.handle_timeout(begin + T1);
    assert_eq!(sent(&mut engine), [answers[1].clone()]);
    let ok = String::from_utf8(reply(&invite, "200 OK")).unwrap();
    let ok = ok.replace("<sip:u0@127.0.0.2:1000>", "<sip:callee@127.0.0.3:1001>");
    engine.handle(begin + T1, 0, ok.as_bytes());
    let both = sent(&mut engine);
    assert!(both[0].1.starts_with("ACK sip:callee@127.0.0.3:1001 SIP/2.0\r\n"), "{}", both[0].1);
    assert!(both[1].1.starts_with("BYE sip:callee@127.0.0.3:1001 SIP/2.0\r\n"));
    for (_, text) in &both {
        assert!(text.contains("Route: <sip:two;lr>\r\nRoute: <sip:one;lr>\r\n"), "{text}");
        assert!(text.contains("To: <sip:u1@example.com>;tag=b\r\n"), "{text}");
    }
    engine.handle(begin + T1, 0, ok.as_bytes());
    assert_eq!(sent(&mut engine), both[..1]);
    engine.handle(begin + T1, 1, both[0].1.as_bytes());
    engine.handle(begin + T1, 0, &reply(&both[1].1, "200 OK"));
    assert_eq!((engine.outcome.answered, engine.outcome.succeeded, engine.under_way()), (1, 1, 0));
    engine.handle_timeout(begin + T1 * 30);
    assert!(sent(&mut engine).is_empty());
}

#[test]
fn a_refused_call_is_acknowledged_and_counted() {
    let begin = start();
    let mut engine = engine(Scenario::Call, false, begin);
    for (code, text) in [(503, "503 Service Unavailable"), (404, "404 Not Found")] {
        engine.begin(begin, begin);
        let invite = sent(&mut engine).remove(0).1;
        engine.handle(begin, 0, &reply(&invite, text));
        let ack = sent(&mut engine).remove(0).1;
        assert!(ack.starts_with("ACK sip:u") && ack.contains("CSeq: 1 ACK"), "{code}: {ack}");
    }
    assert_eq!(
        (engine.outcome.refused, engine.outcome.codes.get(&404), engine.under_way()),
        (1, Some(&1), 0)
    );
}

#[test]
fn who_is_asked_proves_it_once() {
    let begin = start();
    let challenge = "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"";
    let mut engine = engine(Scenario::Register, false, begin);
    engine.prove_by(Credentials::new("secret".to_owned()));
    for accepted in [true, false] {
        engine.begin(begin, begin);
        let first = sent(&mut engine).remove(0).1;
        assert!(!first.contains("Authorization"), "{first}");
        engine.handle(begin, 0, &reply(&first, challenge));
        let second = sent(&mut engine).remove(0).1;
        assert!(second.contains("Authorization: Digest username=\"u"), "{second}");
        assert!(second.contains("CSeq: 2 REGISTER") || !accepted, "{second}");
        // Another answer to the first request belongs to no operation.
        engine.handle(begin, 0, &reply(&first, challenge));
        assert!(sent(&mut engine).is_empty());
        engine.handle(begin, 0, &reply(&second, if accepted { "200 OK" } else { challenge }));
        assert!(sent(&mut engine).is_empty());
    }
    let outcome = &engine.outcome;
    assert_eq!((outcome.succeeded, outcome.challenged, outcome.codes.get(&401)), (1, 2, Some(&1)));
    // The server's challenge is known by now.
    engine.begin(begin, begin);
    assert!(sent(&mut engine).remove(0).1.contains("nc=00000002"));
}

#[test]
fn challenged_caller_calls_again() {
    let begin = start();
    let mut engine = engine(Scenario::Call, false, begin);
    engine.prove_by(Credentials::new("secret".to_owned()));
    engine.begin(begin, begin);
    let first = sent(&mut engine).remove(0).1;
    let challenge = "407 Proxy Authentication Required\r\nProxy-Authenticate: Digest realm=\"r\", nonce=\"n\", \
                     algorithm=SHA-256, qop=\"auth\"";
    engine.handle(begin, 0, &reply(&first, challenge));
    let both = sent(&mut engine);
    assert!(both[0].1.starts_with("ACK ") && both[0].1.contains("CSeq: 1 ACK"), "{}", both[0].1);
    let invite = &both[1].1;
    assert!(invite.contains("CSeq: 2 INVITE") && invite.contains("Proxy-Authorization: Digest"), "{invite}");
    engine.handle(begin, 0, &reply(invite, "200 OK"));
    let both = sent(&mut engine);
    assert!(both[0].1.contains("CSeq: 2 ACK") && both[1].1.contains("CSeq: 3 BYE"));
}

#[test]
fn lagging_load_reports_itself() {
    let begin = start();
    let rate_reached = |late: Duration| {
        let mut engine = engine(Scenario::Register, false, begin);
        for number in 0..100_u32 {
            let due = begin + Duration::from_millis(10) * number;
            engine.begin(due, due);
            engine.note_beginning(due + late);
        }
        let mut report = SipReport { rate_asked: Some(100.0), ..SipReport::default() };
        report.take(&engine.outcome, Duration::from_secs(1));
        report.rate_reached.unwrap()
    };
    assert_eq!(rate_reached(Duration::from_millis(1)), 100.0);
    // The last one was due after 0.99 s and began after 2 s.
    assert_eq!(rate_reached(Duration::from_millis(1010)), 50.0);
    let mut closed = SipReport::default();
    closed.take(&engine(Scenario::Register, true, begin).outcome, Duration::from_secs(1));
    assert_eq!(closed.rate_reached, None, "none was asked for");
}

#[test]
fn renewals_are_spread_among_calls() {
    let begin = start();
    let mut engine = engine(Scenario::Call, false, begin);
    engine.plan.renewals = 0.25;
    (0..8).for_each(|_| engine.begin(begin, begin));
    let begun: Vec<String> = sent(&mut engine).into_iter().map(|(_, text)| text[..4].to_owned()).collect();
    assert_eq!(begun, ["INVI", "INVI", "INVI", "REGI", "INVI", "INVI", "INVI", "REGI"]);
}
