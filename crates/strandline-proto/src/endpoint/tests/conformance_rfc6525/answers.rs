//! Requests of a hand-made peer (section 5.2).

use super::*;

/// E3 to E5: the streams that are listed begin at 0 again, and others don't.
#[test]
fn an_outgoing_reset_of_some_streams() {
    let mut raw = open();
    for (number, stream) in [(0, 3), (1, 5)] {
        raw.say_data(&on_stream(raw.tsn + number, stream, 0, b"before"));
    }
    let sent = raw.re_config(&[outgoing(1000, raw.tsn + 1, &[0, 3])]);
    assert_eq!(re_configs(&sent), responds(1000, "performed"));
    // Section 5.2.1: a SACK goes with it.
    assert!(sent.iter().any(has(kind::SACK)));
    let event = reset(StreamDirection::Incoming, StreamId(3), Outcome::Performed, 2);
    assert!(events(&mut raw).contains(&event));
    raw.say_data(&on_stream(raw.tsn + 2, 3, 0, b"after"));
    raw.say_data(&on_stream(raw.tsn + 3, 5, 1, b"goes on"));
    assert_eq!(raw.read(), [&b"before"[..], b"before", b"after", b"goes on"]);
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// An empty list means all streams, also those beyond the first few.
#[test]
fn an_outgoing_reset_of_all_streams() {
    let mut raw = open();
    for (number, stream) in [0, 70, 99].into_iter().enumerate() {
        raw.say_data(&on_stream(raw.tsn + number as u32, stream, 0, b"before"));
    }
    assert_eq!(raw.ask(&[outgoing(1000, raw.tsn + 2, &[])]), responds(1000, "performed"));
    for (number, stream) in [0, 70, 99].into_iter().enumerate() {
        raw.say_data(&on_stream(raw.tsn + 3 + number as u32, stream, 0, b"after"));
    }
    assert_eq!(raw.read().len(), 6);
    assert!(events(&mut raw).contains(&reset(
        StreamDirection::Incoming,
        Streams::All,
        Outcome::Performed,
        3
    )));
}

/// E2: a TSN before the reset is missing. Data of the streams from after it isn't accepted; data of others is. Once
/// the missing one has arrived, the reset is performed and reported without another request.
#[test]
fn an_outgoing_reset_waits_for_missing_data() {
    let mut raw = open();
    let tsn = raw.tsn;
    raw.say_data(&on_stream(tsn, 3, 0, b"one"));
    assert_eq!(raw.ask(&[outgoing(1000, tsn + 1, &[0, 3])]), responds(1000, "in progress"));
    assert!(!events(&mut raw).iter().any(|event| matches!(event, Event::StreamsReset { .. })));
    // From after the reset: it is not acknowledged, so that it will be sent again.
    let sent = raw.say_data(&on_stream(tsn + 2, 3, 0, b"three"));
    assert_eq!(sacks(&sent).last().map(|told| (told.cumulative, told.gaps.len())), Some((tsn, 0)));
    let sent = raw.say_data(&on_stream(tsn + 3, 4, 0, b"other"));
    assert_eq!(sacks(&sent).last().map(|told| told.gaps.clone()), Some(vec![(3, 3)]));
    // The request again: still in progress.
    assert_eq!(raw.ask(&[outgoing(1000, tsn + 1, &[0, 3])]), responds(1000, "in progress"));
    let sent = raw.say_data(&on_stream(tsn + 1, 3, 1, b"two"));
    assert_eq!(re_configs(&sent), responds(1000, "performed"));
    raw.say_data(&on_stream(tsn + 2, 3, 0, b"three"));
    assert_eq!(raw.read(), [&b"one"[..], b"other", b"two", b"three"]);
    assert_eq!(raw.state(), "ESTABLISHED");
    // And the same answer to a repetition.
    assert_eq!(raw.ask(&[outgoing(1000, tsn + 1, &[0, 3])]), responds(1000, "performed"));
}

/// Section 5.2.1: a repeated request gets the same answer, and is not performed a second time.
#[test]
fn a_replay_resets_nothing() {
    let mut raw = open();
    let request = [outgoing(1000, raw.tsn.previous(), &[])];
    assert_eq!(raw.ask(&request), responds(1000, "performed"));
    raw.say_data(&on_stream(raw.tsn, 0, 0, b"one"));
    events(&mut raw);
    for _ in 0..3 {
        assert_eq!(raw.ask(&request), responds(1000, "performed"));
    }
    assert_eq!(events(&mut raw), []);
    raw.say_data(&on_stream(raw.tsn + 1, 0, 1, b"two"));
    assert_eq!(raw.read(), [b"one", b"two"], "the second message is still the next");
}

/// Numbers that are neither the next one nor those of the latest requests are bad, whatever is asked.
#[test]
fn bad_sequence_numbers() {
    let mut raw = open();
    for number in [999, 1001, 0, 1000 + (1 << 31)] {
        for request in [renumber(number), add_outgoing(number, 5), outgoing(number, raw.tsn.previous(), &[])]
        {
            assert_eq!(raw.ask(&[request]), responds(number, "bad sequence number"));
        }
    }
    assert_eq!(events(&mut raw), []);
    // Three later requests push the first one out of memory.
    for number in 1000..1003 {
        assert_eq!(raw.ask(&[add_outgoing(number, 1)]), responds(number, "performed"));
    }
    assert_eq!(raw.ask(&[add_outgoing(1000, 1)]), responds(1000, "bad sequence number"));
    assert_eq!(raw.ask(&[add_outgoing(1001, 1)]), responds(1001, "performed"));
    assert_eq!(raw.server().status(raw.server).unwrap().inbound_streams, 103);
}

/// A reset of streams that don't exist. Peers report it as a wrong SSN, for want of a better code.
#[test]
fn resets_of_streams_that_do_not_exist() {
    let mut raw = open();
    raw.say_data(&on_stream(raw.tsn, 1, 0, b"one"));
    let request = outgoing(1000, raw.tsn, &[0, 1, 0, 100]);
    assert_eq!(raw.ask(&[request]), responds(1000, "wrong SSN"));
    assert_eq!(raw.ask(&[incoming(1001, &[0, 100])]), responds(1001, "wrong SSN"));
    // Nothing was reset, the existing stream neither.
    raw.say_data(&on_stream(raw.tsn + 1, 1, 1, b"two"));
    assert_eq!(raw.read(), [b"one", b"two"]);
}

/// A reset in the middle of a message, and one with a message left out: no part of either is taken for the end of a
/// message.
#[test]
fn resets_that_cut_messages_off() {
    let mut raw = open();
    let first = Data { ending: false, ..on_stream(raw.tsn, 1, 0, b"begin") };
    raw.say_data(&first);
    assert_eq!(raw.ask(&[outgoing(1000, raw.tsn, &[0, 1])]), responds(1000, "wrong SSN"));
    assert_eq!(raw.ask(&[outgoing(1001, raw.tsn, &[])]), responds(1001, "wrong SSN"));
    // Streams that have nothing open can be reset meanwhile.
    assert_eq!(raw.ask(&[outgoing(1002, raw.tsn, &[0, 2])]), responds(1002, "performed"));
    raw.say_data(&Data { beginning: false, ..on_stream(raw.tsn + 1, 1, 0, b" and end") });
    assert_eq!(raw.read(), [b"begin and end"]);
    raw.say_data(&on_stream(raw.tsn + 2, 1, 2, b"one was left out"));
    assert_eq!(raw.ask(&[outgoing(1003, raw.tsn + 2, &[])]), responds(1003, "wrong SSN"));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// By default a peer may ask for nothing (section 7).
#[test]
fn requests_are_denied_unless_allowed() {
    let mut raw = open_with(PeerRequests::default());
    let last = raw.tsn.previous();
    let all = [
        outgoing(1000, last, &[]),
        incoming(1001, &[]),
        renumber(1002),
        add_outgoing(1003, 1),
        add_incoming(1004, 1),
    ];
    for (number, request) in (1000..).zip(all) {
        assert_eq!(raw.ask(&[request]), responds(number, "denied"));
    }
    assert_eq!(events(&mut raw), []);
    let status = raw.server().status(raw.server).unwrap();
    assert_eq!((status.inbound_streams, status.outbound_streams), (100, 100));
}

/// Section 5.1.1: without the chunk type in Supported Extensions the chunk is one of an unknown type, which is skipped
/// without a report.
#[test]
fn not_negotiated() {
    let mut raw = Raw::configured(|config| config.extensions.peer_requests = PeerRequests::ALL);
    let sent = raw.re_config(&[renumber(1000)]);
    assert!(sent.is_empty(), "{sent:?}");
    let endpoint = &mut raw.pair.hosts[SERVER].endpoint;
    assert_eq!(endpoint.reset_association(Time::ZERO, raw.server), Err(ReconfigureError::NotSupported));
}

/// Section 3.1: a combination that is not listed gets an ERROR with a Protocol Violation and no response.
#[test]
fn combinations_that_are_not_allowed() {
    for bytes in [
        encode(&[renumber(1000), add_outgoing(1001, 1)]),
        encode(&[add_outgoing(1000, 1), add_outgoing(1001, 1)]),
        encode(&[response(RequestNumber(1), ResultCode::PERFORMED), add_incoming(1000, 1)]),
        vec![],
        vec![0, 15, 0, 4],
    ] {
        let mut raw = open();
        let sent = raw.say(|packet| assert!(packet.push(&ReConfig { parameters: Parameters::new(&bytes) })));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].bytes[12..18], [kind::ERROR, 0, 0, sent[0].bytes[15], 0, 13]);
        assert_eq!(raw.state(), "ESTABLISHED");
        let status = raw.server().status(raw.server).unwrap();
        assert_eq!((status.inbound_streams, status.outbound_streams), (100, 100));
    }
}

