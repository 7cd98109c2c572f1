//! RFC 8260: user message interleaving.

use strandline_wire::chunk::i_forward_tsn::{self, SkippedMessage};
use strandline_wire::number::{Fsn, Mid, Tsn};
use strandline_wire::parameter::{Parameters, kind as parameter};
use strandline_wire::{Chunk, Data, IData, Init};

use super::conformance_rfc6525::{outgoing, renumber};
use super::raw::*;
use super::restart::crash;
use super::*;
use crate::config::StreamScheduler;
use crate::event::FailureCause;
use crate::reconfiguration::PeerRequests;
use crate::reliability::Reliability;

/// Supported Extensions: RE-CONFIG, FORWARD TSN, I-DATA and I-FORWARD-TSN.
const ALL: [u8; 8] = [0x80, 8, 0, 8, 130, 192, 64, 194];
/// Without I-FORWARD-TSN.
const WITHOUT_FORWARD: [u8; 8] = [0x80, 8, 0, 7, 130, 192, 64, 0];

fn pair(change: impl Fn(&mut AssociationConfig)) -> Pair {
    Pair::configured(|config| {
        config.heartbeat_interval = None;
        config.extensions.interleaving = true;
        change(config);
    })
}

/// A peer that supports the extensions.
fn open() -> Raw {
    open_as(&ALL, |_| {})
}

fn open_as(parameters: &[u8], change: impl Fn(&mut AssociationConfig)) -> Raw {
    Raw::open(pair(change), Init { parameters: Parameters::new(parameters), ..init(Tsn(1000)) })
}

/// Returns the chunk types in Supported Extensions of an INIT or INIT ACK.
fn supported(sent: &Sent) -> Vec<u8> {
    let Some(Chunk::Init(init) | Chunk::InitAck(init)) = chunks(sent).into_iter().next() else {
        panic!("no INIT")
    };
    let found = init.parameters.iter().flatten().find(|raw| raw.kind == parameter::SUPPORTED_EXTENSIONS);
    found.map(|raw| raw.value.to_vec()).unwrap_or_default()
}

/// Returns the I-DATA and I-FORWARD-TSN chunks in these packets, as text, with TSNs counted from the first.
fn shown(raw: &Raw, packets: &[Sent]) -> Vec<String> {
    let mut found = Vec::new();
    for sent in packets {
        for chunk in chunks(sent) {
            match chunk {
                Chunk::IData(IData { tsn, stream, mid, fsn, .. }) => {
                    found.push(format!("{} {stream}/{mid}/{fsn}", tsn.distance_from(raw.server_tsn)));
                }
                Chunk::IForwardTsn(forward) => {
                    let tsn = forward.new_cumulative_tsn().distance_from(raw.server_tsn);
                    let entry = |entry: SkippedMessage| {
                        let unordered = if entry.unordered { "U" } else { "" };
                        format!("{}:{unordered}{}", entry.stream, entry.mid)
                    };
                    let skipped: Vec<_> = forward.skipped().map(entry).collect();
                    found.push(format!("forward {tsn} [{}]", skipped.join(" ")));
                }
                Chunk::Data(_) | Chunk::ForwardTsn(_) => panic!("{chunk:?}"),
                _ => {}
            }
        }
    }
    found
}

fn send(raw: &mut Raw, info: SendInfo, len: usize) {
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.send_slice(now, raw.server, info, &vec![7; len]).unwrap();
}

fn aborted(sent: &[Sent]) -> bool {
    sent.iter().any(has(kind::ABORT))
}

/// Section 2.2.1: I-DATA is offered only if the application asked for it, and used only if both sides offer it.
#[test]
fn i_data_needs_both_sides() {
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let host = |index: usize, interleaving: bool| {
            let mut association = AssociationConfig::default();
            association.extensions.interleaving = interleaving;
            EndpointConfig { association: Arc::new(association), ..config(1, index) }
        };
        let (mut pair, a, b) = Pair::with(host(CLIENT, client), host(SERVER, server)).establish();
        let offers = |sent: &Sent| supported(sent).contains(&kind::I_DATA);
        assert_eq!(pair.log.iter().take(2).map(offers).collect::<Vec<_>>(), [client, client && server]);
        pair.send(CLIENT, a, 3, b"to the server");
        pair.send(SERVER, b, 4, b"to the client");
        pair.run();
        let kinds = pair.kinds().concat();
        let both = client && server;
        assert_eq!((kinds.contains(&kind::I_DATA), kinds.contains(&kind::DATA)), (both, !both));
        assert_eq!(pair.hosts[CLIENT].endpoint.status(a).unwrap().extensions.interleaving, both);
        assert_eq!(pair.hosts[SERVER].endpoint.status(b).unwrap().extensions.interleaving, both);
        assert_eq!(pair.recv(SERVER, b).unwrap().data, &b"to the server"[..]);
        assert_eq!(pair.recv(CLIENT, a).unwrap().data, &b"to the client"[..]);
    }
}

