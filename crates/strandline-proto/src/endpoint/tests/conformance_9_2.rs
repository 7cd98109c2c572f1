//! RFC 9260 section 9.2: what a shutdown waits for, and which shutdown is a violation.

use strandline_wire::ShutdownComplete;
use strandline_wire::cause::code;
use strandline_wire::chunk::{Chunk, Data, Shutdown, ShutdownAck};

use super::raw::*;
use super::*;
use crate::config::Recovery;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Returns the code of the first cause of the ABORT in these packets.
fn abort_code(sent: &[Sent]) -> Option<u16> {
    let of = |chunk: Chunk<'_>| match chunk {
        Chunk::Abort(abort) => abort.causes.iter().flatten().next().map(|cause| cause.code),
        _ => None,
    };
    sent.iter().find_map(|sent| chunks(sent).into_iter().find_map(of))
}

/// Sends SHUTDOWN for all `sent` chunks that the server has sent.
fn say_shutdown(raw: &mut Raw, sent: u32) -> Vec<Sent> {
    let cumulative_tsn = (raw.server_tsn + sent).previous();
    raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })))
}

fn shut_down(raw: &mut Raw) {
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    raw.heard();
}

/// Fills the receive buffer with `len` bytes in each of 20 messages from TSN number 1 on.
fn fill(raw: &mut Raw, len: usize) {
    for number in 1..=20 {
        raw.say_data(&whole(raw.tsn + number, number as u16, &vec![7; len]));
    }
}

/// Data that is missing when the peer shuts down. The whole message "first" can be read in each case.
const HOLES: [(&str, fn(&mut Raw)); 7] = [
    ("a TSN", |raw| {
        raw.say_data(&whole(raw.tsn + 2, 2, b"third"));
    }),
    ("the end of a message", |raw| {
        raw.say_data(&Data { ending: false, ..whole(raw.tsn + 1, 1, b"half") });
    }),
    ("a fragment in the middle", |raw| {
        raw.say_data(&Data { ending: false, ..whole(raw.tsn + 1, 1, b"half") });
        raw.say_data(&Data { beginning: false, ..whole(raw.tsn + 3, 1, b"end") });
    }),
    ("the end of a message that was handed over in part", |raw| {
        let long = [7; 3000];
        raw.say_data(&Data { ending: false, ..whole(raw.tsn + 1, 1, &long) });
    }),
    ("a stream sequence number", |raw| {
        raw.say_data(&whole(raw.tsn + 1, 2, b"third"));
    }),
    ("a TSN without room in the buffer", |raw| fill(raw, 1000)),
    ("a TSN beyond what a SACK can report", |raw| {
        raw.say_data(&whole(raw.tsn + 70_000, 1, b"far"));
    }),
];

/// Ways for the peer to end the association: the state, and the chunk.
const ENDS: [(&str, fn(&mut Raw) -> Vec<Sent>); 4] = [
    ("SHUTDOWN", |raw| say_shutdown(raw, 0)),
    ("SHUTDOWN in SHUTDOWN-PENDING", |raw| {
        raw.server_sends(10);
        shut_down(raw);
        assert_eq!(raw.state(), "SHUTDOWN-PENDING");
        say_shutdown(raw, 1)
    }),
    ("SHUTDOWN in SHUTDOWN-SENT", |raw| {
        shut_down(raw);
        assert_eq!(raw.state(), "SHUTDOWN-SENT");
        say_shutdown(raw, 0)
    }),
    ("SHUTDOWN ACK in SHUTDOWN-SENT", |raw| {
        shut_down(raw);
        raw.say(|packet| assert!(packet.push(&ShutdownAck)))
    }),
];

/// A peer may shut down only once all its data is acknowledged. An earlier end is not graceful.
#[test]
fn section_9_2_no_shutdown_while_data_is_missing() {
    for (missing, leave_out) in HOLES {
        for (end, say_end) in ENDS {
            let mut raw = Raw::configured(|config| {
                config.receive_buffer = Some(10_000);
                config.partial_delivery_point = 1500;
            });
            raw.say_data(&whole(raw.tsn, 0, b"first"));
            leave_out(&mut raw);
            let sent = say_end(&mut raw);
            assert_eq!(abort_code(&sent), Some(code::PROTOCOL_VIOLATION), "{end} without {missing}");
            let closed = raw.pair.closed(SERVER);
            assert!(
                matches!(closed, Some(CloseReason::ProtocolViolation(_))),
                "{end}, {missing}: {closed:?}"
            );
            assert!(!raw.pair.hosts[SERVER].events.iter().any(|(_, event)| *event == Event::PeerShutdown));
            assert_eq!(raw.read()[0], b"first");
        }
    }
}

