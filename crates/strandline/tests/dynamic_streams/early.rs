//! Streams that are opened before the association is established.

use std::sync::Mutex;

use strandline::memory::{Fate, Passing};
use strandline::{ConnectError, Listener, Peer};

use super::*;
use crate::common::server;

/// Delay of the network in one direction.
const HALF: Duration = Duration::from_millis(30);
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const DATA: u8 = 0;
const COOKIE_ECHO: u8 = 10;

/// Returns the types of the chunks in a packet.
fn kinds(mut packet: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    packet = &packet[12..];
    while let [kind, _, high, low, ..] = *packet {
        kinds.push(kind);
        let len = usize::from(u16::from_be_bytes([high, low])).next_multiple_of(4);
        packet = packet.get(len..).unwrap_or_default();
    }
    kinds
}

/// Returns a network that records the chunks of each packet and drops those that `drops` selects by their chunks and
/// their number among packets of the same first chunk.
fn watched(
    drops: impl Fn(u8, usize) -> bool + Send + Sync + 'static,
) -> (NetworkBuilder, Arc<Mutex<Vec<Vec<u8>>>>) {
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let log = Arc::clone(&seen);
    let judge = move |passing: &Passing<'_>| {
        let kinds = kinds(passing.bytes);
        let mut log = log.lock().unwrap();
        let count = log.iter().filter(|other| other[0] == kinds[0]).count();
        log.push(kinds.clone());
        if drops(kinds[0], count) { Fate::Drop } else { Fate::Deliver }
    };
    (Network::builder().delay(HALF).judge(judge), seen)
}

/// Serves one association with dynamic streams, and echoes what it gets.
fn serve(there: &Stack) -> u16 {
    let listener = Listener::bind(there, 0).unwrap();
    let port = listener.port();
    tokio::spawn(async move {
        let server = listener.accept().await.unwrap();
        server.set_dynamic_streams(DynamicStreams::default()).unwrap();
        echo(&server);
        server.closed().await;
    });
    port
}

fn start(here: &Stack, port: u16) -> Association {
    let client = Association::start(here, server(port), 0, None).unwrap();
    client.set_dynamic_streams(DynamicStreams::default()).unwrap();
    client
}

/// A stream can be opened when the INIT ACK is here. A task that waits for it has its data in the same packet as the
/// COOKIE ECHO, and the answer two round trips after the start.
#[tokio::test(start_paused = true)]
async fn the_first_request_travels_with_the_cookie_echo() {
    for config in [AssociationConfig::default(), with_credit()] {
        let (network, seen) = watched(|_, _| false);
        let (here, there) = stacks_with(network, &config);
        let listener = Listener::bind(&there, 0).unwrap();
        let port = listener.port();
        tokio::spawn(async move {
            let server = listener.accept().await.unwrap();
            server.set_dynamic_streams(DynamicStreams::default()).unwrap();
            let (mut recv, mut send) = server.accept_stream().await.unwrap().into_split();
            send.send(recv.recv().await.unwrap().unwrap().data).await.unwrap();
            server.closed().await;
        });
        let asking = async move {
            let begun = Instant::now();
            let client = start(&here, port);
            let stream = client.open_stream().await.unwrap();
            assert_eq!((begun.elapsed(), client.status().unwrap().state.name()), (2 * HALF, "COOKIE-ECHOED"));
            let (mut recv, mut send) = stream.into_split();
            send.send(pattern(400, 1)).await.unwrap();
            assert!(recv.recv().await.unwrap().unwrap().data == pattern(400, 1));
            client.established().await.unwrap();
            begun.elapsed()
        };
        assert_eq!(tokio::spawn(asking).await.unwrap(), 4 * HALF);
        let seen = seen.lock().unwrap().clone();
        assert_eq!((&seen[0][..], &seen[1][..]), (&[INIT][..], &[INIT_ACK][..]));
        assert_eq!(seen[2][0], COOKIE_ECHO);
        assert!(seen[2].len() > 1, "it has the request, too: {:?}", seen[2]);
    }
}

/// Streams that are opened later in the set-up, all at once, send with further COOKIE ECHOs.
#[tokio::test(start_paused = true)]
async fn many_streams_open_at_once() {
    let (network, seen) = watched(|_, _| false);
    let (here, there) = stacks_with(network, &AssociationConfig::default());
    let client = start(&here, serve(&there));
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let client = client.clone();
        tasks.spawn(async move { ask(client.open_stream().await.unwrap(), pattern(300, number)).await });
    }
    let mut found = tasks.join_all().await;
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 8);
    let early = seen
        .lock()
        .unwrap()
        .iter()
        .filter(|kinds| kinds[0] == COOKIE_ECHO)
        .flatten()
        .copied()
        .collect::<Vec<_>>();
    assert_eq!(early.iter().filter(|kind| **kind == DATA).count(), 8, "{early:?}");
}

