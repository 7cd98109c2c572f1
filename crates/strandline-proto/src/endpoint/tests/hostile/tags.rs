//! Blind attackers, floods of stateless packets, and chunks of extensions that were not negotiated.

use strandline_wire::chunk::{Abort, Init, ShutdownAck};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::{Parameter, Parameters};
use strandline_wire::{Causes, TlvWriter};

use super::super::raw::*;
use super::super::*;
use crate::event::{IcmpError, IcmpKind};

/// Everything that a peer could observe of the association, which must not change.
fn observable(raw: &Raw) -> (String, usize, u64) {
    let endpoint = raw.server();
    let status = endpoint.status(raw.server).unwrap();
    let paths = endpoint.paths(raw.server).unwrap();
    let stats = endpoint.stats();
    (format!("{status:?} {paths:?}"), endpoint.association_count(), stats.established + stats.restarts)
}

/// Every chunk type, well formed and not, to the right address and ports with any tag but the right one.
#[test]
fn no_chunk_of_a_blind_attacker_changes_anything() {
    let init_value = [1, 2, 3, 4, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1];
    let mut raw = Raw::new();
    raw.server_sends(100);
    let before = observable(&raw);
    let wrong = [raw.tag.0 ^ 1, !raw.tag.0, raw.tag.0.swap_bytes(), 1, u32::MAX, RAW_TAG.0];
    for kind in (0..=15).chain([0x40, 0x80, 0x82, 0x84, 0xc0, 0xc1, 0xff]) {
        for flags in [0, 1, 3] {
            for value in [&[][..], &[0], &[0; 4], &init_value, &[0xff; 64]] {
                for tag in wrong {
                    // The peer's own tag with the T bit is what a peer without an association sends.
                    let reflected = tag == RAW_TAG.0 && flags & 1 == 1;
                    if reflected && [kind::ABORT, kind::SHUTDOWN_COMPLETE].contains(&kind) {
                        continue;
                    }
                    let chunk = AnyChunk { kind, flags, value };
                    let ports = (RAW_PORT, PORT);
                    let sent = raw.pair.forge(CLIENT, ports, VerificationTag(tag), |packet| {
                        assert!(packet.push(&chunk));
                    });
                    raw.pair.deliver(&sent);
                    assert!(raw.heard().is_empty(), "{kind} {flags} {value:?} {tag:x}");
                }
            }
        }
    }
    assert_eq!(observable(&raw), before);
}

/// An INIT needs no tag: it may be answered, but the association does not change.
#[test]
fn inits_with_the_peers_address_change_nothing() {
    let mut raw = Raw::new();
    raw.server_sends(100);
    let before = observable(&raw);
    for number in 1..200u32 {
        let init = Init {
            initiate_tag: VerificationTag(number),
            a_rwnd: 1400 + number,
            outbound_streams: (number % 3) as u16,
            ..init(Tsn(number))
        };
        let ports = (RAW_PORT, PORT);
        let sent = raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
        raw.pair.deliver(&sent);
        let answer = raw.heard();
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].tag(), VerificationTag(number));
        // The tag in the INIT ACK is new: ours is not revealed.
        if answer[0].kinds() == [kind::INIT_ACK] {
            assert_ne!(init_ack(&answer[0]).0, raw.tag);
        }
    }
    assert_eq!(observable(&raw), before);
}

/// The initiator in COOKIE-WAIT: an INIT ACK with a wrong tag, or from an unknown address, has no effect.
#[test]
fn init_ack_needs_the_inits_tag() {
    let mut pair = Pair::new();
    let client = pair.connect();
    let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
    let ack = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
    let good = forge_init_ack(&mut pair, ack);
    for flip in [1, 0x8000_0000, 0xffff_ffff] {
        let mut bytes = good.bytes.clone();
        let tag = good.tag().0 ^ flip;
        bytes = packet_of((PORT, 5000), VerificationTag(tag), &bytes.split_off(12));
        pair.deliver(&Sent { bytes, ..good.clone() });
        assert_eq!(pair.state(CLIENT, client), "COOKIE-WAIT");
    }
    assert!(pair.wire.is_empty());
    pair.deliver(&good);
    assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
}

