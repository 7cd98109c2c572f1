//! Wrong lengths and counts.

use strandline_wire::chunk::{Abort, Data, Init};
use strandline_wire::parameter::Parameters;

use super::super::raw::*;
use super::super::*;

/// Chunks with a length field below the four bytes of their own header.
const NO_LENGTH: [[u8; 8]; 4] = [
    [kind::HEARTBEAT, 0, 0, 0, 1, 2, 3, 4],
    [kind::DATA, 3, 0, 1, 1, 2, 3, 4],
    [0xff, 0, 0, 2, 1, 2, 3, 4],
    [kind::ABORT, 0, 0, 3, 1, 2, 3, 4],
];

#[test]
fn a_chunk_of_length_zero_ends_the_packet() {
    for bad in NO_LENGTH {
        let mut raw = Raw::new();
        let tsn = raw.tsn;
        let mut bytes = vec![kind::DATA, 3, 0, 20];
        bytes.extend_from_slice(&tsn.0.to_be_bytes());
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(b"good");
        bytes.extend_from_slice(&bad);
        let answer = raw.say_bytes(&bytes);
        assert_eq!(sacks(&answer).len(), 1, "what came before it stands");
        assert_eq!(raw.read(), [b"good"]);
        assert_eq!(raw.state(), "ESTABLISHED");
        // Without an association there is not even an answer.
        let bytes = packet_of((1, PORT), VerificationTag(1), &bad);
        raw.pair.deliver(&Sent {
            source: address(CLIENT, 0),
            destination: address(SERVER, 0),
            bytes,
            fragment: false,
        });
        assert!(raw.heard().is_empty());
    }
}

#[test]
fn a_packet_without_chunks_does_nothing() {
    let mut raw = Raw::new();
    assert!(raw.say_bytes(&[]).is_empty());
    assert_eq!(raw.state(), "ESTABLISHED");
    // Shorter than a chunk header, and shorter than the common header.
    assert!(raw.say_bytes(&[kind::DATA, 3]).is_empty());
    for len in 0..12 {
        let bytes = vec![0xff; len];
        raw.pair.deliver(&Sent {
            source: address(CLIENT, 0),
            destination: address(SERVER, 0),
            bytes,
            fragment: false,
        });
    }
    assert!(raw.heard().is_empty());
    assert_eq!(raw.server().stats().malformed, 12);
}

/// Every chunk type with every value length up to 40 bytes, of zeros and of ones, in every state.
#[test]
fn short_chunks_affect_only_their_association() {
    let kinds = (0..=15).chain([0x40, 0x80, 0x82, 0x84, 0xc0, 0xc1, 0xff]);
    for kind in kinds {
        for len in 0..=40u16 {
            for fill in [0, 0xff] {
                let mut chunk = vec![kind, 0];
                chunk.extend_from_slice(&(4 + len).to_be_bytes());
                chunk.resize(usize::from(4 + len).next_multiple_of(4), fill);
                let mut pair = Pair::new();
                for tag in [0, 0x1234] {
                    let bytes = packet_of((RAW_PORT, PORT), VerificationTag(tag), &chunk);
                    let to_server = Sent {
                        source: address(CLIENT, 0),
                        destination: address(SERVER, 0),
                        bytes,
                        fragment: false,
                    };
                    pair.deliver(&to_server);
                }
                assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0, "{kind} {len}");
                pair.wire.clear();
                let mut raw = Raw::open(pair, init(strandline_wire::number::Tsn(1)));
                raw.say_bytes(&chunk);
                // Whatever happened to the association, the endpoint serves the next one.
                let ports = (7000, PORT);
                let next = Init { initiate_tag: VerificationTag(9), ..init(strandline_wire::number::Tsn(5)) };
                let sent =
                    raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&next)));
                raw.pair.deliver(&sent);
                assert!(raw.heard().iter().any(has(kind::INIT_ACK)), "{kind} {len}");
            }
        }
    }
}

