//! Credit for each stream (docs/stream-credit.md).

mod authentication;
mod questions;

use strandline_wire::chunk::stream_credit::Credit as Told;
use strandline_wire::chunk::{stream_blocked, stream_credit};
use strandline_wire::number::{Fsn, Mid, Tsn};
use strandline_wire::parameter::{Parameter, Parameters};
use strandline_wire::{Chunk, IData, Init, TlvWriter};

use super::raw::*;
use super::*;
use crate::config::{StreamCredit, StreamScheduler};
use crate::endpoint::{DynamicStreams, Reconfigure, StreamCredits};
use crate::error::SendError;
use crate::reconfiguration::{PeerRequests, StreamDirection, Streams};
use crate::reliability::Reliability;

/// The initial credit of a stream in bytes.
const INITIAL: u32 = 8 << 10;
/// Far more than the round trips and RTOs of these tests.
const LONG: Duration = Duration::from_secs(30);

fn with_credit(config: &mut AssociationConfig) {
    config.heartbeat_interval = None;
    config.extensions.interleaving = true;
    config.extensions.stream_credit =
        Some(StreamCredit { initial: INITIAL, max: INITIAL, ..StreamCredit::default() });
}

fn established() -> (Pair, AssociationId, AssociationId) {
    establish(configured(|_| {}))
}

/// The server's application reports what it reads.
fn establish(pair: Pair) -> (Pair, AssociationId, AssociationId) {
    let (mut pair, a, b) = pair.establish();
    StreamCredits::of(&mut pair.hosts[SERVER].endpoint, b).report_reads();
    (pair, a, b)
}

/// Two endpoints that offer credit.
fn configured(change: impl Fn(&mut AssociationConfig)) -> Pair {
    let host = |index: usize| {
        let mut association = AssociationConfig::default();
        with_credit(&mut association);
        change(&mut association);
        EndpointConfig { association: Arc::new(association), ..config(1, index) }
    };
    Pair::with(host(CLIENT), host(SERVER))
}

/// Receives everything, as a driver does, and returns the bytes of each stream.
fn take(pair: &mut Pair, host: usize, id: AssociationId) -> std::collections::BTreeMap<u16, usize> {
    let mut bytes = std::collections::BTreeMap::new();
    while let Some(message) = pair.recv(host, id) {
        *bytes.entry(message.stream.0).or_default() += message.data.len();
    }
    bytes
}

/// The server's application reads from a stream.
fn read(pair: &mut Pair, id: AssociationId, stream: u16, len: usize) {
    StreamCredits::of(&mut pair.hosts[SERVER].endpoint, id).read(pair.now, StreamId(stream), len);
    pair.run();
}

fn room(pair: &mut Pair, id: AssociationId, stream: u16) -> u32 {
    StreamCredits::of(&mut pair.hosts[CLIENT].endpoint, id).room(StreamId(stream)).unwrap().unwrap()
}

fn is_awaited(pair: &mut Pair, id: AssociationId, stream: u16) -> bool {
    StreamCredits::of(&mut pair.hosts[CLIENT].endpoint, id).is_awaited(StreamId(stream)).unwrap()
}

fn try_send(pair: &mut Pair, id: AssociationId, stream: u16, len: usize) -> Result<(), SendError> {
    let info = SendInfo::on(StreamId(stream));
    pair.hosts[CLIENT].endpoint.send(pair.now, id, info, vec![stream as u8; len].into())
}

