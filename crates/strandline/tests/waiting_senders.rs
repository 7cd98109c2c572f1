//! Tests of senders that wait for room: their order, and their errors when the association ends.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests panic as tests do")]

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{pair, server, stacks, stacks_with};
use bytes::Bytes;
use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, DynamicStreams, Ended, Endpoint, ExtensionsConfig, OpenStreamError,
    SendError, SendInfo, StreamId, StreamScheduler, TrySendError,
};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinHandle;
use tokio::time::timeout;

type Waiting = Pin<Box<dyn Future<Output = Result<(), SendError>> + Send>>;

/// Streams of an association of these tests.
const STREAMS: u16 = 32;

/// Returns an association without room in its send buffer, where further messages wait.
async fn full() -> (strandline::Stack, strandline::Stack, Association, Association) {
    let config = AssociationConfig {
        send_buffer: Some(20_000),
        receive_buffer: Some(20_000),
        outbound_streams: STREAMS,
        inbound_streams_max: STREAMS,
        ..Default::default()
    };
    let (here, there) = stacks_with(Network::builder(), &config);
    let (client, peer) = pair(&here, &there).await;
    while timeout(Duration::from_secs(1), client.send(&[1; 5000], SendInfo::default())).await.is_ok() {}
    (here, there, client, peer)
}

/// Starts a sender for every way to wait for room.
fn senders(client: &Association) -> Vec<JoinHandle<Result<(), SendError>>> {
    let info = SendInfo::default();
    let mut waiting: Vec<Waiting> = Vec::new();
    let association = client.clone();
    waiting.push(Box::pin(async move { association.send(&[2; 5000], info).await }));
    let association = client.clone();
    waiting.push(Box::pin(async move { association.send_bytes(vec![3; 5000].into(), info).await }));
    let mut stream = client.open_send(StreamId(1)).unwrap();
    waiting.push(Box::pin(async move { stream.send(vec![4; 5000].into()).await }));
    let mut stream = client.open_send(StreamId(2)).unwrap();
    waiting.push(Box::pin(async move {
        let error = stream.write_all(&[5; 5000]).await.expect_err("the association ends");
        let sent = error.into_inner().expect("why it could not be sent");
        Err(match sent.downcast::<SendError>() {
            Ok(error) => *error,
            Err(other) => (*other.downcast::<Ended>().expect("how it ended")).into(),
        })
    }));
    waiting.into_iter().map(|waiting| tokio::spawn(waiting)).collect()
}

/// Starts a task that opens streams until it waits for the number of one.
fn opener(client: &Association) -> JoinHandle<OpenStreamError> {
    let settings = DynamicStreams { first: StreamId(STREAMS - 4), ..DynamicStreams::default() };
    client.set_dynamic_streams(settings).unwrap();
    let client = client.clone();
    tokio::spawn(async move {
        let mut streams = Vec::new();
        loop {
            match client.open_stream().await {
                Ok(stream) => streams.push(stream),
                Err(error) => return error,
            }
            assert!(streams.len() <= 2, "there are four, of which the peer opens two");
        }
    })
}

/// Returns the senders' results, well before any time-out.
async fn told(senders: Vec<JoinHandle<Result<(), SendError>>>) -> Vec<SendError> {
    let mut errors = Vec::new();
    for sender in senders {
        let sent = timeout(Duration::from_secs(1), sender).await.expect("it is told at once");
        errors.push(sent.unwrap().expect_err("there was no room"));
    }
    errors
}

