//! What is sent and what is accepted: lengths (RFC 9260 section 3.2), bundling (6.10), address types (5.1.2),
//! out-of-the-blue packets (8.4) and the last ABORT (8.1).

use strandline_wire::cause::Causes;
use strandline_wire::chunk::{
    Abort, Chunk, CookieAck, Data, Error, Init, InitAck, ShutdownAck, ShutdownComplete, sack,
};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::Parameters;
use strandline_wire::{Encode, TLV_HEADER_LEN};

use super::raw::*;
use super::*;

/// Returns Chunk Length of the packet's chunk of this type.
fn length_of(sent: &[Sent], wanted: u8) -> usize {
    let bytes = sent.iter().find(|sent| has(wanted)(sent)).map(|sent| &sent.bytes).expect("such a chunk");
    let chunk = Packet::parse(bytes).unwrap().chunks().flatten().find(|raw| raw.kind == wanted).unwrap();
    chunk.as_bytes().len()
}

#[test]
fn chunk_lengths_leave_the_last_padding_out() {
    for len in 0..9 {
        let text = &b"12345678"[..len];
        let mut raw = Raw::new();
        raw.pair.hosts[SERVER].endpoint.abort(raw.pair.now, raw.server, text.into()).unwrap();
        assert_eq!(length_of(&raw.heard(), kind::ABORT), 4 + TLV_HEADER_LEN + len);

        let mut raw = Raw::new();
        let unknown = AnyChunk { kind: 0xfe, flags: 0, value: text };
        let answer = raw.say_all(&[&unknown, &unknown]);
        let quoted = TLV_HEADER_LEN + 4 + len;
        let expected = 4 + quoted.next_multiple_of(4) + quoted;
        assert_eq!(length_of(&answer, kind::ERROR), expected, "the first one's padding counts");

        // Two unknown parameters of an INIT ACK, in one cause; then a State Cookie.
        let mut parameters = Vec::new();
        for _ in 0..2 {
            parameters.extend_from_slice(&[0xff, 0xfe, 0, 4 + len as u8]);
            parameters.extend_from_slice(text);
            parameters.resize(parameters.len().next_multiple_of(4), 0);
        }
        parameters.extend_from_slice(&[0, 7, 0, 8, 1, 2, 3, 4]);
        let mut pair = Pair::new();
        pair.connect();
        let answer =
            answer_init(&mut pair, Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) });
        let quoted = 4 + len;
        let expected = 4 + TLV_HEADER_LEN + quoted.next_multiple_of(4) + quoted;
        assert_eq!(length_of(&answer, kind::ERROR), expected);
        let packet = Packet::parse(&answer[0].bytes).unwrap();
        let error = packet.chunks().flatten().find(|raw| raw.kind == kind::ERROR).unwrap();
        assert_eq!(usize::from(u16::from_be_bytes([error.value[2], error.value[3]])), expected - 4);
    }
}

/// Chunks that must not be bundled, each with a value that is valid where it stands alone.
fn lone_chunks() -> [(u8, Box<dyn Encode>); 3] {
    static COOKIE: [u8; 8] = [0, 7, 0, 8, 1, 2, 3, 4];
    let init = Init { parameters: Parameters::new(&COOKIE), ..init(Tsn(1)) };
    [
        (kind::INIT, Box::new(init)),
        (kind::INIT_ACK, Box::new(InitAck(init))),
        (kind::SHUTDOWN_COMPLETE, Box::new(ShutdownComplete { tag_reflected: false })),
    ]
}

#[test]
fn bundled_init_ack_is_discarded() {
    for first in [true, false] {
        let mut pair = Pair::new();
        let client = pair.connect();
        let tag = client_tag(&mut pair);
        let [_, (_, ack), _] = lone_chunks();
        let data = whole(Tsn(1), 0, b"data");
        let order: [&dyn Encode; 2] = if first { [&*ack, &data] } else { [&data, &*ack] };
        let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| push_all(packet, &order));
        pair.deliver(&sent);
        assert!(pair.wire.is_empty());
        assert_eq!(pair.state(CLIENT, client), "COOKIE-WAIT");
        pair.pass(Duration::from_secs(5));
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "T1-init goes on");
    }
}

fn push_all(packet: &mut PacketBuilder<'_>, chunks: &[&dyn Encode]) {
    for chunk in chunks {
        let value = packet.push_raw(chunk.kind(), chunk.flags(), chunk.value_len()).expect("room");
        chunk.encode_value(value);
    }
}

#[test]
fn bundled_shutdown_complete_is_discarded() {
    for first in [true, false] {
        for reflected in [false, true] {
            let (mut pair, client, server) = Pair::established();
            pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
            pair.run_to(kind::SHUTDOWN_COMPLETE);
            pair.wire.clear();
            assert_eq!(pair.state(SERVER, server), "SHUTDOWN-ACK-SENT");
            let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
            let tag = if reflected { status.peer_tag } else { status.local_tag };
            let complete = ShutdownComplete { tag_reflected: reflected };
            let order: [&dyn Encode; 2] =
                if first { [&complete, &CookieAck] } else { [&CookieAck, &complete] };
            let ports = (status.peer_port, status.local_port);
            let sent = pair.forge(CLIENT, ports, tag, |packet| push_all(packet, &order));
            pair.deliver(&sent);
            assert_eq!(pair.state(SERVER, server), "SHUTDOWN-ACK-SENT");
            let sent = pair.forge(CLIENT, ports, tag, |packet| assert!(packet.push(&complete)));
            pair.deliver(&sent);
            assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown), "alone it counts");
        }
    }
}

