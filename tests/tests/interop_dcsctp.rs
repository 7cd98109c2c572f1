//! Interoperability with dcsctp, the SCTP of WebRTC in Chrome, in the same process and in virtual time.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used, clippy::panic)]

use std::time::Duration;

use dcsctp::api::{ErrorKind, SendOptions, SocketEvent, SocketState, StreamId};
use strandline_proto::config::{ExtensionsConfig, StreamCredit};
use strandline_proto::endpoint::{Connect, Reconfigure};
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_proto::number::StreamId as EngineStreamId;
use strandline_proto::reconfiguration::{Outcome, StreamDirection, Streams};
use strandline_proto::reliability::Reliability;
use strandline_tests::dcsctp::{DCSCTP, SCTP_PORT, World, ZeroChecksum};
use strandline_tests::dynamic::Opened;
use strandline_tests::traffic::{Planned, plan};
use strandline_wire::chunk::kind;

/// Exchanges small and large messages both ways, on many streams, ordered and unordered.
fn exchange(world: &mut World, id: AssociationId) {
    let unordered: Vec<Planned> = plan(100, 1500, 7).into_iter().map(Planned::unordered).collect();
    for plan in [plan(1000, 64, 500), plan(2, 1 << 20, 2), unordered] {
        world.send_to_dcsctp(id, &plan);
        world.send_to_engine(id, &plan);
    }
}

#[test]
fn the_engine_connects() {
    let mut world = World::new(1);
    let id = world.connect();
    exchange(&mut world, id);
}

/// The data given before the set-up takes more than one packet with a COOKIE ECHO.
#[test]
fn more_than_fits_one_cookie_echo_arrives() {
    let mut world = World::new(15);
    let request = Connect { local_port: SCTP_PORT, ..Connect::to(DCSCTP, SCTP_PORT) };
    let id = world.endpoint.connect(world.now(), request).expect("the request is valid");
    world.send_to_dcsctp(id, &plan(9, 1000, 3));
    world.send_to_engine(id, &plan(9, 1000, 3));
}

#[test]
fn dcsctp_connects() {
    let mut world = World::new(2);
    let id = world.accept();
    exchange(&mut world, id);
}

#[test]
fn both_connect_at_once() {
    let mut world = World::new(3);
    world.dcsctp.connect();
    let id = world.connect();
    exchange(&mut world, id);
}

#[test]
fn losses_of_many_rates() {
    for (seed, per_mille) in [(10, 5), (11, 20), (12, 50), (13, 100), (14, 200)] {
        let mut world = World::new(seed);
        world.lose(per_mille);
        let id = if seed % 2 == 0 { world.connect() } else { world.accept() };
        let plan: Vec<Planned> = plan(60, 4000, 5);
        world.send_to_dcsctp(id, &plan);
        world.send_to_engine(id, &plan);
        world.endpoint.shutdown(world.now(), id).expect("the association lives");
        assert_eq!(world.closed(id), CloseReason::Shutdown);
    }
}

#[test]
fn the_engine_shuts_down_after_what_is_queued() {
    let mut world = World::new(4);
    let id = world.connect();
    for planned in plan(50, 3000, 1) {
        world.endpoint.send(world.now(), id, planned.info(), planned.data()).expect("there is room");
    }
    world.endpoint.shutdown(world.now(), id).expect("the association lives");
    // dcsctp discards unread messages when it closes.
    let mut arrived = 0;
    world.until("50 messages", |world| {
        while world.dcsctp.get_next_message().is_some() {
            arrived += 1;
        }
        (arrived == 50).then_some(())
    });
    assert_eq!(world.closed(id), CloseReason::Shutdown);
    world.dcsctp_event("OnClosed", |event| matches!(event, SocketEvent::OnClosed()));
}