/// Returns the answer to an INIT with these parameters, which is one packet or none.
fn answer_to(parameters: &[u8]) -> (Pair, Option<Sent>) {
    let mut pair = Pair::new();
    let mut chunk = vec![kind::INIT, 0];
    chunk.extend_from_slice(&(20 + parameters.len() as u16).to_be_bytes());
    chunk.extend_from_slice(&RAW_TAG.0.to_be_bytes());
    chunk.extend_from_slice(&(1u32 << 20).to_be_bytes());
    chunk.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 1]);
    chunk.extend_from_slice(parameters);
    let bytes = packet_of((RAW_PORT, PORT), VerificationTag(0), &chunk);
    pair.deliver(&Sent {
        source: address(CLIENT, 0),
        destination: address(SERVER, 0),
        bytes,
        fragment: false,
    });
    let answer = pair.wire.pop_front();
    assert!(pair.wire.is_empty());
    (pair, answer)
}

#[test]
fn addresses_with_a_wrong_length_are_refused() {
    for parameters in [
        // Too short for its type, of either family.
        &[0, 5, 0, 4][..],
        &[0, 5, 0, 7, 192, 0, 2, 0],
        &[0, 6, 0, 8, 192, 0, 2, 7],
        &[0, 6, 0, 19, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        // Longer than its type.
        &[0, 5, 0, 12, 192, 0, 2, 7, 192, 0, 2, 8],
        // No length, or less than its own header.
        &[0, 5, 0, 0, 192, 0, 2, 7],
        &[0, 5, 0, 3, 192, 0, 2, 7],
        // The last one reaches beyond the chunk, by a lot and by one byte.
        &[0, 5, 0, 8, 192, 0, 2, 7, 0, 5, 0, 8],
        &[0, 5, 0, 8, 192, 0, 2, 7, 0, 5, 0xff, 0xff, 192, 0, 2, 8],
        // Half a header.
        &[0, 5],
    ] {
        let (pair, answer) = answer_to(parameters);
        assert_eq!(answer.map(|sent| sent.kinds()), Some(vec![kind::ABORT]), "{parameters:?}");
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
    }
    let (_, answer) = answer_to(&[0, 5, 0, 8, 192, 0, 2, 7]);
    assert_eq!(answer.unwrap().kinds(), [kind::INIT_ACK], "a right one is taken");
}

#[test]
fn zero_length_parameter_does_not_loop() {
    for parameters in [[0, 7, 0, 0, 1, 2, 3, 4], [0xff, 0xff, 0, 0, 0, 7, 0, 4], [0, 0, 0, 0, 0, 0, 0, 0]] {
        let mut pair = Pair::new();
        pair.connect();
        let ack = Init { parameters: Parameters::new(&parameters), ..init(strandline_wire::number::Tsn(1)) };
        let answer = answer_init(&mut pair, ack);
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].kinds(), [kind::ABORT], "{parameters:?}");
        assert!(matches!(pair.closed(CLIENT), Some(CloseReason::ProtocolViolation(_))));
    }
}

#[test]
fn an_init_with_a_thousand_addresses_keeps_eight() {
    let mut parameters = Vec::new();
    for number in 0..1000u16 {
        let [high, low] = number.to_be_bytes();
        parameters.extend_from_slice(&[0, 5, 0, 8, 10, 1, high, low]);
        parameters.extend_from_slice(&[0, 5, 0, 8, 10, 1, high, low]); // A repetition.
    }
    let (mut pair, answer) = answer_to(&parameters);
    let answer = answer.unwrap();
    assert!(answer.bytes.len() <= 400, "{}", answer.bytes.len());
    let (tag, _, cookie) = init_ack(&answer);
    let echo = strandline_wire::chunk::CookieEcho { cookie: &cookie };
    let sent = pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| assert!(packet.push(&echo)));
    pair.deliver(&sent);
    let id = pair.accepted();
    assert_eq!(pair.hosts[SERVER].endpoint.paths(id).unwrap().len(), crate::config::PATHS_MAX);
}