/// Section 2.2.1: nothing is offered by default.
#[test]
fn i_data_is_not_offered_by_default() {
    let (pair, ..) = Pair::established();
    assert_eq!(supported(&pair.log[0]), [kind::RE_CONFIG, kind::FORWARD_TSN]);
}

/// Sections 2.2.1 and 2.2.3: DATA is a violation where I-DATA was negotiated, and the other way round.
#[test]
fn the_other_data_chunk_ends_the_association() {
    let mut raw = open();
    let sent = raw.say_data(&whole(raw.tsn, 0, b"DATA"));
    assert!(aborted(&sent), "{sent:?}");
    let mut raw = open();
    let first = Data { ending: false, ..whole(raw.tsn, 0, b"a fragment") };
    assert!(aborted(&raw.say_data(&first)));
    for parameters in [&[][..], &[0x80, 8, 0, 6, 130, 192, 0, 0]] {
        let mut raw = open_as(parameters, |_| {});
        let sent = raw.say_all(&[&IData::whole(raw.tsn, StreamId(0), Mid(0), b"I-DATA")]);
        assert!(aborted(&sent));
    }
}

/// Section 2.3.1: the chunk that gives messages up belongs to the kind of data chunks.
#[test]
fn the_other_forward_tsn_ends_the_association() {
    let mut raw = open();
    assert!(aborted(&raw.forward(raw.tsn, &[])));
    let forward = |packet: &mut PacketBuilder<'_>| {
        assert!(i_forward_tsn::write(packet, Tsn(1000), core::iter::empty()));
    };
    for parameters in [&WITHOUT_FORWARD[..], &[0x80, 8, 0, 6, 130, 192, 0, 0]] {
        let mut raw = open_as(parameters, |_| {});
        assert!(aborted(&raw.say(forward)));
    }
    let mut raw = open();
    assert!(!aborted(&raw.say(forward)));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// Section 2.1: ordered and unordered messages of each stream count by themselves; FSNs count from 0.
#[test]
fn two_counters_for_each_stream() {
    let mut raw = open();
    let on = |stream| SendInfo::on(StreamId(stream));
    for info in [on(1), on(1).unordered(), on(2), on(1), on(1).unordered()] {
        send(&mut raw, info, 10);
    }
    let sent = raw.heard();
    assert_eq!(shown(&raw, &sent), ["0 1/0/0", "1 1/0/0", "2 2/0/0", "3 1/1/0", "4 1/1/0"]);
    send(&mut raw, on(2), 3000);
    let sent = raw.heard();
    assert_eq!(shown(&raw, &sent), ["5 2/1/0", "6 2/1/1", "7 2/1/2"]);
    // A retransmission has the numbers of the original.
    let sent = raw.wait(Duration::from_secs(5));
    assert_eq!(shown(&raw, &sent)[0], "0 1/0/0");
    raw.say_sack(6, 65_536, &[]);
    let sent = raw.wait(Duration::from_secs(10));
    assert!(shown(&raw, &sent).iter().all(|chunk| chunk.ends_with("2/1/1") || chunk.ends_with("2/1/2")));
}

/// Section 3.2: with round robin the fragments of large messages alternate, so that a small one passes.
#[test]
fn a_small_message_passes_a_large_one() {
    let mut raw = open_as(&ALL, |config| config.stream_scheduler = StreamScheduler::RoundRobin);
    send(&mut raw, SendInfo::on(StreamId(1)), 8000);
    send(&mut raw, SendInfo::on(StreamId(2)), 100);
    let sent = raw.heard();
    let order: Vec<_> = shown(&raw, &sent);
    assert_eq!(order[..4], ["0 1/0/0", "1 2/0/0", "2 1/0/1", "3 1/0/2"]);
}

