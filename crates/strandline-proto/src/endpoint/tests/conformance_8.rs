//! RFC 9260 sections 8 and 10: failure detection, heartbeats, out-of-the-blue packets, verification tags, ICMP.

use strandline_wire::chunk::{Chunk, CookieAck, Data, Heartbeat, Init, ShutdownAck, ShutdownComplete};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::Parameters;

use super::raw::*;
use super::*;
use crate::config::Recovery;
use crate::event::{IcmpError, IcmpKind, PathChange};
use crate::stats::Reachability;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Two paths, an RTO of 1 s, and only requested heartbeats.
fn two_paths(change: impl Fn(&mut AssociationConfig)) -> (Pair, AssociationId) {
    let mut association = AssociationConfig::default();
    change(&mut association);
    let association = Arc::new(association);
    let with = |host| EndpointConfig { association: Arc::clone(&association), ..config(2, host) };
    let mut pair = Pair::with(with(CLIENT), with(SERVER));
    let client = pair.connect();
    pair.pass(secs(5));
    pair.hosts[CLIENT].events.clear();
    (pair, client)
}

fn to(host: usize, path: u8) -> impl Fn(&Sent) -> bool {
    move |sent| sent.destination.ip() == address(host, path).ip()
}

/// Association.Max.Retrans consecutive time-outs are tolerated, and the next one ends the association. An
/// acknowledgement in between resets the count.
#[test]
fn section_8_1_the_association_error_counter() {
    let mut raw = Raw::configured(|config| {
        config.association_retrans_max = 5;
        config.path_retrans_max = 20;
        config.heartbeat_interval = None;
    });
    for round in 0..3 {
        raw.server_sends(100);
        while raw.server().status(raw.server).unwrap().error_count < 5 {
            raw.wait(secs(1));
        }
        raw.say_sack(round + 1, 65_536, &[]);
        assert_eq!(raw.server().status(raw.server).unwrap().error_count, 0);
    }
    raw.server_sends(100);
    let sent = raw.wait(secs(1000));
    assert_eq!(tsns(&sent).len(), 5, "five retransmissions");
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
    let failed = |(_, event): &&(AssociationId, Event)| matches!(event, Event::SendFailed(_));
    assert_eq!(raw.pair.hosts[SERVER].events.iter().filter(failed).count(), 1);
}

/// Acknowledgements of later chunks do not reset the count for the earliest one, which may be too long for
/// the path: its stream would stand still without an error.
#[test]
fn later_acknowledgements_hide_no_missing_chunk() {
    for recovery in [Recovery::Rfc9260, Recovery::Rack] {
        let mut raw = Raw::configured(|config| {
            config.recovery = recovery;
            config.association_retrans_max = 5;
            config.heartbeat_interval = None;
        });
        raw.server_sends(100);
        let mut acknowledged = 0;
        while raw.pair.closed(SERVER).is_none() {
            raw.server_sends(10);
            raw.wait(Duration::from_millis(100));
            // Everything but the first chunk has arrived.
            let first = raw.server_tsn;
            let last = tsns(&raw.pair.log).concat().iter().map(|tsn| tsn.distance_from(first)).max().unwrap();
            let gap = (last > 0).then_some((2, last as u16 + 1));
            raw.say_sack(0, 65_536, gap.as_slice());
            acknowledged = last;
            assert!(raw.pair.now.since(Time::ZERO) < secs(300), "{recovery:?}: no error");
        }
        assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
        assert!(acknowledged > 10, "{recovery:?}: {acknowledged} later chunks");
    }
}

/// Unanswered HEARTBEATs on an unused path do not affect the association and make only that path inactive.
#[test]
fn section_8_1_idle_paths_do_not_end_the_association() {
    let (mut pair, client) = two_paths(|config| {
        config.association_retrans_max = 3;
        config.path_retrans_max = 2;
        config.heartbeat_interval = Some(secs(1));
    });
    for _ in 0..6000 {
        pair.pass_dropping(Duration::from_millis(100), to(SERVER, 1));
        assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().error_count, 0);
    }
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    assert_eq!((paths[0].state, paths[1].state), (Reachability::Active, Reachability::Inactive));
    let changed = |change| (client, Event::PathChanged { address: address(SERVER, 1), change });
    let count = |pair: &Pair, change| {
        pair.hosts[CLIENT].events.iter().filter(|event| **event == changed(change)).count()
    };
    assert_eq!(count(&pair, PathChange::Inactive), 1, "told once");
    // The counter stops once the path is inactive. HEARTBEATs continue (section 8.3), and the path returns.
    assert_eq!(paths[1].error_count, 3);
    pair.pass(secs(200));
    assert_eq!(count(&pair, PathChange::Active), 1);
    assert_eq!(pair.hosts[CLIENT].endpoint.paths(client).unwrap()[1].error_count, 0);
}

