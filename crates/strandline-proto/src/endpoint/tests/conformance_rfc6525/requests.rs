//! Our requests to a hand-made peer (sections 5.1 and 5.2.7).

use super::*;
use crate::error::SendError;

/// A server, and a peer with this tag.
fn open_by(tag: VerificationTag) -> Raw {
    let pair = Pair::configured(|config| config.extensions.peer_requests = PeerRequests::ALL);
    let parameters = Parameters::new(&SUPPORTED);
    Raw::open(pair, Init { parameters, initiate_tag: tag, ..init(Tsn(1000)) })
}

fn reset_streams(
    raw: &mut Raw,
    direction: StreamDirection,
    streams: impl Into<Streams>,
) -> Result<(), ReconfigureError> {
    let (now, streams) = (raw.pair.now, streams.into());
    raw.pair.hosts[SERVER].endpoint.reset_streams(now, raw.server, direction, streams)
}

fn first(raw: &Raw) -> RequestNumber {
    RequestNumber(raw.server_tsn.0)
}

/// A1 to A6 and H4: data given after the request waits for the response, and then begins with SSN 0.
#[test]
fn a_reset_of_outgoing_streams() {
    let mut raw = open();
    for (stream, text) in [(2, b"one"), (2, b"two"), (4, b"one")] {
        raw.pair.send(SERVER, raw.server, stream, text);
    }
    raw.heard();
    reset_streams(&mut raw, StreamDirection::Outgoing, [StreamId(2), StreamId(3)]).unwrap();
    raw.pair.send(SERVER, raw.server, 2, b"new");
    raw.pair.send(SERVER, raw.server, 4, b"two");
    let sent = raw.heard();
    assert_eq!((re_configs(&sent), data(&sent)), (vec![], vec![(raw.server_tsn + 3, 4, 1)]));
    // What was given before is acknowledged.
    let sent = raw.say_sack(3, 65_536, &[]);
    let (number, last) = (first(&raw), raw.server_tsn + 3);
    let request = format!("[Outgoing SSN Reset Request {number} response 999 tsn {last} streams 2 3]");
    assert_eq!(re_configs(&sent), [request]);
    assert_eq!(data(&sent), []);
    let sent = raw.re_config(&[response(number, ResultCode::PERFORMED)]);
    assert_eq!(data(&sent), [(raw.server_tsn + 4, 2, 0)]);
    let event = reset(StreamDirection::Outgoing, [StreamId(2), StreamId(3)], Outcome::Performed, 0);
    assert_eq!(events(&mut raw), [event]);
    // The response again is processed no more.
    assert_eq!(raw.re_config(&[response(number, ResultCode::DENIED)]).len(), 0);
    assert_eq!(events(&mut raw), []);
}

/// H3: what waited is sent with the next SSN as if nothing had been asked.
#[test]
fn a_reset_that_is_refused() {
    for (result, outcome) in [
        (ResultCode::DENIED, Outcome::Denied),
        (ResultCode::WRONG_SSN, Outcome::Failed),
        (ResultCode::ALREADY_IN_PROGRESS, Outcome::Failed),
        (ResultCode::BAD_SEQUENCE_NUMBER, Outcome::Failed),
        (ResultCode(77), Outcome::Failed),
    ] {
        let mut raw = open();
        raw.pair.send(SERVER, raw.server, 2, b"one");
        raw.heard();
        raw.say_sack(1, 65_536, &[]);
        reset_streams(&mut raw, StreamDirection::Outgoing, Streams::All).unwrap();
        raw.pair.send(SERVER, raw.server, 2, b"two");
        raw.heard();
        let sent = raw.re_config(&[response(first(&raw), result)]);
        assert_eq!(data(&sent), [(raw.server_tsn + 1, 2, 1)]);
        assert_eq!(events(&mut raw), [reset(StreamDirection::Outgoing, Streams::All, outcome, 0)]);
    }
}

