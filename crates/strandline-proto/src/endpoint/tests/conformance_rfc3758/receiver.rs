//! The receiver of FORWARD TSN (section 3.6).

use strandline_wire::chunk::{ReConfig, Shutdown};

use super::*;

/// The example: the cumulative TSN moves to the new one, then over what directly follows.
#[test]
fn the_cumulative_tsn_of_the_example() {
    let mut raw = open();
    let first = raw.tsn;
    for (number, ssn) in [(0, 0), (2, 2), (3, 3), (5, 5)] {
        raw.say_data(&whole(first + number, ssn, b"x"));
    }
    let sent = raw.forward(first + 1, &[(0, 1)]);
    assert_eq!(sacks(&sent).len(), 1, "at once, because something is missing");
    assert_eq!(raw.acknowledged(&sent), (first + 3, vec![(2, 2)]));
    assert_eq!(raw.read().len(), 3);
}

/// An out-of-date FORWARD TSN changes nothing, and is answered with a SACK at once.
#[test]
fn out_of_date_forward_tsn_gets_a_sack() {
    let mut raw = open();
    let first = raw.tsn;
    for number in 0..3 {
        raw.say_data(&whole(first + number, number as u16, b"x"));
    }
    raw.wait(Duration::from_secs(1));
    raw.read();
    for old in [first + 2, first + 1, first.previous()] {
        let sent = raw.forward(old, &[(0, 7)]);
        assert_eq!(sacks(&sent).len(), 1);
        assert_eq!(raw.acknowledged(&sent), (first + 2, vec![]));
    }
    raw.say_data(&whole(first + 3, 3, b"goes on"));
    assert_eq!(raw.texts(), ["goes on"]);
}

/// The rules for delayed acknowledgements are those of DATA: every second packet, or after SACK.Delay.
#[test]
fn sacks_are_delayed_as_for_data() {
    let mut raw = open();
    let first = raw.tsn;
    raw.say_data(&whole(first, 0, b"the first is acknowledged at once"));
    assert_eq!(sacks(&raw.forward(first + 1, &[(0, 1)])), []);
    let sent = raw.forward(first + 2, &[(0, 2)]);
    assert_eq!(sacks(&sent)[0].cumulative, first + 2, "the second packet");
    assert_eq!(sacks(&raw.forward(first + 3, &[(0, 3)])), []);
    assert_eq!(sacks(&raw.wait(Duration::from_millis(199))), []);
    assert_eq!(sacks(&raw.wait(Duration::from_millis(2)))[0].cumulative, first + 3);
}

/// Messages up to the SSN that is listed are delivered, and those behind them. Other streams wait on.
#[test]
fn stranded_messages_are_delivered_by_stream() {
    let mut raw = open();
    let first = raw.tsn;
    let on = |stream, data| Data { stream: StreamId(stream), ..data };
    raw.say_data(&whole(first + 1, 1, b"one"));
    raw.say_data(&whole(first + 3, 3, b"three"));
    raw.say_data(&on(5, whole(first + 5, 1, b"other")));
    raw.say_data(&on(99, whole(first + 7, 1, b"last stream")));
    assert_eq!(raw.texts(), [""; 0]);
    raw.forward(first + 2, &[(0, 2)]);
    assert_eq!(raw.texts(), ["one", "three"]);
    raw.forward(first + 6, &[(99, 0), (5, 0)]);
    assert_eq!(raw.texts(), ["last stream", "other"]);
    assert_eq!(raw.buffered(), 0);
}

/// What is held behind a gap closes the window. The FORWARD TSN that skips the gap is processed all the same,
/// and reading opens the window again.
#[test]
fn forward_tsn_while_own_window_is_closed() {
    let mut raw = open_as(|config| {
        (config.receive_buffer, config.partial_delivery_point) = (Some(3000), 3000);
    });
    let first = raw.tsn;
    let mut closed = None;
    for number in 1..10 {
        let sent = raw.say_data(&whole(first + number, number as u16, &[b'x'; 1000]));
        if sacks(&sent).last().expect("at once, because something is missing").a_rwnd == 0 {
            closed = Some(number);
            break;
        }
    }
    let last = closed.expect("the window closes");
    let sent = raw.say_data(&whole(first + last + 1, last as u16 + 1, &[b'x'; 1000]));
    assert_eq!(raw.acknowledged(&sent).1, [(2, last as u16 + 1)], "no more is taken");
    let sent = raw.forward(first, &[(0, 0)]);
    let told = sacks(&sent).pop().expect("at once");
    assert_eq!((told.cumulative, told.a_rwnd), (first + last, 0));
    assert_eq!(raw.read().len(), last as usize);
    let told = sacks(&raw.heard()).pop().expect("a window update");
    assert!(told.a_rwnd >= 1500, "{told:?}");
    raw.say_data(&whole(first + last + 1, last as u16 + 1, b"goes on"));
    assert_eq!((raw.texts(), raw.state()), (vec!["goes on".to_owned()], "ESTABLISHED"));
}

