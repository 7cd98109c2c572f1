//! Tests of one-to-one sockets on the in-memory network, in virtual time.

use std::time::Duration;

use crate::common::{all_arrived, pair, pattern, recv_whole, server, stacks, stacks_with};
use bytes::Bytes;
use strandline::memory::{Fate, Network};
use strandline::{
    Association, AssociationConfig, BindError, ConnectError, Ended, ErrorCause, ExtensionsConfig, Listener,
    Notification, RecvError, SendError, SendInfo, Stack, StreamId, TrySendError,
};
use tokio::time::{Instant, timeout};

fn on(stream: u16) -> SendInfo {
    SendInfo::on(StreamId(stream))
}

#[tokio::test(start_paused = true)]
async fn messages_keep_their_boundaries_streams_and_labels() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    for number in 0..100_u16 {
        let info = on(number).ppid(strandline::Ppid(u32::from(number)));
        client.send(&pattern(1 + usize::from(number) * 37, 1), info).await.unwrap();
    }
    for number in 0..100_u16 {
        let message = peer.recv().await.unwrap().unwrap();
        assert_eq!((message.stream, message.ppid.0), (StreamId(number), u32::from(number)));
        assert_eq!(message.data, pattern(1 + usize::from(number) * 37, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn large_message_survives_a_lossy_network() {
    let network = Network::builder().delay(Duration::from_millis(10)).loss(0.05).seed(3);
    let config = AssociationConfig {
        send_buffer: Some(4 << 20),
        receive_buffer: Some(4 << 20),
        ..AssociationConfig::default()
    };
    let (here, there) = stacks_with(network, &config);
    let (client, peer) = pair(&here, &there).await;
    let sent = pattern(1_000_000, 5);
    client.send_bytes(sent.clone(), SendInfo::default()).await.unwrap();
    assert!(recv_whole(&peer).await.unwrap() == sent);
}

#[tokio::test(start_paused = true)]
async fn message_beyond_receive_buffer_comes_in_parts() {
    let config = AssociationConfig {
        receive_buffer: Some(100_000),
        partial_delivery_point: 20_000,
        send_buffer: Some(2 << 20),
        ..AssociationConfig::default()
    };
    let (here, there) = stacks_with(Network::builder().delay(Duration::from_millis(1)), &config);
    let (client, peer) = pair(&here, &there).await;
    let sent = pattern(1_000_000, 9);
    client.send_bytes(sent.clone(), SendInfo::default()).await.unwrap();
    let first = peer.recv().await.unwrap().unwrap();
    assert!(first.begins && !first.ends, "a part");
    let mut whole = first.data.to_vec();
    whole.extend(recv_whole(&peer).await.unwrap());
    assert!(whole == sent);
}

#[tokio::test(start_paused = true)]
async fn data_before_set_up_saves_a_round_trip() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(50)), &AssociationConfig::default());
    let listener = Listener::bind(&there, 7).unwrap();
    let echo = tokio::spawn(async move {
        let peer = listener.accept().await.unwrap();
        while let Some(message) = peer.recv().await.unwrap() {
            peer.send_bytes(message.data, SendInfo::default()).await.unwrap();
        }
    });
    let begun = Instant::now();
    let client = Association::start(&here, server(7), 0, None).unwrap();
    client.send(b"early", SendInfo::default()).await.unwrap();
    assert_eq!(client.recv().await.unwrap().unwrap().data, "early");
    let round_trips = begun.elapsed().as_millis() / 100;
    assert_eq!(round_trips, 2, "INIT and INIT ACK, then COOKIE ECHO with DATA and the echo");
    assert_eq!(client.shutdown().await, Ended::ShutDown);
    echo.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slow_reader_stops_only_its_sender() {
    let config = AssociationConfig {
        send_buffer: Some(50_000),
        receive_buffer: Some(60_000),
        ..AssociationConfig::default()
    };
    let (here, there) = stacks_with(Network::builder().delay(Duration::from_millis(1)), &config);
    let (slow, slow_peer) = pair(&here, &there).await;
    let (quick, quick_peer) = pair(&here, &there).await;
    let mut flood = tokio::spawn({
        let slow = slow.clone();
        async move {
            for number in 0..500_u32 {
                slow.send(&[number as u8; 1000], SendInfo::default()).await.unwrap();
            }
        }
    });
    let done = timeout(Duration::from_secs(5), &mut flood).await;
    assert!(done.is_err(), "nobody reads, so the sender waits");
    let status = slow_peer.status().unwrap();
    assert!(status.receive_buffered <= 61_500, "{} bytes wait", status.receive_buffered);
    assert!(slow.status().unwrap().send_buffered <= 51_000);
    // A window probe may have freed room for a message as small as the others, but not for this one.
    assert_eq!(
        slow.try_send_bytes(Bytes::from(vec![0; 30_000]), SendInfo::default()),
        Err(TrySendError::Full)
    );

    let begun = Instant::now();
    quick.send(b"not held up", SendInfo::default()).await.unwrap();
    assert_eq!(quick_peer.recv().await.unwrap().unwrap().data, "not held up");
    assert!(begun.elapsed() < Duration::from_millis(10));

    for number in 0..500_u32 {
        assert_eq!(slow_peer.recv().await.unwrap().unwrap().data, vec![number as u8; 1000]);
    }
    flood.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dropping_delivers_what_was_sent() {
    let network = Network::builder().delay(Duration::from_millis(20)).loss(0.1).seed(11);
    let (here, there) = stacks_with(network, &AssociationConfig::default());
    let (client, peer) = pair(&here, &there).await;
    for number in 0..300_u32 {
        client.send(&number.to_be_bytes(), on(number as u16 % 7)).await.unwrap();
    }
    drop(client);
    drop(here.clone());
    let mut seen = 0;
    while let Some(message) = peer.recv().await.unwrap() {
        assert_eq!(message.data.len(), 4);
        seen += 1;
    }
    assert_eq!(seen, 300);
    assert_eq!(peer.closed().await, Ended::ShutDown);
    here.wait_idle().await;
    assert_eq!(here.association_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_returns_once_everything_was_delivered() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(30)), &AssociationConfig::default());
    let (client, peer) = pair(&here, &there).await;
    client.send_bytes(pattern(200_000, 1), SendInfo::default()).await.unwrap();
    let reader = tokio::spawn(async move { recv_whole(&peer).await });
    assert_eq!(client.shutdown().await, Ended::ShutDown);
    assert_eq!(client.send(b"late", SendInfo::default()).await, Err(SendError::Ended(Ended::ShutDown)));
    assert_eq!(reader.await.unwrap().unwrap().len(), 200_000);
}

#[tokio::test(start_paused = true)]
async fn an_abort_tells_its_reason() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    let mut events = peer.events();
    client.abort("going home");
    let reason = Bytes::from_static(b"going home");
    let aborted = Ended::PeerAborted { cause: ErrorCause::UserInitiatedAbort, reason };
    assert_eq!(peer.recv().await, Err(RecvError::Ended(aborted.clone())));
    assert_eq!(peer.send(b"x", SendInfo::default()).await, Err(SendError::Ended(aborted.clone())));
    let Some(Notification::Closed { how, .. }) = events.next().await else { panic!("not closed") };
    assert_eq!(how, aborted);
    assert_eq!(events.next().await, None);
    assert_eq!(client.closed().await, Ended::Aborted);
}

