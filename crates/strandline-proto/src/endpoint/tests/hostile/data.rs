//! DATA that tries to exhaust memory or to confuse.

use strandline_wire::Data;
use strandline_wire::chunk::{Chunk, Heartbeat, HeartbeatAck, Init};
use strandline_wire::number::{Ssn, Tsn};

use super::super::raw::*;
use super::super::*;

fn fragment(tsn: Tsn, beginning: bool, ending: bool, payload: &[u8]) -> Data<'_> {
    Data { beginning, ending, ..whole(tsn, 0, payload) }
}

/// Two unordered messages of two fragments each and a whole one, in every order of arrival: each is delivered intact.
#[test]
fn fragments_of_messages_never_mix_whatever_their_order() {
    let parts: [(u32, bool, bool, &[u8]); 5] = [
        (0, true, false, b"A1"),
        (1, false, true, b"A2"),
        (2, true, true, b"W"),
        (3, true, false, b"B1"),
        (4, false, true, b"B2"),
    ];
    for unordered in [false, true] {
        for order in 0..120usize {
            let mut left: Vec<_> = (0..5).collect();
            let mut raw = Raw::new();
            let mut read = Vec::new();
            let mut rest = order;
            for count in (1..=5).rev() {
                let (tsn, beginning, ending, payload) = parts[left.remove(rest % count)];
                rest /= count;
                let ssn = [0, 0, 1, 2, 2][tsn as usize];
                let data = fragment(raw.tsn + tsn, beginning, ending, payload);
                raw.say_data(&Data { unordered, ssn: Ssn(ssn), ..data });
                read.extend(raw.read());
            }
            if unordered {
                read.sort();
                assert_eq!(read, [&b"A1A2"[..], b"B1B2", b"W"], "order {order}");
            } else {
                assert_eq!(read, [&b"A1A2"[..], b"W", b"B1B2"], "order {order}");
            }
            assert_eq!(raw.state(), "ESTABLISHED");
        }
    }
}

/// Contradictory fragments end the association, and nothing of them is delivered.
#[test]
fn fragments_that_contradict_one_another_are_a_violation() {
    let base = |tsn| fragment(tsn, true, false, b"begun");
    let follow: [fn(Tsn) -> Data<'static>; 7] = [
        |tsn| fragment(tsn, true, false, b"begins again"),
        |tsn| fragment(tsn, true, true, b"whole"),
        |tsn| Data { stream: StreamId(1), ..fragment(tsn, false, true, b"other stream") },
        |tsn| Data { ssn: Ssn(1), ..fragment(tsn, false, true, b"other number") },
        |tsn| Data { ppid: Ppid(9), ..fragment(tsn, false, true, b"other protocol") },
        |tsn| Data { unordered: true, ..fragment(tsn, false, true, b"unordered") },
        |tsn| Data { stream: StreamId(9999), ..fragment(tsn, false, true, b"no such stream") },
    ];
    for (number, follow) in follow.into_iter().enumerate() {
        for late in [false, true] {
            let mut raw = Raw::new();
            let tsn = raw.tsn;
            let (first, second) = (base(tsn), follow(tsn.next()));
            let answers = if late {
                raw.say_data(&second);
                raw.say_data(&first)
            } else {
                raw.say_data(&first);
                raw.say_data(&second)
            };
            assert!(answers.iter().any(has(kind::ABORT)), "{number} {late}");
            assert!(!raw.read().iter().any(|message| message.starts_with(b"begun")));
        }
    }
}

/// Memory that a hostile peer can make one association hold.
fn held(raw: &mut Raw) -> usize {
    raw.server().memory(raw.server).map_or(0, |report| report.total())
}

#[test]
fn a_flood_that_nobody_reads_takes_bounded_memory() {
    const BUFFER: u32 = 64 << 10;
    // Tiny whole messages; tiny fragments with gaps; messages of a stream whose first one never arrives.
    let attacks: [fn(Tsn, u32) -> Data<'static>; 4] = [
        |tsn, number| whole(tsn + number, number as u16, b"x"),
        |tsn, number| fragment(tsn + 2 * number + 1, true, false, b"x"),
        |tsn, number| whole(tsn + number, number as u16 + 1, b"x"),
        |tsn, number| fragment(tsn + number, number == 0, false, b"x"),
    ];
    for (which, attack) in attacks.into_iter().enumerate() {
        let mut raw = Raw::configured(|config| {
            config.receive_buffer = Some(BUFFER);
            config.partial_delivery_point = BUFFER;
        });
        let tsn = raw.tsn;
        let mut number = 0;
        for _ in 0..300 {
            raw.say(|packet| {
                while packet.remaining() > 2700 && packet.push(&attack(tsn, number)) {
                    number += 1;
                }
            });
        }
        let held = held(&mut raw);
        assert!(held <= 4 * BUFFER as usize + 16_384, "attack {which}: {held} bytes for {number} chunks");
        let status = raw.server().status(raw.server);
        assert!(status.is_none_or(|status| status.receive_buffered <= 4 * BUFFER));
    }
}