#[test]
fn dcsctp_shuts_down() {
    let mut world = World::new(5);
    let id = world.accept();
    world.send_to_engine(id, &plan(20, 500, 2));
    world.dcsctp.shutdown();
    assert_eq!(world.closed(id), CloseReason::Shutdown);
    world.dcsctp_event("OnClosed", |event| matches!(event, SocketEvent::OnClosed()));
}

#[test]
fn both_shut_down_at_once() {
    let mut world = World::new(6);
    let id = world.connect();
    world.dcsctp.shutdown();
    world.endpoint.shutdown(world.now(), id).expect("the association lives");
    assert_eq!(world.closed(id), CloseReason::Shutdown);
    world.until("Closed at dcsctp", |world| (world.dcsctp.state() == SocketState::Closed).then_some(()));
}

#[test]
fn the_engine_aborts() {
    let mut world = World::new(7);
    let id = world.connect();
    world.endpoint.abort(world.now(), id, "enough".into()).expect("the association lives");
    assert_eq!(world.closed(id), CloseReason::Aborted);
    world.dcsctp_event("OnAborted", |event| {
        matches!(event, SocketEvent::OnAborted(ErrorKind::PeerReported, reason) if reason.contains("enough"))
    });
}

#[test]
fn dcsctp_aborts() {
    let mut world = World::new(8);
    let id = world.connect();
    world.dcsctp.close();
    let reason = world.closed(id);
    assert!(matches!(reason, CloseReason::PeerAborted { .. }), "{reason:?}");
}

#[test]
fn dcsctp_restarts() {
    let mut world = World::new(9);
    let id = world.connect();
    exchange(&mut world, id);
    world.restart_dcsctp();
    world.dcsctp.connect();
    world
        .event("Restarted", |of, event| (of == id && matches!(event, Event::Restarted { .. })).then_some(()));
    world.dcsctp_event("OnConnected", |event| matches!(event, SocketEvent::OnConnected()));
    exchange(&mut world, id);
}

#[test]
fn the_engine_restarts() {
    let mut world = World::new(20);
    let id = world.connect();
    exchange(&mut world, id);
    world.restart_endpoint();
    let request = Connect { local_port: SCTP_PORT, ..Connect::to(DCSCTP, SCTP_PORT) };
    let id = world.endpoint.connect(world.now(), request).expect("the request is valid");
    world
        .dcsctp_event("OnConnectionRestarted", |event| matches!(event, SocketEvent::OnConnectionRestarted()));
    exchange(&mut world, id);
}

/// Asserts that no packet was dropped for its checksum, and that zero checksums were used or not, as reported
/// by both sides.
fn assert_zero_checksum(world: &World, id: AssociationId, used: bool) {
    let stats = world.endpoint.stats();
    assert_eq!(stats.checksum_errors, 0);
    assert_eq!((stats.zero_checksums_sent > 0, stats.zero_checksums_received > 0), (used, used));
    assert_eq!(world.endpoint.status(id).map(|status| status.sends_zero_checksum), Some(used));
    assert_eq!(world.dcsctp.get_metrics().map(|metrics| metrics.uses_zero_checksum), Some(used));
}

/// RFC 9653: packets are sent without checksum if both sides accept it, and with it otherwise, whichever side
/// connects.
#[test]
fn zero_checksums_if_both_want_them() {
    for (engine, dcsctp) in [(true, true), (true, false), (false, true)] {
        for connects in [true, false] {
            let mut world = World::with(30, ZeroChecksum { engine, dcsctp });
            world.lose(20);
            let id = if connects { world.connect() } else { world.accept() };
            exchange(&mut world, id);
            assert_zero_checksum(&world, id, engine && dcsctp);
            world.endpoint.shutdown(world.now(), id).expect("the association lives");
            assert_eq!(world.closed(id), CloseReason::Shutdown);
        }
    }
}

#[test]
fn zero_checksums_when_both_connect_at_once() {
    let mut world = World::with(31, ZeroChecksum { engine: true, dcsctp: true });
    world.dcsctp.connect();
    let id = world.connect();
    exchange(&mut world, id);
    assert_zero_checksum(&world, id, true);
}