/// Section 5.1.1: the chunk is retransmitted as it is, with the RTO doubled each time, until the association fails.
#[test]
fn a_request_without_a_response() {
    let mut raw = open();
    reset_streams(&mut raw, StreamDirection::Outgoing, Streams::All).unwrap();
    let request = re_configs(&raw.heard());
    assert_eq!(request.len(), 1);
    let begun = raw.pair.now;
    let mut waits = Vec::new();
    while raw.pair.closed(SERVER).is_none() {
        let before = raw.pair.now;
        let sent = loop {
            let sent = raw.wait(Duration::from_millis(100));
            if !sent.is_empty() || raw.pair.closed(SERVER).is_some() {
                break sent;
            }
        };
        if raw.pair.closed(SERVER).is_none() {
            assert_eq!(re_configs(&sent), request);
            waits.push((raw.pair.now.since(before).as_millis() + 50) / 1000);
        }
    }
    assert_eq!(waits[..6], [1, 2, 4, 8, 16, 32]);
    assert_eq!(waits.len(), 10, "Association.Max.Retrans");
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
    assert!(raw.pair.now.since(begun) < Duration::from_secs(600));
}

/// Answered HEARTBEATs don't keep an association whose requests stay unanswered.
#[test]
fn heartbeats_are_no_response() {
    let pair = Pair::configured(|config| config.association_retrans_max = 3);
    let (mut pair, client, _) = pair.establish();
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.reset_streams(now, client, StreamDirection::Outgoing, Streams::All).unwrap();
    pair.pass_dropping(Duration::from_secs(200), has(kind::RE_CONFIG));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
}

/// H2: "in progress" restarts the timer; the repetition is no error.
#[test]
fn a_request_in_progress_is_no_error() {
    let mut raw = open_as(|config| config.association_retrans_max = 1);
    reset_streams(&mut raw, StreamDirection::Outgoing, Streams::All).unwrap();
    let request = re_configs(&raw.heard());
    let number = first(&raw);
    for _ in 0..20 {
        raw.re_config(&[response(number, ResultCode::IN_PROGRESS)]);
        let mut sent = Vec::new();
        while sent.is_empty() {
            sent = raw.wait(Duration::from_secs(1));
        }
        assert_eq!(re_configs(&sent), request);
        assert_eq!(raw.server().status(raw.server).unwrap().error_count, 0);
    }
    raw.re_config(&[response(number, ResultCode::PERFORMED)]);
    assert_eq!(events(&mut raw), [reset(StreamDirection::Outgoing, Streams::All, Outcome::Performed, 0)]);
}

/// One request is in flight at a time.
#[test]
fn one_request_at_a_time() {
    let mut raw = open();
    let (now, id) = (raw.pair.now, raw.server);
    reset_streams(&mut raw, StreamDirection::Incoming, StreamId(1)).unwrap();
    assert_eq!(
        reset_streams(&mut raw, StreamDirection::Outgoing, Streams::All),
        Err(ReconfigureError::InProgress)
    );
    let endpoint = &mut raw.pair.hosts[SERVER].endpoint;
    assert_eq!(endpoint.reset_association(now, id), Err(ReconfigureError::InProgress));
    assert_eq!(endpoint.add_streams(now, id, 1, 0), Err(ReconfigureError::InProgress));
    assert_eq!(re_configs(&raw.heard()).len(), 1);
}