/// Path.Max.Retrans time-outs of T3-rtx make a path inactive, and data uses the other one.
#[test]
fn section_8_2_time_outs_make_a_path_inactive() {
    let (mut pair, client) = two_paths(|config| {
        config.path_retrans_max = 2;
        config.association_retrans_max = 50;
        config.heartbeat_interval = None;
        config.potentially_failed_retrans_max = None;
    });
    let mut errors = Vec::new();
    for number in 0..4u8 {
        pair.send(CLIENT, client, 0, &[number; 100]);
        pair.pass_dropping(secs(10), to(SERVER, 0));
        let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
        errors.push((paths[0].error_count, paths[0].state));
    }
    let (active, inactive) = (Reachability::Active, Reachability::Inactive);
    assert_eq!(errors, [(1, active), (2, active), (3, inactive), (3, inactive)]);
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().send_buffered, 0);
}

/// One HEARTBEAT per HB.interval plus RTO, varied by half an RTO to either side; none while the path is in use.
#[test]
fn section_8_3_how_often_heartbeats_go() {
    let mut raw = Raw::new();
    let mut times = Vec::new();
    while times.len() < 60 {
        for sent in raw.wait(Duration::from_millis(20)) {
            let Some(Chunk::Heartbeat(Heartbeat { info })) = chunks(&sent).into_iter().next() else {
                continue;
            };
            let info = info.to_vec();
            times.push(raw.pair.now);
            raw.say(|packet| assert!(packet.push(&strandline_wire::HeartbeatAck(Heartbeat { info: &info }))));
        }
    }
    let gaps: Vec<_> = times.windows(2).map(|two| two[1].since(two[0]).as_millis()).collect();
    assert!(gaps.iter().all(|gap| (30_480..=31_540).contains(gap)), "{gaps:?}");
    let spread = gaps.iter().max().unwrap() - gaps.iter().min().unwrap();
    assert!(spread > 700, "jitter: {spread} ms");
    // In use: data every second, acknowledged.
    let mut next = 0;
    for _ in 0..200 {
        raw.server_sends(10);
        next += 1;
        raw.say_sack(next, 65_536, &[]);
        let sent = raw.wait(secs(1));
        assert!(!sent.iter().any(has(kind::HEARTBEAT)), "not idle");
    }
}

/// Unanswered HEARTBEATs: the RTO doubles, and with it the interval.
#[test]
fn section_8_3_unanswered_heartbeats_back_off() {
    let mut raw = Raw::configured(|config| {
        config.heartbeat_interval = Some(secs(10));
        config.association_retrans_max = 100;
        config.path_retrans_max = 4;
    });
    let mut times = Vec::new();
    while times.len() < 10 {
        let sent = raw.wait(Duration::from_millis(20));
        times.extend(sent.iter().filter(|sent| has(kind::HEARTBEAT)(sent)).map(|_| raw.pair.now));
    }
    let gaps: Vec<_> = times.windows(2).map(|two| two[1].since(two[0]).as_secs_f32()).collect();
    for (gap, rto) in gaps.iter().zip([2.0, 4.0, 8.0, 16.0, 32.0, 60.0]) {
        assert!((10.0 + rto * 0.5..=10.1 + rto * 1.5).contains(gap), "{gaps:?}");
    }
    let path = &raw.server().paths(raw.server).unwrap()[0];
    assert_eq!((path.error_count, path.state), (5, Reachability::Inactive));
}