/// What is sent arrives once, whichever packet of the set-up is lost.
#[tokio::test(start_paused = true)]
async fn lost_set_up_packets_lose_nothing() {
    for lost in [INIT, INIT_ACK, COOKIE_ECHO, COOKIE_ECHO + 1] {
        let (network, _) = watched(move |kind, count| kind == lost && count == 0);
        let (here, there) = stacks_with(network, &AssociationConfig::default());
        let client = start(&here, serve(&there));
        let stream = client.open_stream().await.unwrap();
        ask(stream, pattern(400, lost)).await;
    }
}

/// A set-up that fails after the INIT ACK fails the streams that were opened: by the reason.
#[tokio::test(start_paused = true)]
async fn streams_fail_with_their_set_up() {
    // Nothing comes of the COOKIE ECHO.
    let (network, _) = watched(|kind, _| kind == COOKIE_ECHO);
    let (here, there) = stacks_with(network, &AssociationConfig::default());
    let client = start(&here, serve(&there));
    let (mut recv, mut send) = client.open_stream().await.unwrap().into_split();
    send.write_all(b"request").await.unwrap();
    assert_eq!(recv.recv().await, Err(RecvError::Ended(Ended::TimedOut)));
    assert_eq!(send.send(Bytes::from_static(b"more")).await, Err(SendError::Ended(Ended::TimedOut)));
    assert_eq!(send.finished().await, Err(FinishError::Ended(Ended::TimedOut)));
    assert_eq!(client.open_stream().await.err(), Some(OpenStreamError::Ended));
    assert!(matches!(client.established().await, Err(ConnectError::Ended(Ended::TimedOut))));
    // The peer aborts, since nobody accepts the association.
    let (network, _) = watched(|_, _| false);
    let (here, there) = stacks_with(network, &AssociationConfig::default());
    let listener = Listener::bind(&there, 0).unwrap();
    let client = start(&here, listener.port());
    let (mut recv, mut send) = client.open_stream().await.unwrap().into_split();
    drop(listener);
    send.write_all(b"request").await.unwrap();
    let Err(RecvError::Ended(reason)) = recv.recv().await else { panic!("it has ended") };
    assert!(matches!(reason, Ended::PeerAborted { .. }), "{reason}");
    assert!(client.established().await.is_err());
}

/// A stream that is closed or dropped during the set-up is closed at the peer once the set-up is complete.
#[tokio::test(start_paused = true)]
async fn streams_closed_during_the_set_up() {
    let (here, there) = stacks_with(Network::builder().delay(HALF), &AssociationConfig::default());
    let listener = Listener::bind(&there, 0).unwrap();
    let client = start(&here, listener.port());
    let (recv, mut send) = client.open_stream().await.unwrap().into_split();
    send.write_all(b"all of it").await.unwrap();
    send.finish().unwrap();
    // Never used.
    drop(client.open_stream().await.unwrap());
    let (gone, mut reset) = client.open_stream().await.unwrap().into_split();
    reset.write_all(b"some of it").await.unwrap();
    drop((gone, reset));
    assert_eq!(client.status().unwrap().state.name(), "COOKIE-ECHOED");
    let server = listener.accept().await.unwrap();
    server.set_dynamic_streams(DynamicStreams::default()).unwrap();
    let mut whole = Vec::new();
    let stream = server.accept_stream().await.unwrap();
    let (mut from, mut to) = stream.into_split();
    from.read_to_end(&mut whole).await.unwrap();
    assert_eq!(whole, b"all of it");
    to.finish().unwrap();
    send.finished().await.unwrap();
    let mut other = server.accept_stream().await.unwrap();
    let error = other.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    drop((other, recv, from, to, send));
    until("nothing is open", || {
        client.control().dynamic_streams() == 0 && server.control().dynamic_streams() == 0
    })
    .await;
}

/// Returns the tag of the INIT or INIT ACK in a packet; `None` for other packets.
fn initiate_tag(packet: &[u8]) -> Option<u32> {
    let tag = packet.get(16..20)?.try_into().map(u32::from_be_bytes).ok()?;
    matches!(packet[12], INIT | INIT_ACK).then_some(tag)
}

/// What became of a set-up in which the peer restarted behind its INIT ACK, and set up the association itself.
struct Crossed {
    /// Whether this side opens the other half of the streams by the tags of the restarted peer.
    turned: bool,
    client: Association,
    streams: Vec<Stream>,
    /// What the client's task got that waited until the association is established.
    established: Result<(), ConnectError>,
    /// The restarted peer, and what else has to exist.
    peer: Association,
    _stacks: [Stack; 2],
}