/// Section 3.1: credit is used if both sides offer it and I-DATA.
#[test]
fn credit_needs_both_sides_and_i_data() {
    for [client, server] in [[true, true], [true, false], [false, true]] {
        let host = |index: usize, credit: bool| {
            let mut association = AssociationConfig::default();
            with_credit(&mut association);
            if !credit {
                association.extensions.stream_credit = None;
            }
            EndpointConfig { association: Arc::new(association), ..config(1, index) }
        };
        let (mut pair, a, b) = Pair::with(host(CLIENT, client), host(SERVER, server)).establish();
        let agreed = |pair: &Pair, host: usize, id| {
            pair.hosts[host].endpoint.status(id).unwrap().extensions.stream_credit
        };
        let both = client && server;
        assert_eq!((agreed(&pair, CLIENT, a), agreed(&pair, SERVER, b)), (both, both));
        let room = StreamCredits::of(&mut pair.hosts[CLIENT].endpoint, a).room(StreamId(0)).unwrap();
        assert_eq!(room, both.then_some(INITIAL));
        // Without it only the association's window limits a stream.
        pair.send(CLIENT, a, 0, &vec![1; 3 * INITIAL as usize]);
        pair.run();
        let arrived = take(&mut pair, SERVER, b);
        let arrived = arrived.get(&0).copied().unwrap_or_default();
        let expected = if both { 6000..=8192 } else { 24_576..=24_576 };
        assert!(expected.contains(&arrived), "{arrived}");
    }
    let mut config = AssociationConfig::default();
    with_credit(&mut config);
    config.extensions.interleaving = false;
    let refused = config.validate().unwrap_err();
    assert_eq!((refused.name, refused.wants), ("extensions.stream_credit", "extensions.interleaving"));
    with_credit(&mut config);
    for (initial, max, name) in [(1023, 4096, "initial"), (1 << 26, 1 << 26, "initial"), (4096, 4095, "max")]
    {
        config.extensions.stream_credit = Some(StreamCredit { initial, max, ..StreamCredit::default() });
        assert_eq!(config.validate().unwrap_err().name, format!("extensions.stream_credit.{name}"));
    }
}

/// Section 3.1: a peer that grants nothing does not offer it.
#[test]
fn initial_credit_of_zero_is_no_offer() {
    for (kib, agreed) in [(0, false), (1, true)] {
        let mut buffer = [0; 64];
        let mut writer = TlvWriter::new(&mut buffer);
        assert!(writer.push(&Parameter::SupportedExtensions(&[64, 194, 192])));
        assert!(writer.push(&Parameter::StreamCredit { initial_kib: kib }));
        let len = writer.len();
        let init = Init { parameters: Parameters::new(&buffer[..len]), ..init(Tsn(1000)) };
        let raw = Raw::open(configured(|_| {}), init);
        assert_eq!(raw.server().status(raw.server).unwrap().extensions.stream_credit, agreed);
    }
}

/// Section 4: a stream whose reader stops takes its credit and no more, and the others go on.
#[test]
fn stalled_stream_stalls_alone() {
    for scheduler in [
        StreamScheduler::FirstComeFirstServed,
        StreamScheduler::RoundRobin,
        StreamScheduler::RoundRobinPerPacket,
        StreamScheduler::Priority,
        StreamScheduler::FairCapacity,
    ] {
        let (mut pair, a, b) = establish(configured(|config| config.stream_scheduler = scheduler));
        for _ in 0..10 {
            for stream in [1, 2] {
                try_send(&mut pair, a, stream, 3000).unwrap();
            }
            pair.run();
        }
        let first = take(&mut pair, SERVER, b);
        assert!(first.values().all(|len| (6000..=8192).contains(len)), "{scheduler:?}: {first:?}");
        let mut rest = 30_000 - first[&1];
        assert!(is_awaited(&mut pair, a, 1) && is_awaited(&mut pair, a, 2));
        // Stream 2 is read from, stream 1 is not.
        for _ in 0..20 {
            read(&mut pair, b, 2, 3000);
            let arrived = take(&mut pair, SERVER, b);
            assert!(!arrived.contains_key(&1), "{scheduler:?}");
        }
        assert!(is_awaited(&mut pair, a, 1) && !is_awaited(&mut pair, a, 2));
        let status = pair.hosts[SERVER].endpoint.status(b).unwrap();
        assert!(status.receive_buffered <= INITIAL, "{}", status.receive_buffered);
        // And then it is.
        for _ in 0..20 {
            read(&mut pair, b, 1, 6000);
            rest -= take(&mut pair, SERVER, b).get(&1).copied().unwrap_or_default();
        }
        assert_eq!(rest, 0, "{scheduler:?}");
        assert!(!is_awaited(&mut pair, a, 1));
        pair.hosts[CLIENT].endpoint.shutdown(pair.now, a).unwrap();
        pair.pass(LONG);
        assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
    }
}

