//! Streams that are opened and closed at run time.

use core::ops::Range;

use super::*;
use crate::endpoint::DynamicStreams;
use crate::reconfiguration::{DynamicStreamsEvent, OpenedBy};

/// The first dynamic stream.
const FIRST: StreamId = StreamId(2);

type Change = fn(&mut AssociationConfig);

/// Two endpoints with dynamic streams, with messages in DATA and in I-DATA.
const KINDS: [Change; 2] = [|_| {}, |config| config.extensions.interleaving = true];

fn dynamic(change: impl Fn(&mut AssociationConfig)) -> (Pair, AssociationId, AssociationId) {
    let (mut pair, client, server) = Pair::configured(|config| {
        config.heartbeat_interval = None;
        change(config);
    })
    .establish();
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        streams(&mut pair, host, id).begin(FIRST).unwrap();
    }
    (pair, client, server)
}

fn streams(pair: &mut Pair, host: usize, id: AssociationId) -> DynamicStreams<'_> {
    DynamicStreams::of(&mut pair.hosts[host].endpoint, id)
}

/// Returns the events about dynamic streams since the last call.
fn dynamic_events(pair: &mut Pair, host: usize) -> Vec<DynamicStreamsEvent> {
    pair.collect();
    let of = |(_, event)| match event {
        Event::DynamicStreams(event) => Some(event),
        _ => None,
    };
    pair.hosts[host].events.drain(..).filter_map(of).collect()
}

fn closed(events: &[DynamicStreamsEvent], wanted: Outcome) -> Vec<u16> {
    let of = |event: &DynamicStreamsEvent| match event {
        DynamicStreamsEvent::Closed { streams, outcome } if *outcome == wanted => streams.clone(),
        _ => Vec::new(),
    };
    events.iter().flat_map(of).map(|stream| stream.0).collect()
}

fn ended(events: &[DynamicStreamsEvent]) -> Vec<(u16, u16)> {
    let of = |event: &DynamicStreamsEvent| match event {
        DynamicStreamsEvent::Ended { streams, .. } => streams.clone(),
        _ => Vec::new(),
    };
    events.iter().flat_map(of).map(|(stream, ssn)| (stream.0, ssn.0)).collect()
}

/// Returns the number of packets with a request since `from`.
fn requests_since(pair: &Pair, from: usize) -> usize {
    let of = |line: &String| line.contains("SSN Reset Request");
    re_configs(&pair.log[from..]).iter().filter(|line| of(line)).count()
}

fn memory(pair: &Pair, host: usize, id: AssociationId) -> usize {
    pair.hosts[host].endpoint.memory(id).unwrap().total()
}

/// Streams that are closed at once: more than one request names.
const MANY: Range<u16> = 2..1502;

/// Sends a message on each of many streams, and closes them all.
fn close_many(pair: &mut Pair, client: AssociationId) {
    for stream in MANY {
        pair.send(CLIENT, client, stream, b"all of it");
        let now = pair.now;
        streams(pair, CLIENT, client).close(now, StreamId(stream));
    }
    pair.pass(Duration::from_secs(10));
}

/// Streams that are closed at about the same time share a request, and their numbers begin at 0 again.
#[test]
fn closed_streams_share_requests() {
    for change in KINDS {
        let (mut pair, client, server) = dynamic(change);
        let mut before = 0;
        for round in 0..4 {
            let from = pair.log.len();
            close_many(&mut pair, client);
            let received: Vec<_> = core::iter::from_fn(|| pair.recv(SERVER, server)).collect();
            assert_eq!(received.len(), 1500);
            assert!(received.iter().all(|message| message.ssn == Ssn(0)), "round {round}");
            let all: Vec<_> = MANY.collect();
            let mut found = closed(&dynamic_events(&mut pair, CLIENT), Outcome::Performed);
            found.sort_unstable();
            assert_eq!(found, all);
            let mut found = ended(&dynamic_events(&mut pair, SERVER));
            found.sort_unstable();
            assert_eq!(found, all.iter().map(|stream| (*stream, 1)).collect::<Vec<_>>());
            let requests = requests_since(&pair, from);
            assert!(requests <= 8, "{requests} requests for 1,500 streams");
            pair.pass(Duration::from_secs(60));
            let after = memory(&pair, CLIENT, client) + memory(&pair, SERVER, server);
            assert!(round < 1 || after <= before, "{after} bytes, {before} before, round {round}");
            before = after;
        }
        assert!(before < 6000, "{before} bytes of both sides");
    }
}