#[test]
fn aborts_are_never_answered() {
    let causes = Causes::new(&[]);
    for tag_reflected in [false, true] {
        let abort = Abort { tag_reflected, causes };
        let mut raw = Raw::new();
        for number in 0..1000u32 {
            let tag = VerificationTag(raw.tag.0.wrapping_add(number).max(1));
            for ports in [(RAW_PORT, PORT), (RAW_PORT, 4), (3, PORT)] {
                let sent = raw.pair.forge(CLIENT, ports, tag, |packet| {
                    assert!(packet.push(&ShutdownAck) && packet.push(&abort));
                });
                raw.pair.deliver(&sent);
            }
        }
        assert!(raw.heard().is_empty());
        assert_eq!(raw.state() == "CLOSED", !tag_reflected, "the right one counts, behind another chunk too");
    }
}

/// A flood of packets that need an answer, while nothing can be sent: the queue is bounded.
#[test]
fn stateless_answers_are_bounded() {
    let few = EndpointConfig { replies_max: 16, ..config(1, SERVER) };
    let mut raw = Raw::open(Pair::with(config(1, CLIENT), few), init(Tsn(1)));
    for number in 1..=1000u16 {
        let init = init(Tsn(1));
        let ports = (number, PORT);
        let sent = raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
        let datagram = Datagram { source: sent.source, destination: None, bytes: &sent.bytes, ecn: 0 };
        raw.pair.hosts[SERVER].endpoint.handle_datagram(raw.pair.now, datagram);
    }
    // They do not displace the association's own packets, which are sent first.
    raw.pair.send(SERVER, raw.server, 0, b"data");
    let sent = raw.heard();
    assert_eq!(sent[0].kinds(), [kind::DATA]);
    assert_eq!(sent.len(), 1 + 16);
    assert_eq!(raw.server().stats().replies_dropped, 1000 - 16);
    assert_eq!(raw.server().stats().inits, 1 + 16, "no cookie is made for what can't be answered");
}

