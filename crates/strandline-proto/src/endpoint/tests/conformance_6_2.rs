//! RFC 9260 sections 6.2, 6.4, 6.6, 6.7, 6.9 and 6.10: acknowledging, ordering, gaps, fragments, bundling. A
//! hand-made peer sends and the server acknowledges, or the server sends fragments.

use strandline_wire::Data;
use strandline_wire::chunk::Chunk;
use strandline_wire::number::{Ssn, Tsn};

use super::raw::*;
use super::*;
use crate::config::Recovery;
use crate::event::{IcmpError, IcmpKind};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A hand-made peer whose first DATA is acknowledged; `tsn` is the next.
fn begun(change: impl Fn(&mut AssociationConfig)) -> Raw {
    let mut raw = Raw::configured(change);
    let first = whole(raw.tsn, 0, b"first");
    assert_eq!(sacks(&raw.say_data(&first)).len(), 1, "the first DATA is acknowledged at once");
    raw.read();
    raw.tsn += 1;
    raw
}

#[test]
fn section_6_2_every_second_packet_else_within_200_ms() {
    let mut raw = begun(|_| ());
    let tsn = raw.tsn;
    for pair in 0..5u32 {
        // Many chunks in a packet count once.
        let number = pair * 40;
        let many = |packet: &mut PacketBuilder<'_>, from: u32| {
            for number in from..from + 20 {
                assert!(packet.push(&whole(tsn + number, number as u16 + 1, b"x")));
            }
        };
        assert!(raw.say(|packet| many(packet, number)).is_empty(), "the first of two waits");
        let answer = raw.say(|packet| many(packet, number + 20));
        assert_eq!(sacks(&answer).len(), 1);
        assert_eq!(sacks(&answer)[0].cumulative, tsn + number + 39);
    }
    assert!(raw.say_data(&whole(tsn + 200, 201, b"alone")).is_empty());
    assert!(raw.wait(ms(199)).is_empty());
    assert_eq!(sacks(&raw.wait(ms(3)))[0].cumulative, tsn + 200);
    assert!(raw.wait(ms(1000)).is_empty(), "once");
}

/// The I bit, duplicates without new data, duplicates with new data, and gaps until they are filled.
#[test]
fn section_6_2_what_is_acknowledged_at_once() {
    let mut raw = begun(|_| ());
    let tsn = raw.tsn;
    let told = |answer: &[Sent]| sacks(answer).pop();
    let urgent = Data { immediate: true, ..whole(tsn, 1, b"x") };
    assert_eq!(told(&raw.say_data(&urgent)).unwrap().cumulative, tsn);
    assert_eq!(told(&raw.say_data(&urgent)).unwrap().duplicates, [tsn]);
    let fresh = whole(tsn + 1, 2, b"x");
    assert_eq!(told(&raw.say_all(&[&urgent, &fresh])).unwrap().duplicates, [tsn]);
    // A gap is acknowledged at once, as is each packet while it lasts, and the one that fills it.
    for number in 3..8u32 {
        let answer = told(&raw.say_data(&whole(tsn + number, number as u16 + 1, b"x"))).unwrap();
        assert_eq!((answer.cumulative, &answer.gaps[..]), (tsn + 1, &[(2, number as u16 - 1)][..]));
    }
    let answer = told(&raw.say_data(&whole(tsn + 2, 3, b"x"))).unwrap();
    assert_eq!((answer.cumulative, answer.gaps.len()), (tsn + 7, 0));
    assert!(raw.say_data(&whole(tsn + 8, 9, b"x")).is_empty(), "back to every second one");
}

/// A TSN that arrives three times is listed as two duplicates. The list starts anew after each SACK (section 3.3.4).
#[test]
fn section_6_2_duplicates_are_listed_for_each_arrival() {
    let mut raw = begun(|_| ());
    let data = whole(raw.tsn, 1, b"x");
    let answer = raw.say_all(&[&data, &data, &data]);
    assert_eq!(sacks(&answer)[0].duplicates, [raw.tsn; 2]);
    assert_eq!(sacks(&raw.say_data(&data))[0].duplicates, [raw.tsn]);
}