/// DATA before a chunk that must stand alone is processed. A packet that has such a chunk before any DATA is
/// discarded whole.
#[test]
fn chunks_beside_a_lone_chunk() {
    for (number, lone) in lone_chunks() {
        let mut raw = Raw::new();
        let data = whole(raw.tsn, 0, b"first");
        raw.say_all(&[&*lone, &data]);
        assert!(raw.read().is_empty(), "{number}");
        let after = whole(raw.tsn.next(), 1, b"after");
        raw.say_all(&[&data, &*lone, &after]);
        assert_eq!(raw.read(), [b"first"], "{number}");
        assert_eq!(raw.state(), "ESTABLISHED");
    }
}

#[test]
fn an_init_with_a_tag_changes_no_association() {
    let mut raw = Raw::new();
    let [(_, init), ..] = lone_chunks();
    assert!(raw.say_all(&[&*init]).is_empty());
    assert_eq!(raw.state(), "ESTABLISHED");
    assert_eq!(raw.server().stats().malformed, 1);
}

#[test]
fn section_8_4_in_every_combination() {
    let stale = [0, 3, 0, 8, 0, 0, 0, 1];
    let stale = Error { causes: Causes::new(&stale) };
    let other = Error { causes: Causes::new(&[]) };
    let abort = Abort { tag_reflected: false, causes: Causes::new(&[]) };
    let complete = ShutdownComplete { tag_reflected: false };
    let init = init(Tsn(1));
    let data = Data::whole(Tsn(1), StreamId(0), strandline_wire::Ssn(0), b"x");
    // From the first rule to the last.
    let chunks: [(&dyn Encode, Option<u8>); 8] = [
        (&abort, None),
        (&ShutdownAck, Some(kind::SHUTDOWN_COMPLETE)),
        (&complete, None),
        (&stale, None),
        (&CookieAck, None),
        (&init, Some(kind::ABORT)),
        (&other, Some(kind::ABORT)),
        (&data, Some(kind::ABORT)),
    ];
    for (rank, (chunk, answer)) in chunks.iter().enumerate() {
        for (other, (beside, _)) in chunks.iter().enumerate().skip(rank) {
            for order in [[*chunk, *beside], [*beside, *chunk]] {
                let mut pair = Pair::new();
                let tag = VerificationTag(0x1234);
                let sent = pair.forge(CLIENT, (9, PORT), tag, |packet| push_all(packet, &order));
                pair.deliver(&sent);
                let got = pair.wire.pop_front();
                let kinds = got.as_ref().map(Sent::kinds);
                assert_eq!(kinds, answer.map(|kind| vec![kind]), "{rank} with {other}");
                if let Some(got) = got {
                    let flags = Packet::parse(&got.bytes).unwrap().chunks().next().unwrap().unwrap().flags;
                    assert_eq!((got.tag(), flags & 1), (tag, 1), "reflected");
                }
                assert!(pair.wire.is_empty());
            }
        }
    }
}

/// Section 8.5.1 E: even if other chunks come first.
#[test]
fn early_shutdown_ack_is_out_of_the_blue() {
    let mut pair = Pair::new();
    let client = pair.connect();
    let good = forge_good_init_ack(&mut pair);
    pair.deliver(&good);
    pair.wire.clear();
    for tag in [good.tag(), VerificationTag(0x77)] {
        let order: [&dyn Encode; 2] = [&CookieAck, &ShutdownAck];
        let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| push_all(packet, &order));
        pair.deliver(&sent);
        let answer = pair.wire.pop_front().expect("an answer");
        assert_eq!((answer.kinds(), answer.tag()), (vec![kind::SHUTDOWN_COMPLETE], tag));
        assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
    }
}

#[test]
fn every_sack_of_a_packet_counts() {
    let mut raw = Raw::new();
    for _ in 0..5 {
        raw.server_sends(1000);
    }
    let first = raw.server_tsn;
    raw.say(|packet| {
        for number in 1..=5 {
            let cumulative = (first + number).previous();
            assert!(sack::write(packet, cumulative, 1 << 20, [].into_iter(), &[]));
        }
    });
    assert_eq!(raw.server().status(raw.server).unwrap().send_buffered, 0);
}

/// Returns the types of the addresses in the INIT ACK for an INIT with these parameters: 5 for IPv4, 6 for IPv6.
fn named_to(parameters: &[u8]) -> Vec<u16> {
    let mut server = config(1, SERVER);
    server.local_addresses.push("2001:db8::101".parse().unwrap());
    server.local_addresses.push("192.0.2.102".parse().unwrap());
    let mut pair = Pair::with(config(1, CLIENT), server);
    let init = Init { parameters: Parameters::new(parameters), ..init(Tsn(1)) };
    let sent = pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    let answer = pair.wire.pop_front().expect("an INIT ACK");
    let Some(Chunk::InitAck(ack)) = chunks(&answer).into_iter().next() else { panic!("no INIT ACK") };
    ack.parameters.iter().flatten().map(|raw| raw.kind).filter(|kind| [5, 6].contains(kind)).collect()
}