/// Two requests in a chunk are answered in one chunk.
#[test]
fn two_requests_get_two_responses() {
    let mut raw = open();
    let sent = raw.ask(&[add_outgoing(1000, 7), add_incoming(1001, 8)]);
    let (first, own) = (raw.server_tsn, "Add Outgoing Streams Request");
    assert_eq!(
        sent,
        [
            "[Re-configuration Response 1000 performed, Re-configuration Response 1001 performed]".to_owned(),
            format!("[{own} {first} +8]"),
        ]
    );
    assert_eq!(raw.ask(&[response(RequestNumber(first.0), ResultCode::PERFORMED)]), Vec::<String>::new());
    let status = raw.server().status(raw.server).unwrap();
    assert_eq!((status.inbound_streams, status.outbound_streams), (107, 108));
}

/// Section 5.2.3: our own request is the response, after all data of the streams is acknowledged. The stream numbers
/// are copied.
#[test]
fn an_incoming_reset_waits_for_our_data() {
    let mut raw = open();
    raw.pair.send(SERVER, raw.server, 2, b"one");
    let sent = raw.heard();
    assert_eq!(data(&sent), [(raw.server_tsn, 2, 0)]);
    assert_eq!(raw.ask(&[incoming(1000, &[0, 2])]), Vec::<String>::new());
    assert_eq!(raw.ask(&[incoming(1000, &[0, 2])]), responds(1000, "in progress"), "a repetition");
    // Given after the request: it waits, and others don't.
    raw.pair.send(SERVER, raw.server, 2, b"two");
    raw.pair.send(SERVER, raw.server, 3, b"other");
    assert_eq!(data(&raw.heard()), [(raw.server_tsn + 1, 3, 0)]);
    let sent = raw.say_sack(1, 65_536, &[]);
    let (first, last) = (raw.server_tsn, raw.server_tsn + 1);
    let request = format!("[Outgoing SSN Reset Request {first} response 1000 tsn {last} streams 2]");
    let request = vec![request];
    assert_eq!(re_configs(&sent), request);
    // A repetition of the peer's request: the same chunk again.
    assert_eq!(raw.ask(&[incoming(1000, &[0, 2])]), request);
    let sent = raw.re_config(&[response(RequestNumber(first.0), ResultCode::PERFORMED)]);
    assert_eq!(data(&sent), [(raw.server_tsn + 2, 2, 0)]);
    assert!(events(&mut raw).contains(&reset(StreamDirection::Outgoing, StreamId(2), Outcome::Performed, 0)));
}