/// Requests for many streams fit what every path carries as long as no larger path MTU was found: nothing
/// that large has arrived.
#[test]
fn requests_fit_every_path_at_first() {
    let (mut pair, client, _) = dynamic(|config| config.path_mtu_max = config.path_mtu_initial);
    let from = pair.log.len();
    close_many(&mut pair, client);
    assert_eq!(closed(&dynamic_events(&mut pair, CLIENT), Outcome::Performed).len(), 1500);
    let requests = pair.log[from..].iter().filter(|sent| has(kind::RE_CONFIG)(sent));
    let longest = requests.map(|sent| sent.bytes.len()).max().unwrap();
    assert!((500..=576 - 20 - 8).contains(&longest), "{longest}");
}

/// Whatever packet is lost: a stream that is finished ends after all of its messages, and one that is reset after fewer
/// than the peer is told.
#[test]
fn ends_survive_the_loss_of_any_packet() {
    for (change, finishes) in KINDS.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        for lost in 0..12 {
            let (mut pair, client, server) = dynamic(change);
            for stream in [4, 5] {
                pair.send(CLIENT, client, stream, &[7; 3000]);
                let now = pair.now;
                let mut streams = streams(&mut pair, CLIENT, client);
                match finishes {
                    true => streams.close(now, StreamId(stream)),
                    false => streams.reset(now, StreamId(stream)),
                }
            }
            let mut count = 0;
            pair.pass_dropping(Duration::from_secs(30), |_| {
                count += 1;
                count == lost + 1
            });
            let received = core::iter::from_fn(|| pair.recv(SERVER, server)).count();
            let mut ends = ended(&dynamic_events(&mut pair, SERVER));
            ends.sort_unstable();
            match finishes {
                true => assert_eq!((received, &ends[..]), (2, &[(4, 1), (5, 1)][..]), "packet {lost}"),
                false => {
                    let promised: u16 = ends.iter().map(|(_, next)| next).sum();
                    assert!(ends.iter().all(|(_, next)| *next > 0), "packet {lost}: {ends:?}");
                    assert!(usize::from(promised) > received, "packet {lost}: {ends:?} {received}");
                    assert_eq!(ends.len(), 2);
                }
            }
            assert_eq!(closed(&dynamic_events(&mut pair, CLIENT), Outcome::Performed).len(), 2);
            // The numbers serve again.
            for stream in [4, 5] {
                pair.send(CLIENT, client, stream, b"again");
            }
            pair.pass(Duration::from_secs(5));
            let again: Vec<_> = core::iter::from_fn(|| pair.recv(SERVER, server)).collect();
            assert_eq!(again.iter().map(|message| message.ssn.0).collect::<Vec<_>>(), [0, 0]);
        }
    }
}

/// A stream that was delivered in full and is reset then has a message more to be missed.
#[test]
fn a_reset_after_delivery_is_no_clean_end() {
    for change in KINDS {
        let (mut pair, client, server) = dynamic(change);
        pair.send(CLIENT, client, 3, b"one");
        pair.run();
        let now = pair.now;
        streams(&mut pair, CLIENT, client).reset(now, StreamId(3));
        pair.pass(Duration::from_secs(5));
        assert_eq!(pair.recv(SERVER, server).unwrap().data, "one");
        assert_eq!(ended(&dynamic_events(&mut pair, SERVER)), [(3, 2)]);
    }
}

/// The message that never existed gets no TSN between the fragments of another one (RFC 9260 section 6.9).
#[test]
fn a_reset_waits_for_a_message_under_way() {
    for change in KINDS {
        let (mut pair, client, server) = dynamic(change);
        pair.send(CLIENT, client, 2, b"first");
        pair.run();
        pair.send(CLIENT, client, 3, &[3; 300_000]);
        pair.collect();
        let now = pair.now;
        streams(&mut pair, CLIENT, client).reset(now, StreamId(2));
        let (mut long, mut others) = (0, 0);
        for _ in 0..100 {
            pair.pass(Duration::from_millis(100));
            while let Some(message) = pair.recv(SERVER, server) {
                let bytes = if message.stream == StreamId(3) { &mut long } else { &mut others };
                *bytes += message.data.len();
            }
        }
        assert_eq!((long, others), (300_000, 5));
        assert_eq!(ended(&dynamic_events(&mut pair, SERVER)), [(2, 2)]);
    }
}