/// A HEARTBEAT ACK contains everything that the HEARTBEAT contained, and goes to its source. HEARTBEATs are answered
/// from COOKIE-ECHOED on until a SHUTDOWN or SHUTDOWN ACK was sent, and none are sent after that either.
#[test]
fn section_8_3_heartbeats_are_answered_in_the_right_states() {
    let value = [0, 1, 0, 7, 1, 2, 3, 0, 0xff, 0xff, 0, 8, 9, 9, 9, 9];
    let heartbeat = AnyChunk { kind: kind::HEARTBEAT, flags: 0, value: &value };
    let ask = |raw: &mut Raw| {
        let answer = raw.say(|packet| assert!(packet.push(&heartbeat)));
        let acks: Vec<_> = answer.into_iter().filter(|sent| has(kind::HEARTBEAT_ACK)(sent)).collect();
        assert!(acks.iter().all(|sent| sent.bytes[16..] == value && sent.destination == address(CLIENT, 0)));
        acks.len()
    };
    let mut raw = Raw::new();
    assert_eq!(ask(&mut raw), 1);
    raw.server_sends(10);
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    assert_eq!((raw.state(), ask(&mut raw)), ("SHUTDOWN-PENDING", 1));
    raw.say_sack(1, 65_536, &[]);
    assert_eq!((raw.state(), ask(&mut raw)), ("SHUTDOWN-SENT", 1));
    assert!(!raw.wait(secs(250)).iter().any(has(kind::HEARTBEAT)));

    let mut raw = Raw::new();
    raw.server_sends(10);
    let cumulative_tsn = raw.server_tsn.previous();
    raw.say(|packet| assert!(packet.push(&strandline_wire::Shutdown { cumulative_tsn })));
    assert_eq!((raw.state(), ask(&mut raw)), ("SHUTDOWN-RECEIVED", 1));
    raw.say_sack(1, 65_536, &[]);
    assert_eq!((raw.state(), ask(&mut raw)), ("SHUTDOWN-ACK-SENT", 0));
    assert!(!raw.wait(secs(250)).iter().any(has(kind::HEARTBEAT)));

    // The initiator answers in COOKIE-ECHOED, but not in COOKIE-WAIT.
    let mut pair = Pair::new();
    let client = pair.connect();
    let tag = client_tag(&mut pair);
    for (state, expected) in [("COOKIE-WAIT", 0), ("COOKIE-ECHOED", 1)] {
        assert_eq!(pair.state(CLIENT, client), state);
        let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&heartbeat)));
        pair.deliver(&sent);
        let answers = pair.wire.drain(..).filter(|sent| has(kind::HEARTBEAT_ACK)(sent)).count();
        assert_eq!(answers, expected, "{state}");
        let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
        let ack = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
        answer_init(&mut pair, ack);
    }
}