/// Numbers are skipped even if no message of the stream is held, across the end of the number space.
#[test]
fn numbers_are_skipped_without_messages() {
    let mut raw = open();
    let mut tsn = raw.tsn;
    for ssn in [29_999_u16, 59_999, 65_535, 2] {
        tsn += 30_001;
        raw.forward(tsn, &[(0, ssn), (70, ssn)]);
    }
    raw.say_data(&whole(tsn + 1, 3, b"one"));
    raw.say_data(&Data { stream: StreamId(70), ..whole(tsn + 2, 3, b"two") });
    assert_eq!(raw.texts(), ["one", "two"]);
}

/// A message that misses a TSN up to the new cumulative one is removed, wherever that is, and frees its room.
#[test]
fn partly_reassembled_messages_are_removed() {
    let text = [b'x'; 500];
    // The fragments of a message of three that have arrived.
    for arrived in [&[0][..], &[0, 1], &[1], &[1, 2], &[2], &[0, 2]] {
        let mut raw = open();
        let first = raw.tsn;
        for &number in arrived {
            raw.say_data(&part(first + number, 0, number == 0, number == 2, &text));
        }
        raw.say_data(&whole(first + 3, 1, b"whole"));
        raw.say_data(&part(first + 4, 2, true, false, b"kept "));
        let sent = raw.forward(first + 2, &[(0, 0)]);
        assert_eq!(raw.acknowledged(&sent), (first + 4, vec![]), "{arrived:?}");
        assert_eq!(raw.texts(), ["whole"], "{arrived:?}");
        assert_eq!(raw.buffered(), 5, "{arrived:?}");
        raw.say_data(&part(first + 5, 2, false, true, b"message"));
        assert_eq!(raw.texts(), ["kept message"], "{arrived:?}");
        assert_eq!((raw.buffered(), raw.state()), (0, "ESTABLISHED"));
    }
}

/// A message that has begun before the new cumulative TSN and misses only later ones is kept.
#[test]
fn messages_that_miss_later_data_are_kept() {
    let mut raw = open();
    let first = raw.tsn;
    raw.say_data(&part(first + 1, 1, true, false, b"a "));
    raw.say_data(&part(first + 2, 1, false, false, b"long "));
    raw.say_data(&part(first + 4, 1, false, true, b"message"));
    for last in [first, first + 1, first + 2] {
        raw.forward(last, &[(0, 0)]);
    }
    assert_eq!(raw.texts(), [""; 0]);
    raw.say_data(&part(first + 3, 1, false, false, b"complete "));
    assert_eq!(raw.texts(), ["a long complete message"]);
}

/// A FORWARD TSN may end in the middle of a message: the fragments that follow are dropped, before and after a gap.
#[test]
fn fragments_behind_the_new_cumulative_tsn() {
    for order in [[1, 2, 3], [3, 2, 1], [2, 1, 3], [3, 1, 2]] {
        let mut raw = open();
        let first = raw.tsn;
        raw.forward(first, &[(0, 0)]);
        let mut sent = Vec::new();
        for number in order {
            sent = raw.say_data(&part(first + number, 0, false, number == 3, b"rest"));
        }
        assert_eq!(raw.acknowledged(&sent), (first + 3, vec![]), "{order:?}");
        assert_eq!(raw.buffered(), 0, "{order:?}");
        raw.say_data(&whole(first + 4, 1, b"next"));
        assert_eq!((raw.texts(), raw.state()), (vec!["next".to_owned()], "ESTABLISHED"));
        // Only directly behind it.
        let sent = raw.say_data(&part(first + 5, 2, false, true, b"x"));
        assert!(sent.iter().any(has(kind::ABORT)), "{order:?}");
    }
}