#[test]
fn invalid_requests() {
    let mut raw = open();
    let (now, id) = (raw.pair.now, raw.server);
    let none = Streams::Listed(Vec::new());
    assert_eq!(
        reset_streams(&mut raw, StreamDirection::Both, none),
        Err(ReconfigureError::Count { listed: 0 })
    );
    let many: Streams = (0..257).map(StreamId).collect();
    assert_eq!(
        reset_streams(&mut raw, StreamDirection::Both, many),
        Err(ReconfigureError::Count { listed: 257 })
    );
    let error = Err(ReconfigureError::InvalidStream { stream: 100, streams: 100 });
    assert_eq!(reset_streams(&mut raw, StreamDirection::Outgoing, StreamId(100)), error);
    let endpoint = &mut raw.pair.hosts[SERVER].endpoint;
    assert_eq!(endpoint.add_streams(now, id, 0, 0), Err(ReconfigureError::TooManyStreams));
    assert_eq!(endpoint.add_streams(now, id, 65_436, 0), Err(ReconfigureError::TooManyStreams));
    endpoint.shutdown(now, id).unwrap();
    assert_eq!(endpoint.reset_association(now, id), Err(ReconfigureError::NotEstablished));
}

/// B1 to B4 and E1: the peer's own request is the response, and it is performed although the peer may ask for nothing
/// by itself.
#[test]
fn a_reset_of_incoming_streams() {
    let mut raw = open_with(PeerRequests::NONE);
    raw.say_data(&on_stream(raw.tsn, 1, 0, b"one"));
    reset_streams(&mut raw, StreamDirection::Incoming, StreamId(1)).unwrap();
    let number = first(&raw);
    assert_eq!(re_configs(&raw.heard()), [format!("[Incoming SSN Reset Request {number} streams 1]")]);
    let streams = StreamList::new(&[0, 1]);
    let (request, last_tsn) = (RequestNumber(1000), raw.tsn);
    let answer = OutgoingSsnReset { request, response: number, last_tsn, streams };
    let sent = raw.ask(&[ReConfigParameter::OutgoingSsnReset(answer)]);
    assert_eq!(sent, responds(1000, "performed"));
    raw.say_data(&on_stream(raw.tsn + 1, 1, 0, b"two"));
    assert_eq!(raw.read(), [b"one", b"two"]);
    assert!(events(&mut raw).contains(&reset(StreamDirection::Incoming, StreamId(1), Outcome::Performed, 1)));
    assert_eq!(re_configs(&raw.wait(Duration::from_secs(100))), Vec::<String>::new(), "the timer is stopped");
    // Such a consent counts once.
    let again = OutgoingSsnReset { request: RequestNumber(1001), last_tsn: raw.tsn + 1, ..answer };
    assert_eq!(raw.ask(&[ReConfigParameter::OutgoingSsnReset(again)]), responds(1001, "denied"));
}

/// Two requests in a chunk, each answered for itself.
#[test]
fn a_reset_of_both_directions() {
    let mut raw = open();
    reset_streams(&mut raw, StreamDirection::Both, Streams::All).unwrap();
    let number = first(&raw);
    let sent = re_configs(&raw.heard());
    let last = raw.server_tsn.previous();
    let request = format!("Outgoing SSN Reset Request {number} response 999 tsn {last}");
    assert_eq!(sent, [format!("[{request}, Incoming SSN Reset Request {}]", number.next())]);
    raw.re_config(&[response(number.next(), ResultCode::DENIED), response(number, ResultCode::PERFORMED)]);
    assert_eq!(
        events(&mut raw),
        [
            reset(StreamDirection::Incoming, Streams::All, Outcome::Denied, 0),
            reset(StreamDirection::Outgoing, Streams::All, Outcome::Performed, 0),
        ]
    );
    assert!(raw.wait(Duration::from_secs(100)).is_empty());
}