/// The declaration of the previous endpoint is forgotten at a restart.
#[test]
fn zero_checksums_end_when_dcsctp_restarts_without_them() {
    let mut world = World::with(32, ZeroChecksum { engine: true, dcsctp: true });
    let id = world.connect();
    exchange(&mut world, id);
    assert_zero_checksum(&world, id, true);
    world.set_dcsctp_zero_checksum(false);
    world.restart_dcsctp();
    world.dcsctp.connect();
    world
        .event("Restarted", |of, event| (of == id && matches!(event, Event::Restarted { .. })).then_some(()));
    exchange(&mut world, id);
    assert_eq!(world.endpoint.status(id).map(|status| status.sends_zero_checksum), Some(false));
    assert_eq!(world.endpoint.stats().checksum_errors, 0);
}

/// Both roles, each with losses: what precedes a reset arrives before it, what follows begins with SSN 0, and no
/// message is lost.
#[test]
fn the_engine_resets_streams() {
    for (seed, per_mille) in [(20, 0), (21, 30), (22, 30), (23, 30)] {
        let mut world = World::new(seed);
        world.lose(per_mille);
        let id = if seed % 2 == 0 { world.connect() } else { world.accept() };
        for _ in 0..3 {
            world.send_to_dcsctp(id, &plan(60, 2000, 5));
            let (now, streams) = (world.now(), Streams::from([EngineStreamId(1), EngineStreamId(3)]));
            let asked = Reconfigure::ResetStreams(StreamDirection::Outgoing, streams).ask(
                &mut world.endpoint,
                now,
                id,
            );
            assert_eq!(asked, Ok(()));
            // Given before the outcome.
            world.send_to_dcsctp(id, &plan(60, 2000, 5));
            world.dcsctp_event("OnIncomingStreamReset", |event| match event {
                SocketEvent::OnIncomingStreamReset(streams) => {
                    let mut streams = streams.clone();
                    streams.sort_by_key(|stream| stream.0);
                    assert_eq!(streams, [StreamId(1), StreamId(3)]);
                    true
                }
                _ => false,
            });
            let outcome = world.event("StreamsReset", |_, event| match event {
                Event::StreamsReset { outcome, direction: StreamDirection::Outgoing, .. } => Some(*outcome),
                _ => None,
            });
            assert_eq!(outcome, Outcome::Performed);
        }
    }
}

#[test]
fn dcsctp_resets_streams() {
    for (seed, per_mille) in [(24, 0), (25, 30), (26, 30), (27, 30)] {
        let mut world = World::new(seed);
        world.lose(per_mille);
        let id = if seed % 2 == 0 { world.connect() } else { world.accept() };
        for _ in 0..3 {
            world.send_to_engine(id, &plan(60, 2000, 5));
            world.dcsctp.reset_streams(&[StreamId(2)]).expect("the extension was negotiated");
            let found = world.event("StreamsReset", |_, event| match event {
                Event::StreamsReset { outcome, direction: StreamDirection::Incoming, streams, .. } => {
                    Some((*outcome, streams.clone()))
                }
                _ => None,
            });
            assert_eq!(found, (Outcome::Performed, Streams::from(EngineStreamId(2))));
            world.dcsctp_event("OnStreamsResetPerformed", |event| {
                matches!(event, SocketEvent::OnStreamsResetPerformed(_))
            });
            world.send_to_engine(id, &plan(60, 2000, 5));
        }
    }
}