#[tokio::test(start_paused = true)]
async fn what_arrived_before_an_abort_can_be_read() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    client.send(b"last words", SendInfo::default()).await.unwrap();
    all_arrived(&client).await;
    client.abort("");
    peer.closed().await;
    assert_eq!(peer.recv().await.unwrap().unwrap().data, "last words");
    assert!(matches!(peer.recv().await, Err(RecvError::Ended(Ended::PeerAborted { .. }))));
}

#[tokio::test(start_paused = true)]
async fn nobody_listens_or_nobody_is_there() {
    let config = AssociationConfig { init_retrans_max: 2, ..AssociationConfig::default() };
    let (here, _there) = stacks_with(Network::builder(), &config);
    let refused = Association::connect(&here, server(9)).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Ended(Ended::PeerAborted { .. })), "{refused}");

    let begun = Instant::now();
    let nowhere = strandline::Peer::new([10, 9, 9, 9], 7);
    let silence = Association::connect(&here, nowhere).await.unwrap_err();
    assert_eq!(silence, ConnectError::Ended(Ended::TimedOut));
    // 1 s, doubled by each of the two retransmissions.
    assert!((6..9).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
    here.wait_idle().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_peer_is_noticed() {
    let cut = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let judge = {
        let cut = cut.clone();
        move |_: &strandline::memory::Passing<'_>| {
            if cut.load(std::sync::atomic::Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver }
        }
    };
    let config =
        AssociationConfig { association_retrans_max: 3, path_retrans_max: 2, ..AssociationConfig::default() };
    let (here, there) = stacks_with(Network::builder().judge(judge), &config);
    let (client, _peer) = pair(&here, &there).await;
    let mut events = client.events();
    cut.store(true, std::sync::atomic::Ordering::Relaxed);
    client.send(b"lost", SendInfo::default().context(77)).await.unwrap();
    assert_eq!(client.recv().await, Err(RecvError::Ended(Ended::TimedOut)));
    let mut failed = Vec::new();
    while let Some(event) = events.next().await {
        if let Notification::SendFailed(message) = event {
            failed.push((message.info.context, message.data));
        }
    }
    assert_eq!(failed, [(77, Bytes::from_static(b"lost"))]);
}