/// The limit of all associations together holds, associations that hold little still get their data, and none is
/// lost.
#[test]
fn memory_of_all_associations_is_limited() {
    const LIMIT: u64 = 256 << 10;
    const GREEDY: u16 = 16;
    let server = EndpointConfig { receive_bytes_max: LIMIT, ..config(1, SERVER) };
    let mut pair = Pair::with(config(1, CLIENT), server);
    let connect = |pair: &mut Pair, local_port: u16| {
        let remotes = vec![address(SERVER, 0)];
        let request = Connect { local_port, peer_port: PORT, remotes, local: Vec::new(), config: None };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap()
    };
    let greedy: Vec<_> = (0..GREEDY).map(|number| connect(&mut pair, 10_000 + number)).collect();
    pair.run();
    let total = |pair: &Pair| -> u64 {
        let of =
            |id: AssociationId| u64::from(pair.hosts[SERVER].endpoint.status(id).unwrap().receive_buffered);
        let ids: std::collections::BTreeSet<_> =
            pair.hosts[SERVER].events.iter().map(|(id, _)| *id).collect();
        ids.into_iter().map(of).sum()
    };
    for id in &greedy {
        pair.send(CLIENT, *id, 0, &vec![0; 100_000]);
        pair.send(CLIENT, *id, 0, &vec![0; 100_000]);
    }
    pair.pass(Duration::from_secs(20));
    assert!(total(&pair) <= LIMIT * 2, "{}", total(&pair));
    // A new association whose messages are read as they arrive.
    let modest = connect(&mut pair, 9_999);
    pair.hosts[SERVER].events.clear();
    pair.run();
    let accepted = pair.accepted();
    for number in 0..10u8 {
        pair.send(CLIENT, modest, 0, &[number; 1000]);
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.recv(SERVER, accepted).expect("it gets through").data, vec![number; 1000]);
    }
    // The others wait in front of a closed window and are not lost, however long that lasts.
    pair.pass(Duration::from_secs(3600));
    for id in &greedy {
        assert_eq!(pair.state(CLIENT, *id), "ESTABLISHED");
    }
}

/// What an association holds beyond a gap counts towards the limit of all, and exceeds its share. The one chunk that
/// releases it must still be accepted, however long the others keep their data.
#[test]
fn gap_is_filled_when_memory_is_full() {
    const LIMIT: u64 = 256 << 10;
    let server = EndpointConfig { receive_bytes_max: LIMIT, ..config(1, SERVER) };
    let mut pair = Pair::with(config(1, CLIENT), server);
    let connect = |pair: &mut Pair, local_port: u16| {
        let remotes = vec![address(SERVER, 0)];
        let request = Connect { local_port, peer_port: PORT, remotes, local: Vec::new(), config: None };
        let id = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        pair.run();
        id
    };
    let waiting = connect(&mut pair, 9_999);
    let accepted = pair.accepted();
    let greedy: Vec<_> = (0..8).map(|number| connect(&mut pair, 10_000 + number)).collect();
    // Its first packet with data never arrives, however often it is sent.
    let mut first = None;
    let mut lost = |sent: &Sent| {
        let first_of = |raw: strandline_wire::RawChunk<'_>| match raw.parse_data() {
            Some(Ok(data)) => Some(data.tsn),
            _ => None,
        };
        let packet = Packet::parse(&sent.bytes).unwrap();
        let tsn = (packet.source_port() == 9_999)
            .then(|| packet.chunks().find_map(|raw| first_of(raw.unwrap())))
            .flatten();
        tsn.is_some() && *first.get_or_insert(tsn) == tsn
    };
    for number in 0..40u8 {
        pair.send(CLIENT, waiting, 0, &[number; 1000]);
        pair.pass_dropping(Duration::from_millis(100), &mut lost);
    }
    for id in &greedy {
        pair.send(CLIENT, *id, 0, &vec![0; 100_000]);
    }
    pair.pass_dropping(Duration::from_secs(5), &mut lost);
    let buffered = pair.hosts[SERVER].endpoint.status(accepted).unwrap().receive_buffered;
    assert!(u64::from(buffered) > LIMIT / 2 / 9, "more than its share: {buffered}");
    // Now it arrives.
    pair.pass(Duration::from_secs(120));
    let mut next = 0;
    for _ in 0..100 {
        while let Some(message) = pair.recv(SERVER, accepted) {
            assert_eq!(message.data, vec![next; 1000]);
            next += 1;
        }
        pair.pass(Duration::from_secs(1));
    }
    assert_eq!(next, 40);
}