/// H6: the streams are used only after the response, from SSN 0 on.
#[test]
fn added_streams() {
    let mut raw = open();
    let (now, id, number) = (raw.pair.now, raw.server, first(&raw));
    raw.pair.hosts[SERVER].endpoint.add_streams(now, id, 3, 2).unwrap();
    let sent = re_configs(&raw.heard());
    let other = number.next();
    assert_eq!(
        sent,
        [format!("[Add Outgoing Streams Request {number} +3, Add Incoming Streams Request {other} +2]")]
    );
    let send = |raw: &mut Raw| {
        let info = SendInfo::on(StreamId(102));
        raw.pair.hosts[SERVER].endpoint.send(now, id, info, "x".into())
    };
    assert_eq!(send(&mut raw), Err(SendError::InvalidStream { stream: 102, streams: 100 }));
    raw.re_config(&[response(number, ResultCode::PERFORMED)]);
    assert_eq!(send(&mut raw), Ok(()));
    assert_eq!(data(&raw.heard()), [(raw.server_tsn, 102, 0)]);
    // The peer's own request answers the other part.
    assert_eq!(raw.ask(&[add_outgoing(1000, 2)]), responds(1000, "performed"));
    let status = raw.server().status(id).unwrap();
    assert_eq!((status.outbound_streams, status.inbound_streams), (103, 102));
    raw.say_sack(1, 65_536, &[]);
    assert!(raw.wait(Duration::from_secs(100)).is_empty());
}

/// C1 to C4 and H5.
#[test]
fn a_reset_of_all_numbers() {
    let mut raw = open();
    let (id, number) = (raw.server, first(&raw));
    raw.say_data(&on_stream(raw.tsn, 1, 0, b"old"));
    raw.pair.send(SERVER, id, 2, b"old");
    raw.heard();
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.reset_association(now, id).unwrap();
    raw.pair.send(SERVER, id, 3, b"new");
    assert!(raw.heard().is_empty(), "nothing new before the old data is acknowledged");
    let sent = raw.say_sack(1, 65_536, &[]);
    assert_eq!(re_configs(&sent), [format!("[SSN/TSN Reset Request {number}]")]);
    assert_eq!(data(&sent), []);
    // The peer has performed it, and its response is lost: what it sends now is not taken for old.
    let (own, peers) = (Tsn(7), raw.tsn + 1);
    raw.say(|packet| {
        assert!(strandline_wire::chunk::sack::write(packet, Tsn(6), 65_536, core::iter::empty(), &[]))
    });
    raw.say_data(&on_stream(peers, 1, 0, b"new"));
    assert_eq!((raw.read(), raw.state()), (vec![b"old".to_vec()], "ESTABLISHED"));
    let answer = ReConfigParameter::Response(Response {
        next_tsns: Some(NextTsns { sender: peers, receiver: own }),
        ..Response::new(number, ResultCode::PERFORMED)
    });
    let sent = raw.re_config(&[answer]);
    assert_eq!(data(&sent), [(own, 3, 0)]);
    raw.say_data(&on_stream(peers, 1, 0, b"new"));
    assert_eq!(raw.read(), [b"new"]);
    raw.server_tsn = own;
    raw.say_sack(1, 65_536, &[]);
    assert_eq!(raw.server().status(id).unwrap().unacknowledged_bytes, 0);
    // Section 5.1.4: not again within 30 seconds.
    let again = raw.pair.hosts[SERVER].endpoint.reset_association(raw.pair.now, id);
    assert_eq!(again, Err(ReconfigureError::TooSoon));
    raw.wait(Duration::from_secs(31));
    assert_eq!(raw.pair.hosts[SERVER].endpoint.reset_association(raw.pair.now, id), Ok(()));
}

/// A refused reset of all numbers: everything goes on. A response without TSNs is none.
#[test]
fn a_reset_of_all_numbers_that_is_refused() {
    for (result, outcome) in [(ResultCode::DENIED, Outcome::Denied), (ResultCode::PERFORMED, Outcome::Failed)]
    {
        let mut raw = open();
        raw.pair.send(SERVER, raw.server, 2, b"one");
        raw.heard();
        raw.say_sack(1, 65_536, &[]);
        raw.say_data(&on_stream(raw.tsn, 1, 0, b"one"));
        raw.pair.hosts[SERVER].endpoint.reset_association(raw.pair.now, raw.server).unwrap();
        raw.pair.send(SERVER, raw.server, 2, b"two");
        raw.heard();
        events(&mut raw);
        let sent = raw.re_config(&[response(first(&raw), result)]);
        assert_eq!(data(&sent), [(raw.server_tsn + 1, 2, 1)]);
        let (local_tsn, peer_tsn) = (raw.server_tsn + 1, raw.tsn + 1);
        let event = Event::AssociationReset { outcome, local_tsn, peer_tsn, unread: 0, cut: None };
        assert_eq!(events(&mut raw), [event]);
        raw.say_data(&on_stream(raw.tsn + 1, 1, 1, b"two"));
        assert_eq!(raw.read(), [b"one", b"two"]);
    }
}