/// The rules for out-of-the-blue packets in the order of the RFC, where more than one could apply.
#[test]
fn section_8_4_the_rules_in_order() {
    let abort = || AnyChunk { kind: kind::ABORT, flags: 0, value: &[] };
    let stale = || AnyChunk { kind: kind::ERROR, flags: 0, value: &[0, 3, 0, 8, 0, 0, 0, 1] };
    let other_error = || AnyChunk { kind: kind::ERROR, flags: 0, value: &[0, 4, 0, 4] };
    let data: Data<'static> = whole(Tsn(1), 0, b"x");
    let complete = ShutdownComplete { tag_reflected: false };
    type Build<'a> = &'a dyn Fn(&mut PacketBuilder<'_>) -> bool;
    let cases: [(Build<'_>, Option<u8>); 10] = [
        // 2 before 5, 8.
        (&|p| p.push(&ShutdownAck) && p.push(&abort()), None),
        (&|p| p.push(&data) && p.push(&abort()), None),
        // 5 before 7, 8.
        (&|p| p.push(&ShutdownAck), Some(kind::SHUTDOWN_COMPLETE)),
        // 6, 7.
        (&|p| p.push(&complete), None),
        (&|p| p.push(&CookieAck), None),
        (&|p| p.push(&CookieAck) && p.push(&data), None),
        (&|p| p.push(&stale()), None),
        // 8.
        (&|p| p.push(&other_error()), Some(kind::ABORT)),
        (&|p| p.push(&data), Some(kind::ABORT)),
        (&|p| p.push(&AnyChunk { kind: 0xfe, flags: 0, value: &[] }), Some(kind::ABORT)),
    ];
    for (number, (build, answer)) in cases.into_iter().enumerate() {
        let mut pair = Pair::new();
        let sent = pair.forge(CLIENT, (9, PORT), VerificationTag(0x1234), |packet| assert!(build(packet)));
        pair.deliver(&sent);
        let got = pair.wire.pop_front();
        assert_eq!(got.as_ref().map(|sent| sent.kinds()), answer.map(|kind| vec![kind]), "{number}");
        if let Some(got) = got {
            // The tag is reflected, and the T bit is set.
            assert_eq!((got.tag(), got.bytes[13] & 1), (VerificationTag(0x1234), 1));
        }
    }
}

/// Rule 1: neither to nor from an address that is not unicast. Rule 3: an INIT without a listener gets an ABORT with
/// its own Initiate Tag, without the T bit.
#[test]
fn section_8_4_rules_1_and_3() {
    let mut pair = Pair::new();
    let data = whole(Tsn(1), 0, b"x");
    let good = pair.forge(CLIENT, (9, PORT), VerificationTag(1), |packet| assert!(packet.push(&data)));
    for (source, destination) in [
        ("224.0.0.1:9899", "192.0.2.101"),
        ("255.255.255.255:9899", "192.0.2.101"),
        ("0.0.0.0:9899", "192.0.2.101"),
        ("[ff02::1]:9899", "192.0.2.101"),
        ("192.0.2.1:9899", "224.0.0.1"),
        ("192.0.2.1:9899", "ff02::1"),
    ] {
        let (source, destination) = (source.parse().unwrap(), Some(destination.parse().unwrap()));
        let datagram = Datagram { source, destination, bytes: &good.bytes, ecn: 0 };
        pair.hosts[SERVER].endpoint.handle_datagram(pair.now, datagram);
        pair.collect();
        assert!(pair.wire.is_empty(), "{source} {destination:?}");
    }
    let init = init(Tsn(1));
    let sent = pair.forge(CLIENT, (9, 4444), VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    let answer = pair.wire.pop_front().unwrap();
    assert_eq!((answer.kinds(), answer.tag(), answer.bytes[13] & 1), (vec![kind::ABORT], RAW_TAG, 0));
}

/// 8.5.1 A: only an INIT, alone, has tag 0. An INIT with any other tag is dropped if an association has its address.
/// Out of the blue it is answered like any other chunk (`section_8_4_in_every_combination`).
#[test]
fn section_8_5_1_a_tag_0_is_for_inits() {
    let mut raw = Raw::new();
    let init = init(Tsn(1));
    let data = whole(raw.tsn, 0, b"x");
    let zero = VerificationTag(0);
    let packets = [
        raw.pair.forge(CLIENT, (RAW_PORT, PORT), zero, |packet| assert!(packet.push(&data))),
        raw.pair.forge(CLIENT, (RAW_PORT, PORT), zero, |packet| {
            assert!(packet.push(&init) && packet.push(&data))
        }),
        raw.pair.forge(CLIENT, (RAW_PORT, PORT), zero, |packet| {
            assert!(packet.push(&data) && packet.push(&init))
        }),
        raw.pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(1), |packet| assert!(packet.push(&init))),
    ];
    for (number, sent) in packets.into_iter().enumerate() {
        raw.pair.deliver(&sent);
        assert!(raw.heard().is_empty(), "{number}");
    }
    assert!(raw.read().is_empty());
}

/// 8.5.1 B: ABORT is accepted with our own tag, or with the peer's and the T bit. Section 3.3.7: control
/// chunks may come before it, but DATA and chunks that must be alone may not.
#[test]
fn section_8_5_1_b_abort_after_other_chunks() {
    let causes = || strandline_wire::Causes::new(&[]);
    let error = strandline_wire::chunk::Error { causes: causes() };
    let (init, data) = (init(Tsn(1)), whole(Tsn(1), 0, b"x"));
    type Before<'a> = &'a dyn Fn(&mut PacketBuilder<'_>) -> bool;
    let cases: [(Before<'_>, bool); 5] = [
        (&|_| true, true),
        (&|p| p.push(&error), true),
        (&|p| p.push(&error) && p.push(&strandline_wire::chunk::CookieAck), true),
        (&|p| p.push(&data), false),
        (&|p| p.push(&init), false),
    ];
    for (number, (before, allowed)) in cases.into_iter().enumerate() {
        for (tag, tag_reflected) in [(RAW_TAG, true), (RAW_TAG, false), (VerificationTag(77), true)] {
            let mut raw = Raw::new();
            let abort = strandline_wire::chunk::Abort { tag_reflected, causes: causes() };
            let sent = raw.pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| {
                assert!(before(packet) && packet.push(&abort));
            });
            raw.pair.deliver(&sent);
            let accepted = allowed && tag_reflected && tag == RAW_TAG;
            assert_eq!(raw.state() == "CLOSED", accepted, "{number} {tag:?} {tag_reflected}");
            assert!(raw.heard().is_empty());
        }
    }
}

/// 8.5.1 C: SHUTDOWN COMPLETE is accepted with our own tag, or with the peer's and the T bit, and only in
/// SHUTDOWN-ACK-SENT.
#[test]
fn section_8_5_1_c_shutdown_complete() {
    for (own, tag_reflected, accepted) in
        [(true, false, true), (false, true, true), (true, true, false), (false, false, false)]
    {
        for waits in [true, false] {
            let mut raw = Raw::new();
            if waits {
                let cumulative_tsn = raw.server_tsn.previous();
                raw.say(|packet| assert!(packet.push(&strandline_wire::Shutdown { cumulative_tsn })));
            }
            let before = raw.state();
            let tag = if own { raw.tag } else { RAW_TAG };
            let complete = ShutdownComplete { tag_reflected };
            let sent =
                raw.pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| assert!(packet.push(&complete)));
            raw.pair.deliver(&sent);
            assert!(raw.heard().is_empty());
            let expected = if accepted && waits { "CLOSED" } else { before };
            assert_eq!(raw.state(), expected, "{own} {tag_reflected} {waits}");
        }
    }
}

/// 8.5.1 E and 9.2: SHUTDOWN ACK during set-up is answered as out of the blue, with the tag that it had, and the
/// set-up continues.
#[test]
fn section_8_5_1_e_shutdown_ack_during_set_up() {
    for echoed in [false, true] {
        for right_tag in [true, false] {
            let mut pair = Pair::new();
            let client = pair.connect();
            let own = client_tag(&mut pair);
            if echoed {
                let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
                let ack = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
                answer_init(&mut pair, ack);
            }
            let before = pair.state(CLIENT, client);
            let tag = if right_tag { own } else { VerificationTag(own.0 ^ 5) };
            let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&ShutdownAck)));
            pair.deliver(&sent);
            let answer = pair.wire.pop_front().unwrap();
            assert_eq!(answer.kinds(), [kind::SHUTDOWN_COMPLETE], "{echoed} {right_tag}");
            assert_eq!((answer.tag(), answer.bytes[13] & 1), (tag, 1));
            assert_eq!(pair.state(CLIENT, client), before);
            // SHUTDOWN during set-up is discarded (section 9.2).
            let shutdown = strandline_wire::Shutdown { cumulative_tsn: Tsn(1) };
            let sent = pair.forge(SERVER, (PORT, 5000), own, |packet| assert!(packet.push(&shutdown)));
            pair.deliver(&sent);
            assert!(pair.wire.is_empty());
            assert_eq!(pair.state(CLIENT, client), before);
        }
    }
}