#[test]
fn tsn_beyond_gap_block_range_is_dropped() {
    let mut raw = Raw::new();
    raw.say_data(&whole(raw.tsn, 0, b"first"));
    for ahead in [65_537, 65_538, 1 << 20, (1 << 31) - 1] {
        let answer = raw.say_data(&whole(raw.tsn + ahead, 1, b"far"));
        let told = &sacks(&answer)[0];
        assert_eq!((told.cumulative, told.gaps.len()), (raw.tsn, 0), "{ahead}");
    }
    // The furthest TSN that can be reported.
    let answer = raw.say_data(&whole(raw.tsn + 65_535, 1, b"far"));
    assert_eq!(sacks(&answer)[0].gaps, [(65_535, 65_535)]);
    // TSNs behind are old, whatever the distance.
    for behind in [1, 65_536, 1 << 30] {
        let tsn = Tsn(raw.tsn.0.wrapping_sub(behind));
        assert_eq!(sacks(&raw.say_data(&whole(tsn, 0, b"old")))[0].duplicates, [tsn]);
    }
    assert_eq!(raw.read(), [&b"first"[..], b"far"]);
}

/// The receive buffer fills in the middle of a message. Its last fragment is dropped, and accepted once there is
/// room.
#[test]
fn dropped_burst_end_is_delivered_later() {
    for len in [19_000, 20_000, 21_000, 30_000, 40_000] {
        let (mut pair, client, server) = Pair::configured(|config| {
            config.receive_buffer = Some(20_000);
            config.partial_delivery_point = 20_000;
        })
        .establish();
        for number in 0..4u8 {
            pair.send(CLIENT, client, 0, &vec![number; len]);
        }
        pair.pass(Duration::from_secs(30));
        let mut bytes = Vec::new();
        for _ in 0..60 {
            while let Some(message) = pair.recv(SERVER, server) {
                bytes.extend_from_slice(&message.data);
            }
            pair.pass(Duration::from_secs(5));
        }
        let expected: Vec<u8> = (0..4u8).flat_map(|number| vec![number; len]).collect();
        assert_eq!(bytes.len(), expected.len(), "messages of {len}");
        assert_eq!(bytes, expected);
        assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().send_buffered, 0);
    }
}

/// Reassembled and unread data counts against the window.
#[test]
fn the_window_counts_what_is_unread() {
    let mut raw = Raw::configured(|config| {
        config.receive_buffer = Some(100_000);
        config.partial_delivery_point = 100_000;
    });
    let mut told = Vec::new();
    for number in 0..40u16 {
        let data = whole(raw.tsn + u32::from(number), number, &[0; 1000]);
        told.extend(sacks(&raw.say_data(&Data { immediate: true, ..data })));
    }
    let windows: Vec<u32> = told.iter().map(|told| told.a_rwnd).collect();
    assert_eq!(windows[0], 99_000);
    assert_eq!(windows[39], 60_000);
    assert_eq!(raw.read().len(), 40);
    let data = whole(raw.tsn + 40, 40, &[0; 1000]);
    assert_eq!(sacks(&raw.say_data(&Data { immediate: true, ..data }))[0].a_rwnd, 99_000);
}

/// More ordered messages than there are stream sequence numbers, over a TSN wrap, in both directions.
#[test]
fn tsns_and_stream_numbers_wrap() {
    let mut raw = Raw::open(Pair::new(), init(Tsn(u32::MAX - 70_000)));
    let tsn = raw.tsn;
    let mut read = 0;
    for first in (0..140_000u32).step_by(100) {
        raw.say(|packet| {
            for number in first..first + 100 {
                assert!(packet.push(&whole(tsn + number, number as u16, &number.to_be_bytes())));
            }
        });
        for message in raw.read() {
            assert_eq!(message, u32::to_be_bytes(read));
            read += 1;
        }
    }
    assert_eq!(read, 140_000);

    let (mut pair, client, server) = Pair::established();
    let mut read = 0u32;
    for first in (0..140_000u32).step_by(1000) {
        for number in first..first + 1000 {
            pair.send(CLIENT, client, 0, &number.to_be_bytes());
        }
        pair.pass(Duration::from_secs(1));
        while let Some(message) = pair.recv(SERVER, server) {
            assert_eq!(message.data, u32::to_be_bytes(read)[..]);
            read += 1;
        }
    }
    assert_eq!(read, 140_000);
}