/// Section 5.1.2 A4: the list is copied as the peer sent it.
#[test]
fn the_list_of_streams_is_copied() {
    let mut raw = open();
    raw.pair.send(SERVER, raw.server, 2, b"one");
    raw.heard();
    raw.say_sack(1, 65_536, &[]);
    let sent = raw.ask(&[incoming(1000, &[0, 5, 0, 2, 0, 5])]);
    let (first, last) = (raw.server_tsn, raw.server_tsn);
    assert_eq!(
        sent,
        [format!("[Outgoing SSN Reset Request {first} response 1000 tsn {last} streams 5 2 5]")]
    );
}

/// The peer's request waits for data of ours while the application asks for a reset, too. The application's request
/// precedes it, and does not answer it.
#[test]
fn an_own_reset_precedes_the_answer() {
    let mut raw = open();
    raw.pair.send(SERVER, raw.server, 2, b"one");
    raw.heard();
    let (now, streams) = (raw.pair.now, Streams::from(StreamId(3)));
    let endpoint = &mut raw.pair.hosts[SERVER].endpoint;
    endpoint.reset_streams(now, raw.server, StreamDirection::Outgoing, streams).unwrap();
    assert_eq!(raw.ask(&[incoming(1000, &[0, 2])]), Vec::<String>::new());
    let sent = re_configs(&raw.say_sack(1, 65_536, &[]));
    let (first, last) = (raw.server_tsn, raw.server_tsn);
    assert_eq!(sent, [format!("[Outgoing SSN Reset Request {first} response 999 tsn {last} streams 3]")]);
    let sent = raw.ask(&[response(RequestNumber(first.0), ResultCode::PERFORMED)]);
    let next = first.next();
    assert_eq!(sent, [format!("[Outgoing SSN Reset Request {next} response 1000 tsn {last} streams 2]")]);
}