/// Section 2.3.1: what is abandoned is reported by I-FORWARD-TSN, with the MIDs of ordered and unordered messages.
#[test]
fn abandoned_messages_are_named() {
    let mut raw = open();
    let once = Reliability::retransmissions(0);
    let on = |stream| SendInfo::on(StreamId(stream)).reliability(once);
    for info in [on(3), on(3), on(3).unordered(), on(5), on(5), on(5)] {
        send(&mut raw, info, 100);
    }
    raw.heard();
    raw.wait(Duration::from_millis(50));
    let sent = raw.say_sack(0, 65_536, &[(5, 6)]);
    let mut found = shown(&raw, &sent);
    let sent = raw.wait(Duration::from_millis(100));
    found.extend(shown(&raw, &sent));
    assert_eq!(found, ["forward 3 [3:1 3:U0 5:0]"]);
    raw.pair.collect();
    let failed = raw.pair.hosts[SERVER].events.drain(..).filter_map(|(_, event)| match event {
        Event::SendFailed(failed) => Some(failed.cause),
        _ => None,
    });
    assert_eq!(failed.collect::<Vec<_>>(), [FailureCause::RetransmissionsExhausted; 4]);
    raw.say_sack(6, 65_536, &[]);
    let sent = raw.wait(Duration::from_secs(60));
    assert_eq!(shown(&raw, &sent), [""; 0]);
}

/// Section 2.3.1: without I-FORWARD-TSN of the peer nothing that was sent is abandoned.
#[test]
fn nothing_is_abandoned_without_i_forward_tsn() {
    let mut raw = open_as(&WITHOUT_FORWARD, |_| {});
    send(&mut raw, SendInfo::on(StreamId(1)).reliability(Reliability::retransmissions(0)), 100);
    raw.heard();
    let sent = raw.wait(Duration::from_secs(3));
    assert_eq!(shown(&raw, &sent)[0], "0 1/0/0");
}

/// Section 2.3.1: the receiver skips what is named and reports messages that are cut off.
#[test]
fn a_message_is_cut_off() {
    let mut raw = open_as(&ALL, |config| config.partial_delivery_point = 1000);
    let (first, payload) = (raw.tsn, [7; 1000]);
    let part = |tsn, stream, fsn| IData {
        fsn: Fsn(fsn),
        beginning: fsn == 0,
        ending: false,
        ..IData::whole(tsn, StreamId(stream), Mid(0), &payload)
    };
    raw.say_all(&[&part(first, 1, 0)]);
    raw.say_all(&[&part(first + 1, 2, 0)]);
    assert_eq!(raw.read().len(), 2);
    let skipped =
        [1, 2].map(|stream| SkippedMessage { stream: StreamId(stream), unordered: false, mid: Mid(0) });
    raw.say(|packet| assert!(i_forward_tsn::write(packet, first + 9, skipped.into_iter())));
    raw.pair.collect();
    let cut: Vec<_> = raw.pair.hosts[SERVER].events.drain(..).map(|(_, event)| event).collect();
    let event = |stream| Event::PartialDeliveryAborted { stream: StreamId(stream), unread: 0 };
    assert!(cut.contains(&event(1)) && cut.contains(&event(2)), "{cut:?}");
    raw.say_all(&[&IData::whole(first + 10, StreamId(1), Mid(1), b"goes on")]);
    assert_eq!((raw.read(), raw.state()), (vec![b"goes on".to_vec()], "ESTABLISHED"));
}

/// The window that fragments behind a gap have closed opens once I-FORWARD-TSN skips their message.
#[test]
fn i_forward_tsn_while_own_window_is_closed() {
    let mut raw = open_as(&ALL, |config| {
        (config.receive_buffer, config.partial_delivery_point) = (Some(3000), 3000);
    });
    let first = raw.tsn;
    let text = [b'x'; 1000];
    let mut told = None;
    for fsn in 1..10 {
        let whole = IData::whole(first + fsn, StreamId(1), Mid(0), &text);
        let sent = raw.say_all(&[&IData { beginning: false, ending: false, fsn: Fsn(fsn), ..whole }]);
        told = sacks(&sent).pop();
        if told.as_ref().is_some_and(|told| told.a_rwnd == 0) {
            break;
        }
    }
    assert_eq!(told.expect("at once, because something is missing").a_rwnd, 0);
    let skipped = SkippedMessage { stream: StreamId(1), unordered: false, mid: Mid(0) };
    let last = first + 9;
    let sent = raw.say(|packet| assert!(i_forward_tsn::write(packet, last, [skipped].into_iter())));
    let told = sacks(&sent).pop().expect("at once");
    assert_eq!(told.cumulative, last);
    assert!(told.a_rwnd >= 2000, "{told:?}");
    raw.say_all(&[&IData::whole(last + 1, StreamId(1), Mid(1), b"goes on")]);
    assert_eq!((raw.read(), raw.state()), (vec![b"goes on".to_vec()], "ESTABLISHED"));
}