/// Data that was refused because all associations together hold too much is missing, too.
#[test]
fn section_9_2_no_shutdown_while_refused_data_is_missing() {
    for (end, say_end) in ENDS {
        let mut server = config(1, SERVER);
        server.receive_bytes_max = 10_000;
        server.association = Arc::new(AssociationConfig::rfc9260());
        let mut raw = Raw::open(Pair::with(config(1, CLIENT), server), init(strandline_wire::Tsn(1000)));
        raw.say_data(&whole(raw.tsn, 0, b"first"));
        fill(&mut raw, 1000);
        let sent = say_end(&mut raw);
        assert_eq!(abort_code(&sent), Some(code::PROTOCOL_VIOLATION), "{end}");
        assert_eq!(raw.read()[0], b"first");
    }
}

/// Dropped data that comes again is not missing. A TSN that can only be of another time never was.
#[test]
fn section_9_2_dropped_data_that_came_again_is_not_missing() {
    for (end, say_end) in ENDS {
        let mut raw = Raw::configured(|config| {
            (config.receive_buffer, config.partial_delivery_point) = (Some(10_000), 1500);
        });
        raw.say_data(&whole(raw.tsn, 0, b"first"));
        fill(&mut raw, 1000);
        let read = raw.read().len();
        assert!(read < 21);
        raw.say_data(&whole(raw.tsn + (1 << 30), 1, b"from before"));
        let mut number = read as u32;
        while number <= 20 {
            raw.say_data(&whole(raw.tsn + number, number as u16, &[7; 1000]));
            number += raw.read().len() as u32;
        }
        let sent = say_end(&mut raw);
        assert_eq!(abort_code(&sent), None, "{end}");
        raw.say(|packet| assert!(packet.push(&ShutdownComplete { tag_reflected: false })));
        assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::Shutdown), "{end}");
    }
}

/// New DATA after SHUTDOWN is discarded, as section 6 recommends, and a violation: the peer sent SHUTDOWN
/// before all its data was acknowledged. What had arrived before is repeated at times.
#[test]
fn section_9_2_no_new_data_after_shutdown() {
    for queued in [false, true] {
        for to_the_letter in [false, true] {
            let mut raw = Raw::configured(|config| config.to_the_letter = to_the_letter);
            raw.say_data(&whole(raw.tsn, 0, b"first"));
            if queued {
                raw.server_sends(10);
            }
            say_shutdown(&mut raw, 0);
            assert_eq!(raw.state(), if queued { "SHUTDOWN-RECEIVED" } else { "SHUTDOWN-ACK-SENT" });
            raw.say_data(&whole(raw.tsn, 0, b"first"));
            raw.say_data(&whole(raw.tsn.previous() + (1 << 31), 1, b"from before"));
            assert_eq!(raw.pair.closed(SERVER), None);
            let mut sent = raw.say_data(&whole(raw.tsn + 1, 1, b"too late"));
            if to_the_letter {
                // Only discarded, but then the end is not graceful.
                assert_eq!((sent.len(), raw.pair.closed(SERVER)), (0, None));
                sent = match queued {
                    true => say_shutdown(&mut raw, 1),
                    false => raw.say(|packet| {
                        assert!(packet.push(&ShutdownComplete { tag_reflected: false }));
                    }),
                };
            }
            assert_eq!(abort_code(&sent), Some(code::PROTOCOL_VIOLATION), "{queued} {to_the_letter}");
            let closed = raw.pair.closed(SERVER);
            assert!(matches!(closed, Some(CloseReason::ProtocolViolation(_))), "{closed:?}");
            assert_eq!(raw.read(), [b"first"]);
        }
    }
}

/// Data that arrives in time, in any order, makes the same ends graceful.
#[test]
fn section_9_2_a_late_fragment_makes_it_whole() {
    for (end, say_end) in ENDS {
        let mut raw = Raw::new();
        raw.say_data(&Data { beginning: false, ..whole(raw.tsn + 1, 0, b"end") });
        raw.say_data(&whole(raw.tsn + 2, 1, b"next"));
        raw.say_data(&Data { ending: false, ..whole(raw.tsn, 0, b"begin, ") });
        let sent = say_end(&mut raw);
        assert_eq!(abort_code(&sent), None, "{end}");
        raw.say(|packet| assert!(packet.push(&ShutdownComplete { tag_reflected: false })));
        assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::Shutdown), "{end}");
        assert_eq!(raw.read(), [&b"begin, end"[..], b"next"]);
    }
}

