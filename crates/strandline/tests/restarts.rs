//! No reader sees a clean end after incomplete data: a peer that restarts while it sends, and a stack that ends.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{SERVER, all_arrived, pattern, server, until, with_switch};
use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, Ended, Endpoint, EndpointJoiner, Listener, Notification, RecvError,
    SendInfo, Stack, StreamId,
};
use tokio::io::AsyncReadExt;

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const PORT: u16 = 5000;
const STREAM: StreamId = StreamId(3);
const OTHER: StreamId = StreamId(4);

/// Size of the message that the restart cuts off, bytes.
const LONG: usize = 3_000_000;

const RECEIVE_BUFFER: u32 = 200_000;

fn config() -> AssociationConfig {
    AssociationConfig {
        receive_buffer: Some(RECEIVE_BUFFER),
        partial_delivery_point: 50_000,
        ..AssociationConfig::default()
    }
}

fn try_stack(network: &Network, address: [u8; 4], seed: u8) -> Option<Stack> {
    let builder = Stack::builder().association(config()).seed([seed; 32]);
    builder.memory(network, [address.into()]).ok()
}

/// A server, and a client that can lose power.
struct World {
    network: Network,
    there: Stack,
    dead: Arc<AtomicBool>,
}

/// The client, and the stack that it needs.
type Client = (Stack, Association);

impl World {
    fn new() -> Self {
        let (network, dead) = with_switch();
        let network = network.build();
        let there = try_stack(&network, SERVER, 2).unwrap();
        Self { network, there, dead }
    }

    async fn connect(&self, seed: u8) -> Client {
        let mut stack = None;
        until("the client's address is free", || {
            stack = try_stack(&self.network, CLIENT, seed);
            stack.is_some()
        })
        .await;
        let here = stack.unwrap();
        self.dead.store(false, Ordering::Relaxed);
        let client = Association::connect_with(&here, server(7), PORT, config()).await.unwrap();
        (here, client)
    }

    /// The client loses power and sets up the association anew. It sends a message on each stream and shuts down.
    async fn crash(&self, (here, client): Client) -> Client {
        self.dead.store(true, Ordering::Relaxed);
        client.abort("");
        drop(client);
        here.wait_idle().await;
        drop(here);
        let (here, client) = self.connect(9).await;
        for stream in [STREAM, OTHER] {
            client.send(b"again", SendInfo::on(stream)).await.unwrap();
        }
        client.control().start_shutdown();
        (here, client)
    }
}

/// Begins to send a long message that the peer has to take in parts.
async fn send_long(client: &Association) {
    client.send(&pattern(LONG, 1), SendInfo::on(STREAM)).await.unwrap();
}

/// Waits until the server has no room for more.
async fn is_full(server: &Association) {
    until("the receive buffer is full", || server.status().unwrap().receive_buffered > RECEIVE_BUFFER / 2)
        .await;
}