/// With a window of zero, new data is dropped, not reported, and answered at once. Data that fills a gap is accepted.
#[test]
fn section_6_2_closed_window_drops_and_reports() {
    let mut raw = begun(|config| {
        config.receive_buffer = Some(10_000);
        config.partial_delivery_point = 10_000;
    });
    let tsn = raw.tsn;
    let payload = [7; 1000];
    let mut last = None;
    for number in 0..12u32 {
        // Number 3 is missing.
        if number != 3 {
            last = sacks(&raw.say_data(&whole(tsn + number, number as u16 + 1, &payload))).pop().or(last);
        }
    }
    let closed = last.unwrap();
    assert_eq!((closed.cumulative, closed.a_rwnd), (tsn + 2, 0));
    let reported = closed.gaps[0].1;
    // Data beyond all received TSNs is dropped.
    let answer = sacks(&raw.say_data(&whole(tsn + 12, 13, &payload))).pop().unwrap();
    assert_eq!((answer.cumulative, &answer.gaps, answer.a_rwnd), (tsn + 2, &closed.gaps, 0));
    // Data that fills the gap is accepted.
    let answer = sacks(&raw.say_data(&whole(tsn + 3, 4, &payload))).pop().unwrap();
    assert_eq!(answer.cumulative, tsn + 2 + u32::from(reported));
    // Everything that was acknowledged is delivered, so nothing is revoked.
    assert_eq!(raw.read().len(), 3 + usize::from(reported));
}

/// With a full buffer, data that fills a gap replaces the highest TSN held for reordering. That is no longer
/// reported, and is accepted again once there is room: each message is delivered once.
#[test]
fn section_6_2_full_buffer_drops_the_highest_tsn() {
    let mut raw = begun(|config| {
        config.receive_buffer = Some(10_000);
        config.partial_delivery_point = 10_000;
    });
    let tsn = raw.tsn;
    let payload = [7; 1000];
    let say = |raw: &mut Raw, number: u32| {
        let answer = raw.say_data(&whole(tsn + number, number as u16 + 1, &payload));
        sacks(&answer).pop().unwrap()
    };
    // Numbers 0 and 13 are missing, and so are some higher ones.
    for number in (2..=20).step_by(2).chain((1..12).step_by(2)) {
        say(&mut raw, number);
    }
    let full = say(&mut raw, 21);
    assert_eq!((full.gaps.last(), full.a_rwnd), (Some(&(21, 21)), 0));
    let replaced = say(&mut raw, 13);
    assert_eq!((replaced.gaps, replaced.a_rwnd), (vec![(2, 15), (17, 17), (19, 19)], 0));
    assert_eq!(say(&mut raw, 0).cumulative, tsn + 14);
    let mut read = raw.read();
    for number in 15..=21 {
        raw.say_data(&whole(tsn + number, number as u16 + 1, &payload));
    }
    read.extend(raw.read());
    // A duplicate is answered at once.
    assert_eq!((read.len(), say(&mut raw, 21).cumulative), (22, tsn + 21));
}

/// Reading opens the window. The peer is told without further data once it is open by a quarter of the buffer, and
/// not each time.
#[test]
fn section_6_2_window_updates_come_by_quarters() {
    let mut raw = begun(|config| {
        config.receive_buffer = Some(40_000);
        config.partial_delivery_point = 40_000;
    });
    for number in 0..36u32 {
        raw.say_data(&whole(raw.tsn + number, number as u16 + 1, &[0; 1000]));
    }
    let mut updates = Vec::new();
    for _ in 0..36 {
        let (now, server) = (raw.pair.now, raw.server);
        assert!(raw.pair.hosts[SERVER].endpoint.recv(now, server).is_some());
        updates.extend(sacks(&raw.heard()).into_iter().map(|told| told.a_rwnd));
    }
    assert!((3..=4).contains(&updates.len()), "{updates:?}");
    assert!(updates.windows(2).all(|two| two[1] >= two[0] + 10_000), "{updates:?}");
}

