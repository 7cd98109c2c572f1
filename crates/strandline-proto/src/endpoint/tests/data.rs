//! RFC 9260 section 6.

use strandline_wire::chunk::Data;
use strandline_wire::number::Ssn;

use super::*;
use crate::config::{Recovery, SackFrequency};

#[test]
fn first_data_is_acknowledged_at_once() {
    let (mut pair, client, _) = Pair::established();
    pair.log.clear();
    pair.send(CLIENT, client, 0, b"first");
    pair.run();
    assert_eq!(pair.kinds(), [[kind::DATA], [kind::SACK]]);
    pair.log.clear();
    pair.send(CLIENT, client, 0, b"second");
    pair.run();
    pair.send(CLIENT, client, 0, b"third");
    pair.run();
    assert_eq!(pair.kinds(), [[kind::DATA], [kind::DATA], [kind::SACK]]);
}

#[test]
fn a_single_packet_is_acknowledged_within_the_delay() {
    let (mut pair, client, _) = Pair::established();
    for text in [b"a", b"b"] {
        pair.log.clear();
        pair.send(CLIENT, client, 0, text);
        pair.run();
    }
    assert_eq!(pair.kinds(), [[kind::DATA]]);
    pair.pass(Duration::from_millis(199));
    assert_eq!(pair.kinds(), [[kind::DATA]]);
    pair.pass(Duration::from_millis(3));
    assert_eq!(pair.kinds(), [[kind::DATA], [kind::SACK]]);
}

#[test]
fn sack_frequency_and_delay_can_be_set() {
    let (mut pair, client, _) = Pair::configured(|config| {
        config.sack_frequency = SackFrequency::Every(4);
        config.sack_delay = Duration::from_millis(500);
    })
    .establish();
    pair.send(CLIENT, client, 0, b"first");
    pair.run();
    pair.log.clear();
    for _ in 0..4 {
        pair.send(CLIENT, client, 0, b"x");
        pair.run();
    }
    let expected: Vec<Vec<u8>> =
        [kind::DATA, kind::DATA, kind::DATA, kind::DATA, kind::SACK].map(|k| vec![k]).into();
    assert_eq!(pair.kinds(), expected);
}

#[test]
fn small_messages_are_bundled() {
    let (mut pair, client, server) = Pair::established();
    pair.log.clear();
    for number in 0..10u8 {
        pair.send(CLIENT, client, u16::from(number), &[number; 50]);
    }
    pair.run();
    assert_eq!(pair.kinds()[0], [kind::DATA; 10]);
    for number in 0..10u8 {
        let message = pair.recv(SERVER, server).unwrap();
        assert_eq!((message.stream, &message.data[..]), (StreamId(u16::from(number)), &[number; 50][..]));
    }
}

#[test]
fn large_message_is_fragmented_and_reassembled() {
    let (mut pair, client, server) = Pair::established();
    let large: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    pair.log.clear();
    pair.send(CLIENT, client, 3, &large);
    pair.pass(Duration::from_secs(3));
    let message = pair.recv(SERVER, server).unwrap();
    assert!(message.begins && message.ends);
    assert_eq!(message.data, large);
    assert!(pair.log.iter().all(|sent| sent.bytes.len() <= 1500 - 28));
}

#[test]
fn lost_packet_is_retransmitted_after_three_reports() {
    let (mut pair, client, server) =
        Pair::configured(|config| config.recovery = Recovery::Rfc9260).establish();
    // Open the congestion window first.
    pair.send(CLIENT, client, 0, &vec![1; 50_000]);
    pair.pass(Duration::from_secs(2));
    assert!(pair.recv(SERVER, server).is_some());
    let mut count = 0;
    for number in 0..8u8 {
        pair.send(CLIENT, client, 0, &[number; 1000]);
    }
    pair.run_dropping(|sent| {
        count += usize::from(has(kind::DATA)(sent));
        count == 2 && has(kind::DATA)(sent)
    });
    for number in 0..8u8 {
        assert_eq!(pair.recv(SERVER, server).unwrap().data, vec![number; 1000]);
    }
    let stats = pair.hosts[CLIENT].endpoint.status(client).unwrap().stats;
    assert_eq!((stats.fast_recoveries, stats.timeouts, stats.retransmissions), (1, 0, 1));
}