#[tokio::test(start_paused = true)]
async fn closed_listener_frees_its_port() {
    let (here, there) = stacks();
    let listener = Listener::bind(&there, 7).unwrap();
    assert!(matches!(Listener::bind(&there, 7), Err(BindError::Port(_))));
    let accepted = Association::connect(&here, server(7)).await.unwrap();
    let server_side = listener.accept().await.unwrap();
    let waiting = Association::connect(&here, server(7)).await.unwrap();
    drop(listener);
    assert!(matches!(waiting.closed().await, Ended::PeerAborted { .. }));
    accepted.send(b"still here", SendInfo::default()).await.unwrap();
    assert_eq!(server_side.recv().await.unwrap().unwrap().data, "still here");
    Listener::bind(&there, 7).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_full_backlog_refuses() {
    let (here, there) = stacks();
    let listener = Listener::bind_with_backlog(&there, 7, 2).unwrap();
    let mut associations = Vec::new();
    for _ in 0..2 {
        associations.push(Association::connect(&here, server(7)).await.unwrap());
    }
    let third = Association::start(&here, server(7), 0, None).unwrap();
    assert!(matches!(third.closed().await, Ended::PeerAborted { .. }));
    assert_eq!(listener.refused(), 1);
    listener.accept().await.unwrap();
    listener.accept().await.unwrap();
    assert!(timeout(Duration::from_secs(1), listener.accept()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_stacks_end_reaches_everybody() {
    let network = Network::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.enter();
    let stack = Stack::builder().memory(&network, [[10, 0, 0, 9].into()]).unwrap();
    drop(guard);
    let listener = Listener::bind(&stack, 7).unwrap();
    let waiting = tokio::spawn(async move { listener.accept().await.map(|_| ()) });
    tokio::task::yield_now().await;
    runtime.shutdown_background();
    waiting.await.unwrap().unwrap_err();
    assert!(matches!(Listener::bind(&stack, 8), Err(BindError::StackClosed)));
    let gone = Association::connect(&stack, server(7)).await.unwrap_err();
    assert_eq!(gone, ConnectError::Ended(Ended::StackClosed));
}

#[tokio::test(start_paused = true)]
async fn wrong_requests_are_refused_with_a_hint() {
    let (here, there) = stacks();
    let (client, _peer) = pair(&here, &there).await;
    assert_eq!(client.send(b"", SendInfo::default()).await, Err(SendError::Empty));
    let huge = Bytes::from(vec![0; (16 << 20) + 1]);
    assert!(matches!(client.send_bytes(huge, SendInfo::default()).await, Err(SendError::TooLarge { .. })));
    let error = client.send(b"x", on(65_535)).await.unwrap_err();
    assert!(error.to_string().contains("numbered from 0"), "{error}");
    assert!(matches!(Association::connect(&here, server(0)).await, Err(ConnectError::Request(_))));
}

/// An in-memory network corrupts nothing and nothing on it reads checksums: RFC 9653 allows omitting them
/// there.
#[tokio::test(start_paused = true)]
async fn a_network_in_memory_can_do_without_checksums() {
    let method = Some(strandline::ErrorDetectionMethod::SctpOverDtls);
    let extensions = ExtensionsConfig { zero_checksum: method, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let (here, there) = stacks_with(Network::builder().loss(0.02).seed(5), &config);
    let (client, peer) = pair(&here, &there).await;
    let message = pattern(100_000, 3);
    client.send(&message, SendInfo::default()).await.unwrap();
    assert_eq!(recv_whole(&peer).await.unwrap(), message);
    for stack in [&here, &there] {
        let stats = stack.stats();
        assert!(stats.zero_checksums_sent > 0 && stats.zero_checksums_received > 0);
        assert_eq!(stats.checksum_errors, 0);
    }
}