#[test]
fn section_6_2_sack_delay_is_at_most_500_ms() {
    let config = AssociationConfig { sack_delay: ms(501), ..AssociationConfig::default() };
    assert_eq!(config.validate().unwrap_err().name, "sack_delay");
    AssociationConfig { sack_delay: ms(500), ..AssociationConfig::default() }.validate().unwrap();
}

/// Section 6.6: messages of a stream are ordered by their numbers, whatever their TSNs. Unordered messages are
/// delivered at once, and their number means nothing.
#[test]
fn section_6_6_order_is_by_stream_numbers() {
    let mut raw = Raw::new();
    let tsn = raw.tsn;
    let on = |stream, ssn, tsn, payload| Data { stream: StreamId(stream), ..whole(tsn, ssn, payload) };
    raw.say_data(&on(1, 1, tsn, b"1b"));
    raw.say_data(&on(1, 2, tsn + 1, b"1c"));
    assert!(raw.read().is_empty());
    raw.say_data(&on(2, 0, tsn + 2, b"2a"));
    raw.say_data(&Data { unordered: true, ..on(1, 1, tsn + 3, b"u") });
    raw.say_data(&Data { unordered: true, ssn: Ssn(777), ..on(1, 0, tsn + 4, b"v") });
    assert_eq!(raw.read(), [&b"2a"[..], b"u", b"v"]);
    raw.say_data(&on(1, 0, tsn + 5, b"1a"));
    assert_eq!(raw.read(), [&b"1a"[..], b"1b", b"1c"]);
}

/// Section 6.9: B and E bits, consecutive TSNs, and one stream sequence number, PPID and U bit for all fragments.
/// Packets are full and within the path MTU.
#[test]
fn section_6_9_fragments_as_they_are_sent() {
    for unordered in [false, true] {
        let mut raw = Raw::configured(|config| {
            config.path_mtu_max = config.path_mtu_initial;
            config.burst_max = 0;
        });
        let info = SendInfo { stream: StreamId(3), ppid: Ppid(46), unordered, ..SendInfo::default() };
        let (now, server) = (raw.pair.now, raw.server);
        let message: Vec<u8> = (0..9000u32).map(|n| (n % 251) as u8).collect();
        raw.pair.hosts[SERVER].endpoint.send(now, server, info, message.clone().into()).unwrap();
        let (mut next, mut bytes) = (0u32, Vec::new());
        let mut packets = raw.heard();
        while !packets.is_empty() {
            for sent in &packets {
                assert!(sent.bytes.len() <= 1252);
                for chunk in chunks(sent) {
                    let Chunk::Data(data) = chunk else { continue };
                    assert_eq!(data.tsn, raw.server_tsn + next);
                    assert_eq!(data.beginning, next == 0);
                    assert_eq!(data.ending, bytes.len() + data.payload.len() == message.len());
                    assert_eq!((data.stream, data.ppid, data.ssn), (StreamId(3), Ppid(46), Ssn(0)));
                    assert_eq!(data.unordered, unordered);
                    assert!(data.ending || data.payload.len() == 1224, "full packets");
                    bytes.extend_from_slice(data.payload);
                    next += 1;
                }
            }
            packets = raw.say_sack(next, 1 << 20, &[]);
        }
        assert_eq!(bytes, message);
        assert_eq!(next, 8);
    }
}