/// Lets a client open streams with the INIT ACK of a listener, whose stack ends. Another one with this random seed and
/// these parameters sets up an association with the client, whose COOKIE ECHOs are lost.
async fn cross(seed: u8, restarted: AssociationConfig) -> Crossed {
    const PORT: u16 = 5000;
    let tags: Arc<Mutex<Vec<u32>>> = Arc::default();
    let seen = Arc::clone(&tags);
    let judge = move |passing: &Passing<'_>| {
        seen.lock().unwrap().extend(initiate_tag(passing.bytes));
        let is_clients = passing.source.to_string() == "10.0.0.1";
        if is_clients && passing.bytes[12] == COOKIE_ECHO { Fate::Drop } else { Fate::Deliver }
    };
    let network = Network::builder().delay(HALF).judge(judge).build();
    let try_stack = |address: [u8; 4], seed, config: &AssociationConfig| {
        let builder = Stack::builder().association(config.clone()).seed([seed; 32]);
        builder.memory(&network, [address.into()]).ok()
    };
    let here = try_stack([10, 0, 0, 1], 1, &AssociationConfig::default()).unwrap();
    let there = try_stack(crate::common::SERVER, 2, &AssociationConfig::default()).unwrap();
    let listener = Listener::bind(&there, PORT).unwrap();
    let client = Association::start(&here, server(PORT), PORT, None).unwrap();
    client.set_dynamic_streams(DynamicStreams::default()).unwrap();
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(client.open_stream().await.unwrap());
    }
    let waiting = client.clone();
    let waiting = tokio::spawn(async move { waiting.established().await });
    drop((listener, there));
    let mut again = None;
    until("the server's address is free", || {
        again = try_stack(crate::common::SERVER, seed, &restarted);
        again.is_some()
    })
    .await;
    let again = again.unwrap();
    let peer = Association::start(&again, Peer::new([10, 0, 0, 1], PORT), PORT, None).unwrap();
    let established = waiting.await.unwrap();
    let tags = tags.lock().unwrap().clone();
    let [own, first, second, repeated, ..] = tags[..] else { panic!("two set-ups: {tags:?}") };
    assert_eq!(own, repeated, "the client keeps its tag");
    let turned = (own < first) != (own < second);
    Crossed { turned, client, streams, established, peer, _stacks: [here, again] }
}

/// The client's association was aborted, and never established for its application. Nothing was sent on a stream.
async fn assert_aborted(crossed: Crossed) {
    assert!(
        matches!(crossed.established, Err(ConnectError::Ended(Ended::Aborted))),
        "{:?}",
        crossed.established
    );
    assert!(matches!(crossed.client.established().await, Err(ConnectError::Ended(Ended::Aborted))));
    for stream in crossed.streams {
        let (mut recv, mut send) = stream.into_split();
        assert_eq!(recv.recv().await, Err(RecvError::Ended(Ended::Aborted)));
        assert_eq!(send.send(Bytes::from_static(b"late")).await, Err(SendError::Ended(Ended::Aborted)));
    }
    let ended = crossed.peer.closed().await;
    assert!(matches!(ended, Ended::PeerAborted { .. }), "{ended}");
}

/// If the peer restarts during the set-up, and its new tag gives the streams that were opened to the other side, the
/// association is aborted. If the tag leaves everything as it was, it goes on.
#[tokio::test(start_paused = true)]
async fn turned_streams_end_the_set_up() {
    let mut found = [0; 2];
    for seed in 10..26 {
        let mut crossed = cross(seed, AssociationConfig::default()).await;
        found[usize::from(crossed.turned)] += 1;
        if crossed.turned {
            assert_aborted(crossed).await;
            continue;
        }
        crossed.established.unwrap();
        crossed.peer.set_dynamic_streams(DynamicStreams::default()).unwrap();
        echo(&crossed.peer);
        let stream = crossed.streams.pop().unwrap();
        ask(stream, pattern(400, seed)).await;
    }
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
}

/// So it is if the restarted peer has fewer streams than were opened.
#[tokio::test(start_paused = true)]
async fn missing_streams_end_the_set_up() {
    let mut found = 0;
    for seed in 10..26 {
        for (outbound, inbound) in [(3, 100), (100, 3)] {
            let few = AssociationConfig {
                outbound_streams: outbound,
                inbound_streams_max: inbound,
                ..AssociationConfig::default()
            };
            let crossed = cross(seed, few).await;
            found += usize::from(!crossed.turned);
            assert_aborted(crossed).await;
        }
    }
    assert!(found > 0, "none has the same tags");
}