/// Section 10: the effect of each kind of message that quotes a packet of the association.
#[test]
fn section_10_icmp_that_quotes_our_packets() {
    let quote =
        |raw: &Raw| raw.pair.log.iter().rfind(|sent| has(kind::DATA)(sent)).unwrap().bytes[..8].to_vec();
    let report = |raw: &mut Raw, kind: IcmpKind, destination: SocketAddr| {
        raw.server_sends(10);
        let quoted = quote(raw);
        let error = IcmpError { destination, kind, quoted: &quoted };
        raw.pair.hosts[SERVER].endpoint.handle_icmp(raw.pair.now, error);
        raw.heard();
    };
    // ICMP5: about a destination that no association has.
    let mut raw = Raw::new();
    report(&mut raw, IcmpKind::ProtocolUnreachable, "203.0.113.9:9899".parse().unwrap());
    assert_eq!(raw.state(), "ESTABLISHED");
    // ICMP7.
    report(&mut raw, IcmpKind::PacketTooBig { mtu: 1000 }, address(CLIENT, 0));
    assert!(raw.server().paths(raw.server).unwrap()[0].mtu <= 1200);
    // ICMP9: an error of the path, not of the association.
    report(&mut raw, IcmpKind::HostUnreachable, address(CLIENT, 0));
    assert_eq!(raw.server().paths(raw.server).unwrap()[0].error_count, 1);
    assert_eq!((raw.state(), raw.server().status(raw.server).unwrap().error_count), ("ESTABLISHED", 0));
    // ICMP8: as an ABORT with the T bit.
    report(&mut raw, IcmpKind::ProtocolUnreachable, address(CLIENT, 0));
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::Unreachable));
}

/// ICMP8: a message that quotes an INIT counts in COOKIE-WAIT only.
#[test]
fn section_10_icmp_with_init_counts_in_cookie_wait() {
    let (mut pair, client, _) = Pair::established();
    let quoted = pair.log[0].bytes[..20].to_vec();
    let kind = IcmpKind::ProtocolUnreachable;
    let error = IcmpError { destination: address(SERVER, 0), kind, quoted: &quoted };
    pair.hosts[CLIENT].endpoint.handle_icmp(pair.now, error);
    pair.collect();
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
}
