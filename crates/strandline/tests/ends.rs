//! Tests of sockets that stop accepting, and of the graceful end of all associations of an endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{SERVER, server, stacks, stacks_with, until};
use bytes::Bytes;
use strandline::memory::{Fate, Network, Passing};
use strandline::{
    AcceptError, Association, AssociationConfig, AssociationState, ConnectError, Ended, Endpoint, ErrorCause,
    Listener, Notification, Peer, RecvError, SendError, SendInfo, Stack, TrySendError,
};

const HELLO: Bytes = Bytes::from_static(b"hello");

#[tokio::test(start_paused = true)]
async fn stopped_endpoints_refuse_peers_and_connect_themselves() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let early = Association::connect(&here, server(7)).await.unwrap();
    let listener = Listener::bind(&here, 8).unwrap();
    endpoint.stop_accepting();
    endpoint.stop_accepting();
    let refused = Association::connect(&here, server(7)).await.unwrap_err();
    let none = ConnectError::Ended(Ended::PeerAborted { cause: ErrorCause::None, reason: Bytes::new() });
    assert_eq!(refused, none);
    early.send(b"still here", SendInfo::default()).await.unwrap();
    assert_eq!(endpoint.recv_from().await.unwrap().1.data, "still here");
    let out = endpoint.connect(Peer::new([10, 0, 0, 1], 8)).await.unwrap();
    assert_eq!(listener.accept().await.unwrap().status().unwrap().peer_port, 7);
    assert_eq!(endpoint.control(out).unwrap().status().unwrap().state, AssociationState::Established);

    // The port is bound by another endpoint, and stays bound when the first is dropped.
    let next = Endpoint::bind(&there, 7).unwrap();
    drop(endpoint);
    let late = Association::connect(&here, server(7)).await.unwrap();
    late.send(b"new", SendInfo::default()).await.unwrap();
    assert_eq!(next.recv_from().await.unwrap().1.data, "new");
}

#[tokio::test(start_paused = true)]
async fn stopped_listeners_hand_out_what_waits() {
    let (here, there) = stacks();
    let listener = Listener::bind(&there, 7).unwrap();
    let early = Association::connect(&here, server(7)).await.unwrap();
    let waiting = async { (listener.accept().await, listener.accept().await) };
    let (accepted, stopped) = tokio::join!(waiting, async {
        tokio::task::yield_now().await;
        listener.stop_accepting();
    })
    .0;
    assert_eq!(stopped.unwrap_err(), AcceptError::Stopped);
    assert!(Association::connect(&here, server(7)).await.is_err());
    let next = Listener::bind(&there, 7).unwrap();
    drop(listener);
    let late = Association::connect(&here, server(7)).await.unwrap();
    let _late_here = next.accept().await.unwrap();
    early.send(b"both live", SendInfo::default()).await.unwrap();
    late.send(b"both live", SendInfo::default()).await.unwrap();
    assert_eq!(accepted.unwrap().recv().await.unwrap().unwrap().data, "both live");
}

#[tokio::test(start_paused = true)]
async fn shutdown_all_delivers_on_every_shard() {
    let network = Network::builder().delay(Duration::from_millis(20)).build();
    let here = Stack::builder().memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let there = Stack::builder().shards(4).memory(&network, [SERVER.into()]).unwrap();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut notifications = endpoint.notifications();
    let mut clients = Vec::new();
    for _ in 0..40 {
        let client = Association::connect(&here, server(7)).await.unwrap();
        client.send(&HELLO, SendInfo::default()).await.unwrap();
        clients.push(client);
    }
    for _ in 0..40 {
        let (id, _) = endpoint.recv_from().await.unwrap();
        endpoint.try_send_to(id, Bytes::from(vec![1; 10_000]), SendInfo::default()).unwrap();
    }
    let reader = tokio::spawn({
        let endpoint = endpoint.clone();
        async move { endpoint.recv_from().await }
    });
    endpoint.shutdown_all().await;
    assert_eq!(there.association_count(), 0);
    for client in &clients {
        assert_eq!(client.recv().await.unwrap().unwrap().data.len(), 10_000);
        assert_eq!(client.recv().await, Ok(None));
    }
    assert_eq!(reader.await.unwrap(), Err(RecvError::Ended(Ended::ShutDown)));
    let mut closed = 0;
    while let Some((_, notification)) = notifications.next().await {
        if let Notification::Closed { how, addresses, stats, .. } = notification {
            assert_eq!(how, Ended::ShutDown);
            assert_eq!(addresses, ["10.0.0.1:9899".parse().unwrap()]);
            assert!(stats.data_sent > 0);
            closed += 1;
        }
    }
    assert_eq!(closed, 40);
}

