//! RFC 9260 section 5.2.4: Table 12.

use super::*;

/// The client loses its state and comes back with the same ports.
pub(super) fn crash(pair: &mut Pair) {
    let config = config(pair.hosts[CLIENT].addresses.len() as u8, CLIENT);
    let mut endpoint = Endpoint::new(config, [99; 32], pair.now).unwrap();
    endpoint.listen(PORT).unwrap();
    pair.hosts[CLIENT].endpoint = endpoint;
}

#[test]
fn a_peer_that_restarts_keeps_the_association() {
    let (mut pair, client, server) = Pair::established();
    pair.send(CLIENT, client, 0, b"before");
    pair.run();
    pair.send(SERVER, server, 0, b"lost in the crash");
    pair.collect();
    pair.wire.clear();
    crash(&mut pair);
    pair.log.clear();
    let again = pair.connect();
    pair.send(CLIENT, again, 0, b"after");
    pair.run();
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
    assert!(
        pair.hosts[SERVER]
            .events
            .iter()
            .any(|(id, event)| *id == server && matches!(event, Event::Restarted { .. }))
    );
    let failed =
        |event: &Event| matches!(event, Event::SendFailed(failed) if failed.data == "lost in the crash");
    assert!(pair.hosts[SERVER].events.iter().any(|(_, event)| failed(event)));
    // Data acknowledged before the restart can still be read, and comes first.
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "before");
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "after");
    pair.send(SERVER, server, 3, b"hello again");
    pair.run();
    assert_eq!(pair.recv(CLIENT, again).unwrap().data, "hello again");
}

/// The application requested a shutdown, before the peer's SHUTDOWN or after it, and data was outstanding when the
/// peer lost its state.
#[test]
fn a_shutdown_goes_on_after_a_restart() {
    for peer_first in [false, true] {
        let (mut pair, client, server) = Pair::established();
        pair.send(SERVER, server, 0, b"lost in the crash");
        pair.collect();
        pair.wire.clear();
        if peer_first {
            pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
            pair.run();
            assert_eq!(pair.state(SERVER, server), "SHUTDOWN-RECEIVED");
        }
        pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
        crash(&mut pair);
        let again = pair.connect();
        pair.run();
        pair.pass(Duration::from_secs(5));
        let ended = |host: usize, id: AssociationId| {
            let closed = Event::Closed(CloseReason::Shutdown);
            pair.hosts[host].events.iter().any(|(of, event)| *of == id && *event == closed)
        };
        assert!(ended(SERVER, server) && ended(CLIENT, again), "peer first: {peer_first}");
    }
}

/// A peer that waits for the COOKIE ACK ignores a SHUTDOWN that comes before it (section 9.2).
#[test]
fn cookie_ack_precedes_a_pending_shutdown() {
    let (mut pair, _, server) = Pair::established();
    pair.send(SERVER, server, 0, b"lost in the crash");
    pair.collect();
    pair.wire.clear();
    pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
    crash(&mut pair);
    pair.log.clear();
    pair.connect();
    pair.run();
    let mine = |sent: &&Sent| sent.source == address(SERVER, 0);
    let kinds: Vec<u8> = pair.log.iter().filter(mine).flat_map(Sent::kinds).collect();
    let at = |wanted| kinds.iter().position(|kind| *kind == wanted);
    assert!(at(kind::COOKIE_ACK).unwrap() < at(kind::SHUTDOWN).unwrap(), "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kind| **kind == kind::COOKIE_ACK).count(), 1);
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown), "without a time-out");
}

#[test]
fn tags_change_with_a_restart() {
    let (mut pair, _, server) = Pair::established();
    let before = pair.hosts[SERVER].endpoint.status(server).unwrap();
    crash(&mut pair);
    pair.connect();
    pair.run();
    let after = pair.hosts[SERVER].endpoint.status(server).unwrap();
    assert_ne!(before.local_tag, after.local_tag);
    assert_ne!(before.peer_tag, after.peer_tag);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().restarts, 1);
}

#[test]
fn a_restart_that_adds_addresses_is_aborted() {
    let (mut pair, _, server) = Pair::established();
    pair.hosts[CLIENT].addresses.push(address(CLIENT, 1));
    crash(&mut pair);
    let id = pair.connect();
    pair.run();
    assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
    let aborted = |event: &Event| matches!(event, Event::Closed(CloseReason::PeerAborted { code: 11, .. }));
    assert!(pair.hosts[CLIENT].events.iter().any(|(which, event)| *which == id && aborted(event)));
}

#[test]
fn an_init_alone_changes_nothing() {
    let (mut pair, client, server) = Pair::established();
    let init = pair.log[0].clone();
    pair.deliver(&init);
    pair.wire.clear();
    pair.send(CLIENT, client, 0, b"still here");
    pair.run();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "still here");
}

#[test]
fn restart_during_shutdown_ack_sent_is_refused() {
    let (mut pair, client, server) = Pair::established();
    // The restarted peer's COOKIE ECHO arrives in SHUTDOWN-ACK-SENT. It comes from an INIT answered just before.
    let mut restarted = Endpoint::new(config(1, CLIENT), [99; 32], pair.now).unwrap();
    let remotes = vec![address(SERVER, 0)];
    let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
    restarted.connect(pair.now, request).unwrap();
    let mut buffer = vec![0; 4096];
    let step = |endpoint: &mut Endpoint, now, buffer: &mut Vec<u8>| {
        let transmit = endpoint.poll_transmit(now, buffer, 1).unwrap();
        Sent {
            source: address(CLIENT, 0),
            destination: address(SERVER, 0),
            bytes: buffer[..transmit.len].to_vec(),
            fragment: transmit.fragment.is_some(),
        }
    };
    let init = step(&mut restarted, pair.now, &mut buffer);
    pair.deliver(&init);
    let ack = pair.wire.pop_front().unwrap();
    let bytes = &ack.bytes;
    restarted.handle_datagram(pair.now, Datagram { source: ack.source, destination: None, bytes, ecn: 0 });
    let echo = step(&mut restarted, pair.now, &mut buffer);
    // Meanwhile the old association reaches SHUTDOWN-ACK-SENT.
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.run_dropping(has(kind::SHUTDOWN_COMPLETE));
    assert_eq!(pair.state(SERVER, server), "SHUTDOWN-ACK-SENT");
    pair.log.clear();
    pair.deliver(&echo);
    pair.collect();
    assert_eq!(pair.kinds(), [[kind::SHUTDOWN_ACK], [kind::ERROR]]);
    assert_eq!(pair.state(SERVER, server), "SHUTDOWN-ACK-SENT");
}