/// Both sides ask for the same at once: the side with the higher tag refuses, and no numbers are mixed up.
#[test]
fn resets_of_all_numbers_that_cross() {
    for (seed, refuses) in [(VerificationTag(1), true), (VerificationTag(u32::MAX), false)] {
        let mut raw = open_by(seed);
        raw.pair.hosts[SERVER].endpoint.reset_association(raw.pair.now, raw.server).unwrap();
        raw.heard();
        let sent = raw.ask(&[renumber(1000)]);
        assert_eq!(sent, if refuses { responds(1000, "request already in progress") } else { vec![] });
        let sent = raw.ask(&[response(first(&raw), ResultCode::ALREADY_IN_PROGRESS)]);
        let found = events(&mut raw);
        let failed =
            |event: &Event| matches!(event, Event::AssociationReset { outcome: Outcome::Failed, .. });
        assert!(failed(&found[0]), "{found:?}");
        let (own, peers) = (raw.server_tsn + (1 << 30), raw.tsn + (1 << 31));
        if refuses {
            assert_eq!((found.len(), &sent[..]), (1, &[][..]));
            raw.say_data(&on_stream(raw.tsn, 1, 0, b"one"));
        } else {
            // The peer's request is performed instead.
            assert_eq!(sent, responds(1000, &format!("performed next tsn {own} of peer {peers}")));
            raw.say_data(&on_stream(peers, 1, 0, b"one"));
        }
        assert_eq!(raw.read(), [b"one"]);
    }
}

/// A peer that performs the reset that crosses its own: its own is over then, since its numbers are those of before.
#[test]
fn waiting_reset_is_refused_after_another() {
    let mut raw = open_by(VerificationTag(u32::MAX));
    raw.pair.hosts[SERVER].endpoint.reset_association(raw.pair.now, raw.server).unwrap();
    raw.heard();
    assert_eq!(raw.ask(&[renumber(1000)]), Vec::<String>::new());
    let next_tsns = NextTsns { sender: Tsn(500_000), receiver: Tsn(600_000) };
    let performed =
        Response { next_tsns: Some(next_tsns), ..Response::new(first(&raw), ResultCode::PERFORMED) };
    let sent = raw.ask(&[ReConfigParameter::Response(performed)]);
    assert_eq!(sent, responds(1000, "request already in progress"));
    raw.say_data(&on_stream(Tsn(500_000), 1, 0, b"one"));
    assert_eq!(raw.read(), [b"one"]);
    raw.pair.send(SERVER, raw.server, 1, b"two");
    assert_eq!(data(&raw.heard()), [(Tsn(600_000), 1, 0)]);
}

/// Requests that each wait for a request of the other side, which would wait for ever: one is refused at
/// once, or once its time is over.
#[test]
fn incoming_resets_that_cross() {
    for (seed, refuses) in [(VerificationTag(1), true), (VerificationTag(u32::MAX), false)] {
        let mut raw = open_by(seed);
        raw.pair.send(SERVER, raw.server, 1, b"one");
        raw.heard();
        raw.say_sack(1, 65_536, &[]);
        reset_streams(&mut raw, StreamDirection::Incoming, Streams::All).unwrap();
        let number = first(&raw);
        raw.heard();
        let sent = raw.ask(&[incoming(1000, &[])]);
        if refuses {
            assert_eq!(sent, responds(1000, "request already in progress"));
            continue;
        }
        assert_eq!(sent, Vec::<String>::new());
        let sent = re_configs(&raw.wait(Duration::from_secs(2)));
        assert_eq!(sent[0], responds(1000, "request already in progress")[0]);
        assert_eq!(raw.ask(&[incoming(1001, &[])]), Vec::<String>::new());
        // The peer refuses ours. Its own is performed then.
        let sent = raw.ask(&[response(number, ResultCode::ALREADY_IN_PROGRESS)]);
        let (next, last) = (number.next(), raw.server_tsn);
        assert_eq!(sent, [format!("[Outgoing SSN Reset Request {next} response 1001 tsn {last}]")]);
    }
}