/// Section 4: a message larger than the credit is sent in parts, as it is read in parts.
#[test]
fn message_larger_than_the_credit() {
    let (mut pair, a, b) = establish(configured(|_| {}));
    try_send(&mut pair, a, 7, 100_000).unwrap();
    pair.run();
    let mut arrived = 0;
    for _ in 0..200 {
        let len = take(&mut pair, SERVER, b).get(&7).copied().unwrap_or_default();
        arrived += len;
        read(&mut pair, b, 7, len);
    }
    assert_eq!(arrived, 100_000);
}

/// Section 4.3: lost credit is asked for, at growing intervals while there is none.
#[test]
fn lost_credit_is_asked_for() {
    let (mut pair, a, b) = established();
    try_send(&mut pair, a, 1, 3 * INITIAL as usize).unwrap();
    pair.run();
    assert!(is_awaited(&mut pair, a, 1));
    let from = pair.log.len();
    pair.pass(LONG);
    let questions: Vec<_> = pair.log[from..].iter().filter(|sent| has(kind::STREAM_BLOCKED)(sent)).collect();
    assert!((3..=6).contains(&questions.len()), "{} in 30 s", questions.len());
    let answers = pair.log[from..].iter().filter(|sent| has(kind::STREAM_CREDIT)(sent)).count();
    assert_eq!(answers, questions.len());
    // The credit for what is read now is lost.
    let now = pair.now;
    StreamCredits::of(&mut pair.hosts[SERVER].endpoint, b).read(now, StreamId(1), 5000);
    pair.run_dropping(has(kind::STREAM_CREDIT));
    let before = room(&mut pair, a, 1);
    assert!(is_awaited(&mut pair, a, 1));
    pair.pass(LONG);
    let sent = before + 5000 - room(&mut pair, a, 1);
    assert!((4000..6000).contains(&sent), "{sent}");
    let status = pair.hosts[CLIENT].endpoint.status(a).unwrap();
    assert_eq!(status.unacknowledged_bytes, 0);
    assert_eq!(status.send_buffered, 0, "what waits for credit is counted apart");
}

/// Section 4.4: bytes that were abandoned were sent and not accepted. They cost no credit for good.
#[test]
fn abandoned_bytes_give_credit_back() {
    let (mut pair, a, b) = established();
    for _ in 0..50 {
        let info = SendInfo::on(StreamId(1)).reliability(Reliability::retransmissions(0));
        pair.hosts[CLIENT].endpoint.send(pair.now, a, info, vec![1; 1000].into()).unwrap();
        // The data is lost, and so is what is sent again; FORWARD TSN skips it.
        pair.run_dropping(has(kind::I_DATA));
        pair.pass_dropping(LONG, has(kind::I_DATA));
        // Something else brings credit: the stream is not read from.
        try_send(&mut pair, a, 2, 1000).unwrap();
        pair.run();
        let len = take(&mut pair, SERVER, b).get(&2).copied().unwrap_or_default();
        read(&mut pair, b, 2, len);
    }
    assert!(is_awaited(&mut pair, a, 1) || room(&mut pair, a, 1) >= 192, "{}", room(&mut pair, a, 1));
    try_send(&mut pair, a, 1, 5000).unwrap();
    pair.pass(LONG);
    assert_eq!(take(&mut pair, SERVER, b).get(&1), Some(&5000));
}

/// Section 4.5: a stream begins with its initial credit after a reset, whatever was read of it.
#[test]
fn reset_streams_have_their_initial_credit() {
    let open = |config: &mut AssociationConfig| config.extensions.peer_requests = PeerRequests::ALL;
    let (mut pair, a, b) = establish(configured(open));
    for round in 0..3 {
        try_send(&mut pair, a, 1, 8000).unwrap();
        pair.run();
        assert_eq!(take(&mut pair, SERVER, b), [(1, 8000)].into(), "round {round}");
        assert_eq!(room(&mut pair, a, 1), 192);
        let now = pair.now;
        let streams: Streams = StreamId(1).into();
        let reset = Reconfigure::ResetStreams(StreamDirection::Outgoing, streams);
        reset.ask(&mut pair.hosts[CLIENT].endpoint, now, a).unwrap();
        pair.pass(LONG);
        assert_eq!(room(&mut pair, a, 1), INITIAL);
        // What the reader had not read then does not count for the new account.
        read(&mut pair, b, 1, 8000);
        assert_eq!(room(&mut pair, a, 1), INITIAL);
    }
}

