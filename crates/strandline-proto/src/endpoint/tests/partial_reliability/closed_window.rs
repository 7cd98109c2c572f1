//! FORWARD TSN while the peer's window is closed (section 3.5, RFC 8260 section 2.3.1): it is no DATA and
//! takes no window.

use super::*;

/// Time between a packet and its answer.
const ANSWER: Duration = Duration::from_millis(50);

/// Counts the lines that begin with `what`.
fn count(found: &[String], what: &str) -> usize {
    found.iter().filter(|line| line.starts_with(what)).count()
}

/// Lets `time` pass. The peer answers each packet after [`ANSWER`] with a SACK for everything before its TSN
/// number `next`, without room for more. Returns what the server sent.
fn wait_answering(raw: &mut Raw, time: Duration, next: u32, gaps: &[(u16, u16)]) -> Vec<String> {
    let mut found = Vec::new();
    let mut asked = false;
    for _ in 0..time.as_millis() / ANSWER.as_millis() {
        let mut sent = wait(raw, ANSWER.as_millis() as u64);
        if core::mem::take(&mut asked) {
            let answered = raw.say_sack(next, 0, gaps);
            sent.extend(chunks_in(raw, &answered));
        }
        asked = !sent.is_empty();
        found.extend(sent);
    }
    found
}

/// The peer has answered a zero window probe without taking it when the lifetime of its message ends.
#[test]
fn probe_whose_lifetime_ends() {
    for recovery in [Recovery::Rack, Recovery::Rfc9260] {
        let mut raw = open_as(|config| config.recovery = recovery);
        raw.say_sack(0, 0, &[]);
        send(&mut raw, 4, Reliability::lifetime(Duration::from_millis(2500)), 1000);
        send(&mut raw, 4, Reliability::FULL, 1000);
        let found = wait_answering(&mut raw, Duration::from_millis(2450), 0, &[]);
        assert_eq!(found, ["DATA 0"; 2], "{recovery:?}");
        let found = wait_answering(&mut raw, Duration::from_secs(5), 0, &[]);
        assert_eq!(found.first().map(String::as_str), Some("FORWARD TSN 0 [4:0]"), "{recovery:?}");
        assert_eq!(count(&found, "DATA"), 0, "{recovery:?}: {found:?}");
        assert_eq!(failures(&mut raw), [(4, FailureCause::Expired, true)]);
        // The window is probed again once that is acknowledged.
        raw.say_sack(1, 0, &[]);
        let found = wait(&mut raw, 5000);
        assert_eq!(found.first().map(String::as_str), Some("DATA 1"), "{recovery:?}");
        let sent = raw.say_sack(2, 65_536, &[]);
        assert_eq!(chunks_in(&raw, &sent), [""; 0]);
        assert_eq!(wait(&mut raw, 10_000), [""; 0], "{recovery:?}: nothing is outstanding");
    }
}

/// A zero window probe that must not be retransmitted.
#[test]
fn probe_that_goes_once() {
    for recovery in [Recovery::Rack, Recovery::Rfc9260] {
        let mut raw = open_as(|config| config.recovery = recovery);
        raw.say_sack(0, 0, &[]);
        send(&mut raw, 4, ONCE, 1000);
        send(&mut raw, 4, Reliability::FULL, 1000);
        let found = wait_answering(&mut raw, Duration::from_secs(4), 0, &[]);
        assert_eq!(found[..2], ["DATA 0", "FORWARD TSN 0 [4:0]"], "{recovery:?}");
        assert_eq!(count(&found, "DATA"), 1, "{recovery:?}: {found:?}");
        assert_eq!(failures(&mut raw), [(4, FailureCause::RetransmissionsExhausted, true)]);
    }
}

/// RFC 7496 section 4.3: a message that was begun gives its room to one of a higher priority.
#[test]
fn begun_message_of_low_priority() {
    let mut raw = open_as(|config| config.send_buffer = Some(20_000));
    send(&mut raw, 4, Reliability::priority(7), 18_000);
    let begun = heard(&mut raw).len() as u32;
    assert!((2..14).contains(&begun), "{begun}");
    raw.say_sack(begun, 0, &[]);
    send(&mut raw, 5, Reliability::FULL, 18_000);
    let found = heard(&mut raw);
    assert_eq!(found, [format!("FORWARD TSN {begun} [4:0]")], "at once");
    assert_eq!(failures(&mut raw), [(4, FailureCause::LowPriority, true)]);
    let found = wait(&mut raw, 8000);
    assert_eq!(found, vec![format!("FORWARD TSN {begun} [4:0]"); 3], "after 1, 3 and 7 seconds");
}

/// A peer that answers and never acknowledges a FORWARD TSN gets it at intervals that double, as it gets a zero window
/// probe.
#[test]
fn answers_that_acknowledge_nothing() {
    for recovery in [Recovery::Rack, Recovery::Rfc9260] {
        for a_rwnd_gaps in [&[][..], &[(2, 2)]] {
            let mut raw = open_as(|config| config.recovery = recovery);
            for reliability in [ONCE, Reliability::FULL] {
                send(&mut raw, 1, reliability, 1000);
            }
            heard(&mut raw);
            wait(&mut raw, 50);
            raw.say_sack(0, 0, a_rwnd_gaps);
            let found = wait_answering(&mut raw, Duration::from_secs(60), 0, a_rwnd_gaps);
            let forwards = count(&found, "FORWARD TSN 0 [1:0]");
            assert!((4..=12).contains(&forwards), "{recovery:?}: {forwards} in a minute");
            assert_eq!(raw.state(), "ESTABLISHED", "a peer that answers is alive");
        }
    }
}
