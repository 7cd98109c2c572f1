//! What a side holds for a peer that goes beyond what it should, and what may not be sent on dynamic streams.

use strandline::{Events, Notification, Outcome, StreamDirection, Streams, TrySendError};

use super::*;
use crate::common::all_arrived;

/// Asks for a reset of streams, and returns what became of it.
async fn reset(
    client: &Association,
    events: &mut Events,
    direction: StreamDirection,
    streams: &Streams,
) -> Outcome {
    client.control().reset_streams(direction, streams.clone()).unwrap();
    loop {
        if let Notification::StreamsReset { outcome, .. } = events.next().await.unwrap() {
            return outcome;
        }
    }
}

/// Sends until the server's engine holds messages, because its readers don't read.
async fn stall(client: &Association, server: &Association) {
    while server.status().unwrap().receive_buffered == 0 {
        for stream in [1, 2] {
            client.send(&[7; 8000], SendInfo::on(StreamId(stream))).await.unwrap();
        }
        all_arrived(client).await;
    }
}

/// A peer that resets the same streams again and again while nobody reads is refused at some time, and not for ever.
#[tokio::test(start_paused = true)]
async fn resets_behind_unread_messages_have_a_limit() {
    let (here, there) = stacks();
    let (client, server) = pair(&here, &there).await;
    server.set_dynamic_streams(DynamicStreams::default()).unwrap();
    let mut events = client.events();
    stall(&client, &server).await;
    let before = memory(&server);
    let streams: Streams = (100..356).map(StreamId).collect();
    let mut denied = 0;
    for _ in 0..5000 {
        for direction in [StreamDirection::Outgoing, StreamDirection::Incoming] {
            let outcome = reset(&client, &mut events, direction, &streams).await;
            denied += usize::from(outcome == Outcome::Denied);
        }
    }
    let after = memory(&server);
    assert!(after < before + (5 << 18), "{before} bytes before, {after} after 10,000 resets");
    assert!((5000..10_000).contains(&denied), "{denied} of 10,000 denied");

    let reader = server.clone();
    tokio::spawn(async move {
        let mut accepted = Vec::new();
        loop {
            tokio::select! {
                message = reader.recv() => drop(message.unwrap()),
                stream = reader.accept_stream() => {
                    let (mut recv, send) = stream.unwrap().into_split();
                    accepted.push(send);
                    tokio::spawn(async move { while let Ok(Some(_)) = recv.recv().await {} });
                }
            }
        }
    });
    until("all was read", || server.status().unwrap().receive_buffered == 0).await;
    let outcome = reset(&client, &mut events, StreamDirection::Outgoing, &streams).await;
    assert_eq!(outcome, Outcome::Performed);
}

/// Messages of the association don't mix with those of a stream that is opened at run time.
#[tokio::test(start_paused = true)]
async fn dynamic_streams_take_messages_of_their_writers_only() {
    let (here, there) = stacks();
    let (client, server) = pair(&here, &there).await;
    let fixed = client.open_send(StreamId(4)).unwrap();
    set_both(&(client.clone(), server.clone()), DynamicStreams { first: StreamId(3), ..Default::default() });
    for stream in [3, 4, 500] {
        let (info, refused) = (SendInfo::on(StreamId(stream)), Err(SendError::Dynamic(stream)));
        assert_eq!(client.send(b"mixed in", info).await, refused);
        assert_eq!(client.send_bytes(Bytes::from_static(b"mixed in"), info).await, refused);
        let refused = refused.map_err(TrySendError::Send);
        assert_eq!(client.try_send(b"mixed in", info), refused);
        assert_eq!(client.try_send_bytes(Bytes::from_static(b"mixed in"), info), refused);
        assert_eq!(client.open_send(StreamId(stream)).err(), Some(OpenStreamError::Dynamic(stream)));
    }
    let mut fixed = fixed;
    assert_eq!(fixed.send(Bytes::from_static(b"mixed in")).await, Err(SendError::Dynamic(4)));
    let error = fixed.write_all(b"mixed in").await.unwrap_err();
    assert!(error.to_string().contains("dynamic stream"), "{error}");

    client.send(b"beside", SendInfo::on(StreamId(2))).await.unwrap();
    assert_eq!(server.recv().await.unwrap().unwrap().data, "beside");
    let mut stream = client.open_stream().await.unwrap();
    stream.write_all(b"first").await.unwrap();
    let mut bytes = [0; 5];
    server.accept_stream().await.unwrap().read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"first");
}

/// Unread messages of a stream that is refused once streams become dynamic give their credit back.
#[tokio::test(start_paused = true)]
async fn discarded_messages_give_their_credit_back() {
    let network = Network::builder().delay(Duration::from_millis(20));
    let (here, there) = stacks_with(network, &with_credit());
    let (client, server) = pair(&here, &there).await;
    let _reader = server.open_recv(StreamId(0)).unwrap();
    let sent: Vec<Arc<AtomicUsize>> = (1..=4)
        .map(|stream| {
            let (mut writer, sent) =
                (client.open_send(StreamId(stream)).unwrap(), Arc::new(AtomicUsize::new(0)));
            let count = Arc::clone(&sent);
            tokio::spawn(async move {
                while writer.write_all(&[7; 10_000]).await.is_ok() {
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            sent
        })
        .collect();
    // Sleeps because all must wait for credit, in paused time.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let counts = || sent.iter().map(|sent| sent.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let before = counts();
    server.set_dynamic_streams(DynamicStreams { backlog: 1, ..DynamicStreams::default() }).unwrap();
    // Two of the streams are the peer's, of which one waits to be accepted.
    let goes_on = || counts().iter().zip(&before).any(|(now, before)| *now > before + 1000);
    until("the refused stream goes on", goes_on).await;
}
