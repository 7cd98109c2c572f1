//! RFC 9260 section 5.2.4: Table 12.

use strandline_wire::chunk::CookieEcho;

use super::raw::*;
use super::*;
use crate::authentication::Authentication;
use crate::config::{ExtensionsConfig, StreamCredit};

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

fn extended(extensions: ExtensionsConfig, host: usize) -> EndpointConfig {
    let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    EndpointConfig { association, ..config(1, host) }
}

/// A peer may support more after a restart than before.
#[test]
fn restart_agrees_on_more() {
    let changes: [fn(&mut ExtensionsConfig); 8] = [
        |extensions| extensions.ecn = true,
        |extensions| extensions.stream_reconfiguration = true,
        |extensions| extensions.partial_reliability = true,
        |extensions| extensions.interleaving = true,
        |extensions| {
            extensions.interleaving = true;
            extensions.stream_credit = Some(StreamCredit::default());
        },
        |extensions| extensions.authentication = Some(Authentication::default()),
        |extensions| extensions.dynamic_addresses = true,
        |extensions| extensions.nr_sack = true,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut all = ExtensionsConfig::NONE;
        change(&mut all);
        let agreed = |pair: &Pair, host: usize, id| pair.hosts[host].endpoint.status(id).unwrap().extensions;
        let (fresh, one, _) = Pair::with(extended(all, CLIENT), extended(all, SERVER)).establish();
        let wanted = agreed(&fresh, CLIENT, one);
        let none = extended(ExtensionsConfig::NONE, CLIENT);
        let (mut pair, _, server) = Pair::with(none, extended(all, SERVER)).establish();
        assert_ne!(agreed(&pair, SERVER, server), wanted, "extension {at}");
        pair.hosts[CLIENT].endpoint = Endpoint::new(extended(all, CLIENT), [99; 32], pair.now).unwrap();
        let again = pair.connect();
        pair.run();
        assert_eq!(agreed(&pair, CLIENT, again), wanted, "extension {at}");
        assert_eq!(agreed(&pair, SERVER, server), wanted, "extension {at}");
        for (host, id, to, there) in [(CLIENT, again, SERVER, server), (SERVER, server, CLIENT, again)] {
            pair.send(host, id, 1, &[7; 5000]);
            pair.pass(Duration::from_secs(1));
            assert_eq!(pair.recv(to, there).map(|message| message.data.len()), Some(5000), "extension {at}");
        }
    }
}

