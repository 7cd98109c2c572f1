//! Streams that are opened before the association is established.

use std::sync::Mutex;

use strandline::memory::{Fate, Passing};
use strandline::{ConnectError, Listener};

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
