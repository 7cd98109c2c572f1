use super::*;

fn world(kind: Kind, sources: usize) -> (KeepAlives, Out, Outcome, Instant) {
    let begin = strandline_measure::now();
    (
        KeepAlives::new(kind, Duration::from_secs(30), sources, begin),
        Out::default(),
        Outcome::default(),
        begin,
    )
}

fn sent(out: &mut Out) -> Vec<(usize, Vec<u8>)> {
    let sent =
        out.messages.iter().map(|(source, start, end)| (*source, out.bytes[*start..*end].to_vec())).collect();
    out.clear();
    sent
}

#[test]
fn keep_alives_of_sources_are_spread() {
    let (mut keeps, mut out, mut outcome, begin) = world(Kind::LineEnds, 30);
    for second in 0..60 {
        keeps.handle_timeout(begin + Duration::from_secs(second), &mut out, &mut outcome);
        let sent = sent(&mut out);
        assert_eq!(sent, [(second as usize % 30, b"\r\n\r\n".to_vec())]);
        assert!(keeps.handle(sent[0].0, b"\r\n", &mut outcome));
    }
    assert_eq!((outcome.keep_alives, outcome.keep_alives_answered, outcome.flows_broken), (60, 60, 0));
    // Other bytes are left to others, and an answer to no keep-alive doesn't count.
    assert!(!keeps.handle(0, b"SIP/2.0 200 OK", &mut outcome));
    assert!(keeps.handle(0, b"\r\n", &mut outcome));
    assert_eq!(outcome.keep_alives_answered, 60);
}

#[test]
fn flow_silent_for_ten_seconds_is_broken() {
    for kind in [Kind::LineEnds, Kind::Stun] {
        let (mut keeps, mut out, mut outcome, begin) = world(kind, 1);
        keeps.handle_timeout(begin, &mut out, &mut outcome);
        keeps.handle_timeout(begin + PONG - Duration::from_millis(1), &mut out, &mut outcome);
        assert!(keeps.take_broken().is_empty());
        keeps.handle_timeout(begin + PONG, &mut out, &mut outcome);
        assert_eq!((keeps.take_broken(), outcome.flows_broken), (vec![0], 1));
        assert!(keeps.take_broken().is_empty());
        // A new flow has replaced it and is kept alive as before.
        sent(&mut out);
        keeps.handle_timeout(begin + Duration::from_secs(30), &mut out, &mut outcome);
        assert_eq!((sent(&mut out).len(), outcome.keep_alives), (1, 2));
    }
}

#[test]
fn stun_request_is_repeated_until_its_response() {
    let (mut keeps, mut out, mut outcome, begin) = world(Kind::Stun, 2);
    let at = |ms| begin + Duration::from_millis(ms);
    keeps.handle_timeout(begin, &mut out, &mut outcome);
    let first = sent(&mut out);
    assert_eq!((first.len(), first[0].1.len()), (1, 20));
    // 0.5, 1.5, 3.5 and 7.5 seconds after the first time.
    let again: Vec<u64> = (1..100)
        .map(|tenth| tenth * 100)
        .filter(|ms| {
            keeps.handle_timeout(at(*ms), &mut out, &mut outcome);
            sent(&mut out).iter().any(|one| *one == first[0])
        })
        .collect();
    assert_eq!(again, [500, 1500, 3500, 7500]);
    assert_eq!(outcome.keep_alives, 1);
    let mut answer = [&BINDING_SUCCESS[..], &first[0].1[2..]].concat();
    let mut other = answer.clone();
    other[19] ^= 1;
    assert!(keeps.handle(0, &other, &mut outcome) && keeps.handle(1, &answer, &mut outcome));
    assert_eq!(outcome.keep_alives_answered, 0);
    answer.extend_from_slice(&[0; 12]);
    assert!(keeps.handle(0, &answer, &mut outcome));
    assert_eq!(outcome.keep_alives_answered, 1);
    keeps.handle_timeout(at(14_900), &mut out, &mut outcome);
    assert_eq!(outcome.flows_broken, 0);
}
