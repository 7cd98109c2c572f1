//! How streams end: resets, stops, and the end of the association.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_reset_is_no_clean_end() {
    for dropped in [false, true] {
        let (client, server) = streams().await;
        let (_, mut send) = client.open_stream().await.unwrap().into_split();
        send.write_all(b"all of it").await.unwrap();
        let mut accepted = server.accept_stream().await.unwrap();
        crate::common::all_arrived(&client).await;
        if dropped {
            drop(send)
        } else {
            send.reset()
        }
        let mut bytes = Vec::new();
        let error = accepted.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!((&bytes[..], error.kind()), (&b"all of it"[..], ErrorKind::ConnectionReset));
        let inner = error.into_inner().unwrap().downcast::<RecvError>().unwrap();
        assert_eq!(*inner, RecvError::Unfinished);
        let (mut recv, _send) = accepted.into_split();
        assert_eq!(recv.recv().await, Err(RecvError::Unfinished), "it stays so");
    }
}

/// What was not delivered of a stream that is reset is given up, and its number serves again.
#[tokio::test(start_paused = true)]
async fn a_reset_gives_up_what_waits() {
    let (client, server) = streams_over(rough(11), &AssociationConfig::default()).await;
    let stream = client.open_stream().await.unwrap();
    let id = stream.id();
    let (recv, mut send) = stream.into_split();
    let writer = tokio::spawn(async move {
        let _ = timeout(Duration::from_secs(1), send.write_all(&vec![1; 100_000_000])).await;
    });
    let (mut from, mut back) = server.accept_stream().await.unwrap().into_split();
    writer.await.unwrap();
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).await.unwrap_err();
    assert!(bytes.len() < 100_000_000);
    back.finish().unwrap();
    drop(recv);
    until("the number serves again", || {
        let again = futures_now(client.open_stream());
        again.is_some_and(|stream| stream.unwrap().id() == id)
    })
    .await;
}

/// Returns the result of a future that need not wait.
fn futures_now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}

/// The writer of a stopped stream is told at once, also while it waits for room. What was under way takes no window.
#[tokio::test(start_paused = true)]
async fn a_stop_fails_writes_and_frees_the_window() {
    for config in [AssociationConfig::default(), with_credit()] {
        let (client, server) = streams_over(rough(13), &config).await;
        for round in 0..20 {
            let (_recv, mut send) = client.open_stream().await.unwrap().into_split();
            let writer = tokio::spawn(async move {
                let error = send.write_all(&vec![1; 100_000_000]).await.unwrap_err();
                let again = send.send(Bytes::from_static(b"x")).await;
                (error, again, send.finished().await)
            });
            let (mut recv, mut back) = server.accept_stream().await.unwrap().into_split();
            recv.read_exact(&mut [0; 1000]).await.unwrap();
            // Sleeps because the writer must wait for room, in paused time.
            tokio::time::sleep(Duration::from_secs(5)).await;
            recv.stop();
            let told = timeout(Duration::from_secs(10), writer).await.expect("it is told");
            let (error, again, finished) = told.unwrap();
            let inner = error.into_inner().unwrap().downcast::<SendError>().unwrap();
            assert_eq!(*inner, SendError::Stopped, "round {round}");
            assert_eq!((again, finished), (Err(SendError::Stopped), Err(FinishError::Stopped)));
            back.finish().unwrap();
        }
        // Other streams have the whole window.
        echo(&server);
        let stream = client.open_stream().await.unwrap();
        timeout(Duration::from_secs(60), ask(stream, pattern(1_000_000, 1))).await.unwrap();
        let status = server.status().unwrap();
        assert_eq!(status.receive_buffered, 0);
    }
}

/// A stream that is stopped by its opener before the peer has seen it.
#[tokio::test(start_paused = true)]
async fn an_early_stop_is_not_forgotten() {
    let (client, server) = streams_over(rough(17), &AssociationConfig::default()).await;
    for _ in 0..50 {
        let (recv, mut send) = client.open_stream().await.unwrap().into_split();
        drop(recv);
        send.write_all(b"don't answer").await.unwrap();
        send.finish().unwrap();
        let (mut from, mut to) = server.accept_stream().await.unwrap().into_split();
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"don't answer");
        let stopped = timeout(Duration::from_secs(20), to.finished()).await;
        assert_eq!(stopped.expect("it is told"), Err(FinishError::Stopped));
    }
}

