//! RFC 9260 section 9: ABORT and SHUTDOWN, state by state.

use strandline_wire::chunk::{Abort, Chunk, Shutdown, ShutdownAck};
use strandline_wire::number::Tsn;
use strandline_wire::{Causes, ShutdownComplete};

use super::raw::*;
use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn kinds(sent: &[Sent]) -> Vec<u8> {
    sent.iter().flat_map(Sent::kinds).collect()
}

/// Returns the Cumulative TSN Ack of the SHUTDOWN in a packet.
fn cumulative(sent: &Sent) -> Tsn {
    let found = chunks(sent).into_iter().find_map(|chunk| match chunk {
        Chunk::Shutdown(Shutdown { cumulative_tsn }) => Some(cumulative_tsn),
        _ => None,
    });
    found.expect("a SHUTDOWN")
}

/// Section 9.1: an ABORT with the peer's tag and the cause. The association is gone, queued messages are reported as
/// failed, and the other application gets the reason.
#[test]
fn section_9_1_an_abort_by_the_application() {
    let mut raw = Raw::new();
    raw.server_sends(10);
    raw.pair.send(SERVER, raw.server, 0, b"unsent");
    raw.pair.hosts[SERVER].endpoint.abort(raw.pair.now, raw.server, "that is it".into()).unwrap();
    let sent = raw.heard();
    assert_eq!((kinds(&sent), sent[0].tag(), sent[0].bytes[13] & 1), (vec![kind::ABORT], RAW_TAG, 0));
    assert_eq!(sent[0].bytes[16..20], [0, 12, 0, 14]);
    assert_eq!(&sent[0].bytes[20..30], b"that is it");
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::Aborted));
    assert!(raw.wait(secs(1000)).is_empty());
}

/// An ABORT ends the association in every state and is never answered.
#[test]
fn section_9_1_an_abort_is_taken_in_every_state() {
    let abort = Abort { tag_reflected: false, causes: Causes::new(&[]) };
    let go: [fn(&mut Raw); 5] = [
        |_| (),
        |raw| {
            raw.server_sends(10);
            raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
        },
        |raw| raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap(),
        |raw| {
            raw.server_sends(10);
            let cumulative_tsn = raw.server_tsn.previous();
            raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })));
        },
        |raw| {
            let cumulative_tsn = raw.server_tsn.previous();
            raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })));
        },
    ];
    for go in go {
        let mut raw = Raw::new();
        go(&mut raw);
        raw.heard();
        assert!(raw.say(|packet| assert!(packet.push(&abort))).is_empty());
        assert!(matches!(raw.pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })));
        assert!(raw.wait(secs(1000)).is_empty());
    }
    // The initiator in COOKIE-WAIT and COOKIE-ECHOED.
    for echoed in [false, true] {
        let mut pair = Pair::new();
        let client = pair.connect();
        let tag = client_tag(&mut pair);
        if echoed {
            let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
            let parameters = strandline_wire::Parameters::new(&parameters);
            answer_init(&mut pair, strandline_wire::Init { parameters, ..init(Tsn(1)) });
        }
        let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&abort)));
        pair.deliver(&sent);
        assert_eq!(pair.state(CLIENT, client), "CLOSED");
        assert!(pair.wire.is_empty());
    }
}

/// The initiator of a shutdown sends no SHUTDOWN before everything is acknowledged and accepts no new messages. Then
/// it sends SHUTDOWN with the last TSN received, and repeats it with the updated one when T2-shutdown expires.
#[test]
fn section_9_2_the_side_that_shuts_down() {
    let mut raw = Raw::new();
    raw.say_data(&whole(raw.tsn, 0, b"one"));
    raw.server_sends(10);
    raw.server_sends(10);
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    assert!(raw.heard().is_empty());
    let late =
        raw.pair.hosts[SERVER].endpoint.send(raw.pair.now, raw.server, SendInfo::default(), "late".into());
    assert!(late.is_err());
    assert!(kinds(&raw.say_sack(1, 65_536, &[])).is_empty(), "one is still outstanding");
    // It is retransmitted if necessary.
    assert_eq!(tsns(&raw.wait(secs(2))).concat(), [raw.server_tsn + 1]);
    let sent = raw.say_sack(2, 65_536, &[]);
    assert_eq!((kinds(&sent), raw.state()), (vec![kind::SHUTDOWN], "SHUTDOWN-SENT"));
    assert_eq!(cumulative(&sent[0]), raw.tsn);
    // Data that arrives meanwhile changes the number in the next one.
    let answer = raw.say_data(&whole(raw.tsn + 1, 1, b"two"));
    assert!(kinds(&answer).contains(&kind::SHUTDOWN));
    let again = raw.wait(secs(5));
    assert_eq!(cumulative(again.last().unwrap()), raw.tsn + 1);
    let end = raw.say(|packet| assert!(packet.push(&ShutdownAck)));
    assert_eq!(
        (kinds(&end), end[0].tag(), end[0].bytes[13] & 1),
        (vec![kind::SHUTDOWN_COMPLETE], RAW_TAG, 0)
    );
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::Shutdown));
    assert_eq!(raw.read(), [b"one", b"two"], "what had come can still be read");
}