/// The path MTU falls below the size of chunks in flight: each is retransmitted alone, for IP to fragment, and new
/// data uses the new size.
#[test]
fn section_6_9_oversized_chunks_go_alone() {
    let (mut pair, client, server) = Pair::established();
    pair.send(CLIENT, client, 0, &vec![0; 100_000]);
    pair.pass(Duration::from_secs(5));
    while pair.recv(SERVER, server).is_some() {}
    for number in 1..=6u8 {
        pair.send(CLIENT, client, 0, &[number; 1400]);
    }
    pair.send(CLIENT, client, 0, &vec![7; 5000]);
    pair.collect();
    let large = pair.wire.iter().filter(|sent| sent.bytes.len() > 1300).count();
    assert!(large >= 4, "{large}");
    let quoted = pair.wire[0].bytes[..8].to_vec();
    pair.wire.clear();
    pair.log.clear();
    let kind = IcmpKind::PacketTooBig { mtu: 1300 };
    let error = IcmpError { destination: address(SERVER, 0), kind, quoted: &quoted };
    pair.hosts[CLIENT].endpoint.handle_icmp(pair.now, error);
    pair.pass(Duration::from_secs(20));
    assert_eq!(pair.oversize, large);
    let oversize = pair.log.iter().filter(|sent| sent.bytes.len() > 1272).map(Sent::kinds);
    assert!(oversize.clone().count() >= large && oversize.clone().all(|kinds| kinds == [kind::DATA]));
    for number in 1..=6u8 {
        assert_eq!(pair.recv(SERVER, server).unwrap().data, vec![number; 1400]);
    }
    assert_eq!(pair.recv(SERVER, server).unwrap().data, vec![7; 5000]);
}

/// Sections 6.9 and 7.3: fragments fit the smallest path (AMDCS), so that they can be retransmitted on any path.
/// Packets on a path with a larger MTU are still filled.
#[test]
fn section_6_9_fragments_fit_every_confirmed_path() {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let client = pair.connect();
    pair.pass(Duration::from_secs(3));
    let server = pair.accepted();
    // The primary path's MTU turns out to be 1,500. The other path, without data, stays at 1,280.
    for _ in 0..3 {
        pair.send(CLIENT, client, 0, &vec![0; 100_000]);
        pair.pass(Duration::from_secs(5));
        while pair.recv(SERVER, server).is_some() {}
    }
    let mtus: Vec<_> =
        pair.hosts[CLIENT].endpoint.paths(client).unwrap().iter().map(|path| path.mtu).collect();
    assert_eq!(mtus, [1500, 1280]);
    pair.log.clear();
    pair.send(CLIENT, client, 0, &vec![0; 50_000]);
    pair.pass(Duration::from_secs(5));
    let data: Vec<_> = pair.log.iter().filter(|sent| has(kind::DATA)(sent)).collect();
    assert!(data.iter().any(|sent| sent.bytes.len() == 1472), "full packets of the larger path");
    for sent in &data {
        for chunk in chunks(sent) {
            if let Chunk::Data(data) = chunk {
                assert!(data.payload.len() <= 1224);
            }
        }
    }
    // A fail-over therefore needs no IP fragments.
    pair.send(CLIENT, client, 0, &vec![1; 20_000]);
    let on_first = |sent: &Sent| sent.destination.ip() == address(SERVER, 0).ip();
    pair.pass_dropping(Duration::from_secs(60), on_first);
    while let Some(message) = pair.recv(SERVER, server) {
        assert!(message.data.iter().all(|byte| *byte <= 1));
    }
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().send_buffered, 0);
    assert_eq!(pair.oversize, 0);
}

/// A message that outgrows the buffer is delivered in parts, which frees the buffer (section 6.9).
#[test]
fn section_6_9_oversized_message_comes_in_parts() {
    let (mut pair, client, server) = Pair::configured(|config| {
        config.receive_buffer = Some(20_000);
        config.partial_delivery_point = 10_000;
    })
    .establish();
    let message: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
    pair.send(CLIENT, client, 0, &message);
    let (mut bytes, mut parts, mut ended) = (Vec::new(), 0, false);
    for _ in 0..300 {
        pair.pass(ms(500));
        while let Some(part) = pair.recv(SERVER, server) {
            assert_eq!(part.begins, parts == 0);
            (parts, ended) = (parts + 1, part.ends);
            bytes.extend_from_slice(&part.data);
        }
        if ended {
            break;
        }
    }
    assert!(parts > 3 && ended);
    assert_eq!(bytes, message);
}