/// A zero window probe that must not be retransmitted is skipped by an I-FORWARD-TSN, which T3-rtx repeats.
#[test]
fn i_forward_tsn_to_closed_window() {
    let mut raw = open();
    raw.say_sack(0, 0, &[]);
    send(&mut raw, SendInfo::on(StreamId(4)).reliability(Reliability::retransmissions(0)), 1000);
    send(&mut raw, SendInfo::on(StreamId(4)), 1000);
    let mut sent = raw.wait(Duration::from_millis(1100));
    sent.extend(raw.say_sack(0, 0, &[]));
    sent.extend(raw.wait(Duration::from_secs(9)));
    assert_eq!(shown(&raw, &sent)[..3], ["0 4/0/0", "forward 0 [4:0]", "forward 0 [4:0]"]);
    sent = raw.say_sack(1, 0, &[]);
    sent.extend(raw.wait(Duration::from_secs(9)));
    assert_eq!(shown(&raw, &sent)[0], "1 4/1/0", "the next probe");
}

/// A list of thousands of entries, for streams that don't exist or again and again, costs little memory.
#[test]
fn hostile_lists_cost_no_memory() {
    let mut raw = open();
    let first = raw.tsn;
    let memory = raw.server().memory(raw.server).unwrap().total();
    for round in 0..3_u32 {
        let mut chunk = vec![194, 0, 0xff, 0xf8];
        chunk.extend((first + 40_000 + round).0.to_be_bytes());
        for number in 0..8190_u32 {
            chunk.extend(((number * 8) as u16).to_be_bytes());
            chunk.extend([0, (number & 1) as u8]);
            chunk.extend((number * 77 + round).to_be_bytes());
        }
        raw.say_bytes(&chunk);
    }
    let grown = raw.server().memory(raw.server).unwrap().total() - memory;
    assert!(grown < 2000, "{grown}");
    raw.say_all(&[&IData::whole(first + 40_003, StreamId(1), Mid(0), b"goes on")]);
    assert_eq!((raw.read(), raw.state()), (vec![b"goes on".to_vec()], "ESTABLISHED"));
}

/// Large messages of several streams, both ways, with every third packet lost: all arrive whole and in order.
#[test]
fn interleaved_messages_survive_loss() {
    let change = |config: &mut AssociationConfig| config.stream_scheduler = StreamScheduler::RoundRobin;
    let (mut pair, client, server) = pair(change).establish();
    let text = |stream: u16, number: usize| vec![(stream as usize * 16 + number) as u8; 4000 * number + 10];
    for number in 0..4 {
        for stream in 0..5 {
            pair.send(CLIENT, client, stream, &text(stream, number));
        }
    }
    let mut count = 0;
    let mut read = vec![Vec::new(); 5];
    for _ in 0..600 {
        pair.pass_dropping(Duration::from_millis(200), |_| {
            count += 1;
            count % 3 == 0
        });
        while let Some(message) = pair.recv(SERVER, server) {
            read[usize::from(message.stream.0)].push(message.data.to_vec());
        }
        if read.iter().all(|stream| stream.len() == 4) {
            break;
        }
    }
    for (stream, read) in (0..).zip(&read) {
        let expected: Vec<_> = (0..4).map(|number| text(stream, number)).collect();
        assert!(*read == expected, "stream {stream}");
    }
    let alternates = pair.log.windows(2).any(|two| {
        let streams = two.iter().map(|sent| {
            chunks(sent).into_iter().find_map(|chunk| match chunk {
                Chunk::IData(data) => Some(data.stream),
                _ => None,
            })
        });
        let streams: Vec<_> = streams.flatten().collect();
        streams.len() == 2 && streams[0] != streams[1]
    });
    assert!(alternates);
}

/// Section 2.1: the I bit of I-DATA is answered at once, and set as that of DATA is: on the last fragment of
/// a message whose application asks for it.
#[test]
fn section_2_1_i_bit_of_i_data() {
    let mut raw = open();
    let data = |tsn, mid, immediate| IData { immediate, ..IData::whole(tsn, StreamId(0), Mid(mid), b"x") };
    let first = raw.tsn;
    raw.say_all(&[&data(first, 0, false)]);
    assert!(raw.say_all(&[&data(first + 1, 1, false)]).is_empty(), "the first of two waits");
    assert_eq!(sacks(&raw.wait(Duration::from_millis(250)))[0].cumulative, first + 1);
    let answer = raw.say_all(&[&data(first + 2, 2, true)]);
    assert_eq!(sacks(&answer)[0].cumulative, first + 2);
    // Outstanding data, so that no other reason asks for an answer.
    send(&mut raw, SendInfo::on(StreamId(1)), 3000);
    send(&mut raw, SendInfo::on(StreamId(1)).immediate(), 3000);
    let sent = raw.heard();
    let bits = sent.iter().flat_map(chunks).filter_map(|chunk| match chunk {
        Chunk::IData(data) => Some((data.mid.0, data.ending, data.immediate)),
        _ => None,
    });
    let bits: Vec<_> = bits.collect();
    assert_eq!(bits.iter().filter(|(mid, ..)| *mid == 1).count(), 3, "{bits:?}");
    assert!(bits.iter().all(|(mid, ends, immediate)| *immediate == (*mid == 1 && *ends)), "{bits:?}");
}

