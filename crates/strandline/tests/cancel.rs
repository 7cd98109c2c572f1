//! Tests that dropping futures loses nothing.

use std::future::Future;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{all_arrived, pair, server, stacks, stacks_with, until};
use strandline::memory::Network;
use strandline::{Association, AssociationConfig, Endpoint, Listener, SendInfo};
use tokio::time::{interval, timeout};

/// Polls a future once and drops it.
fn once<F: Future>(future: F) -> Poll<F::Output> {
    std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn receiving_can_be_given_up_at_any_time() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(3)), &AssociationConfig::default());
    let (client, peer) = pair(&here, &there).await;
    tokio::spawn(async move {
        let mut pace = interval(Duration::from_millis(1));
        for number in 0..200_u32 {
            pace.tick().await;
            client.send(&number.to_be_bytes(), SendInfo::default()).await.unwrap();
        }
        client.shutdown().await;
    });
    let mut expected = 0_u32;
    let mut given_up = 0;
    loop {
        match timeout(Duration::from_micros(700), peer.recv()).await {
            Ok(message) => {
                let Some(message) = message.unwrap() else { break };
                assert_eq!(message.data[..], expected.to_be_bytes());
                expected += 1;
            }
            Err(_) => given_up += 1,
        }
    }
    assert_eq!(expected, 200);
    assert!(given_up > 0, "each came at once");
}

#[tokio::test(start_paused = true)]
async fn cancelled_send_was_not_sent() {
    let config = AssociationConfig {
        send_buffer: Some(3000),
        receive_buffer: Some(3000),
        ..AssociationConfig::default()
    };
    let (here, there) = stacks_with(Network::builder(), &config);
    let (client, peer) = pair(&here, &there).await;
    let (mut sent, mut given_up) = (0_u32, 0);
    let mut pace = interval(Duration::from_millis(300));
    // Fills both buffers, then fails to send.
    while given_up < 10 {
        pace.tick().await;
        match once(client.send(&[sent as u8; 500], SendInfo::default())) {
            Poll::Ready(result) => {
                result.unwrap();
                sent += 1;
            }
            Poll::Pending => given_up += 1,
        }
    }
    tokio::spawn(async move { client.shutdown().await });
    let mut received = 0;
    while let Some(message) = peer.recv().await.unwrap() {
        assert_eq!(message.data, vec![received as u8; 500]);
        received += 1;
    }
    assert_eq!(received, sent);
}

#[tokio::test(start_paused = true)]
async fn cancelled_connect_leaves_nothing() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(50)), &AssociationConfig::default());
    let listener = Listener::bind(&there, 7).unwrap();
    for wait_ms in [0, 20, 60, 120, 160] {
        let connect = Association::connect(&here, server(7));
        assert!(timeout(Duration::from_millis(wait_ms), connect).await.is_err());
    }
    until("what was given up is gone", || here.association_count() == 0).await;
    drop(listener);
    there.wait_idle().await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_accept_passes_its_turn_on() {
    let (here, there) = stacks();
    let listener = Listener::bind(&there, 7).unwrap();
    let mut first = Box::pin(listener.accept());
    let mut second = Box::pin(listener.accept());
    assert!(futures_poll(&mut first).is_pending());
    let waiter = std::pin::pin!(async { second.as_mut().await.unwrap() });
    let (client, accepted) = tokio::join!(
        async {
            let client = Association::connect(&here, server(7)).await.unwrap();
            // The first accept was woken for the association, and is dropped before it could take it.
            drop(first);
            client
        },
        waiter
    );
    client.send(b"hello", SendInfo::default()).await.unwrap();
    assert_eq!(accepted.recv().await.unwrap().unwrap().data, "hello");
}

fn futures_poll<F: Future>(future: &mut std::pin::Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test(start_paused = true)]
async fn cancelled_reader_passes_its_turn_on() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let client = Association::connect(&here, server(7)).await.unwrap();
    let mut first = Box::pin(endpoint.recv_from());
    assert!(futures_poll(&mut first).is_pending());
    let second = async { endpoint.recv_from().await.unwrap() };
    let ((), (_, message)) = tokio::join!(
        async {
            client.send(b"for one of you", SendInfo::default()).await.unwrap();
            all_arrived(&client).await;
            drop(first);
        },
        second
    );
    assert_eq!(message.data, "for one of you");
}