/// Section 4.2: the send buffer has room for other streams while one waits for credit, and that one has a limit.
#[test]
fn waiting_stream_does_not_fill_the_send_buffer() {
    let (mut pair, a, b) = establish(configured(|config| config.send_buffer = Some(65_536)));
    let mut refused = 0;
    for _ in 0..100 {
        match try_send(&mut pair, a, 1, 4000) {
            Ok(()) => {}
            Err(SendError::StreamBlocked { stream: 1 }) => refused += 1,
            other => panic!("{other:?}"),
        }
        pair.run();
    }
    assert!(refused > 90, "{refused}");
    for _ in 0..100 {
        try_send(&mut pair, a, 2, 4000).unwrap();
        pair.run();
        let len = take(&mut pair, SERVER, b).get(&2).copied().unwrap_or_default();
        read(&mut pair, b, 2, len);
    }
    assert!(
        !pair.hosts[CLIENT].events.iter().any(|(_, event)| matches!(event, Event::StreamWritable { .. }))
    );
    read(&mut pair, b, 1, 8000);
    let writable = (a, Event::StreamWritable { stream: StreamId(1) });
    assert!(pair.hosts[CLIENT].events.contains(&writable));
    try_send(&mut pair, a, 1, 4000).unwrap();
}

/// What a dynamic stream queues beyond its credit is what is left here when its reader stops.
#[test]
fn a_stream_queues_little_beyond_its_credit() {
    const BEYOND: usize = 128 << 10;
    let (mut pair, a, _) = establish(configured(|config| config.send_buffer = Some(1 << 20)));
    let begun = DynamicStreams::of(&mut pair.hosts[CLIENT].endpoint, a).begin(StreamId(1));
    assert!(begun.is_ok());
    for stream in [1, 2] {
        let accepted = (0..100).take_while(|_| try_send(&mut pair, a, stream, 4096).is_ok()).count();
        assert_eq!(accepted * 4096, BEYOND + INITIAL as usize);
        assert_eq!(try_send(&mut pair, a, stream, 4096), Err(SendError::StreamBlocked { stream }));
    }
    assert!((0..2).all(|_| try_send(&mut pair, a, 3, BEYOND + 65_536).is_ok()), "two messages of any length");
    // Its sender may try again once messages have left, and waits for credit then.
    pair.run();
    assert!(pair.hosts[CLIENT].events.contains(&(a, Event::StreamWritable { stream: StreamId(1) })));
    assert!(is_awaited(&mut pair, a, 1));
    assert_eq!(try_send(&mut pair, a, 1, 4096), Err(SendError::StreamBlocked { stream: 1 }));
}

/// Small messages count as if they had 256 bytes, before their stream waits and while it does.
#[test]
fn small_messages_beyond_credit_are_few() {
    const MOST: usize = ((128 << 10) + INITIAL as usize) / 256;
    let (mut pair, a, _) = establish(configured(|config| config.send_buffer = Some(1 << 20)));
    assert!(DynamicStreams::of(&mut pair.hosts[CLIENT].endpoint, a).begin(StreamId(1)).is_ok());
    let fill = |pair: &mut Pair| (0..100_000).take_while(|_| try_send(pair, a, 1, 1).is_ok()).count();
    assert!((MOST - 1..=MOST).contains(&fill(&mut pair)));
    // One that needs more than the credit lets the stream wait.
    pair.run();
    for _ in 0..2 {
        try_send(&mut pair, a, 1, INITIAL as usize).unwrap();
        pair.run();
    }
    assert!(is_awaited(&mut pair, a, 1) && (400..=512).contains(&fill(&mut pair)));
}

/// Credit that arrives late, twice or in another order has no other effect.
#[test]
fn credit_out_of_order() {
    let (mut pair, a, b) = established();
    try_send(&mut pair, a, 1, 2 * INITIAL as usize).unwrap();
    pair.run();
    let mut held = Vec::new();
    for _ in 0..3 {
        let now = pair.now;
        StreamCredits::of(&mut pair.hosts[SERVER].endpoint, b).read(now, StreamId(1), 2100);
        pair.run_dropping(|sent| {
            let holds = has(kind::STREAM_CREDIT)(sent);
            if holds {
                held.push(sent.clone());
            }
            holds
        });
    }
    assert_eq!(held.len(), 3);
    pair.deliver(&held[2]);
    let latest = room(&mut pair, a, 1);
    for sent in [&held[0], &held[1], &held[2]] {
        pair.deliver(sent);
        assert_eq!(room(&mut pair, a, 1), latest);
    }
}