/// Any request of the peer has the number of our latest one. Only one with the streams that we asked for is
/// the answer to it: another is denied, and our request goes on.
#[test]
fn another_reset_is_not_the_answer() {
    let mut raw = open_with(PeerRequests::NONE);
    reset_streams(&mut raw, StreamDirection::Incoming, [StreamId(1), StreamId(2)]).unwrap();
    let number = first(&raw);
    let request = re_configs(&raw.heard());
    let last_tsn = raw.tsn.previous();
    for (at, (list, denied)) in
        [(&[0, 3][..], true), (&[0, 1, 0, 3], true), (&[0, 2, 0, 1], false)].into_iter().enumerate()
    {
        let streams = StreamList::new(list);
        let reset = OutgoingSsnReset {
            request: RequestNumber(1000 + at as u32),
            response: number,
            last_tsn,
            streams,
        };
        let sent = raw.ask(&[ReConfigParameter::OutgoingSsnReset(reset)]);
        assert_eq!(sent, responds(reset.request.0, if denied { "denied" } else { "performed" }));
        let again = re_configs(&raw.wait(Duration::from_secs(3)));
        assert_eq!(again.first(), request.first().filter(|_| denied), "{list:?}");
    }
    let streams = [StreamId(1), StreamId(2)];
    assert_eq!(events(&mut raw), [reset(StreamDirection::Incoming, streams, Outcome::Performed, 0)]);
}

/// The answer to our request can't be performed, at once or after waiting for data. The application learns of it.
#[test]
fn an_answer_that_is_refused() {
    for missing in [0, 1] {
        let mut raw = open();
        raw.say_data(&Data { ending: false, ..on_stream(raw.tsn, 1, 0, b"begin") });
        reset_streams(&mut raw, StreamDirection::Incoming, StreamId(1)).unwrap();
        let (request, response, last_tsn) = (RequestNumber(1000), first(&raw), raw.tsn + missing);
        raw.heard();
        let streams = StreamList::new(&[0, 1]);
        let reset_ = OutgoingSsnReset { request, response, last_tsn, streams };
        let mut sent = raw.ask(&[ReConfigParameter::OutgoingSsnReset(reset_)]);
        if missing > 0 {
            assert_eq!(sent, responds(1000, "in progress"));
            let goes_on = Data { beginning: false, ending: false, ..on_stream(raw.tsn + 1, 1, 0, b"more") };
            sent = re_configs(&raw.say_data(&goes_on));
        }
        assert_eq!(sent, responds(1000, "wrong SSN"));
        let event = reset(StreamDirection::Incoming, StreamId(1), Outcome::Failed, 0);
        assert_eq!(events(&mut raw), [event]);
    }
}