/// The writer is told although the other direction was finished and closed before.
#[tokio::test(start_paused = true)]
async fn a_stop_after_a_finish_is_told() {
    let (client, server) = streams_over(rough(19), &AssociationConfig::default()).await;
    for opener_stops in [true, false, true] {
        let opened = client.open_stream().await.unwrap();
        let (recv, mut send) = opened.into_split();
        send.send(Bytes::from_static(b"opening")).await.unwrap();
        let (other_recv, other_send) = server.accept_stream().await.unwrap().into_split();
        let (recv, mut send, mut other_recv, mut other_send) = if opener_stops {
            (recv, send, other_recv, other_send)
        } else {
            (other_recv, other_send, recv, send)
        };
        send.finish().unwrap();
        send.finished().await.unwrap();
        drop(recv);
        let stopped = timeout(Duration::from_secs(20), other_send.finished()).await;
        assert_eq!(stopped.expect("it is told"), Err(FinishError::Stopped));
        while other_recv.recv().await.unwrap().is_some() {}
    }
}

/// The writer is told although the stream had no message before.
#[tokio::test(start_paused = true)]
async fn a_stop_of_an_empty_stream() {
    for finishes in [true, false] {
        let (client, server) = streams_over(rough(23), &AssociationConfig::default()).await;
        let (recv, mut send) = client.open_stream().await.unwrap().into_split();
        if finishes {
            send.finish().unwrap();
        } else {
            drop(send);
        }
        drop(recv);
        let (_from, mut to) = server.accept_stream().await.unwrap().into_split();
        let stopped = timeout(Duration::from_secs(20), to.finished()).await;
        assert_eq!(stopped.expect("it is told"), Err(FinishError::Stopped));
    }
}

/// Without partial reliability the reader of a stream that is reset gets no end at all before that of the association.
#[tokio::test(start_paused = true)]
async fn an_untold_reset_never_looks_clean() {
    let extensions = ExtensionsConfig { partial_reliability: false, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let (client, server) = streams_over(Network::builder(), &config).await;
    let (_recv, mut send) = client.open_stream().await.unwrap().into_split();
    send.write_all(b"half").await.unwrap();
    let (mut from, _to) = server.accept_stream().await.unwrap().into_split();
    assert_eq!(from.recv().await.unwrap().unwrap().data, "half");
    send.reset();
    assert!(timeout(Duration::from_secs(60), from.recv()).await.is_err());
    client.shutdown().await;
    assert_eq!(from.recv().await, Err(RecvError::Unfinished));
}

/// The end of the association is no clean end of a stream, and what was finished before it is.
#[tokio::test(start_paused = true)]
async fn only_finished_streams_end_cleanly() {
    for seed in 0..10 {
        let (client, server) = streams_over(rough(seed), &AssociationConfig::default()).await;
        let mut kept = Vec::new();
        for number in 0..200 {
            let mut stream = client.open_stream().await.unwrap();
            stream.write_all(&[number; 2000]).await.unwrap();
            if number % 2 == 0 {
                stream.shutdown().await.unwrap();
            }
            kept.push(stream);
        }
        let closing = tokio::spawn(async move { client.shutdown().await });
        let mut ends = [0; 2];
        while let Ok(mut stream) = server.accept_stream().await {
            let mut bytes = Vec::new();
            let end = stream.read_to_end(&mut bytes).await;
            assert!(bytes.len() == 2000 || bytes[0] % 2 == 1);
            assert_eq!(end.is_ok(), bytes[0] % 2 == 0, "stream {} {end:?}", bytes[0]);
            ends[usize::from(bytes[0] % 2)] += 1;
        }
        assert_eq!(ends, [100, 100]);
        assert_eq!(closing.await.unwrap(), Ended::ShutDown);
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_fails_open_streams() {
    let (client, server) = streams().await;
    let (mut recv, mut send) = client.open_stream().await.unwrap().into_split();
    send.write_all(b"half").await.unwrap();
    let mut accepted = server.accept_stream().await.unwrap();
    let waiting = tokio::spawn(async move { recv.recv().await });
    send.finish().unwrap();
    server.abort("enough");
    assert!(matches!(waiting.await.unwrap(), Err(RecvError::Ended(Ended::PeerAborted { .. }))));
    assert!(matches!(send.finished().await, Err(FinishError::Ended(_))));
    assert_eq!(client.open_stream().await.unwrap_err(), OpenStreamError::Ended);
    assert_eq!(client.accept_stream().await.unwrap_err(), OpenStreamError::Ended);
    let mut bytes = Vec::new();
    accepted.read_to_end(&mut bytes).await.unwrap_err();
    assert!(accepted.write_all(b"x").await.is_err());
}