/// The records of abandoned unordered messages, which stay until their streams are reset, count for the limit of all
/// associations, and are given back at the end.
#[test]
fn records_of_abandoned_messages_are_counted() {
    const STREAMS: u16 = 100;
    let mut raw = open();
    let (last, mid) = (raw.tsn + 99, Mid(7));
    let counted = |raw: &mut Raw| raw.server().buffers().receive_bytes;
    let skip = |raw: &mut Raw, last: Tsn| {
        let skipped =
            (0..STREAMS).map(|stream| SkippedMessage { stream: StreamId(stream), unordered: true, mid });
        raw.say(|packet| assert!(i_forward_tsn::write(packet, last, skipped)));
    };
    skip(&mut raw, last);
    assert_eq!(counted(&mut raw), u64::from(STREAMS) * 16);
    assert_eq!(raw.server().status(raw.server).unwrap().receive_buffered, 0);
    skip(&mut raw, last + 1);
    assert_eq!(counted(&mut raw), u64::from(STREAMS) * 16, "of each stream there is one");
    raw.say_all(&[&IData::whole(last + 2, StreamId(1), Mid(1), b"is held")]);
    let id = raw.server;
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.abort(now, id, bytes::Bytes::new()).unwrap();
    raw.pair.run();
    while raw.pair.recv(SERVER, id).is_some() {}
    assert_eq!(counted(&mut raw), 0);
}

/// A reset of their streams, or of all numbers, gives these records back.
#[test]
fn resets_give_records_back() {
    let mut raw = open_as(&ALL, |config| config.extensions.peer_requests = PeerRequests::ALL);
    let counted = |raw: &mut Raw| raw.server().buffers().receive_bytes;
    let skip = |raw: &mut Raw, last: Tsn| {
        let skipped =
            (0..10).map(|stream| SkippedMessage { stream: StreamId(stream), unordered: true, mid: Mid(7) });
        raw.say(|packet| assert!(i_forward_tsn::write(packet, last, skipped)));
        assert_eq!(counted(raw), 160);
    };
    let first = raw.tsn;
    skip(&mut raw, first);
    raw.re_config(&[outgoing(first.0, first, &[])]);
    assert_eq!(counted(&mut raw), 0);
    skip(&mut raw, first + 1);
    raw.re_config(&[renumber(first.0 + 1)]);
    assert_eq!(counted(&mut raw), 0);
}

/// A restart of the peer gives these records back.
#[test]
fn restarts_give_records_back() {
    let (mut pair, client, server) = pair(|_| {}).establish();
    for stream in 0..100 {
        pair.send(CLIENT, client, stream, b"is read");
        pair.run();
        assert!(pair.recv(SERVER, server).is_some());
    }
    let counted = |pair: &Pair| pair.hosts[SERVER].endpoint.buffers().receive_bytes;
    assert_eq!(counted(&pair), 36 * 16);
    crash(&mut pair);
    pair.connect();
    pair.run();
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
    assert_eq!(counted(&pair), 0);
}

/// The numbers of streams in use count likewise, from the 65th stream on.
#[test]
fn numbers_of_many_streams_are_counted() {
    let mut raw = open();
    let counted = |raw: &mut Raw| raw.server().buffers().receive_bytes;
    for stream in 0..100 {
        let tsn = raw.tsn + u32::from(stream);
        raw.say_all(&[&IData::whole(tsn, StreamId(stream), Mid(0), b"is read")]);
        assert_eq!(raw.read().len(), 1);
        assert_eq!(counted(&mut raw), u64::from(stream + 1).saturating_sub(64) * 16);
    }
    raw.say_all(&[&IData::whole(raw.tsn + 100, StreamId(7), Mid(1), b"is known")]);
    assert_eq!(raw.read().len(), 1);
    assert_eq!(counted(&mut raw), 36 * 16);
    let (id, now) = (raw.server, raw.pair.now);
    raw.pair.hosts[SERVER].endpoint.abort(now, id, bytes::Bytes::new()).unwrap();
    raw.pair.run();
    raw.pair.hosts[SERVER].endpoint.release(id);
    assert_eq!(counted(&mut raw), 0);
}
