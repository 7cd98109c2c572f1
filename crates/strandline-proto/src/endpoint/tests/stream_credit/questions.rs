//! Questions for credit: STREAM BLOCKED (section 4.3).

use super::*;

/// Section 4.3: a peer that has vanished is found out by questions, without data to be acknowledged.
#[test]
fn unanswered_questions_end_the_association() {
    let (mut pair, a, _) = established();
    try_send(&mut pair, a, 1, 3 * INITIAL as usize).unwrap();
    pair.pass(Duration::from_millis(500));
    assert_eq!(pair.hosts[CLIENT].endpoint.status(a).unwrap().in_flight, 0);
    pair.pass_dropping(Duration::from_secs(600), |_| true);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
}

/// Section 4.3: the silence of a peer counts once if data in flight and questions find it out at the same time.
#[test]
fn silence_counts_once() {
    let [alone, beside] = [false, true].map(|waits| {
        let (mut pair, a, _) = established();
        let len = if waits { 3 * INITIAL as usize } else { 100 };
        try_send(&mut pair, a, 1, len).unwrap();
        pair.pass(Duration::from_millis(500));
        assert_eq!(is_awaited(&mut pair, a, 1), waits);
        try_send(&mut pair, a, 2, 100).unwrap();
        let from = pair.now;
        while pair.closed(CLIENT).is_none() {
            pair.pass_dropping(Duration::from_secs(1), |_| true);
        }
        assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
        pair.now.since(from)
    });
    // 1, 2, 4, 8, 16 and 32 seconds, and five times RTO.Max.
    let shortest = Duration::from_secs(363);
    assert!(alone >= shortest && beside >= shortest, "{alone:?}, {beside:?}");
}

/// New credit sets the interval of questions back.
#[test]
fn questions_follow_new_credit_after_an_rto() {
    let (mut pair, a, b) = established();
    try_send(&mut pair, a, 1, 8 * INITIAL as usize).unwrap();
    pair.pass(Duration::from_secs(600));
    read(&mut pair, b, 1, 7000);
    assert!(is_awaited(&mut pair, a, 1));
    let now = pair.now;
    StreamCredits::of(&mut pair.hosts[SERVER].endpoint, b).read(now, StreamId(1), 7000);
    pair.run_dropping(has(kind::STREAM_CREDIT));
    let from = pair.log.len();
    pair.pass(Duration::from_secs(3));
    assert!(pair.log[from..].iter().any(|sent| has(kind::STREAM_BLOCKED)(sent)));
}