/// Streams that the peer asked for, and was promised, wait for a request of ours. That refuses nothing else.
#[test]
fn promised_streams_and_a_reset_wait() {
    let mut raw = open();
    raw.pair.send(SERVER, raw.server, 2, b"one");
    raw.heard();
    raw.say_sack(1, 65_536, &[]);
    raw.pair.hosts[SERVER].endpoint.add_streams(raw.pair.now, raw.server, 1, 0).unwrap();
    raw.heard();
    assert_eq!(raw.ask(&[add_incoming(1000, 5)]), responds(1000, "performed"));
    assert_eq!(raw.ask(&[add_incoming(1001, 6)]), responds(1001, "performed"));
    assert_eq!(raw.ask(&[incoming(1002, &[0, 2])]), Vec::<String>::new());
    let first = RequestNumber(raw.server_tsn.0);
    let sent = raw.ask(&[response(first, ResultCode::PERFORMED)]);
    assert_eq!(sent, [format!("[Add Outgoing Streams Request {} +11]", first.next())]);
    let sent = raw.ask(&[response(first.next(), ResultCode::PERFORMED)]);
    let request = format!("Outgoing SSN Reset Request {} response 1002", first.next().next());
    assert!(sent.len() == 1 && sent[0].contains(&request), "{sent:?}");
}

/// A peer that never sends the data before its reset: it can't delay our own reset of all numbers for ever.
#[test]
fn a_reset_waits_for_a_limited_time() {
    let mut raw = open();
    let (now, number) = (raw.pair.now, raw.server_tsn);
    assert_eq!(raw.ask(&[outgoing(1000, raw.tsn + 65_535, &[])]), responds(1000, "wrong SSN"), "too far");
    assert_eq!(raw.ask(&[outgoing(1001, raw.tsn + 65_534, &[])]), responds(1001, "in progress"));
    raw.pair.hosts[SERVER].endpoint.reset_association(now, raw.server).unwrap();
    assert_eq!(re_configs(&raw.wait(Duration::from_secs(59))), Vec::<String>::new());
    assert_eq!(raw.ask(&[outgoing(1001, raw.tsn + 65_534, &[])]), responds(1001, "in progress"));
    let sent = re_configs(&raw.wait(Duration::from_millis(1_500)));
    assert_eq!(sent, [responds(1001, "wrong SSN")[0].clone(), format!("[SSN/TSN Reset Request {number}]")]);
    raw.say_data(&on_stream(raw.tsn, 1, 0, b"no longer barred"));
    assert_eq!(raw.read(), [b"no longer barred"]);
}