/// Requests that dcsctp doesn't perform: it says so, and the association goes on.
#[test]
fn dcsctp_refuses_to_reset_incoming_streams() {
    let mut world = World::new(28);
    let id = world.connect();
    world.send_to_engine(id, &plan(20, 100, 5));
    let now = world.now();
    let asked =
        Reconfigure::ResetStreams(StreamDirection::Incoming, Streams::All).ask(&mut world.endpoint, now, id);
    assert_eq!(asked, Ok(()));
    let outcome = world.event("StreamsReset", |_, event| match event {
        Event::StreamsReset { outcome, direction: StreamDirection::Incoming, .. } => Some(*outcome),
        _ => None,
    });
    assert_ne!(outcome, Outcome::Performed);
    world.send_to_engine(id, &plan(20, 100, 5));
    world.send_to_dcsctp(id, &plan(20, 100, 5));
}

fn interleaving() -> ExtensionsConfig {
    ExtensionsConfig { interleaving: true, ..ExtensionsConfig::default() }
}

/// Messages of many streams are interleaved (RFC 8260), in both roles, without losses and with some.
#[test]
fn interleaved_messages_arrive() {
    for (seed, per_mille) in [(70, 0), (71, 0), (72, 30), (73, 30), (74, 100)] {
        let mut world = World::with_extensions(seed, interleaving());
        world.lose(per_mille);
        let id = if seed % 2 == 0 { world.connect() } else { world.accept() };
        let status = world.endpoint.status(id).expect("it is established");
        assert!(status.extensions.interleaving);
        assert!(world.dcsctp.get_metrics().is_some_and(|metrics| metrics.uses_message_interleaving));
        exchange(&mut world, id);
    }
}

/// Messages that are given up after retransmissions or a time (RFC 3758, RFC 7496), in both roles, with DATA and with
/// I-DATA: ours, and then those of dcsctp. Of a message with a lifetime it may send the first fragment and
/// neither the others nor a FORWARD TSN: those of this test fit a packet together, and wait for no window.
#[test]
fn messages_given_up_under_losses() {
    let lifetime = Duration::from_millis(40);
    let none = SendOptions { max_retransmissions: Some(0), ..SendOptions::default() };
    let limits = [
        (Reliability::retransmissions(0), none, (2000, 600)),
        (
            Reliability::lifetime(lifetime),
            SendOptions { lifetime: Some(lifetime), ..SendOptions::default() },
            (100, 10),
        ),
    ];
    for (seed, connects) in (80..88).zip([true, false].into_iter().cycle()) {
        let extensions = if seed < 84 { ExtensionsConfig::default() } else { interleaving() };
        let mut world = World::with_extensions(seed, extensions);
        world.lose(30);
        let id = if connects { world.connect() } else { world.accept() };
        let agreed = world.endpoint.status(id).expect("it is established").extensions;
        assert_eq!((agreed.partial_reliability, agreed.interleaving), (true, seed >= 84));
        let (ours, theirs, (length, batch)) = &limits[usize::from(seed / 2 % 2)];
        world.send_to_dcsctp_with_limits(id, &plan(600, 2000, 3), *ours);
        world.send_to_engine_with_limits(id, &plan(600, *length, 3), *batch, theirs);
        let skips = if agreed.interleaving { kind::I_FORWARD_TSN } else { kind::FORWARD_TSN };
        assert!(world.kinds_sent.contains(&skips), "{:?}", world.kinds_sent);
        world.send_to_dcsctp(id, &plan(20, 500, 3));
        world.send_to_engine(id, &plan(20, 500, 3));
    }
}

/// dcsctp skips the parameter of stream credit without a report, and the window of the association alone
/// limits streams.
#[test]
fn stream_credit_is_skipped() {
    for (seed, connects) in [(90, true), (91, false)] {
        let stream_credit = Some(StreamCredit::default());
        let mut world = World::with_extensions(seed, ExtensionsConfig { stream_credit, ..interleaving() });
        world.lose(30);
        let id = if connects { world.connect() } else { world.accept() };
        exchange(&mut world, id);
        let agreed = world.endpoint.status(id).expect("it is established").extensions;
        assert_eq!((agreed.interleaving, agreed.stream_credit), (true, false));
        let kinds = &world.kinds_sent;
        assert!(!kinds.contains(&kind::ERROR) && !kinds.contains(&kind::ABORT), "{kinds:?}");
    }
}