async fn let_them_wait() {
    // Sleeps because a waiting sender can't be observed: virtual time advances once every task waits.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_tells_all_who_wait() {
    for own in [true, false] {
        let (_here, _there, client, peer) = full().await;
        let (senders, opener) = (senders(&client), opener(&client));
        let_them_wait().await;
        if own { &client } else { &peer }.control().start_shutdown();
        let errors = told(senders).await;
        assert!(errors.iter().all(|error| matches!(error, SendError::ShuttingDown)), "{errors:?}");
        let opened = timeout(Duration::from_secs(1), opener).await.expect("it is told at once");
        assert_eq!(opened.unwrap(), OpenStreamError::Ended);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_tells_all_who_wait() {
    for own in [true, false] {
        let (_here, _there, client, peer) = full().await;
        let senders = senders(&client);
        let_them_wait().await;
        if own { &client } else { &peer }.abort("enough");
        for error in told(senders).await {
            let expected = match own {
                true => matches!(error, SendError::Ended(Ended::Aborted)),
                false => matches!(error, SendError::Ended(Ended::PeerAborted { .. })),
            };
            assert!(expected, "{error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn senders_of_an_endpoint_are_told_too() {
    for peer_first in [true, false] {
        let (here, there) = stacks();
        let (client, server_end) = (Endpoint::bind(&here, 0).unwrap(), Endpoint::bind(&there, 7).unwrap());
        let id = client.connect(server(7)).await.unwrap();
        let message = Bytes::from(vec![1; 200_000]);
        let client = std::sync::Arc::new(client);
        let sending = std::sync::Arc::clone(&client);
        let sender = tokio::spawn(async move {
            loop {
                sending.send_to(id, message.clone(), SendInfo::default()).await?;
            }
        });
        let_them_wait().await;
        if peer_first {
            let theirs = server_end.associations()[0];
            server_end.control(theirs).unwrap().start_shutdown();
        } else {
            client.control(id).unwrap().start_shutdown();
        }
        let errors = told(vec![sender]).await;
        assert!(matches!(errors[0], SendError::ShuttingDown), "{errors:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn peeling_off_tells_senders_of_the_endpoint() {
    let (here, there) = stacks();
    let (client, _server) = (Endpoint::bind(&here, 0).unwrap(), Endpoint::bind(&there, 7).unwrap());
    let client = std::sync::Arc::new(client);
    let id = client.connect(server(7)).await.unwrap();
    let sending = std::sync::Arc::clone(&client);
    let sender = tokio::spawn(async move {
        loop {
            sending.send_to(id, Bytes::from(vec![1; 200_000]), SendInfo::default()).await?;
        }
    });
    let_them_wait().await;
    let _peeled = client.peel_off(id).unwrap();
    assert!(matches!(told(vec![sender]).await[0], SendError::ShuttingDown));
}

/// Returns the first byte of each message that the peer reads, in order.
async fn order(peer: &Association, count: usize) -> Vec<u8> {
    let mut order = Vec::new();
    while order.len() < count {
        let message = timeout(Duration::from_secs(60), peer.recv()).await.expect("more comes");
        let message = message.unwrap().expect("no end");
        if message.data[0] != 1 {
            order.push(message.data[0]);
        }
    }
    order
}

#[tokio::test(start_paused = true)]
async fn waiting_messages_are_taken_in_order() {
    let (_here, _there, client, peer) = full().await;
    for number in 10..30_u8 {
        let client = client.clone();
        // Large and small messages, on alternating streams.
        let len = if number % 2 == 0 { 15_000 } else { 5 };
        let info = SendInfo::on(StreamId(number.into())).unordered();
        tokio::spawn(async move { client.send(&vec![number; len], info).await });
        tokio::task::yield_now().await;
    }
    let_them_wait().await;
    assert_eq!(order(&peer, 20).await, (10..30).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_sender_in_a_loop_keeps_nobody_out() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    let bulk = client.clone();
    tokio::spawn(async move {
        let data = Bytes::from(vec![1; 2_000_000]);
        while bulk.send_bytes(data.clone(), SendInfo::default()).await.is_ok() {}
    });
    tokio::spawn(async move {
        for number in 2..12_u8 {
            let info = SendInfo::on(StreamId(1)).unordered();
            client.send(&[number; 5], info).await.unwrap();
        }
    });
    let (mut small, mut large) = (0, 0);
    while small < 10 {
        let message = peer.recv().await.unwrap().expect("no end");
        small += usize::from(message.data[0] != 1);
        large += usize::from(message.data[0] == 1 && message.ends);
        assert!(large <= small + 4, "{large} large messages and {small} small ones");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_sender_lets_the_next_go() {
    let (_here, _there, client, peer) = full().await;
    let mut first = Box::pin(client.send(&[2; 15_000], SendInfo::default()));
    let mut second = Box::pin(client.send(&[3; 10], SendInfo::default()));
    for waiting in [first.as_mut() as Pin<&mut dyn Future<Output = _>>, second.as_mut()] {
        assert!(waiting.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    // Once the first sender is dropped, the second is next.
    let second_goes = async {
        drop(first);
        second.await.unwrap();
    };
    let (read, ()) = tokio::join!(order(&peer, 1), second_goes);
    assert_eq!(read, [3]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_nobody_polls_keeps_nobody_out() {
    let (_here, _there, client, peer) = full().await;
    let mut stream = client.open_send(StreamId(1)).unwrap();
    let polled = std::pin::pin!(stream.write_all(&[2; 5000])).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Pending));
    let other = client.clone();
    tokio::spawn(async move { other.send(&[3; 10], SendInfo::default()).await });
    assert_eq!(order(&peer, 1).await, [3]);
    drop(stream);
}

/// Where streams take turns, one with nothing queued has room of its own: those that wait for room on other
/// streams don't hold it up.
#[tokio::test(start_paused = true)]
async fn streams_with_nothing_queued_pass() {
    let config = AssociationConfig {
        send_buffer: Some(20_000),
        receive_buffer: Some(20_000),
        stream_scheduler: StreamScheduler::WeightedFairQueueing,
        extensions: ExtensionsConfig { interleaving: true, ..ExtensionsConfig::default() },
        ..AssociationConfig::default()
    };
    let (here, there) = stacks_with(Network::builder(), &config);
    let (client, _peer) = pair(&here, &there).await;
    client.set_dynamic_streams(DynamicStreams::default()).unwrap();
    let (_recv, mut full) = client.open_stream().await.unwrap().into_split();
    let (_other, mut other) = client.open_stream().await.unwrap().into_split();
    while timeout(Duration::from_secs(1), full.send(vec![1; 5000].into())).await.is_ok() {}
    let waiting = tokio::spawn(async move { full.send(vec![1; 5000].into()).await });
    let_them_wait().await;
    assert_eq!(client.try_send(&[2; 1000], SendInfo::on(StreamId(0))), Ok(()));
    assert_eq!(
        client.try_send(&[2; 1000], SendInfo::on(StreamId(0))),
        Err(TrySendError::Full),
        "it has something"
    );
    let sent = timeout(Duration::from_secs(1), other.send(vec![3; 1000].into())).await;
    sent.expect("it has room of its own").unwrap();
    let again = timeout(Duration::from_secs(1), other.send(vec![3; 1000].into())).await;
    assert!(again.is_err() && !waiting.is_finished(), "now it waits, too");
}