#[tokio::test(start_paused = true)]
async fn nothing_new_begins_while_shutting_down() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(50)), &AssociationConfig::default());
    let listener = Listener::bind(&there, 8).unwrap();
    let endpoint = Endpoint::bind(&here, 7).unwrap();
    let connecting = tokio::spawn({
        let endpoint = endpoint.clone();
        async move { endpoint.connect(server(8)).await }
    });
    tokio::task::yield_now().await;
    endpoint.shutdown_all().await;
    assert_eq!(endpoint.connect(server(8)).await, Err(ConnectError::ShuttingDown));
    let sent = endpoint.send_to_peer(server(9), HELLO, SendInfo::default()).await;
    assert_eq!(sent, Err(SendError::ShuttingDown));
    assert_eq!(connecting.await.unwrap(), Err(ConnectError::ShuttingDown));
    assert_eq!(listener.accept().await.unwrap().recv().await, Ok(None));
    assert_eq!(endpoint.recv_from().await, Err(RecvError::Ended(Ended::ShutDown)));
}

#[tokio::test(start_paused = true)]
async fn shutdown_all_keeps_what_was_not_read() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut notifications = endpoint.notifications();
    let client = Association::connect(&here, server(7)).await.unwrap();
    client.send(&HELLO, SendInfo::default()).await.unwrap();
    until("it arrives", || there.buffers().receive_bytes > 0).await;
    endpoint.shutdown_all().await;
    assert_eq!(client.closed().await, Ended::ShutDown);
    let (id, message) = endpoint.recv_from().await.unwrap();
    assert_eq!(message.data, HELLO);
    assert_eq!(endpoint.recv_from().await, Err(RecvError::Ended(Ended::ShutDown)));
    let mut last = None;
    while let Some(next) = notifications.next().await {
        last = Some(next);
    }
    assert!(matches!(last, Some((Some(of), Notification::Closed { .. })) if of == id), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_all_ends_with_a_dead_peer() {
    let cut = Arc::new(AtomicBool::new(false));
    let judge = Arc::clone(&cut);
    let fate = move |_: &Passing<'_>| if judge.load(Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver };
    let config = AssociationConfig { association_retrans_max: 3, ..AssociationConfig::default() };
    let (here, there) = stacks_with(Network::builder().judge(fate), &config);
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut notifications = endpoint.notifications();
    let client = Association::connect(&here, server(7)).await.unwrap();
    client.send(&HELLO, SendInfo::default()).await.unwrap();
    let (id, _) = endpoint.recv_from().await.unwrap();
    cut.store(true, Ordering::Relaxed);
    endpoint.send_to(id, HELLO, SendInfo::default()).await.unwrap();
    endpoint.shutdown_all().await;
    let mut how = None;
    while let Some((_, notification)) = notifications.next().await {
        if let Notification::Closed { how: seen, .. } = notification {
            how = Some(seen);
        }
    }
    assert_eq!(how, Some(Ended::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn try_send_to_reports_a_full_buffer() {
    let (here, there) = stacks();
    let _silent = Endpoint::bind(&there, 7).unwrap();
    let endpoint = Endpoint::bind(&here, 0).unwrap();
    let id = endpoint.connect(server(7)).await.unwrap();
    let data = Bytes::from(vec![0; 100_000]);
    let full = loop {
        match endpoint.try_send_to(id, data.clone(), SendInfo::default()) {
            Ok(()) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(full, TrySendError::Full);
    endpoint.control(id).unwrap().abort("enough");
    let gone = endpoint.try_send_to(id, data, SendInfo::default());
    assert!(matches!(gone, Err(TrySendError::Send(_))), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn established_tells_who_the_peer_is() {
    let network = Network::new();
    let here = Stack::builder().memory(&network, [[10, 0, 0, 1].into(), [10, 1, 0, 1].into()]).unwrap();
    let there = Stack::builder().memory(&network, [SERVER.into()]).unwrap();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut notifications = endpoint.notifications();
    let _client = Association::connect(&here, server(7)).await.unwrap();
    let Some((_, Notification::Established { addresses, .. })) = notifications.next().await else {
        panic!("not established")
    };
    assert_eq!(addresses, ["10.0.0.1:9899".parse().unwrap(), "10.1.0.1:9899".parse().unwrap()]);
}
