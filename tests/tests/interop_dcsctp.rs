//! Interoperability with dcsctp, the SCTP of WebRTC in Chrome, in the same process and in virtual time.

// A failed expectation ends the test with its reason.
#![allow(clippy::expect_used, clippy::panic)]

use dcsctp::api::{ErrorKind, SocketEvent, SocketState, StreamId};
use strandline_proto::endpoint::{Connect, Reconfigure};
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_proto::number::StreamId as EngineStreamId;
use strandline_proto::reconfiguration::{Outcome, StreamDirection, Streams};
use strandline_tests::dcsctp::{DCSCTP, SCTP_PORT, World, ZeroChecksum};
use strandline_tests::traffic::{Planned, plan};

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

/// Messages of many streams are interleaved (RFC 8260), in both roles, without losses and with some.
#[test]
fn interleaved_messages_arrive() {
    for (seed, per_mille) in [(70, 0), (71, 0), (72, 30), (73, 30), (74, 100)] {
        let mut world = World::interleaving(seed);
        world.lose(per_mille);
        let id = if seed % 2 == 0 { world.connect() } else { world.accept() };
        let status = world.endpoint.status(id).expect("it is established");
        assert!(status.extensions.interleaving);
        assert!(world.dcsctp.get_metrics().is_some_and(|metrics| metrics.uses_message_interleaving));
        exchange(&mut world, id);
    }
}
