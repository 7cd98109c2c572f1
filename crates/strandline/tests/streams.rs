//! Tests of streams as byte streams.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::{SERVER, all_arrived, pair, pattern, server, stacks, stacks_with, until};
use strandline::memory::{Network, NetworkBuilder};
use strandline::{
    Association, AssociationConfig, Ended, EndpointConfig, ExtensionsConfig, Listener, MemoryAccount,
    OpenStreamError, RecvStream, SendInfo, Stack, StreamCredit, StreamId, StreamScheduler, TakenBytes,
    TrySendError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

#[tokio::test(start_paused = true)]
async fn bytes_are_copied_until_the_association_ends() {
    let network = Network::builder().delay(Duration::from_millis(5)).loss(0.02).seed(4);
    let (here, there) = stacks_with(network, &AssociationConfig::default());
    let (client, peer) = pair(&here, &there).await;
    let sent = pattern(2_000_000, 3);
    let writer = tokio::spawn({
        let sent = sent.clone();
        async move {
            let mut stream = client.open_send(StreamId(9)).unwrap();
            tokio::io::copy(&mut &sent[..], &mut stream).await.unwrap();
            stream.shutdown().await.unwrap();
            stream.write_all(b"x").await.unwrap_err();
            client.shutdown().await
        }
    });
    let mut received = Vec::new();
    let mut stream = peer.open(StreamId(9)).unwrap();
    tokio::io::copy(&mut stream, &mut received).await.unwrap();
    assert!(received == sent);
    assert_eq!(writer.await.unwrap(), Ended::ShutDown);
}

#[tokio::test(start_paused = true)]
async fn many_streams_don_t_mix() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    let mut readers = Vec::new();
    for stream in 0..50 {
        let mut reader = peer.open_recv(StreamId(stream)).unwrap();
        readers.push(tokio::spawn(async move {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).await.unwrap();
            bytes
        }));
    }
    for part in 0..20 {
        for stream in 0..50_u16 {
            let mut writer = client.open_send(StreamId(stream)).unwrap();
            writer.write_all(&[stream as u8 ^ part; 100]).await.unwrap();
        }
    }
    client.shutdown().await;
    for (stream, reader) in readers.into_iter().enumerate() {
        let expected: Vec<u8> = (0..20).flat_map(|part| [stream as u8 ^ part; 100]).collect();
        assert!(reader.await.unwrap() == expected, "stream {stream}");
    }
}

#[tokio::test(start_paused = true)]
async fn unread_stream_blocks_others_only_when_full() {
    let config = AssociationConfig {
        receive_buffer: Some(100_000),
        send_buffer: Some(400_000),
        ..AssociationConfig::default()
    };
    let (here, there) = stacks_with(Network::builder(), &config);
    let (client, peer) = pair(&here, &there).await;
    let mut unread = peer.open_recv(StreamId(1)).unwrap();
    let mut read = peer.open_recv(StreamId(2)).unwrap();
    for _ in 0..90 {
        client.send(&[1; 1000], SendInfo::on(StreamId(1))).await.unwrap();
    }
    client.send(b"through", SendInfo::on(StreamId(2))).await.unwrap();
    assert_eq!(read.recv().await.unwrap().unwrap().data, "through");

    for _ in 0..150 {
        client.send(&[1; 1000], SendInfo::on(StreamId(1))).await.unwrap();
    }
    client.send(b"stuck", SendInfo::on(StreamId(2))).await.unwrap();
    assert!(timeout(Duration::from_secs(10), read.recv()).await.is_err(), "bounded");
    let mut seen = 0;
    while seen < 240 {
        assert_eq!(unread.recv().await.unwrap().unwrap().data.len(), 1000);
        seen += 1;
    }
    assert_eq!(read.recv().await.unwrap().unwrap().data, "stuck");
}