/// An endpoint with a hand-made peer.
fn raw(initial_kib: u16) -> Raw {
    let mut buffer = [0; 64];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(&Parameter::SupportedExtensions(&[64, 194, 192])));
    assert!(writer.push(&Parameter::StreamCredit { initial_kib }));
    let len = writer.len();
    Raw::open(configured(|_| {}), Init { parameters: Parameters::new(&buffer[..len]), ..init(Tsn(1000)) })
}

fn fragment(raw: &Raw, number: u32, payload: &'static [u8]) -> IData<'static> {
    let fsn = Fsn(number);
    let (beginning, tsn) = (number == 0, raw.tsn + number);
    IData { ending: false, beginning, fsn, ..IData::whole(tsn, StreamId(1), Mid(0), payload) }
}

fn aborted(sent: &[Sent]) -> bool {
    sent.iter().any(has(kind::ABORT))
}

/// Section 5: a peer that exceeds its credit ends the association.
#[test]
fn data_beyond_the_credit_is_a_violation() {
    static PAYLOAD: [u8; 1024] = [7; 1024];
    let mut raw = raw(64);
    for number in 0..8 {
        assert!(!aborted(&raw.say_all(&[&fragment(&raw, number, &PAYLOAD)])), "{number}");
    }
    // One that was sent before is no more data.
    assert!(!aborted(&raw.say_all(&[&fragment(&raw, 7, &PAYLOAD)])));
    assert!(aborted(&raw.say_all(&[&fragment(&raw, 8, b"x")])));
    let beyond = "data beyond the credit of its stream";
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::ProtocolViolation(beyond)));
}