/// A flood of INITs from anywhere, beyond what a core can answer: the excess is not even read. Neither the existing
/// association nor, a little later, a new one is held up.
#[test]
fn init_flood_stays_within_its_share() {
    let few = EndpointConfig { init_rate_max: 400, ..config(1, SERVER) };
    let mut raw = Raw::open(Pair::with(config(1, CLIENT), few), init(Tsn(1)));
    let init = init(Tsn(1));
    for number in 1..=1000u16 {
        let sent =
            raw.pair.forge(CLIENT, (number, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
        let datagram = Datagram { source: sent.source, destination: None, bytes: &sent.bytes, ecn: 0 };
        raw.pair.hosts[SERVER].endpoint.handle_datagram(raw.pair.now, datagram);
    }
    // A quarter of a second's budget: 52 of the common half and 4 of the source's own; the association's INIT is one
    // of them.
    assert_eq!(raw.server().stats().inits, 56);
    assert_eq!(raw.server().stats().inits_shed, 1 + 1000 - 56);
    raw.pair.send(SERVER, raw.server, 0, b"data");
    assert_eq!(raw.heard().first().map(Sent::kinds).unwrap_or_default(), [kind::DATA]);
    // A peer from another address is answered during the flood.
    let mut other =
        raw.pair.forge(CLIENT, (2000, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
    other.source = "203.0.113.9:9".parse().unwrap();
    raw.pair.deliver(&other);
    assert_eq!(raw.heard().iter().filter(|sent| has(kind::INIT_ACK)(sent)).count(), 1);
    raw.pair.pass(Duration::from_millis(10));
    for (port, answered) in [(2001, 1), (2002, 1), (2003, 0)] {
        let sent =
            raw.pair.forge(CLIENT, (port, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
        raw.pair.deliver(&sent);
        let answers = raw.heard().iter().filter(|sent| has(kind::INIT_ACK)(sent)).count();
        assert_eq!(answers, answered, "10 ms bring 2");
    }
}

/// Answers to one destination share a burst; those to another do not.
#[test]
fn stateless_answers_go_in_bursts() {
    let mut raw = Raw::new();
    let before = raw.server().stats().packets_sent;
    for number in 1..=10u16 {
        let init = init(Tsn(1));
        let ports = (number, PORT);
        let sent = raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
        let source = if number <= 8 { sent.source } else { "198.51.100.7:9".parse().unwrap() };
        let datagram = Datagram { source, destination: None, bytes: &sent.bytes, ecn: 0 };
        raw.pair.hosts[SERVER].endpoint.handle_datagram(raw.pair.now, datagram);
    }
    let (mut buffer, mut bursts) = (vec![0; 1 << 16], Vec::new());
    let now = raw.pair.now;
    let endpoint = &mut raw.pair.hosts[SERVER].endpoint;
    while let Some(transmit) = endpoint.poll_transmit(now, &mut buffer, 6) {
        bursts.push(transmit.len / transmit.segment_size);
        for packet in buffer[..transmit.len].chunks(transmit.segment_size) {
            assert!(strandline_wire::Packet::parse(packet).unwrap().verify_checksum());
        }
    }
    assert_eq!(bursts, [6, 2, 2]);
    assert_eq!(endpoint.stats().packets_sent - before, 10);
}

/// A packet with hundreds of HEARTBEATs must not be answered with hundreds of packets.
#[test]
fn heartbeats_cannot_be_multiplied() {
    let mut raw = Raw::new();
    let heartbeat = AnyChunk { kind: kind::HEARTBEAT, flags: 0, value: &[0, 1, 0, 4] };
    let answers = raw.say(|packet| while packet.remaining() > 2700 && packet.push(&heartbeat) {});
    assert!((1..=4).contains(&answers.len()), "{} packets for one", answers.len());
    assert!(answers.iter().all(|sent| sent.kinds() == [kind::HEARTBEAT_ACK]));
}

/// ASCONF, AUTH, FORWARD-TSN and RE-CONFIG are handled by their two high bits, and none has an effect. The
/// numbers in them are extreme: stream 65,535, a TSN far ahead, an address to add and delete.
#[test]
fn extensions_that_were_not_negotiated_do_nothing() {
    let forward = [0xff, 0xff, 0xff, 0xf0, 0xff, 0xff, 0xff, 0xff];
    let mut asconf = vec![0, 0, 0, 1, 0, 5, 0, 8, 0, 0, 0, 0];
    asconf.extend_from_slice(&[0xc0, 1, 0, 16, 0, 0, 0, 1, 0, 5, 0, 8, 198, 51, 100, 1]);
    asconf.extend_from_slice(&[0xc0, 2, 0, 16, 0, 0, 0, 2, 0, 5, 0, 8, 192, 0, 2, 1]);
    let reconfig = [0, 13, 0, 18, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0];
    // Type, value, whether it is reported, whether the following chunks are processed.
    for (number, value, reported, goes_on) in [
        (0xc1, &asconf[..], true, true),
        (0x80, &asconf[..4], false, true),
        (0x0f, &[0; 24], false, false),
        (0xc0, &forward, true, true),
        (0x82, &reconfig, false, true),
    ] {
        let mut raw = Raw::new();
        let before = raw.server().paths(raw.server).unwrap();
        let chunk = AnyChunk { kind: number, flags: 0, value };
        let data = whole(raw.tsn, 0, b"after it");
        let answer = raw.say_all(&[&chunk, &chunk, &data]);
        let errors = answer.iter().filter(|sent| has(kind::ERROR)(sent)).count();
        assert_eq!(errors, usize::from(reported), "{number:#x}");
        assert_eq!(raw.read().len(), usize::from(goes_on), "{number:#x}");
        assert_eq!(raw.state(), "ESTABLISHED");
        assert_eq!(raw.server().paths(raw.server).unwrap(), before, "{number:#x}");
    }
}

/// A type may mean something else to the peer: a chunk that is too short for ours is no violation (RFC 9260
/// section 3.2).
#[test]
fn short_chunks_of_unknown_extensions_are_skipped() {
    // Type, whether it is reported, whether the following chunks are processed.
    for (number, reported, goes_on) in [
        (kind::ASCONF, true, true),
        (kind::ASCONF_ACK, false, true),
        (kind::AUTH, false, false),
        (kind::FORWARD_TSN, true, true),
        (kind::NR_SACK, false, false),
        (kind::RE_CONFIG, false, true),
        (kind::STREAM_CREDIT, false, true),
        (kind::STREAM_BLOCKED, false, true),
    ] {
        for len in 0..4 {
            let mut raw = Raw::new();
            let data = whole(raw.tsn, 0, b"after it");
            let answer = raw.say_all(&[&AnyChunk { kind: number, flags: 0, value: &[1; 4][..len] }, &data]);
            let errors = answer.iter().filter(|sent| has(kind::ERROR)(sent)).count();
            assert_eq!(errors, usize::from(reported), "{number:#x} of {len} bytes");
            assert_eq!(raw.read().len(), usize::from(goes_on), "{number:#x} of {len} bytes");
            assert_eq!(raw.state(), "ESTABLISHED", "{number:#x} of {len} bytes");
        }
    }
}

/// A packet full of chunks to report: one ERROR of bounded length.
#[test]
fn reports_of_unknown_chunks_are_bounded() {
    let mut raw = Raw::new();
    let tsn = raw.tsn;
    let answer = raw.say(|packet| {
        while packet.remaining() > 64 {
            assert!(packet.push(&AnyChunk { kind: 0xc1, flags: 0, value: &[] }));
        }
        assert!(packet.push(&whole(tsn, 0, b"after all of them")));
    });
    let errors: Vec<_> = answer.iter().filter(|sent| has(kind::ERROR)(sent)).collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].bytes.len() <= 1232);
    assert_eq!(raw.read().len(), 1);
    // One that is larger than what an ERROR can quote.
    let answer = raw.say_all(&[&AnyChunk { kind: 0xc1, flags: 0, value: &[7; 3000] }]);
    assert!(answer[0].kinds() == [kind::ERROR] && answer[0].bytes.len() <= 1232);
}

/// A COOKIE ECHO must come first (AUTH may precede it only if it was negotiated).
#[test]
fn auth_before_the_cookie_echo_makes_no_association() {
    let mut pair = Pair::new();
    pair.connect();
    pair.run_dropping(has(kind::COOKIE_ECHO));
    let echo = pair.log.iter().find(|sent| has(kind::COOKIE_ECHO)(sent)).unwrap().clone();
    let mut chunks = vec![0x0f, 0, 0, 8, 0, 0, 0, 1];
    chunks.extend_from_slice(&echo.bytes[12..]);
    let bytes = packet_of((5000, PORT), echo.tag(), &chunks);
    pair.deliver(&Sent { bytes, ..echo });
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
}

/// A peer lists a victim's addresses. The victim gets a bounded number of HEARTBEATs and nothing else, and none at all
/// after its ABORT. The association goes on: an honest peer may list an address that another host has here.
#[test]
fn named_victim_gets_few_heartbeats() {
    let mut buffer = [0; 200];
    let mut writer = TlvWriter::new(&mut buffer);
    for last in 1..=7 {
        assert!(writer.push(&Parameter::Ipv4Address([203, 0, 113, last].into())));
    }
    let init = Init { parameters: Parameters::new(writer.finish()), ..init(Tsn(1)) };
    let mut raw = Raw::open(Pair::configured(|config| config.heartbeat_interval = None), init);
    raw.server_sends(20_000);
    let sent = raw.wait(Duration::from_secs(600));
    let to_victim = |sent: &&Sent| sent.destination.ip().to_string().starts_with("203.");
    let sent: Vec<_> = sent.iter().filter(to_victim).collect();
    assert!(sent.iter().all(|sent| sent.kinds() == [kind::HEARTBEAT]));
    // Path.Max.Retrans of 5 for each of seven addresses, then no more.
    assert!(sent.len() <= 7 * 6, "{}", sent.len());

    let mut raw = Raw::open(Pair::new(), init);
    let heartbeat =
        raw.wait(Duration::from_secs(1)).into_iter().find(|sent| has(kind::HEARTBEAT)(sent)).unwrap();
    let abort = Abort { tag_reflected: true, causes: Causes::new(&[]) };
    let mut sent = raw.pair.forge(CLIENT, (RAW_PORT, PORT), heartbeat.tag(), |p| assert!(p.push(&abort)));
    sent.source = heartbeat.destination;
    raw.pair.deliver(&sent);
    let more = raw.wait(Duration::from_secs(60));
    assert!(!more.iter().any(|sent| sent.destination == heartbeat.destination));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// ICMP with a quote of any content and length.
#[test]
fn icmp_of_any_content_changes_nothing() {
    let mut raw = Raw::new();
    raw.server_sends(100);
    let before = observable(&raw);
    let ours = raw.pair.log.iter().rfind(|sent| has(kind::DATA)(sent)).unwrap().clone();
    let kinds = [
        IcmpKind::ProtocolUnreachable,
        IcmpKind::HostUnreachable,
        IcmpKind::PacketTooBig { mtu: 0 },
        IcmpKind::PacketTooBig { mtu: u32::MAX },
        IcmpKind::PacketTooBig { mtu: 68 },
    ];
    for kind in kinds {
        for len in 0..=ours.bytes.len() {
            let mut quoted = ours.bytes[..len].to_vec();
            let whole_tag = len >= 8;
            if whole_tag {
                quoted[4 + len % 4] ^= 1 << (len % 8);
            }
            let error = IcmpError { destination: address(CLIENT, 0), kind, quoted: &quoted };
            raw.pair.hosts[SERVER].endpoint.handle_icmp(raw.pair.now, error);
        }
    }
    assert!(raw.heard().is_empty());
    assert_eq!(observable(&raw), before);
    assert_eq!(raw.server().stats().icmp, 0);
}