/// Without partial reliability a reset can't be told from an end, so that there is none.
#[test]
fn a_reset_needs_partial_reliability() {
    let (mut pair, client, server) = dynamic(|config| config.extensions.partial_reliability = false);
    pair.send(CLIENT, client, 3, b"one");
    pair.run();
    pair.send(CLIENT, client, 3, &[1; 100_000]);
    let now = pair.now;
    streams(&mut pair, CLIENT, client).reset(now, StreamId(3));
    pair.pass(Duration::from_secs(5));
    assert_eq!(ended(&dynamic_events(&mut pair, SERVER)), []);
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "one");
    assert_eq!(pair.recv(SERVER, server), None, "what was not sent is abandoned");
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.pass(Duration::from_secs(5));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
}

/// The peer is asked to stop, many streams at a time, and answers at once. It closes them by itself.
#[test]
fn the_peer_is_asked_to_stop() {
    let (mut pair, client, server) = dynamic(|_| {});
    for stream in 2..602 {
        pair.send(CLIENT, client, stream, b"begins");
    }
    pair.pass(Duration::from_secs(1));
    let from = pair.log.len();
    for stream in 2..602 {
        let now = pair.now;
        streams(&mut pair, SERVER, server).stop(now, StreamId(stream), OpenedBy::Peer);
    }
    pair.pass(Duration::from_secs(1));
    assert!(requests_since(&pair, from) <= 4);
    let events = dynamic_events(&mut pair, CLIENT);
    let stopped: Vec<_> = events
        .iter()
        .flat_map(|event| match event {
            DynamicStreamsEvent::Stopped { streams, .. } => streams.clone(),
            _ => Vec::new(),
        })
        .map(|stream| stream.0)
        .collect();
    assert_eq!(stopped.len(), 600);
    assert_eq!(ended(&dynamic_events(&mut pair, SERVER)), []);
}

/// The peer gets a message of a stream before it is asked to stop it, if this side has opened it.
#[test]
fn a_stop_follows_the_first_message() {
    for change in KINDS {
        let (mut pair, client, server) = dynamic(change);
        pair.send(CLIENT, client, 4, &[1; 5000]);
        let now = pair.now;
        streams(&mut pair, CLIENT, client).stop(now, StreamId(4), OpenedBy::Us);
        pair.pass(Duration::from_secs(1));
        let stopped = DynamicStreamsEvent::Stopped { streams: vec![StreamId(4)], unread: 1 };
        assert_eq!(dynamic_events(&mut pair, SERVER), [stopped]);
        assert_eq!(pair.recv(SERVER, server).unwrap().data.len(), 5000);
    }
}

/// The next use of a number that is still being reset can be abandoned, too: the peer sees that something is missing.
#[test]
fn a_reset_during_a_reset() {
    for change in KINDS {
        let (mut pair, client, server) = dynamic(change);
        pair.send(CLIENT, client, 4, b"first use");
        let now = pair.now;
        streams(&mut pair, CLIENT, client).close(now, StreamId(4));
        // The answer is lost.
        let mut answered = false;
        pair.run_dropping(|sent| {
            let answers = re_configs(std::slice::from_ref(sent)).iter().any(|line| line.contains("Response"));
            let is_first = answers && !answered;
            answered |= answers;
            is_first
        });
        assert!(answered);
        let now = pair.now;
        streams(&mut pair, CLIENT, client).reset(now, StreamId(4));
        pair.pass(Duration::from_secs(20));
        assert!(pair.recv(SERVER, server).is_some());
        assert_eq!(ended(&dynamic_events(&mut pair, SERVER)), [(4, 1), (4, 1)]);
    }
}

/// A shutdown of the peer waits for the end of a stream that was finished before it, whatever was lost by then.
#[test]
fn a_shutdown_of_the_peer_follows_the_ends() {
    for asks_first in [false, true] {
        let (mut pair, client, server) = dynamic(|_| {});
        for stream in [2, 4] {
            pair.send(CLIENT, client, stream, b"all of it");
        }
        pair.run();
        let now = pair.now;
        if asks_first {
            streams(&mut pair, CLIENT, client).stop(now, StreamId(2), OpenedBy::Us);
        }
        streams(&mut pair, CLIENT, client).close(now, StreamId(4));
        // The timer of the request expires three times.
        pair.pass_dropping(Duration::from_secs(8), has(kind::RE_CONFIG));
        pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
        pair.pass_dropping(Duration::from_secs(8), has(kind::RE_CONFIG));
        assert_eq!(pair.state(CLIENT, client), "SHUTDOWN-RECEIVED", "{asks_first}");
        pair.pass(Duration::from_secs(60));
        assert_eq!(ended(&dynamic_events(&mut pair, SERVER)), [(4, 1)], "{asks_first}");
        assert_eq!(pair.state(SERVER, server), "CLOSED");
    }
}