/// Hundreds of duplicates: one SACK per packet, which lists a bounded number of them.
#[test]
fn duplicates_are_answered_once_a_packet_within_bounds() {
    let mut raw = Raw::new();
    let data = whole(raw.tsn, 0, b"again");
    for _ in 0..10 {
        let answer = raw.say(|packet| while packet.remaining() > 1000 && packet.push(&data) {});
        assert_eq!(answer.len(), 1);
        assert!(answer[0].bytes.len() <= 300, "{}", answer[0].bytes.len());
    }
    assert_eq!(raw.read().len(), 1);
    assert_eq!(sacks(&raw.say_data(&data))[0].duplicates.len(), 1, "the list starts anew after each SACK");
}

/// Every second TSN is missing: far more gap blocks than a packet holds. The SACK fits what every path carries, and
/// the path MTU once a HEARTBEAT of that length was answered, and reports the lowest.
#[test]
fn sack_with_many_gaps_fits_the_mtu() {
    let mut raw = Raw::new();
    let tsn = raw.tsn;
    raw.say_data(&whole(tsn, 0, b"x"));
    let mut last = Vec::new();
    for first in (0..2000u32).step_by(50) {
        last = raw.say(|packet| {
            for number in first..first + 50 {
                let data = Data { unordered: true, ..whole(tsn + 2 + 2 * number, 0, b"x") };
                assert!(packet.push(&data));
            }
        });
    }
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].bytes.len(), 576 - 28);
    let asked = raw.pair.log.iter().rfind(|sent| has(kind::HEARTBEAT)(sent)).expect("a HEARTBEAT").clone();
    assert_eq!((asked.bytes.len(), asked.fragment), (1280 - 28, false));
    let info = chunks(&asked).into_iter().find_map(|chunk| match chunk {
        Chunk::Heartbeat(heartbeat) => Some(heartbeat.info),
        _ => None,
    });
    let ack = HeartbeatAck(Heartbeat { info: info.unwrap() });
    raw.say(|packet| assert!(packet.push(&ack)));
    let last = raw.say_data(&Data { unordered: true, ..whole(tsn + 4002, 0, b"x") });
    assert_eq!(last.len(), 1);
    assert!(last[0].bytes.len() <= 1280 - 28, "{}", last[0].bytes.len());
    let told = &sacks(&last)[0];
    assert!(told.gaps.len() > 250);
    assert!(
        told.gaps.iter().enumerate().all(|(index, gap)| *gap == (2 + 2 * index as u16, 2 + 2 * index as u16))
    );
}

/// In SHUTDOWN-SENT data is still accepted and acknowledged at once, and T2-shutdown restarts.
#[test]
fn data_in_shutdown_sent_is_acknowledged() {
    let mut raw = Raw::new();
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    assert_eq!(raw.heard()[0].kinds(), [kind::SHUTDOWN]);
    for number in 0..30u32 {
        // Just before T2-shutdown (1 s at first) would expire.
        assert!(raw.wait(Duration::from_millis(900)).is_empty(), "{number}");
        let answer = raw.say_data(&whole(raw.tsn + number, number as u16, b"still coming"));
        let kinds: Vec<u8> = answer.iter().flat_map(Sent::kinds).collect();
        assert!(kinds.contains(&kind::SHUTDOWN), "{kinds:?}");
    }
    assert_eq!(raw.read().len(), 30);
    // With a gap the SHUTDOWN alone cannot report everything.
    let answer = raw.say_data(&whole(raw.tsn + 31, 31, b"ahead"));
    let kinds: Vec<u8> = answer.iter().flat_map(Sent::kinds).collect();
    assert!(kinds.contains(&kind::SHUTDOWN) && kinds.contains(&kind::SACK), "{kinds:?}");
    assert_eq!(sacks(&answer)[0].gaps, [(2, 2)]);
}

/// A window of 1,500 bytes, the minimum that an INIT may offer, and a message much larger than it.
#[test]
fn the_smallest_window_lets_everything_through() {
    let small = Init { a_rwnd: 1500, ..init(Tsn(1)) };
    let mut raw = Raw::open(Pair::new(), small);
    let mut packets = raw.server_sends(10_000);
    let (mut next, mut received) = (0u32, 0);
    for _ in 0..100 {
        for sent in packets.iter().filter(|sent| has(kind::DATA)(sent)) {
            for chunk in chunks(sent) {
                if let strandline_wire::Chunk::Data(data) = chunk {
                    assert_eq!(data.tsn, raw.server_tsn + next);
                    (next, received) = (next + 1, received + data.payload.len());
                }
            }
        }
        let in_flight = raw.server().status(raw.server).unwrap().in_flight;
        assert!(in_flight <= 1500, "{in_flight}");
        if received == 10_000 {
            return;
        }
        packets = raw.say_sack(next, 1500, &[]);
    }
    panic!("{received} bytes only");
}