#[test]
fn unknown_parameters_cannot_overflow_the_init_ack() {
    let mut parameters = Vec::new();
    for number in 0..2000u16 {
        let [high, low] = (0xc800 | number).to_be_bytes();
        parameters.extend_from_slice(&[high, low, 0, 8, 1, 2, 3, 4]);
    }
    // One that is larger than any packet of ours.
    parameters.extend_from_slice(&[0xff, 0xfe, 0x40, 0]);
    parameters.resize(parameters.len() + 0x4000 - 4, 7);
    let (_, answer) = answer_to(&parameters);
    let answer = answer.unwrap();
    assert!(answer.bytes.len() <= 1232, "{}", answer.bytes.len());
    let (_, _, cookie) = init_ack(&answer);
    assert!(!cookie.is_empty(), "reports never displace the cookie");
}

/// The counts of gap blocks and duplicates contradict the chunk's length, in the middle of a packet and at its end.
#[test]
fn sack_with_wrong_counts_is_refused() {
    for (gaps, duplicates, items) in
        [(1, 0, 0), (0, 1, 0), (0xffff, 0xffff, 2), (1, 1, 1), (0, 0, 1), (0xffff, 0, 0)]
    {
        let mut raw = Raw::new();
        raw.server_sends(10);
        let mut chunk = vec![kind::SACK, 0];
        chunk.extend_from_slice(&(16 + 4 * items as u16).to_be_bytes());
        chunk.extend_from_slice(&raw.server_tsn.0.to_be_bytes());
        chunk.extend_from_slice(&[0, 1, 0, 0]);
        chunk.extend_from_slice(&(gaps as u16).to_be_bytes());
        chunk.extend_from_slice(&(duplicates as u16).to_be_bytes());
        chunk.resize(16 + 4 * items, 1);
        // Bytes that an overread would reach.
        chunk.extend_from_slice(&[kind::COOKIE_ACK, 0, 0, 4, kind::COOKIE_ACK, 0, 0, 4]);
        let answer = raw.say_bytes(&chunk);
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].kinds(), [kind::ABORT], "{gaps} {duplicates} {items}");
        assert!(matches!(raw.pair.closed(SERVER), Some(CloseReason::ProtocolViolation(_))));
    }
}

#[test]
fn a_sack_ends_where_its_length_says() {
    let mut raw = Raw::new();
    raw.server_sends(10);
    let data = Data { immediate: true, ..whole(raw.tsn, 0, b"behind the SACK") };
    let cumulative = raw.server_tsn;
    let answer = raw.say(|packet| {
        let gaps = core::iter::empty();
        assert!(strandline_wire::chunk::sack::write(packet, cumulative, 65_536, gaps, &[]));
        assert!(packet.push(&data));
    });
    assert_eq!(sacks(&answer).len(), 1);
    assert_eq!(raw.read(), [b"behind the SACK"]);
    let status = raw.server().status(raw.server).unwrap();
    assert_eq!((status.send_buffered, status.peer_rwnd), (0, 65_536));
}

/// Section 3.3.7: an ABORT with a format error is discarded.
#[test]
fn an_abort_with_a_format_error_is_discarded() {
    for causes in
        [&[0, 12, 0, 0][..], &[0, 12, 0, 3], &[0, 12, 0, 9, 1, 2, 3, 4], &[0, 13, 0, 4, 0, 12, 0xff, 0xff]]
    {
        let mut raw = Raw::new();
        let mut chunk = vec![kind::ABORT, 0];
        chunk.extend_from_slice(&(4 + causes.len() as u16).to_be_bytes());
        chunk.extend_from_slice(causes);
        assert!(raw.say_bytes(&chunk).is_empty());
        assert_eq!(raw.state(), "ESTABLISHED", "{causes:?}");
        let causes = strandline_wire::Causes::new(&[0, 12, 0, 8, 1, 2, 3, 4]);
        raw.say(|packet| assert!(packet.push(&Abort { tag_reflected: false, causes })));
        assert_eq!(raw.state(), "CLOSED");
    }
}

#[test]
fn cause_claiming_many_parameters_is_harmless() {
    let mut raw = Raw::new();
    let missing = [0, 2, 0, 10, 0xff, 0xff, 0xff, 0xff, 0, 7, 0, 0];
    let mut chunk = vec![kind::ERROR, 0, 0, 14];
    chunk.extend_from_slice(&missing);
    assert!(raw.say_bytes(&chunk).is_empty());
    assert_eq!(raw.state(), "ESTABLISHED");
}