/// A shutdown of our own refuses a request that waits for an answer to ours: the peer hears that before SHUTDOWN.
#[test]
fn an_own_shutdown_refuses_what_waits() {
    let mut raw = open();
    raw.pair.send(SERVER, raw.server, 2, b"one");
    raw.heard();
    raw.say_sack(1, 65_536, &[]);
    raw.pair.hosts[SERVER].endpoint.add_streams(raw.pair.now, raw.server, 1, 0).unwrap();
    raw.heard();
    assert_eq!(raw.ask(&[incoming(1000, &[0, 2])]), Vec::<String>::new());
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    let sent = raw.heard();
    assert_eq!(re_configs(&sent), responds(1000, "denied"));
    assert!(has(kind::SHUTDOWN)(sent.last().unwrap()));
}

/// A reset of both directions: response and request share a chunk.
#[test]
fn a_reset_of_both_directions() {
    let mut raw = open();
    raw.pair.send(SERVER, raw.server, 2, b"one");
    raw.heard();
    raw.say_sack(1, 65_536, &[]);
    let sent = raw.ask(&[outgoing(1000, raw.tsn.previous(), &[]), incoming(1001, &[])]);
    let first = raw.server_tsn;
    let request = format!("Outgoing SSN Reset Request {first} response 1001 tsn {first}");
    assert_eq!(sent, [format!("[Re-configuration Response 1000 performed, {request}]")]);
}

/// Streams that are at 0 already, and those that are just being reset.
#[test]
fn nothing_to_do() {
    let mut raw = open();
    assert_eq!(raw.ask(&[incoming(1000, &[])]), responds(1000, "nothing to do"));
    assert_eq!(raw.ask(&[add_outgoing(1001, 0)]), responds(1001, "nothing to do"));
    raw.pair.send(SERVER, raw.server, 2, b"one");
    raw.heard();
    raw.say_sack(1, 65_536, &[]);
    let (now, streams) = (raw.pair.now, Streams::from([StreamId(2), StreamId(4)]));
    raw.pair.hosts[SERVER]
        .endpoint
        .reset_streams(now, raw.server, StreamDirection::Outgoing, streams)
        .unwrap();
    assert_eq!(re_configs(&raw.heard()).len(), 1);
    assert_eq!(raw.ask(&[incoming(1002, &[0, 2])]), responds(1002, "nothing to do"));
    // Not covered: it follows the request that is in flight.
    assert_eq!(raw.ask(&[incoming(1003, &[0, 2, 0, 5])]), Vec::<String>::new());
    let sent = raw.ask(&[response(RequestNumber(raw.server_tsn.0), ResultCode::PERFORMED)]);
    let request = format!("Outgoing SSN Reset Request {} response 1003", raw.server_tsn.next());
    assert!(sent.len() == 1 && sent[0].contains(&request), "{sent:?}");
}