/// A request is in progress because data before it was lost. The data holds a shutdown of the peer up, not
/// the request, and the next request follows.
#[test]
fn a_request_waits_for_data_in_a_shutdown() {
    let (mut pair, client, server) = dynamic(|_| {});
    for stream in [4, 6] {
        pair.send(CLIENT, client, stream, b"all of it");
    }
    pair.run();
    let now = pair.now;
    // An earlier request is under way.
    streams(&mut pair, CLIENT, client).stop(now, StreamId(3), OpenedBy::Peer);
    streams(&mut pair, CLIENT, client).close(now, StreamId(4));
    pair.send(CLIENT, client, 0, b"lost again and again");
    pair.pass_dropping(Duration::from_millis(500), |sent| {
        has(kind::DATA)(sent) || has(kind::RE_CONFIG)(sent)
    });
    pair.pass_dropping(Duration::from_secs(2), has(kind::DATA));
    assert!(re_configs(&pair.log).iter().any(|line| line.contains("in progress")));
    let now = pair.now;
    streams(&mut pair, CLIENT, client).close(now, StreamId(6));
    pair.hosts[SERVER].endpoint.shutdown(now, server).unwrap();
    pair.pass_dropping(Duration::from_secs(30), has(kind::DATA));
    assert_eq!(pair.state(CLIENT, client), "SHUTDOWN-RECEIVED");
    pair.pass(Duration::from_secs(60));
    assert_eq!(ended(&dynamic_events(&mut pair, SERVER)), [(4, 1), (6, 1)]);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
}

/// A shutdown waits until streams that were finished before are reset.
#[test]
fn a_shutdown_follows_the_ends() {
    let (mut pair, client, server) = dynamic(|_| {});
    for stream in 2..1202 {
        pair.send(CLIENT, client, stream, b"all of it");
        let now = pair.now;
        streams(&mut pair, CLIENT, client).close(now, StreamId(stream));
    }
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.pass(Duration::from_secs(10));
    while pair.recv(SERVER, server).is_some() {}
    pair.pass(Duration::from_secs(10));
    assert_eq!(ended(&dynamic_events(&mut pair, SERVER)).len(), 1200);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
}

/// The side with the lower tag opens the even ones, whoever set the association up.
#[test]
fn both_sides_know_who_opens_what() {
    let (mut pair, client, server) = dynamic(|_| {});
    let of = |pair: &mut Pair, host, id| streams(pair, host, id).opens_even().unwrap();
    assert_ne!(of(&mut pair, CLIENT, client), of(&mut pair, SERVER, server));
}

/// More streams are asked for once the request in flight is answered.
#[test]
fn streams_are_added_behind_a_request() {
    let (mut pair, client, _) = dynamic(|config| {
        config.outbound_streams = 10;
        config.extensions.peer_requests.add_streams = true;
    });
    pair.send(CLIENT, client, 3, b"one");
    let now = pair.now;
    streams(&mut pair, CLIENT, client).close(now, StreamId(3));
    streams(&mut pair, CLIENT, client).add(now, 5, 6);
    pair.pass(Duration::from_secs(5));
    let status = pair.hosts[CLIENT].endpoint.status(client).unwrap();
    assert_eq!((status.outbound_streams, status.inbound_streams), (15, 16));
}

/// A server with dynamic streams, and a peer that is written by hand.
fn raw() -> Raw {
    let mut raw = open_with(PeerRequests::NONE);
    let id = raw.server;
    streams(&mut raw.pair, SERVER, id).begin(FIRST).unwrap();
    raw
}

fn raw_events(raw: &mut Raw) -> Vec<DynamicStreamsEvent> {
    dynamic_events(&mut raw.pair, SERVER)
}

