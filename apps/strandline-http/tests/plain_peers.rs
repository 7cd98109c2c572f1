//! Peers that know HTTP over streams, but no control messages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::time::Duration;

use strandline::memory::Network;
use strandline::{Association, Ended, Listener, SendInfo, Stack, StreamId};
use strandline_http::{Budget, ConnectionError, HttpAssociation, HttpStream, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use crate::common::World;

const REQUEST: &[u8] = b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n";

/// Receives messages until the text of a stream ends as given.
async fn receive_until(association: &Association, stream: u16, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let message = association.recv().await.unwrap().expect("more messages");
        if message.stream == StreamId(stream) {
            text.push_str(std::str::from_utf8(&message.data).unwrap());
        }
    }
    text
}

#[tokio::test(start_paused = true)]
async fn plain_clients_are_answered_on_their_streams() {
    let world = World::new();
    let plain = world.associate(10).await;
    for stream in [7, 3] {
        plain.send(REQUEST, SendInfo::on(StreamId(stream))).await.unwrap();
    }
    for stream in [7, 3, 7] {
        if stream == 7 {
            plain.send(REQUEST, SendInfo::on(StreamId(stream))).await.unwrap();
        }
        let text = receive_until(&plain, stream, "this is /one").await;
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn plain_clients_see_failures_as_an_abort() {
    let world = World::new();
    let plain = world.associate(10).await;
    plain.send(b"GET /fail HTTP/1.0\r\n\r\n", SendInfo::on(StreamId(0))).await.unwrap();
    assert!(matches!(plain.closed().await, Ended::PeerAborted { .. }));
}

/// Sets up an association with a server that is a task of the test.
async fn with_plain_server() -> (HttpAssociation, Association) {
    with_plain_server_and(Settings::default()).await
}

async fn with_plain_server_and(settings: Settings) -> (HttpAssociation, Association) {
    let network = Network::new();
    let stack = |last| Stack::builder().memory(&network, [[10, 0, 0, last].into()]).unwrap();
    let (here, there) = (stack(1), stack(2));
    let listener = Listener::bind(&there, 80).unwrap();
    let config = strandline::AssociationConfig { outbound_streams: 2, ..Default::default() };
    let peer = strandline::Peer::new([10, 0, 0, 2], 80);
    let association = Association::connect_with(&here, peer, 0, config).await.unwrap();
    (HttpAssociation::client(association, settings), listener.accept().await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn plain_servers_get_requests_and_nothing_else() {
    let (http, server) = with_plain_server().await;
    for turn in 0..3 {
        if turn == 0 {
            let mut stream = http.open().await.unwrap();
            stream.write_all(REQUEST).await.unwrap();
            let request = server.recv().await.unwrap().unwrap();
            assert_eq!(request.data, REQUEST);
            server.send(b"response", SendInfo::on(request.stream)).await.unwrap();
            let mut read = [0; 8];
            stream.read_exact(&mut read).await.unwrap();
            assert_eq!(&read, b"response");
            stream.shutdown().await.unwrap();
        } else if turn == 1 {
            let mut second = http.open().await.unwrap();
            assert_eq!(second.stream(), 1, "the closed stream isn't used again");
            second.write_all(REQUEST).await.unwrap();
            assert_eq!(server.recv().await.unwrap().unwrap().stream, StreamId(1));
        } else {
            assert_eq!(http.open().await.unwrap_err(), ConnectionError::StreamsUsedUp);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_plain_server_ends_a_response_by_shutdown() {
    let (http, server) = with_plain_server().await;
    let mut stream = http.open().await.unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    server.recv().await.unwrap().unwrap();
    server.send(b"everything", SendInfo::on(StreamId(0))).await.unwrap();
    server.control().start_shutdown();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "everything");
}

#[tokio::test(start_paused = true)]
async fn a_plain_server_that_aborts_is_an_error() {
    let (http, server) = with_plain_server().await;
    let mut stream = http.open().await.unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    server.recv().await.unwrap().unwrap();
    server.send(b"a part", SendInfo::on(StreamId(0))).await.unwrap();
    let mut part = [0; 6];
    stream.read_exact(&mut part).await.unwrap();
    server.abort("gone");
    let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

/// Sends more on stream 0, which isn't read, than the client holds, and then a response on stream 1. Returns the two
/// connections.
async fn stall(settings: Settings) -> (HttpStream, HttpStream, Association) {
    let (http, server) = with_plain_server_and(settings).await;
    let (mut stalled, mut other) = (http.open().await.unwrap(), http.open().await.unwrap());
    for stream in [&mut stalled, &mut other] {
        stream.write_all(REQUEST).await.unwrap();
        server.recv().await.unwrap().unwrap();
    }
    for _ in 0..20 {
        server.send(&[b'x'; 10_000], SendInfo::on(StreamId(0))).await.unwrap();
    }
    server.send(b"response", SendInfo::on(StreamId(1))).await.unwrap();
    (stalled, other, server)
}

/// The peer can't be told to stop sending on a stream.
#[tokio::test(start_paused = true)]
async fn stalled_readers_end_when_others_wait() {
    let limit = Duration::from_secs(20);
    let settings = Settings::default().buffer_max(100_000).stall_timeout(limit);
    let (mut stalled, mut other, _server) = stall(settings).await;
    #[allow(clippy::disallowed_methods, reason = "virtual time")]
    let begun = Instant::now();
    let mut response = [0; 8];
    other.read_exact(&mut response).await.unwrap();
    assert_eq!((&response, begun.elapsed().as_secs()), (b"response", limit.as_secs()));
    let error = stalled.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(stalled.write_all(b"more").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn lone_stalled_readers_do_not_end() {
    let (http, server) = with_plain_server_and(Settings::default().buffer_max(100_000)).await;
    let mut stalled = http.open().await.unwrap();
    stalled.write_all(REQUEST).await.unwrap();
    for _ in 0..20 {
        server.send(&[b'x'; 10_000], SendInfo::on(StreamId(0))).await.unwrap();
    }
    // Sleeps because nothing is to happen.
    tokio::time::sleep(Duration::from_secs(100)).await;
    let mut all = vec![0; 200_000];
    stalled.read_exact(&mut all).await.unwrap();
}

/// A batch of messages may exceed it.
#[tokio::test(start_paused = true)]
async fn budgets_hold_associations_back() {
    let settings = Settings::default().budget(Budget::new(100_000, 10)).stall_timeout(Duration::MAX);
    let (http, server) = with_plain_server_and(settings).await;
    let mut stream = http.open().await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    for _ in 0..100 {
        server.send(&[b'x'; 10_000], SendInfo::on(StreamId(0))).await.unwrap();
    }
    // Sleeps because nothing more is to be taken; the time is virtual.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let waiting = http.association().status().unwrap().receive_buffered;
    assert!(waiting > 300_000, "{waiting}");
    let mut all = vec![0; 1_000_000];
    stream.read_exact(&mut all).await.unwrap();
}

/// What one association holds closes the window of another only until that has read all that it holds.
#[tokio::test(start_paused = true)]
async fn associations_share_a_budget() {
    let settings = Settings::default().budget(Budget::new(100_000, 10)).stall_timeout(Duration::MAX);
    let (mut stalled, _, _server) = stall(settings.clone()).await;
    let (http, server) = with_plain_server_and(settings).await;
    let mut stream = http.open().await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    for part in 0..20 {
        server.send(&[part; 10_000], SendInfo::on(StreamId(0))).await.unwrap();
    }
    let mut all = vec![0; 200_000];
    stream.read_exact(&mut all).await.unwrap();
    assert!(all.ends_with(&[19; 10_000]), "it goes on although the other one holds everything");
    stalled.read_exact(&mut all).await.unwrap();
}