#[test]
fn order_holds_only_within_a_stream() {
    let (mut pair, client, server) =
        Pair::configured(|config| config.recovery = Recovery::Rfc9260).establish();
    pair.send(CLIENT, client, 1, b"one, lost at first");
    pair.collect();
    let lost = pair.wire.pop_front().unwrap();
    pair.send(CLIENT, client, 1, b"one, second");
    pair.send(CLIENT, client, 2, b"two");
    let info = SendInfo { stream: StreamId(1), unordered: true, ..SendInfo::default() };
    pair.hosts[CLIENT].endpoint.send(pair.now, client, info, "unordered".into()).unwrap();
    pair.run();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "two");
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "unordered");
    assert_eq!(pair.recv(SERVER, server), None);
    pair.deliver(&lost);
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "one, lost at first");
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "one, second");
}

#[test]
fn pausing_reader_closes_and_reopens_the_window() {
    let (mut pair, client, server) = Pair::configured(|config| {
        config.receive_buffer = Some(20_000);
        config.partial_delivery_point = 20_000;
        config.association_retrans_max = 4;
    })
    .establish();
    for number in 0..100u8 {
        pair.send(CLIENT, client, 0, &[number; 1000]);
    }
    // Long enough for more window probes than the error limit: an answered probe is no error.
    pair.pass(Duration::from_secs(300));
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    assert!(status.receive_buffered <= 40_000, "{}", status.receive_buffered);
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    let mut number = 0;
    for _ in 0..100 {
        while let Some(message) = pair.recv(SERVER, server) {
            assert_eq!(message.data, vec![number; 1000]);
            number += 1;
        }
        pair.pass(Duration::from_secs(1));
    }
    assert_eq!(number, 100);
}

#[test]
fn data_on_invalid_stream_is_reported_and_acknowledged() {
    let (mut pair, _, server) = Pair::configured(|config| config.inbound_streams_max = 4).establish();
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    let init = Packet::parse(&pair.log[0].bytes).unwrap();
    let Ok(strandline_wire::chunk::Chunk::Init(init)) = init.chunks().next().unwrap().unwrap().parse() else {
        panic!("no INIT")
    };
    let data = Data::whole(init.initial_tsn, StreamId(4), Ssn(0), b"x");
    let ports = (status.peer_port, status.local_port);
    let sent = pair.forge(CLIENT, ports, status.local_tag, |packet| assert!(packet.push(&data)));
    pair.log.clear();
    pair.deliver(&sent);
    assert_eq!(pair.kinds(), [[kind::ERROR], [kind::SACK]]);
    assert_eq!(pair.recv(SERVER, server), None);
}

#[test]
fn data_without_user_data_aborts() {
    let (mut pair, _, server) = Pair::established();
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    let ports = (status.peer_port, status.local_port);
    let sent = pair.forge(CLIENT, ports, status.local_tag, |packet| {
        let place = packet.push_raw(kind::DATA, 3, 12).unwrap();
        place.fill(0);
    });
    pair.log.clear();
    pair.deliver(&sent);
    assert_eq!(pair.kinds(), [[kind::ABORT]]);
    assert!(matches!(pair.closed(SERVER), Some(CloseReason::ProtocolViolation(_))));
}