/// Sections 5.2.4 and 5.1.7: the response has both TSNs. Data continues from there, with SSN 0, in both directions.
#[test]
fn a_reset_of_all_numbers() {
    let mut raw = open();
    raw.say_data(&on_stream(raw.tsn, 1, 0, b"old"));
    raw.pair.send(SERVER, raw.server, 2, b"old");
    raw.heard();
    assert_eq!(raw.ask(&[renumber(1000)]), Vec::<String>::new());
    let (own, peers) = (raw.server_tsn + 1 + (1 << 30), raw.tsn + 1 + (1 << 31));
    let next_tsns = format!("next tsn {own} of peer {peers}");
    let repeated = raw.ask(&[renumber(1000)]);
    assert_eq!(repeated, responds(1000, &format!("in progress {next_tsns}")), "a repetition");
    raw.pair.send(SERVER, raw.server, 2, b"new");
    assert_eq!(data(&raw.heard()), []);
    // Once our data is acknowledged the response follows, and then the data that waited.
    let sent = raw.say_sack(1, 65_536, &[]);
    assert_eq!(re_configs(&sent), responds(1000, &format!("performed {next_tsns}")));
    assert_eq!(data(&sent), [(own, 2, 0)]);
    // A repetition has the same numbers.
    let again = raw.ask(&[renumber(1000)]);
    assert_eq!(again, responds(1000, &format!("performed {next_tsns}")));
    // An acknowledgement and data that were on their way: they say nothing.
    assert_eq!(data(&raw.say_sack(1, 65_536, &[])), []);
    raw.say_data(&on_stream(raw.tsn + 1, 1, 1, b"late"));
    assert_eq!(raw.read(), [b"old"]);
    let sent = raw.say_data(&Data { immediate: true, ..on_stream(peers, 1, 0, b"new") });
    assert_eq!(sacks(&sent).last().map(|told| told.cumulative), Some(peers));
    assert_eq!((raw.read(), raw.state()), (vec![b"new".to_vec()], "ESTABLISHED"));
    let event = Event::AssociationReset {
        outcome: Outcome::Performed,
        local_tsn: own,
        peer_tsn: peers,
        unread: 1,
        cut: None,
    };
    assert!(events(&mut raw).contains(&event));
}

/// A reset of all numbers that waits for a request of ours: "in progress" already has the TSN with which we
/// will continue.
#[test]
fn a_waiting_reset_of_all_numbers() {
    let mut raw = open();
    raw.pair.send(SERVER, raw.server, 2, b"one");
    raw.heard();
    let (now, streams) = (raw.pair.now, Streams::from([StreamId(2)]));
    let server = &mut raw.pair.hosts[SERVER].endpoint;
    server.reset_streams(now, raw.server, StreamDirection::Outgoing, streams).unwrap();
    assert_eq!(raw.ask(&[renumber(1000)]), Vec::<String>::new());
    let (own, peers) = (raw.server_tsn + 1 + (1 << 30), raw.tsn + (1 << 31));
    let next_tsns = format!("next tsn {own} of peer {peers}");
    assert_eq!(raw.ask(&[renumber(1000)]), responds(1000, &format!("in progress {next_tsns}")));
    // More is sent meanwhile.
    raw.pair.send(SERVER, raw.server, 3, b"two");
    raw.heard();
    let sent = re_configs(&raw.say_sack(2, 65_536, &[]));
    assert!(sent.len() == 1 && sent[0].contains("Outgoing SSN Reset Request"), "{sent:?}");
    let sent = raw.ask(&[response(RequestNumber(raw.server_tsn.0), ResultCode::PERFORMED)]);
    assert_eq!(sent, responds(1000, &format!("performed {next_tsns}")));
}

/// Section 5.2.5: the limit is that of incoming streams, and nothing is allocated for streams.
#[test]
fn added_incoming_streams_have_a_limit() {
    let mut raw = open_as(|config| {
        config.inbound_streams_max = 60_000;
        config.extensions.peer_requests = PeerRequests::ALL;
    });
    raw.ask(&[add_outgoing(1000, 0)]);
    let before = raw.server().memory(raw.server).unwrap().total();
    assert_eq!(raw.ask(&[add_outgoing(1001, 59_901)]), responds(1001, "denied"));
    assert_eq!(raw.ask(&[add_outgoing(1002, u16::MAX)]), responds(1002, "denied"));
    assert_eq!(raw.ask(&[add_outgoing(1003, 59_900)]), responds(1003, "performed"));
    assert!(raw.server().memory(raw.server).unwrap().total() <= before + 64);
    raw.say_data(&on_stream(raw.tsn, 59_999, 0, b"far"));
    assert_eq!(raw.read(), [b"far"]);
    assert!(raw.server().memory(raw.server).unwrap().total() < before + 3000);
    let event =
        Event::StreamsChanged { outcome: Outcome::Performed, outbound_streams: 100, inbound_streams: 60_000 };
    assert!(events(&mut raw).contains(&event));
}

