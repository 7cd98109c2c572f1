//! Messages that are given up (RFC 3758), and what their reader gets.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{all_arrived, pair, stacks_with, until, with_switch};
use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, Ended, ExtensionsConfig, Message, Notification, RecvError, RecvStream,
    Reliability, SendInfo, Ssn, StreamId,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const STREAM: StreamId = StreamId(5);
const ONCE: Reliability = Reliability::retransmissions(0);

/// Reads until an error or the end.
async fn read(reader: &mut RecvStream) -> (String, io::Result<()>) {
    let mut bytes = Vec::new();
    let result = reader.read_to_end(&mut bytes).await.map(|_| ());
    (String::from_utf8(bytes).unwrap(), result)
}

fn is_abandoned(result: io::Result<()>) -> bool {
    let error = result.unwrap_err();
    error.get_ref().and_then(|inner| inner.downcast_ref::<RecvError>()) == Some(&RecvError::Abandoned)
}

async fn send(association: &Association, data: &str, reliability: Reliability) {
    association.send(data.as_bytes(), SendInfo::on(STREAM).reliability(reliability)).await.unwrap();
}

/// Sends messages on a stream, those in capitals into a network that loses everything, until they are given up.
async fn send_with_losses(messages: &[&str], interleaving: bool) -> (Association, Association, RecvStream) {
    let (network, dead) = with_switch();
    let extensions = ExtensionsConfig { interleaving, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let (here, there) = stacks_with(network, &config);
    let (client, server) = pair(&here, &there).await;
    assert_eq!(client.status().unwrap().extensions.interleaving, interleaving);
    let reader = server.open_recv(STREAM).unwrap();
    for message in messages {
        if message.chars().all(char::is_uppercase) {
            let before = client.control().abandoned().unwrap().all.retransmissions.sent;
            all_arrived(&client).await;
            dead.store(true, Ordering::Relaxed);
            send(&client, message, ONCE).await;
            until("it is given up", || {
                client.control().abandoned().unwrap().all.retransmissions.sent > before
            })
            .await;
            dead.store(false, Ordering::Relaxed);
        } else {
            send(&client, message, Reliability::FULL).await;
        }
    }
    (client, server, reader)
}

/// A byte stream never continues behind bytes that are missing as if they were not: not in the middle, nor at the
/// beginning or the end.
#[tokio::test(start_paused = true)]
async fn byte_stream_breaks_where_messages_are_missing() {
    let cases = [
        (&["one", "two"][..], &["onetwo"][..]),
        (&["one", "LOST", "two", "three"], &["one", "twothree"]),
        (&["LOST", "one"], &["", "one"]),
        (&["one", "LOST"], &["one", ""]),
        (&["LOST"], &["", ""]),
        (&["one", "LOST", "LOST", "two", "LOST", "three"], &["one", "two", "three"]),
    ];
    for ((messages, parts), interleaving) in cases.into_iter().flat_map(|case| [(case, false), (case, true)])
    {
        let (client, _server, mut reader) = send_with_losses(messages, interleaving).await;
        let ended = tokio::spawn(async move { client.shutdown().await });
        let (last, before) = parts.split_last().unwrap();
        for part in before {
            let (bytes, result) = read(&mut reader).await;
            assert_eq!(bytes, *part, "{messages:?}");
            assert!(is_abandoned(result), "{messages:?}");
        }
        let (bytes, result) = read(&mut reader).await;
        assert_eq!(bytes, *last, "{messages:?}");
        result.unwrap();
        assert_eq!(ended.await.unwrap(), Ended::ShutDown);
    }
}

/// What had arrived before a stream was opened is read from its beginning.
#[tokio::test(start_paused = true)]
async fn stream_opened_behind_unread_messages() {
    let (here, there) = stacks_with(Network::builder(), &AssociationConfig::default());
    let (client, server) = pair(&here, &there).await;
    for message in ["one", "two", "three"] {
        send(&client, message, Reliability::FULL).await;
    }
    all_arrived(&client).await;
    assert_eq!(server.recv().await.unwrap().unwrap().data, "one");
    let mut reader = server.open_recv(STREAM).unwrap();
    send(&client, "four", Reliability::FULL).await;
    client.shutdown().await;
    let (bytes, result) = read(&mut reader).await;
    assert_eq!(bytes, "twothreefour");
    result.unwrap();
}

/// Readers of messages see gaps in the numbers, and the sender is told of each message.
#[tokio::test(start_paused = true)]
async fn messages_with_lifetimes_under_losses() {
    let network = Network::builder().delay(Duration::from_millis(20)).loss(0.2).seed(3);
    let (here, there) = stacks_with(network, &AssociationConfig::default());
    let (client, server) = pair(&here, &there).await;
    assert!(client.status().unwrap().extensions.partial_reliability);
    let mut events = client.events();
    let sender = tokio::spawn(async move {
        for number in 0..300_u32 {
            let lifetime = Reliability::lifetime(Duration::from_millis(60));
            let info = SendInfo::on(STREAM).context(number).reliability(lifetime);
            client.send(&number.to_be_bytes(), info).await.unwrap();
            // Sleeps because it is a source of samples at a rate; time is virtual.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        client.shutdown().await
    });
    let mut arrived = Vec::new();
    while let Some(Message { data, .. }) = server.recv().await.unwrap() {
        arrived.push(u32::from_be_bytes(data[..].try_into().unwrap()));
    }
    assert!(arrived.is_sorted_by(|one, next| one < next), "{arrived:?}");
    assert_eq!(sender.await.unwrap(), Ended::ShutDown);
    let mut failed = Vec::new();
    while let Some(notification) = events.next().await {
        if let Notification::SendFailed(message) = notification {
            failed.push(message.info.context);
        }
    }
    let missing: Vec<u32> = (0..300).filter(|number| !arrived.contains(number)).collect();
    assert!(missing.len() > 10, "{missing:?}");
    assert!(missing.iter().all(|number| failed.contains(number)), "{missing:?} {failed:?}");
}

/// A peer that doesn't support it gets everything that was begun, and `Status` tells.
#[tokio::test(start_paused = true)]
async fn peer_without_partial_reliability() {
    let extensions = ExtensionsConfig { partial_reliability: false, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let network = Network::builder().delay(Duration::from_millis(5)).loss(0.2).seed(3);
    let (here, there) = stacks_with(network, &config);
    let (client, server) = pair(&here, &there).await;
    assert!(!client.status().unwrap().extensions.partial_reliability);
    assert!(!server.status().unwrap().extensions.partial_reliability);
    for _ in 0..50 {
        send(&client, "message", ONCE).await;
    }
    for ssn in 0..50 {
        assert_eq!(server.recv().await.unwrap().unwrap().ssn, Ssn(ssn));
    }
}

/// What is written as bytes is never given up, whatever the limit of other messages is.
#[tokio::test(start_paused = true)]
async fn written_bytes_have_no_default_limit() {
    let (network, dead) = with_switch();
    let extensions = ExtensionsConfig { default_reliability: ONCE, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let (here, there) = stacks_with(network, &config);
    let (client, server) = pair(&here, &there).await;
    let mut events = client.events();
    let mut writer = client.open_send(STREAM).unwrap();
    dead.store(true, Ordering::Relaxed);
    writer.write_all(b"bytes").await.unwrap();
    writer.send(bytes::Bytes::from_static(b"message")).await.unwrap();
    while !matches!(events.next().await.unwrap(), Notification::SendFailed(failed) if failed.data == "message")
    {
    }
    dead.store(false, Ordering::Relaxed);
    assert_eq!(server.recv().await.unwrap().unwrap().data, "bytes");
    assert_eq!(client.shutdown().await, Ended::ShutDown);
}