/// Returns an association with five messages to deliver, whose shutdown the application or the peer has begun.
fn with_five_to_deliver(peer_first: bool, change: impl Fn(&mut AssociationConfig)) -> Raw {
    let mut raw = Raw::configured(|config| {
        (config.rto_initial, config.rto_min, config.rto_max) = (secs(1), secs(1), secs(1));
        change(config);
    });
    for _ in 0..5 {
        raw.server_sends(10);
    }
    if peer_first {
        say_shutdown(&mut raw, 0);
    } else {
        shut_down(&mut raw);
    }
    assert_eq!(raw.state(), if peer_first { "SHUTDOWN-RECEIVED" } else { "SHUTDOWN-PENDING" });
    raw
}

/// T5-shutdown-guard applies only to the sender of SHUTDOWN: queued data is delivered however long that takes.
#[test]
fn section_9_2_data_outlasts_the_guard_time() {
    for peer_first in [false, true] {
        let mut raw = with_five_to_deliver(peer_first, |_| {});
        for acknowledged in 1..=4 {
            raw.wait(secs(4));
            raw.say_sack(acknowledged, 65_536, &[]);
        }
        raw.wait(secs(4));
        assert_eq!(raw.pair.closed(SERVER), None, "20 s, and RTO.Max is 1 s");
        let sent = raw.say_sack(5, 65_536, &[]);
        let next = if peer_first { kind::SHUTDOWN_ACK } else { kind::SHUTDOWN };
        assert_eq!(sent.iter().flat_map(Sent::kinds).collect::<Vec<_>>(), [next]);
    }
}

/// The sender of SHUTDOWN waits for what the peer still delivers. Each new TSN restarts T5-shutdown-guard; what had
/// arrived before does not.
#[test]
fn section_9_2_data_of_the_peer_outlasts_the_guard_time() {
    let mut raw = Raw::configured(|config| {
        (config.rto_initial, config.rto_min, config.rto_max) = (secs(1), secs(1), secs(1));
    });
    shut_down(&mut raw);
    for number in 0..10 {
        raw.wait(secs(2));
        assert_eq!(raw.pair.closed(SERVER), None, "the guard takes no account of message {number}");
        // One TSN is missing at first.
        let number = [1, 2, 3, 0, 4, 5, 6, 7, 8, 9][number];
        raw.say_data(&whole(raw.tsn + number, number as u16, b"queued before"));
    }
    assert_eq!(raw.read().len(), 10);
    for _ in 0..4 {
        raw.wait(secs(1));
        assert_eq!(raw.pair.closed(SERVER), None);
        raw.say_data(&whole(raw.tsn + 9, 9, b"queued before"));
    }
    raw.wait(secs(2));
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
}

/// Returns a server that has begun the shutdown with T5-shutdown-guard of five seconds. Its client has 20 messages, of
/// which the server's buffer takes a few.
fn full_at_shutdown() -> (Pair, AssociationId) {
    let mut pair = Pair::configured(|config| {
        (config.rto_initial, config.rto_min, config.rto_max) = (secs(1), secs(1), secs(1));
        (config.receive_buffer, config.partial_delivery_point) = (Some(4000), 2000);
    });
    let client = pair.connect();
    pair.run();
    let server = pair.accepted();
    for _ in 0..20 {
        pair.send(CLIENT, client, 0, &[7; 1000]);
    }
    pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
    (pair, server)
}

/// Two ends of this stack: one shuts down with nothing to send, the other has data for four times the guard time, since
/// its reader is slow.
#[test]
fn section_9_2_slow_reader_gets_everything_after_shutdown() {
    let (mut pair, server) = full_at_shutdown();
    for number in 0..20 {
        pair.pass(secs(1));
        assert!(pair.recv(SERVER, server).is_some(), "message {number}");
    }
    pair.pass(secs(2));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
}

/// An application that does not read for longer than the guard holds the peer up: that is no fault of the peer.
#[test]
fn section_9_2_full_buffer_is_no_silence() {
    let (mut pair, server) = full_at_shutdown();
    pair.pass(secs(60));
    for number in 0..20 {
        assert!(pair.recv(SERVER, server).is_some(), "message {number}");
        pair.pass(secs(1));
    }
    pair.pass(secs(2));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
    // The window update after the guard's time is lost.
    let (mut pair, server) = full_at_shutdown();
    pair.pass(Duration::from_millis(4990));
    assert!((0..3).all(|_| pair.recv(SERVER, server).is_some()));
    pair.pass_dropping(Duration::from_millis(100), |_| true);
    assert_eq!(pair.closed(SERVER), None);
    // For an hour at most.
    let (mut pair, client, server) = Pair::configured(|config| {
        (config.receive_buffer, config.partial_delivery_point) = (Some(4000), 2000);
    })
    .establish();
    for _ in 0..20 {
        pair.send(CLIENT, client, 0, &[7; 1000]);
    }
    pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
    pair.pass(secs(3500));
    assert_eq!(pair.closed(SERVER), None);
    pair.pass(secs(200));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::TimedOut));
}