#[tokio::test(start_paused = true)]
async fn byte_streams_fail_at_a_restart() {
    for reads_before in [false, true] {
        let world = World::new();
        let listener = Listener::bind(&world.there, 7).unwrap();
        let client = world.connect(1).await;
        let server = listener.accept().await.unwrap();
        let mut stream = server.open_recv(STREAM).unwrap();
        let mut other = server.open_recv(OTHER).unwrap();
        send_long(&client.1).await;
        let mut received = vec![0; 10_000];
        if reads_before {
            stream.read_exact(&mut received).await.unwrap();
        } else {
            received.clear();
        }
        is_full(&server).await;
        let _client = world.crash(client).await;
        let failed = stream.read_to_end(&mut received).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::ConnectionReset, "{failed}");
        assert!(received.len() > RECEIVE_BUFFER as usize && received.len() < LONG, "{}", received.len());
        assert!(pattern(LONG, 1).starts_with(&received));
        // The reader may go on with what the new association brings.
        for (reader, first) in [(&mut stream, false), (&mut other, true)] {
            let mut again = Vec::new();
            if first {
                assert!(reader.read_to_end(&mut again).await.is_err(), "it may have waited for more");
            }
            reader.read_to_end(&mut again).await.unwrap();
            assert_eq!(again, b"again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn messages_in_parts_fail_at_a_restart() {
    for (reads_before, many, routed) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (true, true, true),
        (false, false, true),
    ] {
        let world = World::new();
        let listener = Listener::bind(&world.there, 7).unwrap();
        let client = world.connect(1).await;
        let server = listener.accept().await.unwrap();
        let _other = routed.then(|| server.open_recv(OTHER).unwrap());
        send_long(&client.1).await;
        let mut parts = Vec::new();
        if reads_before {
            parts.push(server.recv().await.unwrap().unwrap());
        }
        is_full(&server).await;
        let _client = world.crash(client).await;
        let failed = loop {
            let result = if many {
                server.recv_many(&mut parts, 2).await.map(|count| assert!(count > 0, "a clean end"))
            } else {
                server.recv().await.map(|part| parts.push(part.unwrap()))
            };
            if let Err(failed) = result {
                break failed;
            }
        };
        let what = format!("{reads_before} {many} {routed}");
        assert_eq!(failed, RecvError::Restarted, "{what}");
        assert!(parts[0].begins && parts.iter().all(|part| !part.ends && part.stream == STREAM), "{what}");
        let after = server.recv().await.unwrap().unwrap();
        assert!(after.stream == STREAM && after.data == "again", "{what}");
        if !routed {
            assert_eq!(server.recv().await.unwrap().unwrap().stream, OTHER, "{what}");
        }
        assert_eq!(server.recv().await, Ok(None), "{what}");
    }
}

/// The call that returns the last parts from before the restart leaves it to the next call.
#[tokio::test(start_paused = true)]
async fn batches_end_at_a_restart() {
    for (routed, limit) in [(false, 3), (false, 5), (true, 3), (true, 5), (true, 1000)] {
        let world = World::new();
        let listener = Listener::bind(&world.there, 7).unwrap();
        let client = world.connect(1).await;
        let server = listener.accept().await.unwrap();
        let _other = routed.then(|| server.open_recv(OTHER).unwrap());
        send_long(&client.1).await;
        is_full(&server).await;
        let _client = world.crash(client).await;
        let mut parts = Vec::new();
        let failed = loop {
            match server.recv_many(&mut parts, limit).await {
                Ok(count) => assert!(count > 0, "a clean end after {} parts, {routed} {limit}", parts.len()),
                Err(failed) => break failed,
            }
        };
        assert_eq!(failed, RecvError::Restarted, "{routed} {limit}");
        assert!(parts.iter().all(|part| !part.ends && part.stream == STREAM), "{routed} {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn whole_messages_outlive_a_restart() {
    for routed in [false, true] {
        let world = World::new();
        let listener = Listener::bind(&world.there, 7).unwrap();
        let client = world.connect(1).await;
        let server = listener.accept().await.unwrap();
        let early = routed.then(|| server.open_recv(OTHER).unwrap());
        for data in [b"one", b"two"] {
            client.1.send(data, SendInfo::on(STREAM)).await.unwrap();
        }
        all_arrived(&client.1).await;
        let _client = world.crash(client).await;
        for data in ["one", "two", "again"] {
            assert_eq!(server.recv().await.unwrap().unwrap().data, data);
        }
        if let Some(mut early) = early {
            assert_eq!(early.recv().await, Err(RecvError::Restarted));
            assert_eq!(early.recv().await.unwrap().unwrap().data, "again");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn readers_opened_later_know_the_restart() {
    let world = World::new();
    let listener = Listener::bind(&world.there, 7).unwrap();
    let client = world.connect(1).await;
    let server = listener.accept().await.unwrap();
    client.1.send(b"one", SendInfo::on(STREAM)).await.unwrap();
    all_arrived(&client.1).await;
    let _client = world.crash(client).await;
    // Nothing came on this stream before the restart.
    let mut other = server.open_recv(OTHER).unwrap();
    assert_eq!(other.recv().await.unwrap().unwrap().data, "again");
    let mut stream = server.open_recv(STREAM).unwrap();
    assert_eq!(stream.recv().await.unwrap().unwrap().data, "one");
    assert_eq!(stream.recv().await, Err(RecvError::Restarted));
    assert_eq!(stream.recv().await.unwrap().unwrap().data, "again");
    assert_eq!(stream.recv().await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_notified_of_cut_messages() {
    for peeled in [false, true] {
        let world = World::new();
        let endpoint = Endpoint::bind(&world.there, 7).unwrap();
        let mut notifications = endpoint.notifications();
        let client = world.connect(1).await;
        send_long(&client.1).await;
        let mut joiner = EndpointJoiner::new(1 << 20);
        let (id, part) = endpoint.recv_from().await.unwrap();
        assert_eq!(joiner.push(id, part), Ok(None));
        until("more has arrived", || {
            endpoint.control(id).unwrap().status().unwrap().receive_buffered > RECEIVE_BUFFER / 2
        })
        .await;
        let _client = world.crash(client).await;
        if peeled {
            let server = endpoint.peel_off(id).unwrap();
            let failed = loop {
                match server.recv().await {
                    Ok(part) => assert!(!part.unwrap().ends),
                    Err(failed) => break failed,
                }
            };
            assert_eq!(failed, RecvError::Restarted);
            assert_eq!(server.recv().await.unwrap().unwrap().data, "again");
            continue;
        }
        let mut joined = Vec::new();
        while joined.len() < 2 {
            let (id, part) = endpoint.recv_from().await.unwrap();
            joined.extend(joiner.push(id, part).unwrap().map(|message| message.data));
        }
        assert_eq!(joined, ["again", "again"]);
        let ended = tokio::spawn({
            let endpoint = endpoint.clone();
            async move { endpoint.recv_from().await.map(|_| ()) }
        });
        let mut restarted = false;
        while let Some((_, notification)) = notifications.next().await {
            restarted |= notification == Notification::Restarted;
            if let Notification::Closed { how, .. } = notification {
                assert!(restarted && how == Ended::ShutDown);
                break;
            }
        }
        ended.abort();
    }
}

/// A byte stream that is opened after a restart, with whole messages from before it, has a hole.
#[tokio::test(start_paused = true)]
async fn peeled_off_byte_streams_fail_at_a_restart() {
    for reads_before in [false, true] {
        let world = World::new();
        let endpoint = Endpoint::bind(&world.there, 7).unwrap();
        let client = world.connect(1).await;
        for data in [b"one", b"two"] {
            client.1.send(data, SendInfo::on(STREAM)).await.unwrap();
        }
        all_arrived(&client.1).await;
        let id = if reads_before {
            let (id, first) = endpoint.recv_from().await.unwrap();
            assert_eq!(first.data, "one");
            id
        } else {
            endpoint.associations()[0]
        };
        let mut notifications = endpoint.notifications();
        let _client = world.crash(client).await;
        while notifications.next().await.unwrap().1 != Notification::Restarted {}
        let server = endpoint.peel_off(id).unwrap();
        let mut stream = server.open_recv(STREAM).unwrap();
        let mut received = Vec::new();
        let failed = stream.read_to_end(&mut received).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::ConnectionReset, "{failed}");
        assert_eq!(received, if reads_before { &b"two"[..] } else { b"onetwo" });
        stream.read_to_end(&mut received).await.unwrap();
        assert!(received.ends_with(b"again"));
    }
}

/// The peer shut down after all was acknowledged, and one stream's unread data keeps the rest in the engine.
/// If the stack ends then, what is left there may belong to any stream.
#[tokio::test]
async fn unread_data_of_an_ended_stack_is_missed() {
    let network = Network::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.enter();
    let there = try_stack(&network, SERVER, 2).unwrap();
    drop(guard);
    let here = try_stack(&network, CLIENT, 1).unwrap();
    let listener = Listener::bind(&there, 7).unwrap();
    let client = Association::connect_with(&here, server(7), PORT, config()).await.unwrap();
    let server = listener.accept().await.unwrap();
    let mut stream = server.open_recv(STREAM).unwrap();
    let _other = server.open_recv(OTHER).unwrap();
    for _ in 0..=RECEIVE_BUFFER / 10_000 {
        client.send(&[0; 10_000], SendInfo::on(OTHER)).await.unwrap();
    }
    client.send(b"last", SendInfo::on(STREAM)).await.unwrap();
    assert_eq!(client.shutdown().await, Ended::ShutDown);
    assert_eq!(server.closed().await, Ended::ShutDown);
    runtime.shutdown_background();
    let failed = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::ConnectionAborted, "{failed}");
}