/// Sends messages of dcsctp's in the manner of a data channel's user.
fn use_streams(world: &mut World, id: AssociationId, streams: &[u16]) {
    let on =
        |planned: Planned| Planned { stream: streams[planned.number as usize % streams.len()], ..planned };
    let plan: Vec<_> = plan(40, 1500, 1).into_iter().map(on).collect();
    world.send_to_dcsctp(id, &plan);
    world.send_to_engine(id, &plan);
}

/// Closes this side's direction of all streams.
fn close(world: &mut World, opened: &Opened, id: AssociationId) {
    let now = world.now();
    opened.close(&mut world.endpoint, id, now);
}

/// Waits until dcsctp has heard of the end of this side's direction of all streams.
fn ended_at_dcsctp(world: &mut World, opened: &mut Opened) {
    let mut ended: Vec<u16> = Vec::new();
    world.until("the ends of the streams at dcsctp", |world| {
        world.note_dynamic(opened);
        ended.extend(world.incoming_resets().map(|stream| stream.0));
        ended.sort_unstable();
        assert!(ended.len() <= opened.streams.len(), "{ended:?}");
        (ended == opened.streams).then_some(())
    });
}

/// Streams that either side opens and closes at run time, like data channels (RFC 8831 section 6.7): each
/// side resets its direction once the other one has. The numbers are then used again, and no message is lost.
#[test]
fn streams_are_opened_and_closed_under_losses() {
    for (seed, interleaves) in [(92, false), (93, false), (94, true), (95, true)] {
        let extensions = ExtensionsConfig { interleaving: interleaves, ..ExtensionsConfig::default() };
        let mut world = World::with_extensions(seed, extensions);
        world.lose(30);
        let id = if seed % 2 == 0 { world.connect() } else { world.accept() };
        for round in 0..6 {
            // As the client of DTLS does, this side opens the even ones.
            let ours = round % 2 == 0;
            let mut opened = Opened::new(&mut world.endpoint, id, ours, 10);
            let streams: Vec<_> = opened.streams.iter().copied().map(StreamId).collect();
            use_streams(&mut world, id, &opened.streams);
            if ours {
                close(&mut world, &opened, id);
                ended_at_dcsctp(&mut world, &mut opened);
                world.dcsctp.reset_streams(&streams).expect("the extension was negotiated");
            } else {
                world.dcsctp.reset_streams(&streams).expect("the extension was negotiated");
                world.until("the ends of the streams", |world| {
                    world.note_dynamic(&mut opened);
                    opened.have_ended().then_some(())
                });
                close(&mut world, &opened, id);
                ended_at_dcsctp(&mut world, &mut opened);
            }
            world.until("both directions are closed", |world| {
                world.note_dynamic(&mut opened);
                opened.take_closed().then_some(())
            });
            world.dcsctp_event("OnStreamsResetPerformed", |event| {
                matches!(event, SocketEvent::OnStreamsResetPerformed(_))
            });
        }
    }
}

/// The search for the path MTU (RFC 8899), while data is sent, ends at that of the link: dcsctp skips the PAD
/// chunk of RFC 4820, and answers the HEARTBEAT before it.
#[test]
fn path_mtu_is_found() {
    for (seed, connects) in [(96, true), (97, false)] {
        let mut world = World::new(seed);
        world.lose(30);
        let id = if connects { world.connect() } else { world.accept() };
        let mtu = |world: &World| world.endpoint.paths(id).expect("it is established")[0].mtu;
        assert!(mtu(&world) < 1500);
        exchange(&mut world, id);
        assert_eq!(mtu(&world), 1500);
        assert!(!world.kinds_sent.contains(&kind::ERROR), "{:?}", world.kinds_sent);
    }
}