/// An INIT that the client answers while its own COOKIE ECHO is under way. Returns what it was established
/// with, and what it has after the cookie of that INIT, from a peer that supports no extension.
fn crossed(extensions: ExtensionsConfig) -> [crate::stats::Status; 2] {
    let mut pair = Pair::with(extended(extensions, CLIENT), extended(extensions, SERVER));
    let client = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    let own = pair.wire.pop_front().unwrap();
    let answer = pair.log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap();
    let (init, ports) = (init(init_ack(answer).1), (PORT, 5000));
    let sent = pair.forge(SERVER, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    let (tag, _, cookie) = init_ack(&pair.wire.pop_front().expect("an INIT ACK"));
    pair.deliver(&own);
    // The peer does not answer any more.
    pair.run_dropping(has(kind::HEARTBEAT));
    let status = |pair: &Pair| pair.hosts[CLIENT].endpoint.status(client).unwrap();
    let before = status(&pair);
    assert_eq!(before.state.name(), "ESTABLISHED");
    let echo = CookieEcho { cookie: &cookie };
    let sent = pair.forge(SERVER, ports, tag, |packet| assert!(packet.push(&echo)));
    pair.deliver(&sent);
    [before, status(&pair)]
}

/// A collision whose cookie comes once the association is established: the peer's tag changes, and what was agreed on
/// stays, because both directions are in use.
#[test]
fn collision_keeps_what_was_agreed_on() {
    let stream_credit = Some(StreamCredit::default());
    let extensions = ExtensionsConfig { interleaving: true, stream_credit, ..ExtensionsConfig::default() };
    let [before, after] = crossed(extensions);
    assert!(before.extensions.interleaving);
    assert_eq!(after.extensions, before.extensions);
    assert_eq!(after.peer_tag, RAW_TAG);
}

/// A request went with the COOKIE ECHO in an I-DATA chunk, and the peer restarts without I-DATA and sets up an
/// association itself. Returns the packet with its COOKIE ECHO, and the same without authentication, which a HEARTBEAT
/// follows. The client, and the peer after its restart, demand authentication of the chunk types.
fn other_chunks(client: Option<&[u8]>, peer: Option<&[u8]>) -> (Pair, AssociationId, [Sent; 2]) {
    let demanding = |chunks: &[u8]| Authentication {
        chunks: chunks.iter().copied().collect(),
        ..Authentication::default()
    };
    let with = |interleaving, chunks: Option<&[u8]>, host| {
        let authentication = chunks.map(demanding);
        extended(ExtensionsConfig { interleaving, authentication, ..ExtensionsConfig::default() }, host)
    };
    let mut pair = Pair::with(with(true, client, CLIENT), with(true, peer, SERVER));
    let id = pair.connect();
    pair.send(CLIENT, id, 0, b"request");
    pair.run_dropping(|sent| sent.source == address(SERVER, 0) && !has(kind::INIT_ACK)(sent));
    assert_eq!(pair.state(CLIENT, id), "COOKIE-ECHOED");
    pair.hosts[SERVER].endpoint = Endpoint::new(with(false, peer, SERVER), [99; 32], pair.now).unwrap();
    let remotes = vec![address(CLIENT, 0)];
    let request = Connect { local_port: PORT, peer_port: 5000, remotes, local: Vec::new(), config: None };
    let now = pair.now;
    pair.hosts[SERVER].endpoint.connect(now, request).unwrap();
    pair.run_to(kind::COOKIE_ECHO);
    let echo = pair.wire.pop_front().unwrap();
    let packet = Packet::parse(&echo.bytes).unwrap();
    let raw = packet.chunks().flatten().find(|raw| raw.kind == kind::COOKIE_ECHO).unwrap();
    let again = pair.forge(SERVER, (PORT, 5000), echo.tag(), |packet| {
        assert!(packet.push(&CookieEcho { cookie: raw.value }));
        assert!(packet.push(&AnyChunk { kind: kind::HEARTBEAT, flags: 0, value: &[0, 1, 0, 8, 1, 2, 3, 4] }));
    });
    pair.log.clear();
    (pair, id, [echo, again])
}

#[test]
fn collision_with_other_chunks_ends_the_set_up() {
    let (mut pair, id, [_, echo]) = other_chunks(None, None);
    pair.deliver(&echo);
    assert!(matches!(pair.closed(CLIENT), Some(CloseReason::ProtocolViolation(_))), "{:?}", pair.kinds());
    assert_eq!(pair.kinds(), [[kind::ABORT]]);
    // The ABORT is lost, and the COOKIE ECHO comes again.
    pair.hosts[CLIENT].endpoint.listen(5000).unwrap();
    pair.hosts[CLIENT].endpoint.release(id);
    pair.wire.clear();
    pair.deliver(&echo);
    assert_eq!(pair.hosts[CLIENT].endpoint.association_count(), 0);
    pair.run();
    assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })));
}

/// The process that sent the COOKIE ECHO demands an authenticated ABORT, and has other keys than the earlier one.
#[test]
fn refused_collision_sends_an_authenticated_abort() {
    let (mut pair, _, [_, echo]) = other_chunks(Some(&[kind::DATA]), Some(&[kind::ABORT]));
    pair.deliver(&echo);
    assert_eq!(pair.kinds(), [[kind::AUTH, kind::ABORT]]);
    pair.run();
    assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })));
}

/// The client demands that its association is ended by authenticated chunks only. Nothing of it changes.
#[test]
fn collision_without_authentication_ends_no_set_up() {
    let (mut pair, client, [_, echo]) = other_chunks(Some(&[kind::ABORT]), Some(&[]));
    let tag = |pair: &Pair| pair.hosts[CLIENT].endpoint.status(client).unwrap().peer_tag;
    let before = tag(&pair);
    pair.deliver(&echo);
    assert_eq!((pair.state(CLIENT, client), tag(&pair)), ("COOKIE-ECHOED", before));
    assert_eq!(pair.kinds(), [[]; 0]);
}

/// What counts is the packet of the COOKIE ECHO, not the one before it.
#[test]
fn authenticated_collision_ends_the_set_up() {
    let (mut pair, _, [echo, _]) = other_chunks(Some(&[kind::ABORT, kind::COOKIE_ECHO]), Some(&[]));
    assert_eq!(echo.kinds()[..2], [kind::AUTH, kind::COOKIE_ECHO]);
    pair.deliver(&echo);
    assert!(matches!(pair.closed(CLIENT), Some(CloseReason::ProtocolViolation(_))), "{:?}", pair.kinds());
    pair.run();
    assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })));
}

/// A peer does not lose authentication by a collision.
#[test]
fn collision_keeps_authentication() {
    let authentication = Some(Authentication::default());
    let [before, after] = crossed(ExtensionsConfig { authentication, ..ExtensionsConfig::default() });
    assert!(before.extensions.authentication);
    assert_eq!((after.extensions, after.peer_tag), (before.extensions, before.peer_tag));
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