#[test]
fn send_buffer_blocks_and_reports_room() {
    let (mut pair, client, server) = Pair::configured(|config| config.send_buffer = Some(10_000)).establish();
    let mut sent = 0;
    let refused = loop {
        let data = vec![0; 1000].into();
        match pair.hosts[CLIENT].endpoint.send(pair.now, client, SendInfo::default(), data) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((refused, sent), (crate::error::SendError::WouldBlock, 10));
    pair.pass(Duration::from_secs(1));
    assert!(pair.hosts[CLIENT].events.iter().any(|(_, event)| *event == Event::Writable));
    assert_eq!(core::iter::from_fn(|| pair.recv(SERVER, server)).count(), 10);
}

#[test]
fn nagle_waits_for_the_acknowledgement() {
    let (mut pair, client, _) = Pair::configured(|config| config.nodelay = false).establish();
    pair.send(CLIENT, client, 0, b"first");
    pair.collect();
    pair.log.clear();
    pair.send(CLIENT, client, 0, b"second");
    pair.send(CLIENT, client, 0, b"third");
    pair.collect();
    assert!(pair.log.is_empty(), "held back while the first is unacknowledged");
    pair.run();
    assert!(pair.kinds().contains(&vec![kind::DATA, kind::DATA]));
}

#[test]
fn without_bundling_each_message_has_a_packet() {
    for (bundling, packets) in [(true, 1), (false, 3)] {
        let (mut pair, client, server) = Pair::configured(|config| config.bundling = bundling).establish();
        for text in [b"one", b"two", b"six"] {
            pair.send(CLIENT, client, 0, text);
        }
        pair.log.clear();
        pair.run();
        let with_data = pair.kinds().iter().filter(|kinds| kinds.contains(&kind::DATA)).count();
        assert_eq!(with_data, packets, "bundling: {bundling}");
        assert_eq!(core::iter::from_fn(|| pair.recv(SERVER, server)).count(), 3);
    }
}

#[test]
fn lost_window_update_is_recovered_by_a_probe() {
    let (mut pair, client, server) = Pair::configured(|config| {
        config.receive_buffer = Some(4096);
        config.partial_delivery_point = 2048;
    })
    .establish();
    for number in 0..40u8 {
        pair.send(CLIENT, client, 0, &[number; 1000]);
    }
    pair.pass(Duration::from_secs(5));
    let mut number = 0;
    // Reading opens the window, but every SACK that reports it is lost.
    while let Some(message) = pair.recv(SERVER, server) {
        assert_eq!(message.data, vec![number; 1000]);
        number += 1;
        pair.run_dropping(has(kind::SACK));
    }
    for _ in 0..60 {
        pair.pass(Duration::from_secs(2));
        while let Some(message) = pair.recv(SERVER, server) {
            assert_eq!(message.data, vec![number; 1000]);
            number += 1;
        }
    }
    assert_eq!(number, 40);
}

/// Datagrams that arrive together have the same effect as one by one.
#[test]
fn a_train_is_handled_as_its_packets_are() {
    let run = |together: bool| {
        let (mut pair, client, server) = Pair::established();
        let mut buffer = vec![0; 65_536];
        let mut events = Vec::new();
        for round in 0..40_u8 {
            for len in [5, 700, 9000] {
                pair.send(CLIENT, client, 0, &vec![round; len]);
            }
            let now = pair.now;
            let hosts = &mut pair.hosts;
            for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
                while let Some(t) = hosts[from].endpoint.poll_transmit(now, &mut buffer, 16) {
                    let train = Datagram {
                        source: address(from, 0),
                        destination: None,
                        bytes: &buffer[..t.len],
                        ecn: 0,
                    };
                    if together {
                        hosts[to].endpoint.handle_datagrams(now, train, t.segment_size);
                    } else {
                        for bytes in train.bytes.chunks(t.segment_size) {
                            hosts[to].endpoint.handle_datagram(now, Datagram { bytes, ..train });
                        }
                    }
                }
                events.push((hosts[to].endpoint.poll_timeout(), hosts[to].endpoint.has_transmit()));
            }
            while let Some(message) = pair.recv(SERVER, server) {
                events.push((None, message.data.iter().all(|byte| *byte == message.data[0])));
            }
        }
        let stats = [(CLIENT, client), (SERVER, server)]
            .map(|(host, id)| pair.hosts[host].endpoint.status(id).unwrap().stats);
        (events, stats.map(|stats| (stats.packets_received, stats.data_received, stats.packets_sent)))
    };
    assert_eq!(run(true), run(false));
}