/// The sender of SHUTDOWN gives up after 5 times RTO.Max, even if the peer answers.
#[test]
fn section_9_2_the_guard_begins_with_shutdown() {
    let mut raw = with_five_to_deliver(false, |_| {});
    raw.wait(secs(4));
    raw.say_sack(5, 65_536, &[]);
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
    let began = raw.pair.now;
    while raw.pair.closed(SERVER).is_none() {
        raw.say(|packet| assert!(packet.push(&strandline_wire::Heartbeat { info: b"here" })));
        raw.wait(Duration::from_millis(500));
        assert!(raw.pair.now.since(began) <= secs(6), "the guard does not end it");
    }
    assert!(raw.pair.now.since(began) >= secs(5));
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
}

/// SHUTDOWN ACK is repeated as often as Association.Max.Retrans allows, whatever T5-shutdown-guard would be.
#[test]
fn section_9_2_shutdown_ack_has_its_own_limit() {
    let mut raw = Raw::configured(|config| {
        (config.rto_initial, config.rto_min, config.rto_max) = (secs(1), secs(1), secs(1));
        config.association_retrans_max = 8;
    });
    say_shutdown(&mut raw, 0);
    let again = raw.wait(secs(100));
    assert_eq!(again.iter().filter(|sent| has(kind::SHUTDOWN_ACK)(sent)).count(), 8);
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
}

/// Each acknowledged chunk restarts the linger time, and nothing else does.
#[test]
fn linger_counts_time_without_progress() {
    for peer_first in [false, true] {
        let mut raw = with_five_to_deliver(peer_first, |config| config.shutdown_linger = Some(secs(5)));
        for acknowledged in 1..=4 {
            raw.wait(secs(4));
            raw.say_sack(acknowledged, 65_536, &[]);
        }
        // A peer that answers and accepts nothing: no error, but no progress either.
        let mut sent = Vec::new();
        for _ in 0..9 {
            assert_eq!(raw.pair.closed(SERVER), None);
            sent = raw.wait(Duration::from_millis(500));
            raw.say_sack(4, 0, &[]);
        }
        assert_eq!(abort_code(&sent), None);
        let sent = raw.wait(secs(1));
        assert_eq!(abort_code(&sent), Some(code::USER_INITIATED_ABORT));
        assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
        let failed = |(_, event): &&(_, Event)| matches!(event, Event::SendFailed(_));
        assert_eq!(raw.pair.hosts[SERVER].events.iter().filter(failed).count(), 1);
    }
}

/// HEARTBEATs that come more often than T2-shutdown expires do not keep a lost SHUTDOWN from being repeated.
#[test]
fn heartbeats_do_not_delay_a_lost_shutdown() {
    let mut raw = Raw::new();
    shut_down(&mut raw);
    let mut repeated = 0;
    for _ in 0..40 {
        let answers = raw.say(|packet| assert!(packet.push(&strandline_wire::Heartbeat { info: b"alive" })));
        let sent = [answers, raw.wait(Duration::from_millis(500))].concat();
        repeated += sent.iter().flat_map(chunks).filter(|chunk| matches!(chunk, Chunk::Shutdown(_))).count();
    }
    assert_eq!(repeated, 4, "after 1, 3, 7 and 15 s");
}

/// A receiver that has discarded what it had reported, and then gets the chunk before it, acknowledges no more than
/// that one with its SHUTDOWN: the others are sent again.
#[test]
fn a_shutdown_that_contradicts_gap_blocks_shows_reneging() {
    for recovery in [Recovery::Rfc9260, Recovery::Rack] {
        let mut raw = Raw::configured(|config| config.recovery = recovery);
        for _ in 0..3 {
            raw.server_sends(1000);
        }
        raw.say_sack(0, 65_536, &[(2, 3)]);
        say_shutdown(&mut raw, 1);
        for number in [1, 2] {
            let again = tsns(&raw.wait(secs(10))).concat();
            assert!(again.contains(&(raw.server_tsn + number)), "{recovery:?}: {again:?}");
            raw.say_sack(number + 1, 65_536, &[]);
        }
        assert_eq!(raw.state(), "SHUTDOWN-ACK-SENT", "{recovery:?}");
    }
}