/// Sections 3.3.2.1.5 and 5.1.2. All these INITs arrive over IPv4.
#[test]
fn supported_address_types_are_heeded() {
    let both = [5, 6, 5];
    assert_eq!(named_to(&[]), both);
    assert_eq!(named_to(&[0, 12, 0, 6, 0, 5]), [5, 5]);
    assert_eq!(named_to(&[0, 12, 0, 6, 0, 6]), both, "it uses IPv4 itself");
    assert_eq!(named_to(&[0, 12, 0, 8, 0, 6, 0, 5]), both);
    assert_eq!(named_to(&[0, 12, 0, 4]), [5, 5]);
    assert_eq!(named_to(&[0, 12, 0, 6, 0, 11]), [5, 5], "host names are no addresses here");
    // The INIT lists an address of the family that it does not name as supported, before and after.
    let address = [0, 6, 0, 20, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    assert_eq!(named_to(&[&[0, 12, 0, 6, 0, 5, 0, 0][..], &address].concat()), both);
    assert_eq!(named_to(&[&address[..], &[0, 12, 0, 6, 0, 5]].concat()), both);
}

/// Returns the destinations of a host's ABORTs, and the code of their cause.
fn aborts(pair: &Pair, from: usize) -> Vec<(SocketAddr, u16)> {
    let of = |sent: &Sent| match chunks(sent).first() {
        Some(Chunk::Abort(abort)) => {
            Some((sent.destination, abort.causes.iter().next().unwrap().unwrap().code))
        }
        _ => None,
    };
    pair.log
        .iter()
        .filter(|sent| sent.source == address(from, 0) || sent.source == address(from, 1))
        .filter_map(of)
        .collect()
}

#[test]
fn exceeded_retransmissions_end_with_an_abort_everywhere() {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let client = pair.connect();
    pair.pass(Duration::from_secs(5));
    pair.send(CLIENT, client, 0, b"lost");
    pair.pass_dropping(Duration::from_secs(2000), |sent| !has(kind::ABORT)(sent));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    assert_eq!(aborts(&pair, CLIENT), [(address(SERVER, 0), 13), (address(SERVER, 1), 13)]);
}

#[test]
fn abandoned_set_up_sends_an_abort() {
    // The COOKIE ACKs are lost: the server has an association.
    let mut pair = Pair::new();
    let _client = pair.connect();
    let one_way = |sent: &Sent| sent.source == address(SERVER, 0) && !has(kind::INIT_ACK)(sent);
    pair.pass_dropping(Duration::from_secs(2000), one_way);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    assert_eq!(aborts(&pair, CLIENT), [(address(SERVER, 0), 13)]);
    assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { code: 13, .. })));
    // No answer at all: there is nothing to abort, and no tag for it.
    let mut pair = Pair::new();
    let _client = pair.connect();
    pair.pass_dropping(Duration::from_secs(2000), |_| true);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    assert!(aborts(&pair, CLIENT).is_empty());
}

#[test]
fn shutdown_given_up_ends_with_an_abort() {
    let (mut pair, client, _) = Pair::established();
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.pass_dropping(Duration::from_secs(2000), |sent| !has(kind::ABORT)(sent));
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    assert_eq!(aborts(&pair, CLIENT), [(address(SERVER, 0), 13)]);
}

/// An INIT ACK that not every path carries is fragmented further when the peer asks again: it has not arrived.
#[test]
fn long_init_ack_is_cut_when_asked_again() {
    let mut pair = Pair::with(config(1, CLIENT), config(8, SERVER));
    // Addresses, which the cookie has, and an unknown parameter, which is reported.
    let mut listed = vec![0; 280];
    listed[..4].copy_from_slice(&[0xff, 0xfe, 1, 24]);
    for last in 1..=7 {
        listed.extend([0, 6, 0, 20, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    }
    let mut buffer = vec![0; 2000];
    let mut cuts = Vec::new();
    for tag in [1, 1, 2, 1, 2] {
        let init =
            Init { initiate_tag: VerificationTag(tag), parameters: Parameters::new(&listed), ..init(Tsn(1)) };
        let asked = pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| {
            assert!(packet.push(&init));
        });
        let datagram = Datagram { source: asked.source, destination: None, bytes: &asked.bytes, ecn: 0 };
        let server = &mut pair.hosts[SERVER].endpoint;
        server.handle_datagram(pair.now, datagram);
        let answer = server.poll_transmit(pair.now, &mut buffer, 1).expect("an INIT ACK");
        assert!((549..1172).contains(&answer.len), "{}", answer.len);
        cuts.push(answer.fragment);
    }
    assert_eq!(cuts, [Some(1200), Some(576), Some(1200), Some(576), Some(576)]);
}