/// Section 5.2.6: our own request follows, unless there would be too many.
#[test]
fn added_outgoing_streams_have_a_limit() {
    let mut raw = open_with(PeerRequests { outbound_streams_max: 110, ..PeerRequests::ALL });
    assert_eq!(raw.ask(&[add_incoming(1000, 11)]), responds(1000, "denied"));
    let first = raw.server_tsn;
    let sent = raw.ask(&[add_incoming(1001, 10)]);
    assert_eq!(
        sent,
        [responds(1001, "performed")[0].clone(), format!("[Add Outgoing Streams Request {first} +10]")]
    );
    // Those that are asked for already count.
    assert_eq!(raw.ask(&[add_incoming(1002, 1)]), responds(1002, "denied"));
    let send = |raw: &mut Raw| {
        let info = SendInfo::on(StreamId(109));
        raw.pair.hosts[SERVER].endpoint.send(raw.pair.now, raw.server, info, "x".into())
    };
    assert!(send(&mut raw).is_err(), "not before the peer has agreed");
    raw.re_config(&[response(RequestNumber(first.0), ResultCode::PERFORMED)]);
    assert_eq!(send(&mut raw), Ok(()));
    assert_eq!(data(&raw.heard()), [(first, 109, 0)]);
}

/// Streams that the application has asked for count as well, until the peer has answered.
#[test]
fn added_outgoing_streams_are_counted_with_our_own() {
    let mut raw = open_with(PeerRequests { outbound_streams_max: 110, ..PeerRequests::ALL });
    let (now, id, first) = (raw.pair.now, raw.server, raw.server_tsn);
    raw.pair.hosts[SERVER].endpoint.add_streams(now, id, 5, 0).unwrap();
    raw.heard();
    assert_eq!(raw.ask(&[add_incoming(1000, 6)]), responds(1000, "denied"));
    assert_eq!(raw.ask(&[add_incoming(1001, 5)]), responds(1001, "performed"));
    assert_eq!(raw.ask(&[add_incoming(1002, 1)]), responds(1002, "denied"));
    for number in 0..2 {
        raw.re_config(&[response(RequestNumber(first.0 + number), ResultCode::PERFORMED)]);
    }
    assert_eq!(raw.server().status(id).unwrap().outbound_streams, 110);
}

/// Requests in a shutdown: those that need no data of ours are still answered.
#[test]
fn during_a_shutdown() {
    let mut raw = open();
    assert_eq!(raw.ask(&[add_outgoing(1000, 1)]), responds(1000, "performed"));
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    raw.heard();
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
    assert_eq!(raw.ask(&[outgoing(1001, raw.tsn.previous(), &[])]), responds(1001, "performed"));
    assert_eq!(raw.ask(&[incoming(1002, &[])]), responds(1002, "denied"));
    assert_eq!(raw.ask(&[renumber(1003)]), responds(1003, "denied"));
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
}

/// A request that waits for our data when the peer shuts down is refused, and so is its repetition.
#[test]
fn a_shutdown_refuses_what_waits() {
    for request in [renumber(1000), incoming(1000, &[])] {
        let mut raw = open();
        raw.pair.send(SERVER, raw.server, 2, b"one");
        raw.heard();
        assert_eq!(raw.ask(&[request]), Vec::<String>::new());
        let shutdown = strandline_wire::Shutdown { cumulative_tsn: raw.server_tsn.previous() };
        let sent = raw.say(|packet| assert!(packet.push(&shutdown)));
        assert_eq!(re_configs(&sent), responds(1000, "denied"));
        assert_eq!(raw.ask(&[request]), responds(1000, "denied"));
        raw.say_sack(1, 65_536, &[]);
        assert_eq!(raw.state(), "SHUTDOWN-ACK-SENT");
    }
}

/// Many chunks in a packet: only as many are processed as a peer has a reason to send.
#[test]
fn a_packet_full_of_requests() {
    let mut raw = open();
    let bytes: Vec<Vec<u8>> = (1000..1040).map(|number| encode(&[add_outgoing(number, 1)])).collect();
    let sent = raw.say(|packet| {
        for bytes in &bytes {
            assert!(packet.push(&ReConfig { parameters: Parameters::new(bytes) }));
        }
    });
    assert_eq!(re_configs(&sent).len(), 2);
    assert_eq!(raw.server().status(raw.server).unwrap().inbound_streams, 102);
}
