//! Streams that are opened and closed at run time.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "helpers of tests panic as tests do"
)]

mod early;
mod ends;
mod limits;
mod messages;
mod scheduler_values;

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{pair, pattern, stacks, stacks_with, until};
use bytes::Bytes;
use strandline::memory::{Network, NetworkBuilder};
use strandline::{
    Association, AssociationConfig, DynamicStreams, Ended, ExtensionsConfig, FinishError, OpenStreamError,
    Parity, PeerRequests, RecvError, SendError, SendInfo, Stack, Stream, StreamCredit, StreamId,
    StreamScheduler,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// Returns both sides of an association, with dynamic streams.
async fn streams_over(network: NetworkBuilder, config: &AssociationConfig) -> (Association, Association) {
    let (here, there) = stacks_with(network, config);
    let sides = pair(&here, &there).await;
    set_both(&sides, DynamicStreams::default());
    sides
}

fn set_both(sides: &(Association, Association), streams: DynamicStreams) {
    sides.0.set_dynamic_streams(streams).unwrap();
    sides.1.set_dynamic_streams(streams).unwrap();
}

async fn streams() -> (Association, Association) {
    streams_over(Network::builder(), &AssociationConfig::default()).await
}

fn with_credit() -> AssociationConfig {
    let extensions = ExtensionsConfig {
        interleaving: true,
        stream_credit: Some(StreamCredit::default()),
        ..ExtensionsConfig::default()
    };
    let stream_scheduler = StreamScheduler::RoundRobin;
    AssociationConfig { extensions, stream_scheduler, ..AssociationConfig::default() }
}

/// A network with a one-way delay of 20 ms that loses, reorders and duplicates packets.
fn rough(seed: u64) -> NetworkBuilder {
    Network::builder().delay(Duration::from_millis(20)).loss(0.02).seed(seed)
}

fn memory(association: &Association) -> usize {
    association.control().memory().unwrap().total()
}

/// Answers the bytes of each stream with the same bytes, and closes it. Returns how many were answered.
fn echo(server: &Association) -> Arc<AtomicUsize> {
    let (server, count) = (server.clone(), Arc::new(AtomicUsize::new(0)));
    let answered = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok(stream) = server.accept_stream().await {
            let answered = Arc::clone(&answered);
            tokio::spawn(async move {
                let (mut recv, mut send) = stream.into_split();
                let mut bytes = Vec::new();
                recv.read_to_end(&mut bytes).await.unwrap();
                send.write_all(&bytes).await.unwrap();
                send.finish().unwrap();
                answered.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    count
}

async fn ask(stream: Stream, request: Bytes) -> u16 {
    let id = stream.id().0;
    let (mut recv, mut send) = stream.into_split();
    send.write_all(&request).await.unwrap();
    send.finish().unwrap();
    let mut answer = Vec::new();
    recv.read_to_end(&mut answer).await.unwrap();
    assert!(answer == request, "stream {id}");
    send.finished().await.unwrap();
    id
}

/// Opens 10,000 streams at once, on which 1 KB goes to and fro. Returns the highest number.
async fn ten_thousand(client: &Association, round: u8) -> u16 {
    let mut tasks = JoinSet::new();
    for number in 0..10_000_u32 {
        let client = client.clone();
        tasks.spawn(async move {
            let stream = client.open_stream().await.unwrap();
            ask(stream, pattern(1024, (number as u8) ^ round)).await
        });
    }
    tasks.join_all().await.into_iter().max().unwrap()
}

/// Ten thousand streams are opened, used and closed, again and again: their numbers serve again, and nothing
/// of them is left.
#[tokio::test(start_paused = true)]
async fn ten_thousand_streams_leave_nothing_behind() {
    for (config, network) in [
        (AssociationConfig::default(), Network::builder().delay(Duration::from_millis(20))),
        (AssociationConfig::default(), rough(3)),
        (with_credit(), rough(4)),
    ] {
        let (client, server) = streams_over(network, &config).await;
        echo(&server);
        let idle = [memory(&client), memory(&server)];
        for round in 0..3 {
            let begun = Instant::now();
            let highest = ten_thousand(&client, round).await;
            let took = begun.elapsed();
            assert!(highest < 20_002, "numbers serve again: {highest} in round {round}");
            // Sleeps because what is kept for a busy association is released later, in paused time.
            tokio::time::sleep(Duration::from_secs(120)).await;
            let after = [memory(&client), memory(&server)];
            println!("10,000 streams in {took:?}; memory before {idle:?}, after {after:?}");
            for (before, after) in idle.into_iter().zip(after) {
                assert!(after < before + 2000, "{before} bytes before, {after} after round {round}");
            }
        }
    }
}

/// The first data of a stream arrives after half a round trip, and the answer after a whole one.
#[tokio::test(start_paused = true)]
async fn no_round_trip_before_data() {
    let delay = Duration::from_millis(50);
    let (client, server) = streams_over(Network::builder().delay(delay), &AssociationConfig::default()).await;
    let begun = Instant::now();
    let mut stream = client.open_stream().await.unwrap();
    stream.write_all(b"at once").await.unwrap();
    let mut accepted = server.accept_stream().await.unwrap();
    let mut bytes = [0; 7];
    accepted.read_exact(&mut bytes).await.unwrap();
    let took = begun.elapsed();
    assert!(took < delay + Duration::from_millis(5), "{took:?}");
    accepted.write_all(&bytes).await.unwrap();
    stream.read_exact(&mut bytes).await.unwrap();
    let took = begun.elapsed();
    assert!(took < 2 * delay + Duration::from_millis(10), "{took:?}");
}

/// Both sides open streams at the same time, without asking, and never the same one.
#[tokio::test(start_paused = true)]
async fn both_sides_open_streams_at_once() {
    let (client, server) = streams_over(rough(7), &AssociationConfig::default()).await;
    echo(&client);
    echo(&server);
    let mut tasks = JoinSet::new();
    for number in 0..2000_u32 {
        for (side, association) in [client.clone(), server.clone()].into_iter().enumerate() {
            tasks.spawn(async move {
                let stream = association.open_stream().await.unwrap();
                (side, ask(stream, pattern(300, number as u8)).await)
            });
        }
    }
    let parities: Vec<_> = tasks.join_all().await.into_iter().map(|(side, id)| (side, id % 2)).collect();
    let of = |wanted| parities.iter().filter(move |(side, _)| *side == wanted).map(|(_, parity)| *parity);
    assert!(of(0).all(|parity| Some(parity) == of(0).next()));
    assert_ne!(of(0).next(), of(1).next());
}

/// Streams that were never used cost the peer nothing, and one that is finished without data has an end.
#[tokio::test(start_paused = true)]
async fn streams_without_data() {
    let (client, server) = streams().await;
    let first = client.open_stream().await.unwrap().id();
    for _ in 0..100_000 {
        assert_eq!(client.open_stream().await.unwrap().id(), first);
    }
    let mut empty = client.open_stream().await.unwrap();
    empty.shutdown().await.unwrap();
    let mut accepted = timeout(Duration::from_secs(5), server.accept_stream()).await.unwrap().unwrap();
    let mut bytes = Vec::new();
    accepted.read_to_end(&mut bytes).await.unwrap();
    assert_eq!((bytes.len(), accepted.id()), (0, first));
}

/// Streams below the first dynamic one are for messages, as before.
#[tokio::test(start_paused = true)]
async fn other_streams_are_for_messages() {
    let (here, there) = stacks();
    let sides = pair(&here, &there).await;
    let settings = DynamicStreams { first: StreamId(10), ..DynamicStreams::default() };
    sides.0.set_dynamic_streams(settings).unwrap();
    let (client, server) = &sides;
    // Sent before the other side has called it.
    let mut early = client.open_stream().await.unwrap();
    early.write_all(b"early").await.unwrap();
    client.send(b"a message", SendInfo::on(StreamId(9))).await.unwrap();
    crate::common::all_arrived(client).await;
    let reader = server.open_recv(StreamId(3)).unwrap();
    server.set_dynamic_streams(settings).unwrap();
    assert_eq!(server.recv().await.unwrap().unwrap().data, "a message");
    let mut accepted = server.accept_stream().await.unwrap();
    let mut bytes = [0; 5];
    accepted.read_exact(&mut bytes).await.unwrap();
    assert_eq!((&bytes, accepted.id().0 >= 10), (b"early", true));
    assert_eq!(server.open_recv(StreamId(10)).unwrap_err(), OpenStreamError::Dynamic(10));
    assert_eq!(server.set_dynamic_streams(settings), Err(OpenStreamError::AlreadyOpen));
    drop(reader);
}

#[tokio::test(start_paused = true)]
async fn a_peer_without_resets_is_refused() {
    let config = AssociationConfig::default();
    let without = AssociationConfig {
        extensions: ExtensionsConfig { stream_reconfiguration: false, ..ExtensionsConfig::default() },
        ..AssociationConfig::default()
    };
    let network = Network::new();
    let here = Stack::builder().association(config).memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let there =
        Stack::builder().association(without).memory(&network, [crate::common::SERVER.into()]).unwrap();
    let sides = pair(&here, &there).await;
    assert_eq!(sides.0.open_stream().await.unwrap_err(), OpenStreamError::NotDynamic);
    assert_eq!(sides.0.accept_stream().await.unwrap_err(), OpenStreamError::NotDynamic);
    set_both(&sides, DynamicStreams::default());
    assert!(!sides.0.status().unwrap().extensions.stream_reconfiguration);
    for side in [&sides.0, &sides.1] {
        assert_eq!(side.open_stream().await.unwrap_err(), OpenStreamError::NotSupported);
        assert_eq!(side.accept_stream().await.unwrap_err(), OpenStreamError::NotSupported);
    }
    // The association itself works.
    sides.0.send(b"hello", SendInfo::default()).await.unwrap();
    assert_eq!(sides.1.recv().await.unwrap().unwrap().data, "hello");
}

/// While all numbers are in use, streams are opened in the order of the calls, as others are closed.
#[tokio::test(start_paused = true)]
async fn streams_wait_for_numbers_in_order() {
    let config = AssociationConfig { outbound_streams: 21, ..AssociationConfig::default() };
    let (client, server) = streams_over(Network::builder(), &config).await;
    let count = echo(&server);
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(client.open_stream().await.unwrap());
    }
    let order = Arc::new(AtomicUsize::new(0));
    let waiting: Vec<_> = (0..5)
        .map(|number| {
            let (client, order) = (client.clone(), Arc::clone(&order));
            tokio::spawn(async move {
                let stream = client.open_stream().await.unwrap();
                assert_eq!(order.fetch_add(1, Ordering::Relaxed), number);
                stream
            })
        })
        .collect();
    // Sleeps because the peer refuses to add streams meanwhile, in paused time.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(waiting.iter().all(|task| !task.is_finished()));
    assert_eq!(client.status().unwrap().outbound_streams, 21);
    for stream in open {
        ask(stream, pattern(100, 1)).await;
    }
    for task in waiting {
        timeout(Duration::from_secs(5), task).await.unwrap().unwrap();
    }
    assert_eq!(count.load(Ordering::Relaxed), 10);
}

/// A peer that permits it is asked for more streams once all are in use.
#[tokio::test(start_paused = true)]
async fn streams_are_added_as_needed() {
    let peer_requests = PeerRequests { add_streams: true, ..PeerRequests::NONE };
    let extensions = ExtensionsConfig { peer_requests, ..ExtensionsConfig::default() };
    let config = AssociationConfig { outbound_streams: 4, extensions, ..AssociationConfig::default() };
    let (client, server) = streams_over(rough(5), &config).await;
    echo(&server);
    let mut open = Vec::new();
    for number in 0..500 {
        let stream = timeout(Duration::from_secs(60), client.open_stream()).await;
        open.push(stream.unwrap_or_else(|_| panic!("stream {number} is opened")).unwrap());
    }
    for stream in open {
        ask(stream, pattern(100, 1)).await;
    }
    let status = client.status().unwrap();
    assert!((1000..=2048).contains(&status.outbound_streams), "{}", status.outbound_streams);
    assert_eq!(status.outbound_streams, status.inbound_streams);
}

/// Streams beyond the backlog are refused in both directions, and the others are not affected.
#[tokio::test(start_paused = true)]
async fn streams_beyond_the_backlog_are_refused() {
    let (here, there) = stacks();
    let sides = pair(&here, &there).await;
    set_both(&sides, DynamicStreams { backlog: 3, ..DynamicStreams::default() });
    let (client, server) = sides;
    let mut streams = Vec::new();
    for number in 0..5 {
        let mut stream = client.open_stream().await.unwrap();
        stream.write_all(&[number; 100]).await.unwrap();
        streams.push(stream.into_split());
    }
    crate::common::all_arrived(&client).await;
    for (recv, send) in &mut streams[3..] {
        assert_eq!(recv.recv().await, Err(RecvError::Unfinished));
        assert_eq!(send.finished().await, Err(FinishError::Stopped));
    }
    for (_, send) in &mut streams[..3] {
        send.finish().unwrap();
        let mut accepted = server.accept_stream().await.unwrap();
        let mut bytes = Vec::new();
        accepted.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes.len(), 100);
    }
}

/// With parities of their own, which a protocol may prescribe.
#[tokio::test(start_paused = true)]
async fn parities_may_be_prescribed() {
    let (here, there) = stacks();
    let (client, server) = pair(&here, &there).await;
    client.set_dynamic_streams(DynamicStreams { parity: Parity::Odd, ..Default::default() }).unwrap();
    server.set_dynamic_streams(DynamicStreams { parity: Parity::Even, ..Default::default() }).unwrap();
    echo(&server);
    echo(&client);
    for expected in [1, 3, 5] {
        let stream = client.open_stream().await.unwrap();
        assert_eq!(stream.id(), StreamId(expected));
        let other = server.open_stream().await.unwrap();
        assert_eq!(other.id(), StreamId(expected + 1));
        tokio::spawn(async move {
            let mut stream = stream;
            stream.write_all(b"stays").await.unwrap();
            // Sleeps because the stream must stay open, in paused time.
            tokio::time::sleep(Duration::from_secs(3600)).await;
        });
        tokio::spawn(async move {
            let mut other = other;
            other.write_all(b"stays").await.unwrap();
            // Sleeps because the stream must stay open, in paused time.
            tokio::time::sleep(Duration::from_secs(3600)).await;
        });
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn streams_with_fixed_numbers_are_not_finished() {
    let (here, there) = stacks();
    let (client, _server) = pair(&here, &there).await;
    let mut stream = client.open_send(StreamId(1)).unwrap();
    assert_eq!(stream.finish(), Err(SendError::NotDynamic));
    assert_eq!(stream.finished().await, Err(FinishError::NotDynamic));
}

/// A reset of all numbers ends all streams, and none of them cleanly. New ones can be opened.
#[tokio::test(start_paused = true)]
async fn a_reset_of_all_numbers_loses_streams() {
    let extensions = ExtensionsConfig { peer_requests: PeerRequests::ALL, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let (client, server) = streams_over(Network::builder(), &config).await;
    let (mut recv, mut send) = client.open_stream().await.unwrap().into_split();
    send.write_all(b"half").await.unwrap();
    let (mut from, mut to) = server.accept_stream().await.unwrap().into_split();
    client.reset_association().unwrap();
    assert_eq!(from.recv().await.unwrap().unwrap().data, "half");
    assert_eq!(from.recv().await, Err(RecvError::Reset));
    assert_eq!(recv.recv().await, Err(RecvError::Reset));
    for send in [&mut send, &mut to] {
        assert_eq!(send.send(Bytes::from_static(b"x")).await, Err(SendError::Lost));
        assert_eq!(send.finished().await, Err(FinishError::Lost));
    }
    echo(&server);
    ask(client.open_stream().await.unwrap(), pattern(5000, 3)).await;
}

/// Many streams of both sides that are finished, reset and stopped in any order: each reader gets what its
/// own writer has sent, up to where that was cut off, and the end only if it was finished.
#[tokio::test(start_paused = true)]
async fn reused_numbers_never_mix_streams() {
    for seed in 0..6 {
        let config = match seed % 2 {
            0 => AssociationConfig { outbound_streams: 41, ..AssociationConfig::default() },
            _ => AssociationConfig { outbound_streams: 41, ..with_credit() },
        };
        let (client, server) = streams_over(rough(100 + seed), &config).await;
        let clean = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for (side, association) in [&client, &server].into_iter().enumerate() {
            let accepting = association.clone();
            let accepted_clean = Arc::clone(&clean);
            tokio::spawn(async move {
                let mut number = 0_u32;
                while let Ok(stream) = accepting.accept_stream().await {
                    number += 1;
                    tokio::spawn(use_stream(stream, number.wrapping_mul(7), Arc::clone(&accepted_clean)));
                }
            });
            for number in 0..600_u32 {
                let (association, clean) = (association.clone(), Arc::clone(&clean));
                tasks.spawn(async move {
                    let stream = association.open_stream().await.unwrap();
                    use_stream(stream, number.wrapping_mul(3) + side as u32, clean).await;
                });
            }
        }
        timeout(Duration::from_secs(3600), tasks.join_all()).await.expect("all streams get numbers");
        assert!(clean.load(Ordering::Relaxed) > 300, "{} ends", clean.load(Ordering::Relaxed));
        for association in [&client, &server] {
            until("nothing is held", || association.status().unwrap().receive_buffered == 0).await;
        }
    }
}

/// Writes what can be recognised: a key, the length if it is finished, and bytes that depend on both. Reads
/// what the other side writes.
async fn use_stream(stream: Stream, choice: u32, clean: Arc<AtomicUsize>) {
    let id = stream.id();
    let (mut recv, mut send) = stream.into_split();
    let writer = tokio::spawn(async move {
        let key = (choice % 251) as u8;
        let len = 1 + (choice as usize * 977) % 9000;
        let finishes = choice % 4 != 1;
        let mut bytes = vec![key];
        bytes.extend_from_slice(&(if finishes { len as u32 } else { u32::MAX }).to_be_bytes());
        bytes.extend_from_slice(&pattern(len, key));
        if send.write_all(&bytes).await.is_err() {
            return;
        }
        if finishes {
            let _ = send.finish();
        }
    });
    let mut bytes = Vec::new();
    if choice % 5 == 2 {
        let _ = recv.read(&mut [0; 100]).await;
        recv.stop();
    } else {
        let end = recv.read_to_end(&mut bytes).await;
        if let Some((head, body)) = bytes.split_at_checked(5) {
            let len = u32::from_be_bytes(head[1..].try_into().unwrap());
            let expected = pattern(if len == u32::MAX { 9000 } else { len as usize }, head[0]);
            assert!(expected.starts_with(body), "bytes of another stream");
            assert_eq!(end.is_ok(), len as usize == body.len(), "the end of {len} bytes: {end:?}");
            clean.fetch_add(usize::from(end.is_ok()), Ordering::Relaxed);
        } else {
            assert!(end.is_err(), "stream {id} with choice {choice} is empty");
        }
    }
    writer.await.unwrap();
}