/// SHUTDOWN acknowledges, but does not report the window. A SACK goes with each one that answers data, because an
/// earlier window update may have been lost.
#[test]
fn section_9_2_answers_to_data_tell_the_window_each_time() {
    let mut raw = Raw::new();
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    raw.heard();
    for number in 0..3_u32 {
        let answer = raw.say_data(&whole(raw.tsn + number, number as u16, b"more"));
        assert_eq!(kinds(&answer).iter().filter(|kind| **kind == kind::SHUTDOWN).count(), 1);
        let told = sacks(&answer);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].cumulative, raw.tsn + number);
        raw.read();
        assert!(told[0].a_rwnd > 0);
    }
}

/// The other side continues until its data is acknowledged, also by the number in SHUTDOWN. The application's
/// shutdown changes nothing. Then it sends SHUTDOWN ACK, and repeats it when T2-shutdown expires.
#[test]
fn section_9_2_the_side_that_is_told() {
    let mut raw = Raw::new();
    for _ in 0..3 {
        raw.server_sends(10);
    }
    let one = Shutdown { cumulative_tsn: raw.server_tsn };
    assert!(kinds(&raw.say(|packet| assert!(packet.push(&one)))).is_empty());
    assert_eq!(raw.state(), "SHUTDOWN-RECEIVED");
    assert!(raw.pair.hosts[SERVER].events.contains(&(raw.server, Event::PeerShutdown)));
    assert_eq!(raw.server().status(raw.server).unwrap().in_flight, 20);
    let late =
        raw.pair.hosts[SERVER].endpoint.send(raw.pair.now, raw.server, SendInfo::default(), "late".into());
    assert!(late.is_err());
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    assert_eq!(raw.state(), "SHUTDOWN-RECEIVED");
    assert_eq!(
        tsns(&raw.wait(Duration::from_millis(1500))).concat(),
        [raw.server_tsn + 1, raw.server_tsn + 2]
    );
    let all = Shutdown { cumulative_tsn: raw.server_tsn + 2 };
    assert_eq!(kinds(&raw.say(|packet| assert!(packet.push(&all)))), [kind::SHUTDOWN_ACK]);
    assert_eq!(raw.state(), "SHUTDOWN-ACK-SENT");
    let again = raw.wait(secs(10));
    assert!(again.len() >= 2 && again.iter().all(has(kind::SHUTDOWN_ACK)));
    // SHUTDOWN is answered again. Then the end.
    assert_eq!(kinds(&raw.say(|packet| assert!(packet.push(&all)))), [kind::SHUTDOWN_ACK]);
    assert!(raw.say(|packet| assert!(packet.push(&ShutdownComplete { tag_reflected: false }))).is_empty());
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::Shutdown));
}

/// Simultaneous shutdown: SHUTDOWN in SHUTDOWN-SENT gets SHUTDOWN ACK, and SHUTDOWN ACK in SHUTDOWN-ACK-SENT gets
/// SHUTDOWN COMPLETE.
#[test]
fn section_9_2_both_at_once() {
    let mut raw = Raw::new();
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    raw.heard();
    let cumulative_tsn = raw.server_tsn.previous();
    let answer = raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })));
    assert_eq!((kinds(&answer), raw.state()), (vec![kind::SHUTDOWN_ACK], "SHUTDOWN-ACK-SENT"));
    let answer = raw.say(|packet| assert!(packet.push(&ShutdownAck)));
    assert_eq!(kinds(&answer), [kind::SHUTDOWN_COMPLETE]);
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::Shutdown));
}

/// SHUTDOWN ACK and SHUTDOWN COMPLETE in states that do not expect them.
#[test]
fn section_9_2_answers_that_nobody_waits_for_are_discarded() {
    for shutdown_ack in [true, false] {
        let mut raw = Raw::new();
        let complete = ShutdownComplete { tag_reflected: false };
        let answer = raw.say(|packet| {
            assert!(if shutdown_ack { packet.push(&ShutdownAck) } else { packet.push(&complete) })
        });
        assert!(answer.is_empty());
        assert_eq!(raw.state(), "ESTABLISHED");
    }
}

/// T2-shutdown doubles up to Association.Max.Retrans; any packet of the peer resets the count.
#[test]
fn section_9_2_t2_shutdown_doubles_and_restarts() {
    let mut raw = Raw::configured(|config| config.association_retrans_max = 3);
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    raw.heard();
    let mut times = Vec::new();
    let mut begin = raw.pair.now;
    while times.len() < 2 {
        times
            .extend(raw.wait(Duration::from_millis(100)).iter().map(|_| raw.pair.now.since(begin).as_secs()));
    }
    assert_eq!(times, [1, 3]);
    raw.say(|packet| assert!(packet.push(&strandline_wire::Heartbeat { info: b"alive" })));
    begin = raw.pair.now;
    times.clear();
    while raw.state() != "CLOSED" {
        times
            .extend(raw.wait(Duration::from_millis(100)).iter().map(|_| raw.pair.now.since(begin).as_secs()));
    }
    assert_eq!(times, [4, 12, 28, 60], "three again, then an ABORT");
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
}