/// Section 6.10: a partial chunk is dropped; the chunks before it are processed in order.
#[test]
fn section_6_10_a_partial_chunk_is_dropped() {
    let mut raw = Raw::new();
    let tsn = raw.tsn.0.to_be_bytes();
    let mut bytes = Vec::new();
    for (number, payload) in [b"good", b"part"].into_iter().enumerate() {
        bytes.extend_from_slice(&[kind::DATA, 3, 0, 20]);
        bytes.extend_from_slice(&(u32::from_be_bytes(tsn) + number as u32).to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, number as u8, 0, 0, 0, 0]);
        bytes.extend_from_slice(payload);
    }
    bytes.truncate(bytes.len() - 4);
    let answer = raw.say_bytes(&bytes);
    assert_eq!(raw.read(), [b"good"]);
    assert_eq!(sacks(&answer)[0].cumulative, Tsn(u32::from_be_bytes(tsn)));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// Two paths with DATA: the SACK goes to the source of the last DATA, a HEARTBEAT ACK to the source of the HEARTBEAT.
/// After duplicates the SACK tries the other path (section 6.4).
#[test]
fn section_6_4_where_answers_go() {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let client = pair.connect();
    pair.pass(Duration::from_secs(3));
    let second = address(SERVER, 1).ip();
    let on_second = |sent: &Sent| sent.destination.ip() == address(CLIENT, 1).ip();
    pair.hosts[CLIENT].endpoint.set_primary(pair.now, client, second).unwrap();
    pair.log.clear();
    for number in 0..6u8 {
        pair.send(CLIENT, client, 0, &[number; 100]);
        pair.run();
    }
    let to_client = |sent: &&Sent| sent.source.ip() == address(SERVER, 0).ip() || sent.source.ip() == second;
    let answers: Vec<_> = pair.log.iter().filter(to_client).collect();
    assert!(answers.len() >= 3 && answers.iter().all(|sent| has(kind::SACK)(sent) && on_second(sent)));
    // The primary is the first path again. A request on the second one is answered there.
    pair.hosts[CLIENT].endpoint.set_primary(pair.now, client, address(SERVER, 0).ip()).unwrap();
    pair.log.clear();
    pair.hosts[CLIENT].endpoint.request_heartbeat(pair.now, client, second).unwrap();
    pair.run();
    assert_eq!(pair.kinds(), [[kind::HEARTBEAT], [kind::HEARTBEAT_ACK]]);
    assert!(on_second(&pair.log[1]));
    // The same DATA again and again from the first path.
    pair.send(CLIENT, client, 0, b"again");
    pair.collect();
    let again = pair.wire.pop_front().unwrap();
    pair.log.clear();
    for _ in 0..4 {
        pair.deliver(&again);
    }
    let ways: std::collections::BTreeSet<_> = pair.log.iter().map(|sent| sent.destination).collect();
    assert_eq!(ways.len(), 2, "{ways:?}");
}

/// Section 6.4: fast retransmissions use the path of the data; chunks that timed out use another one.
#[test]
fn section_6_4_where_retransmissions_go() {
    let mut pure = config(2, CLIENT);
    Arc::make_mut(&mut pure.association).recovery = Recovery::Rfc9260;
    let mut pair = Pair::with(pure, config(2, SERVER));
    let client = pair.connect();
    pair.pass(Duration::from_secs(3));
    pair.log.clear();
    let mut lost = None;
    for number in 0..8u8 {
        pair.send(CLIENT, client, 0, &[number; 1000]);
    }
    let first = |sent: &Sent| sent.destination.ip() == address(SERVER, 0).ip();
    pair.run_dropping(|sent| {
        let drop = lost.is_none() && has(kind::DATA)(sent);
        if drop {
            lost = tsns(core::slice::from_ref(sent)).concat().first().copied();
        }
        drop
    });
    let again: Vec<_> = pair
        .log
        .iter()
        .filter(|sent| tsns(core::slice::from_ref(sent)).concat().contains(&lost.unwrap()))
        .collect();
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|sent| first(sent)));
}