/// A message of which a part was delivered is reported, at its place among those that can be read.
#[test]
fn a_partial_delivery_is_reported_as_aborted() {
    let mut raw = open_as(|config| config.partial_delivery_point = 100);
    let first = raw.tsn;
    raw.say_data(&whole(first, 0, b"before"));
    raw.say_data(&part(first + 1, 1, true, false, &[b'x'; 200]));
    raw.say_data(&whole(first + 3, 2, b"after"));
    raw.forward(first + 2, &[(0, 1)]);
    let aborted = Event::PartialDeliveryAborted { stream: StreamId(0), unread: 2 };
    let events: Vec<_> = raw.pair.hosts[SERVER].events.drain(..).map(|(_, event)| event).collect();
    assert!(events.contains(&aborted), "{events:?}");
    assert_eq!(raw.read().iter().map(Vec::len).collect::<Vec<_>>(), [6, 200, 5]);
    // One of which nothing was delivered is not reported.
    raw.say_data(&part(first + 4, 3, true, false, b"short"));
    raw.forward(first + 5, &[(0, 3)]);
    assert!(raw.pair.hosts[SERVER].events.is_empty());
}

/// DATA of a TSN that was skipped is a duplicate.
#[test]
fn late_data_of_skipped_tsns_is_duplicate() {
    let mut raw = open();
    let first = raw.tsn;
    raw.forward(first + 1, &[(0, 1)]);
    let sent = raw.say_data(&whole(first, 0, b"late"));
    let told = sacks(&sent).pop().expect("at once");
    assert_eq!((told.cumulative, told.duplicates), (first + 1, vec![first]));
    assert_eq!((raw.texts().len(), raw.state()), (0, "ESTABLISHED"));
}

/// A shutdown after skipped messages finds nothing missing.
#[test]
fn shutdown_after_skipped_messages() {
    let mut raw = open();
    let first = raw.tsn;
    raw.say_data(&part(first + 1, 1, true, false, b"cut"));
    raw.say_data(&whole(first + 3, 2, b"waits"));
    raw.forward(first + 2, &[(0, 1)]);
    let last = raw.server_tsn.previous();
    let sent = raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn: last })));
    assert!(
        sent.iter().any(has(kind::SHUTDOWN_ACK)),
        "{:?}",
        sent.iter().map(Sent::kinds).collect::<Vec<_>>()
    );
    assert_eq!(raw.texts(), ["waits"]);
}

/// In SHUTDOWN-SENT it is answered at once, as DATA is.
#[test]
fn forward_tsn_in_shutdown_sent() {
    let mut raw = open();
    let (now, server, first) = (raw.pair.now, raw.server, raw.tsn);
    raw.say_data(&whole(first, 0, b"x"));
    raw.pair.hosts[SERVER].endpoint.shutdown(now, server).unwrap();
    raw.heard();
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
    let sent = raw.forward(first + 1, &[(0, 1)]);
    assert!(sent.iter().any(has(kind::SHUTDOWN)));
    assert_eq!(sacks(&sent)[0].cumulative, first + 1);
}

/// RFC 6525 section 5.2.2 step E2: a reset that waits for the peer's last TSN is performed once that is abandoned.
#[test]
fn a_skipped_tsn_completes_a_reset() {
    let pair = Pair::configured(|config| config.extensions.peer_requests.reset_streams = true);
    let parameters = [0xc0, 0, 0, 4, 0x80, 8, 0, 6, 130, 192, 0, 0];
    let mut raw = Raw::open(pair, Init { parameters: Parameters::new(&parameters), ..init(Tsn(1000)) });
    let first = raw.tsn;
    // Outgoing SSN Reset of all streams: request 1000, last TSN `first + 1`.
    let mut request = vec![0, 13, 0, 16, 0, 0, 3, 0xe8, 0, 0, 0, 0];
    request.extend((first + 1).0.to_be_bytes());
    raw.say_data(&whole(first, 0, b"before"));
    raw.say(|packet| assert!(packet.push(&ReConfig { parameters: Parameters::new(&request) })));
    let reset = |raw: &Raw| {
        let mut events = raw.pair.hosts[SERVER].events.iter();
        events.any(|(_, event)| matches!(event, Event::StreamsReset { .. }))
    };
    assert!(!reset(&raw));
    raw.forward(first + 1, &[(0, 1)]);
    assert!(reset(&raw));
    raw.say_data(&whole(first + 2, 0, b"after"));
    assert_eq!(raw.texts(), ["before", "after"]);
}