/// The peer may reset dynamic streams, and no others, whatever the configuration says.
#[test]
fn the_peer_may_close_dynamic_streams_alone() {
    let mut raw = raw();
    assert_eq!(raw.ask(&[outgoing(1000, Tsn(999), &[0, 1])]), responds(1000, "denied"));
    assert_eq!(raw.ask(&[outgoing(1001, Tsn(999), &[0, 1, 0, 2])]), responds(1001, "denied"));
    assert_eq!(raw.ask(&[outgoing(1002, Tsn(999), &[])]), responds(1002, "denied"));
    assert_eq!(ended(&raw_events(&mut raw)), []);
    assert_eq!(raw.ask(&[outgoing(1003, Tsn(999), &[0, 2, 0, 3])]), responds(1003, "performed"));
    assert_eq!(ended(&raw_events(&mut raw)), [(2, 0), (3, 0)]);
    assert_eq!(raw.ask(&[incoming(1004, &[0, 1])]), responds(1004, "denied"));
    assert_eq!(raw.ask(&[incoming(1005, &[0, 2])]), responds(1005, "nothing to do"));
    let stopped = DynamicStreamsEvent::Stopped { streams: vec![StreamId(2)], unread: 0 };
    assert_eq!(raw_events(&mut raw), [stopped]);
}

/// Section 5.2.3: dynamic streams that do not exist are neither reset nor stopped.
#[test]
fn dynamic_streams_that_do_not_exist() {
    let mut raw = raw();
    for (number, list) in [(1000, &[0, 100][..]), (1002, &[0, 2, 0xff, 0xff])] {
        assert_eq!(raw.ask(&[outgoing(number, Tsn(999), list)]), responds(number, "wrong SSN"));
        assert_eq!(raw.ask(&[incoming(number + 1, list)]), responds(number + 1, "wrong SSN"));
    }
    assert_eq!(raw_events(&mut raw), []);
}

/// While the peer has not answered that it stops a stream, its own reset of that stream waits: otherwise it
/// might use the number again and take the request for one to stop the new stream.
#[test]
fn reset_waits_for_the_answer_to_stop() {
    let mut raw = raw();
    let (now, id) = (raw.pair.now, raw.server);
    streams(&mut raw.pair, SERVER, id).stop(now, StreamId(2), OpenedBy::Peer);
    raw.say(|_| {});
    let number = next_request(&mut raw);
    assert_eq!(raw.ask(&[outgoing(1000, Tsn(999), &[0, 2])]), responds(1000, "in progress"));
    assert_eq!(ended(&raw_events(&mut raw)), []);
    let answers = raw.ask(&[response(number, ResultCode::NOTHING_TO_DO)]);
    assert_eq!(answers, responds(1000, "performed"));
    assert_eq!(ended(&raw_events(&mut raw)), [(2, 0)]);
}

/// Returns the number of the request that the server has sent last.
fn next_request(raw: &mut Raw) -> RequestNumber {
    let sent = raw.pair.log.iter().rev().find_map(|sent| {
        chunks(sent).into_iter().find_map(|chunk| match chunk {
            strandline_wire::Chunk::ReConfig(re_config) => {
                let combination =
                    strandline_wire::parameter::re_config::Combination::of(re_config.parameters);
                combination.ok()?.iter().find_map(|parameter| parameter.request())
            }
            _ => None,
        })
    });
    sent.expect("a request was sent")
}

/// A peer that is always busy is asked a few times, and one that refuses once.
#[test]
fn refusals_are_reported() {
    for (result, outcome, most) in [
        (ResultCode::DENIED, Outcome::Denied, 1),
        (ResultCode::ALREADY_IN_PROGRESS, Outcome::Failed, 9),
        (ResultCode::WRONG_SSN, Outcome::Failed, 1),
    ] {
        let mut raw = raw();
        let (now, id) = (raw.pair.now, raw.server);
        let from = raw.pair.log.len();
        streams(&mut raw.pair, SERVER, id).close(now, StreamId(2));
        raw.pair.collect();
        let mut found = Vec::new();
        for _ in 0..20 {
            let number = next_request(&mut raw);
            raw.ask(&[response(number, result)]);
            found.extend(closed(&raw_events(&mut raw), outcome));
        }
        assert_eq!(found, [2]);
        assert_eq!(requests_since(&raw.pair, from), most);
    }
}

/// The application can't reset them, because their end is their reset.
#[test]
fn dynamic_streams_are_not_reset_by_hand() {
    let (mut pair, client, _) = dynamic(|_| {});
    let now = pair.now;
    let endpoint = &mut pair.hosts[CLIENT].endpoint;
    for streams in [Streams::All, Streams::from([StreamId(1), StreamId(2)])] {
        let refused = endpoint.reset_streams(now, client, StreamDirection::Outgoing, streams);
        assert_eq!(refused, Err(ReconfigureError::Dynamic { stream: 2 }));
    }
    endpoint.reset_streams(now, client, StreamDirection::Outgoing, StreamId(1).into()).unwrap();
}