/// Section 5: credit for streams that don't exist, from the future or backwards does nothing.
#[test]
fn credit_that_makes_no_sense_is_ignored() {
    let mut raw = raw(1);
    raw.pair.send(SERVER, raw.server, 1, &[5; 4096]);
    let sent = raw.heard();
    assert_eq!(sent.iter().filter(|sent| has(kind::I_DATA)(sent)).count(), 1);
    let server_tsn = raw.server_tsn;
    let say = |raw: &mut Raw, cumulative: Tsn, credits: &[(u16, u32, u32)]| {
        let credits: Vec<_> = credits
            .iter()
            .map(|&(stream, accepted, limit)| Told { stream: StreamId(stream), accepted, limit })
            .collect();
        let sent = raw.say(|packet| {
            assert_eq!(stream_credit::write(packet, cumulative, credits.iter().copied()), credits.len());
        });
        sent.iter().filter(|sent| has(kind::I_DATA)(sent)).count()
    };
    let before = server_tsn.previous();
    // Of streams that were never used, with less than what was granted, and beyond what was sent.
    assert_eq!(say(&mut raw, before, &[(2, 0, 9000), (65_535, 0, 9000), (1, 0, 0), (1, 0, 1 << 31)]), 0);
    assert_eq!(say(&mut raw, server_tsn + 1, &[(1, 1024, 9000)]), 0);
    assert_eq!(say(&mut raw, before, &[(1, 0, 9000)]), 0, "credit of before the stream's first chunk");
    raw.say_sack(1, 1 << 20, &[]);
    assert_eq!(say(&mut raw, server_tsn, &[(1, 1024, 2048)]), 1);
    assert_eq!(say(&mut raw, server_tsn, &[(1, 1024, 1500)]), 0, "less than before");
    // A question about streams that were never used, and some that don't exist.
    let sent = raw.say(|packet| {
        let streams = [9_u16, 100, 65_535].map(StreamId);
        assert_eq!(stream_blocked::write(packet, streams.into_iter()), 3);
    });
    let told = sent.iter().flat_map(chunks).find_map(|chunk| match chunk {
        Chunk::StreamCredit(chunk) => Some(chunk.credits().collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(told, Some(vec![Told { stream: StreamId(9), accepted: 0, limit: INITIAL }]));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// What a stream's credit lets it send fits the peer's window, though a full packet would not: it is sent at once.
#[test]
fn credit_below_the_peers_window() {
    let mut raw = raw(1);
    raw.say_sack(0, 1 << 16, &[]);
    raw.say_sack(0, 1100, &[]);
    raw.pair.send(SERVER, raw.server, 1, &[5; 4096]);
    assert_eq!(raw.heard().iter().filter(|sent| has(kind::I_DATA)(sent)).count(), 1);
}

/// Without the extension the chunks are skipped, as their types say.
#[test]
fn chunks_without_negotiation_do_nothing() {
    let mut raw = Raw::new();
    let sent = raw.say(|packet| {
        let credit = Told { stream: StreamId(0), accepted: 0, limit: 9 };
        assert_eq!(stream_credit::write(packet, Tsn(1), [credit].into_iter()), 1);
        assert_eq!(stream_blocked::write(packet, [StreamId(0)].into_iter()), 1);
        assert!(packet.push(&whole(Tsn(1000), 0, b"and what follows counts")));
    });
    assert!(!sent.iter().any(has(kind::ERROR)), "{sent:?}");
    assert_eq!(raw.read().len(), 1);
}

/// A restart begins new accounts, and streams that waited for credit may be given messages again.
#[test]
fn restart_begins_new_accounts() {
    let (mut pair, a, _) = establish(configured(|config| config.send_buffer = Some(32_768)));
    while try_send(&mut pair, a, 1, 4000).is_ok() {
        pair.run();
    }
    // The server loses its state and connects anew.
    let [_, server] = configured(|_| {}).hosts;
    pair.hosts[SERVER] = server;
    pair.hosts[CLIENT].events.clear();
    let remotes = vec![pair.hosts[CLIENT].addresses[0]];
    let request = Connect { local_port: PORT, peer_port: 5000, remotes, local: Vec::new(), config: None };
    let again = pair.hosts[SERVER].endpoint.connect(pair.now, request).unwrap();
    pair.pass(LONG);
    let events: Vec<_> = pair.hosts[CLIENT].events.iter().map(|(_, event)| event.clone()).collect();
    assert!(events.iter().any(|event| matches!(event, Event::Restarted { .. })));
    assert!(events.contains(&Event::StreamWritable { stream: StreamId(1) }));
    assert_eq!(room(&mut pair, a, 1), INITIAL);
    try_send(&mut pair, a, 1, 4000).unwrap();
    pair.run();
    assert_eq!(take(&mut pair, SERVER, again), [(1, 4000)].into());
    let chunk = pair.log.last().map(|sent| chunks(sent).iter().any(|chunk| matches!(chunk, Chunk::Abort(_))));
    assert_eq!(chunk, Some(false));
}

/// A part of an unordered message cannot be delivered before the rest of an earlier one of its stream. It is
/// as soon as that has arrived: the peer may wait for credit.
#[test]
fn unordered_messages_follow_one_another() {
    static PAYLOAD: [u8; 1024] = [7; 1024];
    let mut raw = raw(64);
    let say = |raw: &mut Raw, number: u32, mid: u32, fsn: u32, ending: bool| {
        let whole = IData::whole(raw.tsn + number, StreamId(1), Mid(mid), &PAYLOAD);
        let chunk = IData { unordered: true, beginning: fsn == 0, ending, fsn: Fsn(fsn), ..whole };
        assert!(!aborted(&raw.say_all(&[&chunk])));
    };
    for fsn in 0..5 {
        say(&mut raw, fsn, 0, fsn, false);
    }
    // The last fragment of this message is missing when the next one comes.
    say(&mut raw, 6, 1, 0, false);
    say(&mut raw, 7, 1, 1, false);
    say(&mut raw, 5, 0, 5, true);
    let read: Vec<_> = raw.read().iter().map(Vec::len).collect();
    assert_eq!(read.iter().sum::<usize>(), 8 << 10, "{read:?}");
}

/// What waits for credit does not count against the send buffer: giving it up makes no room there.
#[test]
fn waiting_messages_are_not_abandoned_for_room() {
    let (mut pair, a, _) = establish(configured(|config| config.send_buffer = Some(65_536)));
    for _ in 0..4 {
        let info = SendInfo::on(StreamId(1)).reliability(Reliability::priority(9));
        pair.hosts[CLIENT].endpoint.send(pair.now, a, info, vec![1; 4000].into()).unwrap();
        pair.run();
    }
    assert!(is_awaited(&mut pair, a, 1));
    // Nothing is transmitted meanwhile.
    while try_send(&mut pair, a, 2, 4000).is_ok() {}
    let info = SendInfo::on(StreamId(3)).reliability(Reliability::priority(1));
    let refused = pair.hosts[CLIENT].endpoint.send(pair.now, a, info, vec![3; 4000].into());
    assert_eq!(refused, Err(SendError::WouldBlock));
    assert!(!pair.hosts[CLIENT].events.iter().any(|(_, event)| matches!(event, Event::SendFailed(_))));
}

/// What waits for credit when an association ends is given back to the limit of all associations.
#[test]
fn waiting_bytes_are_given_back_at_the_end() {
    let (mut pair, a, _) = established();
    try_send(&mut pair, a, 1, 5 * INITIAL as usize).unwrap();
    pair.run();
    assert!(is_awaited(&mut pair, a, 1));
    // `Pair` checks after each step that the sum is that of the associations.
    pair.hosts[CLIENT].endpoint.abort(pair.now, a, bytes::Bytes::new()).unwrap();
    pair.run();
    assert_eq!(pair.hosts[CLIENT].endpoint.context.memory.sent_in_all(), 0);
}

/// Credit from before a stream's first chunk is ignored, because an earlier TSN is missing. It is told again.
#[test]
fn credit_behind_a_gap_is_told_again() {
    let (mut pair, a, b) = established();
    try_send(&mut pair, a, 2, 1000).unwrap();
    let mut first = true;
    pair.run_dropping(|sent| has(kind::I_DATA)(sent) && core::mem::take(&mut first));
    try_send(&mut pair, a, 1, INITIAL as usize - 100).unwrap();
    pair.run();
    let len = take(&mut pair, SERVER, b).get(&1).copied().unwrap_or_default();
    read(&mut pair, b, 1, len);
    let before = pair.log.len();
    pair.pass(LONG);
    assert_eq!(room(&mut pair, a, 1), INITIAL, "{len}");
    assert!(!pair.log[before..].iter().any(|sent| has(kind::STREAM_BLOCKED)(sent)));
}

/// Credit that the peer may ignore, because a TSN before it is missing, is told once, and again when that has arrived.
#[test]
fn ignored_credit_is_told_once_more() {
    const STREAMS: u16 = 400;
    let mut buffer = [0; 64];
    let mut writer = TlvWriter::new(&mut buffer);
    assert!(writer.push(&Parameter::SupportedExtensions(&[64, 194, 192])));
    assert!(writer.push(&Parameter::StreamCredit { initial_kib: 64 }));
    let len = writer.len();
    let init =
        Init { parameters: Parameters::new(&buffer[..len]), outbound_streams: STREAMS, ..init(Tsn(1000)) };
    let mut raw = Raw::open(configured(|_| {}), init);
    // The first TSN is missing.
    for stream in 1..STREAMS {
        raw.say_all(&[&IData::whole(raw.tsn + u32::from(stream), StreamId(stream), Mid(0), b"x")]);
    }
    let told = |sent: &[Sent]| -> Vec<u16> {
        let credits = |chunk: Chunk<'_>| match chunk {
            Chunk::StreamCredit(chunk) => chunk.credits().map(|credit| credit.stream.0).collect(),
            _ => Vec::new(),
        };
        sent.iter().flat_map(|sent| chunks(sent).into_iter().flat_map(credits).collect::<Vec<_>>()).collect()
    };
    let mut asked = Vec::new();
    for first in [1, 101, 201, 301] {
        asked.extend(raw.say(|packet| {
            let streams = (first..STREAMS.min(first + 100)).map(StreamId);
            assert!(stream_blocked::write(packet, streams) >= 99);
        }));
    }
    assert!(asked.len() <= 8, "{} packets for 4", asked.len());
    assert_eq!(told(&asked), (1..STREAMS).collect::<Vec<_>>());
    // Nothing is due any more, and what arrives beyond the gap changes nothing.
    let beyond = raw.say_all(&[&IData::whole(raw.tsn + u32::from(STREAMS), StreamId(1), Mid(1), b"x")]);
    assert_eq!(told(&beyond), []);
    let filled = raw.say_all(&[&IData::whole(raw.tsn, StreamId(0), Mid(0), b"x")]);
    assert_eq!(told(&filled), (1..STREAMS).collect::<Vec<_>>());
}