/// A peer that shuts down may answer no request any more. What was held back is sent after a few time-outs.
#[test]
fn no_response_from_a_peer_that_shuts_down() {
    for holds in [false, true] {
        let mut raw = open();
        reset_streams(&mut raw, StreamDirection::Outgoing, Streams::All).unwrap();
        if holds {
            raw.pair.send(SERVER, raw.server, 2, b"held");
        }
        raw.heard();
        let shutdown = strandline_wire::Shutdown { cumulative_tsn: raw.server_tsn.previous() };
        raw.say(|packet| assert!(packet.push(&shutdown)));
        assert_eq!(raw.state(), "SHUTDOWN-RECEIVED");
        let sent = raw.wait(Duration::from_secs(10));
        let event = reset(StreamDirection::Outgoing, Streams::All, Outcome::Failed, 0);
        if holds {
            // The peer may have performed it, so the numbers of what is held back are unknown.
            assert_eq!((re_configs(&sent).len(), data(&sent).len()), (3, 0));
            assert!(!events(&mut raw).contains(&event));
            raw.re_config(&[response(first(&raw), ResultCode::PERFORMED)]);
            raw.say_sack(1, 65_536, &[]);
        } else {
            assert_eq!(re_configs(&sent).len(), 2);
            assert!(events(&mut raw).contains(&event));
        }
        assert_eq!(raw.state(), "SHUTDOWN-ACK-SENT");
    }
}

/// Fills the queue of events as far as a peer could.
fn fill_events(raw: &mut Raw) {
    let (id, events) = (raw.server, &mut raw.pair.hosts[SERVER].endpoint.context.events);
    events.extend((0..1 << 16).map(|_| (id, Event::PeerError { code: 1, data: bytes::Bytes::new() })));
}

/// The outcome of a request is reported even if the application has fetched no event for long. Then the
/// peer's requests are denied, because their resets could not be reported.
#[test]
fn no_reset_is_lost_among_events() {
    let mut raw = open();
    raw.say_data(&on_stream(raw.tsn, 1, 0, b"one"));
    raw.pair.send(SERVER, raw.server, 2, b"one");
    raw.heard();
    raw.say_sack(1, 65_536, &[]);
    reset_streams(&mut raw, StreamDirection::Outgoing, Streams::All).unwrap();
    raw.heard();
    events(&mut raw);
    fill_events(&mut raw);
    let number = first(&raw);
    raw.re_config(&[response(number, ResultCode::PERFORMED)]);
    let expected = reset(StreamDirection::Outgoing, Streams::All, Outcome::Performed, 0);
    assert_eq!(events(&mut raw).last(), Some(&expected));
    let all = [
        outgoing(1000, raw.tsn, &[]),
        incoming(1001, &[0, 2]),
        renumber(1002),
        add_outgoing(1003, 1),
        add_incoming(1004, 1),
    ];
    for (number, request) in (1000..).zip(all) {
        fill_events(&mut raw);
        assert_eq!(raw.ask(&[request]), responds(number, "denied"));
        assert_eq!(events(&mut raw).len(), 1 << 16);
    }
}

/// A shutdown waits until data that was held back is delivered.
#[test]
fn a_shutdown_during_a_reset() {
    let mut raw = open();
    reset_streams(&mut raw, StreamDirection::Outgoing, Streams::All).unwrap();
    raw.pair.send(SERVER, raw.server, 2, b"held");
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    raw.heard();
    assert_eq!(raw.state(), "SHUTDOWN-PENDING");
    let sent = raw.re_config(&[response(first(&raw), ResultCode::PERFORMED)]);
    assert_eq!(data(&sent), [(raw.server_tsn, 2, 0)]);
    raw.say_sack(1, 65_536, &[]);
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
}

/// When the association ends, the request has failed and what was held back is reported like all other messages.
#[test]
fn the_end_during_a_reset() {
    let mut raw = open();
    reset_streams(&mut raw, StreamDirection::Outgoing, Streams::All).unwrap();
    raw.pair.send(SERVER, raw.server, 2, b"held");
    raw.heard();
    raw.pair.hosts[SERVER].endpoint.abort(raw.pair.now, raw.server, "end".into()).unwrap();
    raw.heard();
    let found = events(&mut raw);
    assert_eq!(found[0], reset(StreamDirection::Outgoing, Streams::All, Outcome::Failed, 0));
    assert!(matches!(&found[1], Event::SendFailed(failed) if failed.data == "held" && !failed.sent));
    assert_eq!(found[2], Event::Closed(CloseReason::Aborted));
}
