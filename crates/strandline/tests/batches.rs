//! Tests of many small messages that are sent one by one and received in batches.

use std::collections::HashMap;
use std::time::Duration;

use crate::common::{all_arrived, pair, server, stacks, stacks_with};
use strandline::memory::Network;
use strandline::{Association, AssociationConfig, AssociationId, Endpoint, RecvError, SendInfo};

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_small_messages_keep_their_order() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(1)), &AssociationConfig::default());
    let (client, peer) = pair(&here, &there).await;
    let sending = tokio::spawn(async move {
        for number in 0..100_000_u32 {
            client.send(&number.to_be_bytes(), SendInfo::default()).await.unwrap();
        }
        client.shutdown().await
    });
    let (mut messages, mut expected, mut calls) = (Vec::new(), 0_u32, 0);
    loop {
        let count = peer.recv_many(&mut messages, 100).await.unwrap();
        assert_eq!(count, messages.len());
        assert!(count <= 100);
        if count == 0 {
            break;
        }
        calls += 1;
        for message in messages.drain(..) {
            assert_eq!(message.data[..], expected.to_be_bytes());
            expected += 1;
        }
    }
    assert_eq!(expected, 100_000);
    assert!(calls < 10_000, "{calls} calls: they come together");
    sending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn small_messages_go_when_the_sender_pauses() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    let begun = tokio::time::Instant::now();
    for number in 0..100_u8 {
        for part in 0..number {
            client.send(&[number, part], SendInfo::default()).await.unwrap();
        }
        let mut messages = Vec::new();
        while messages.len() < usize::from(number) {
            let missing = usize::from(number) - messages.len();
            peer.recv_many(&mut messages, missing).await.unwrap();
        }
        for (part, message) in messages.iter().enumerate() {
            assert_eq!(message.data[..], [number, part as u8]);
        }
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "no timer was needed");
}

#[tokio::test(start_paused = true)]
async fn batch_ends_before_an_error() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    for _ in 0..3 {
        client.send(b"last words", SendInfo::default()).await.unwrap();
    }
    all_arrived(&client).await;
    client.abort("gone");
    peer.closed().await;
    let mut messages = Vec::new();
    assert_eq!(peer.recv_many(&mut messages, 10).await.unwrap(), 3);
    assert!(matches!(peer.recv_many(&mut messages, 10).await, Err(RecvError::Ended(_))));
    assert_eq!(messages.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_beyond_the_limit() {
    let (here, there) = stacks();
    let (client, peer) = pair(&here, &there).await;
    for number in 0..5_u8 {
        client.send(&[number], SendInfo::default()).await.unwrap();
    }
    all_arrived(&client).await;
    let mut messages = Vec::new();
    assert_eq!(peer.recv_many(&mut messages, 0).await.unwrap(), 0);
    assert_eq!(peer.recv_many(&mut messages, 2).await.unwrap(), 2);
    assert_eq!(peer.recv().await.unwrap().unwrap().data[..], [2]);
    assert_eq!(peer.recv_many(&mut messages, 9).await.unwrap(), 2);
    assert_eq!(messages.iter().map(|message| message.data[0]).collect::<Vec<_>>(), [0, 1, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn endpoint_delivers_messages_of_all_associations() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(Association::connect(&here, server(7)).await.unwrap());
    }
    for number in 0..50_u8 {
        for client in &clients {
            client.send(&[number], SendInfo::default()).await.unwrap();
        }
    }
    let mut next: HashMap<AssociationId, u8> = HashMap::new();
    let mut messages = Vec::new();
    for _ in 0..500 {
        if messages.is_empty() {
            assert!(endpoint.recv_many_from(&mut messages, 64).await.unwrap() <= 64);
        }
        let (from, message) = messages.remove(0);
        let expected = next.entry(from).or_default();
        assert_eq!(message.data[..], [*expected], "{from}");
        *expected += 1;
    }
    assert_eq!(next.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn an_answer_goes_along_with_the_acknowledgement() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(1)), &AssociationConfig::default());
    let (client, peer) = pair(&here, &there).await;
    let server = peer.clone();
    tokio::spawn(async move {
        while let Ok(Some(_)) = peer.recv().await {
            peer.send(b"answer", SendInfo::default()).await.unwrap();
        }
    });
    for question in [2000, 10_000] {
        for turn in 0..10 {
            let before = server.status().unwrap().stats.packets_sent;
            // Several packets, which are acknowledged at once.
            client.send(&vec![7; question], SendInfo::default()).await.unwrap();
            assert_eq!(client.recv().await.unwrap().unwrap().data, "answer");
            assert_eq!(server.status().unwrap().stats.packets_sent - before, 1, "{question} bytes, {turn}");
        }
    }
}

/// What they read is then still in the processor's cache.
#[tokio::test(start_paused = true)]
async fn readers_get_their_turn_while_more_arrives() {
    // A batch of the network has so many packets, whatever their size.
    let config = AssociationConfig { path_mtu_max: 1500, ..AssociationConfig::default() };
    let (here, there) = stacks_with(Network::builder().delay(Duration::from_millis(1)), &config);
    let (client, peer) = pair(&here, &there).await;
    tokio::spawn(async move {
        for _ in 0..2000 {
            client.send(&[7; 8192], SendInfo::default()).await.unwrap();
        }
        client.shutdown().await;
    });
    // The test's own task has its turn more rarely than others.
    let reader = tokio::spawn(async move {
        let (mut messages, mut unread_max) = (0, 0);
        while peer.recv().await.unwrap().is_some() {
            messages += 1;
            unread_max = unread_max.max(peer.status().map_or(0, |status| status.receive_buffered));
        }
        (messages, unread_max)
    });
    let (messages, unread_max) = reader.await.unwrap();
    assert_eq!(messages, 2000);
    assert!(unread_max <= 400 << 10, "{unread_max} bytes arrived at once");
}