#[tokio::test(start_paused = true)]
async fn stream_reader_and_association_share_messages() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    let reader = peer.open_recv(StreamId(1)).unwrap();
    assert_eq!(peer.open_recv(StreamId(1)).unwrap_err(), OpenStreamError::InUse(1));
    for stream in [0, 1, 2] {
        client.send(&[stream as u8], SendInfo::on(StreamId(stream))).await.unwrap();
    }
    assert_eq!(peer.recv().await.unwrap().unwrap().stream, StreamId(0));
    assert_eq!(peer.recv().await.unwrap().unwrap().stream, StreamId(2));
    drop(reader);
    assert_eq!(peer.recv().await.unwrap().unwrap().stream, StreamId(1), "what the reader left");
    peer.open_recv(StreamId(1)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn streams_beyond_the_agreement_do_not_exist() {
    let config =
        AssociationConfig { outbound_streams: 4, inbound_streams_max: 4, ..AssociationConfig::default() };
    let (here, there) = stacks_with(Network::builder(), &config);
    let (client, _peer) = pair(&here, &there).await;
    let error = client.open(StreamId(4)).unwrap_err();
    assert_eq!(error, OpenStreamError::NoSuchStream { stream: 4, streams: 4 });
    client.open(StreamId(3)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn abort_fails_reads_and_writes() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    let mut stream = peer.open(StreamId(0)).unwrap();
    client.abort("no more");
    let read = stream.read(&mut [0; 10]).await.unwrap_err();
    assert_eq!(read.kind(), std::io::ErrorKind::ConnectionReset);
    let write = stream.write(b"x").await.unwrap_err();
    assert_eq!(write.kind(), std::io::ErrorKind::ConnectionReset);
}

/// Streams of 64 KiB of credit, over a network with losses.
async fn with_credit() -> (Association, Association) {
    credit_over(Network::builder().delay(Duration::from_millis(5)).loss(0.02).seed(7)).await
}

fn of_credit() -> AssociationConfig {
    let extensions = ExtensionsConfig {
        interleaving: true,
        stream_credit: Some(StreamCredit::default()),
        ..ExtensionsConfig::default()
    };
    AssociationConfig {
        extensions,
        outbound_streams: 100,
        stream_scheduler: StreamScheduler::RoundRobin,
        ..AssociationConfig::default()
    }
}

async fn credit_over(network: NetworkBuilder) -> (Association, Association) {
    let (here, there) = stacks_with(network, &of_credit());
    let (client, server) = pair(&here, &there).await;
    assert!(client.status().is_some_and(|status| status.extensions.stream_credit));
    (client, server)
}

#[tokio::test(start_paused = true)]
async fn stalled_readers_hold_up_no_other_stream() {
    const LEN: usize = 300_000;
    let (client, server) = with_credit().await;
    let mut writers = Vec::new();
    let mut readers = Vec::new();
    for number in 0..100 {
        let (mut writer, mut reader) =
            (client.open_send(StreamId(number)).unwrap(), server.open_recv(StreamId(number)).unwrap());
        writers.push(tokio::spawn(async move {
            writer.write_all(&pattern(LEN, number as u8)).await.unwrap();
            writer
        }));
        readers.push(tokio::spawn(async move {
            let mut bytes = vec![0; LEN];
            if number % 10 == 0 {
                // Sleeps because every tenth reader begins when the others have everything, in paused time.
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
            reader.read_exact(&mut bytes).await.unwrap();
            assert!(bytes == pattern(LEN, number as u8), "stream {number}");
            number
        }));
    }
    let (mut late, mut others) = (Vec::new(), Vec::new());
    for (number, reader) in readers.into_iter().enumerate() {
        if number % 10 == 0 { late.push(reader) } else { others.push(reader) }
    }
    for reader in others {
        timeout(Duration::from_secs(600), reader).await.unwrap().unwrap();
    }
    assert!(late.iter().all(|reader| !reader.is_finished()));
    for reader in late {
        timeout(Duration::from_secs(4000), reader).await.unwrap().unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Associations of streams with 64 KiB of credit, whose server holds `receive_bytes_max` unread bytes, in an
/// account with others.
async fn within(
    receive_bytes_max: u64,
    account: &Arc<MemoryAccount>,
    count: usize,
) -> (Stack, Vec<(Association, Association)>) {
    let association = AssociationConfig { heartbeat_interval: None, ..of_credit() };
    let config = EndpointConfig {
        association: Arc::new(association.clone()),
        receive_bytes_max,
        account: Some(Arc::clone(account)),
        ..EndpointConfig::default()
    };
    let network = Network::builder().delay(Duration::from_millis(5)).build();
    let here = Stack::builder().association(association).seed([1; 32]);
    let here = here.memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let there = Stack::builder().config(config).seed([2; 32]).memory(&network, [SERVER.into()]).unwrap();
    let listener = Listener::bind(&there, 0).unwrap();
    let mut ends = Vec::new();
    for _ in 0..count {
        let client = Association::connect(&here, server(listener.port())).await.unwrap();
        ends.push((client, listener.accept().await.unwrap()));
    }
    (there, ends)
}

/// What waits for readers of single streams has a limit for all associations, and nothing is lost at it.
#[tokio::test(start_paused = true)]
async fn associations_share_the_receive_limit() {
    const LEN: usize = 64 << 10;
    const LIMIT: u64 = 512 << 10;
    let (there, mut ends) = within(LIMIT, &Arc::default(), 3).await;
    let (third, third_server) = ends.pop().unwrap();
    let mut readers = Vec::new();
    for (client, server) in &ends {
        for number in 0..16 {
            readers.push(server.open_recv(StreamId(number)).unwrap());
            let mut writer = client.open_send(StreamId(number)).unwrap();
            tokio::spawn(async move { writer.write_all(&pattern(LEN, number as u8)).await });
        }
    }
    until("the limit is reached", || there.buffers().receive_bytes >= LIMIT).await;
    let (mut writer, mut reader) =
        (third.open_send(StreamId(0)).unwrap(), third_server.open_recv(StreamId(0)).unwrap());
    let sent = pattern(2_000_000, 77);
    let sending = {
        let sent = sent.clone();
        tokio::spawn(async move { writer.write_all(&sent).await.unwrap() })
    };
    let mut received = vec![0; sent.len()];
    timeout(Duration::from_secs(600), reader.read_exact(&mut received)).await.unwrap().unwrap();
    assert!(received == sent);
    sending.await.unwrap();
    assert!(there.buffers().receive_bytes <= 2 * LIMIT, "{} bytes", there.buffers().receive_bytes);
    let read = |(number, mut reader): (usize, RecvStream)| {
        tokio::spawn(async move {
            let mut bytes = vec![0; LEN];
            reader.read_exact(&mut bytes).await.unwrap();
            assert!(bytes == pattern(LEN, number as u8 % 16), "reader {number}");
        })
    };
    let reading: Vec<_> = readers.into_iter().enumerate().map(read).collect();
    for reader in reading {
        timeout(Duration::from_secs(600), reader).await.unwrap().unwrap();
    }
    assert_eq!(there.buffers().receive_bytes, 0);
}

/// An association that waits for the room of others gets it although nothing of its own happens.
#[tokio::test(start_paused = true)]
async fn room_that_others_leave_is_found() {
    const LIMIT: u64 = 1 << 20;
    let account = Arc::default();
    let (_there, ends) = within(LIMIT, &account, 2).await;
    let (client, server) = &ends[0];
    let others = TakenBytes::new(account, LIMIT);
    let held = others.hold(LIMIT as usize);
    let _stalled: Vec<_> = (0..5).map(|number| server.open_recv(StreamId(number)).unwrap()).collect();
    let mut reader = server.open_recv(StreamId(20)).unwrap();
    for number in 0..5 {
        // 300,000 bytes, of which a quarter of the limit is taken from the engine.
        client.open_send(StreamId(number)).unwrap().write_all(&[1; 60_000]).await.unwrap();
    }
    all_arrived(client).await;
    client.send(b"behind them", SendInfo::on(StreamId(20))).await.unwrap();
    all_arrived(client).await;
    assert!(timeout(Duration::from_secs(600), reader.recv()).await.is_err(), "the share is used up");
    drop(held);
    let message = timeout(Duration::from_millis(150), reader.recv()).await.unwrap().unwrap();
    assert_eq!(message.unwrap().data[..], *b"behind them");
}

/// A message on a stream whose reader has stopped waits for that stream, and others pass it.
#[tokio::test(start_paused = true)]
async fn senders_wait_for_their_stream_alone() {
    let (client, server) = with_credit().await;
    let _stalled = server.open_recv(StreamId(1)).unwrap();
    let mut read = server.open_recv(StreamId(2)).unwrap();
    let stuck = tokio::spawn({
        let client = client.clone();
        async move {
            for _ in 0..10_000 {
                client.send(&[1; 1000], SendInfo::on(StreamId(1))).await.unwrap();
            }
        }
    });
    // Sleeps because the stream must have used up its credit and its part of the send buffer, in paused time.
    tokio::time::sleep(Duration::from_secs(60)).await;
    for round in 0..1000 {
        client.send(&[2; 1000], SendInfo::on(StreamId(2))).await.unwrap();
        assert_eq!(read.recv().await.unwrap().unwrap().data.len(), 1000, "{round}");
    }
    assert!(!stuck.is_finished());
    assert_eq!(client.try_send(&[1; 1000], SendInfo::on(StreamId(1))), Err(TrySendError::Full));
    client.abort("enough");
    assert!(stuck.await.unwrap_err().is_panic(), "its sender gets the end");
}

/// Room that a sender was woken for, and that its stream has no use for, is for the senders behind it.
#[tokio::test(start_paused = true)]
async fn senders_behind_a_blocked_one_go_on() {
    let (client, server) = with_credit().await;
    let _stalled = server.open_recv(StreamId(1)).unwrap();
    let mut read = server.open_recv(StreamId(2)).unwrap();
    // All of them wait for the send buffer before the stream has used up its credit.
    let senders: Vec<_> = (0..4)
        .map(|number| {
            let (client, stream) = (client.clone(), StreamId(1 + number % 2));
            tokio::spawn(async move {
                for _ in 0..3000 {
                    client.send(&[1; 1000], SendInfo::on(stream)).await.unwrap();
                }
            })
        })
        .collect();
    for number in 0..6000 {
        let message = timeout(Duration::from_secs(600), read.recv()).await.unwrap().unwrap();
        assert_eq!(message.unwrap().data.len(), 1000, "{number}");
    }
    assert!(!senders[0].is_finished() && !senders[2].is_finished());
}

/// A reader that is registered before the set-up is complete stalls its stream alone, too.
#[tokio::test(start_paused = true)]
async fn readers_before_the_set_up_have_credit() {
    let extensions = ExtensionsConfig {
        interleaving: true,
        stream_credit: Some(StreamCredit::default()),
        ..ExtensionsConfig::default()
    };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let (here, there) = stacks_with(Network::builder(), &config);
    let listener = strandline::Listener::bind(&there, 7).unwrap();
    let client = Association::start(&here, crate::common::server(7), 0, None).unwrap();
    let _stalled = client.open_recv(StreamId(1)).unwrap();
    let mut read = client.open_recv(StreamId(2)).unwrap();
    let server = listener.accept().await.unwrap();
    tokio::spawn({
        let server = server.clone();
        async move {
            loop {
                server.send(&[1; 1000], SendInfo::on(StreamId(1))).await.unwrap();
            }
        }
    });
    // Sleeps because the first stream must have used up everything that it may, in paused time.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = client.status().unwrap().receive_buffered;
    for _ in 0..20_000 {
        server.send(&[2; 1000], SendInfo::on(StreamId(2))).await.unwrap();
        assert_eq!(read.recv().await.unwrap().unwrap().data.len(), 1000);
    }
    assert_eq!(before, 0, "what is not read waits in the socket layer");
}

/// Dropping an association discards what was not read, so that the peer can finish.
#[tokio::test(start_paused = true)]
async fn dropped_readers_let_the_peer_finish() {
    let (client, server) = credit_over(Network::builder()).await;
    let reader = server.open_recv(StreamId(1)).unwrap();
    for _ in 0..100 {
        client.send(&[1; 1000], SendInfo::on(StreamId(1))).await.unwrap();
    }
    drop((reader, server));
    assert_eq!(timeout(Duration::from_secs(20), client.closed()).await, Ok(Ended::ShutDown));
}
