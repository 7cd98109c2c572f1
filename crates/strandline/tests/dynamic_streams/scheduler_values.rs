//! The parameters of dynamic streams for the scheduler.

use super::*;

fn value(association: &Association, stream: StreamId) -> u16 {
    association.control().stream_value(stream).unwrap()
}

/// Opens a stream and closes it in both directions, after `use_it` on the writers of both sides. Returns its number.
async fn use_once(
    client: &Association,
    server: &Association,
    use_it: impl FnOnce(&mut strandline::SendStream, &mut strandline::SendStream),
) -> StreamId {
    let (mut answers, mut send) = client.open_stream().await.unwrap().into_split();
    send.send(Bytes::from_static(b"question")).await.unwrap();
    let (mut questions, mut back) = server.accept_stream().await.unwrap().into_split();
    back.send(Bytes::from_static(b"answer")).await.unwrap();
    use_it(&mut send, &mut back);
    send.finish().unwrap();
    back.finish().unwrap();
    while questions.recv().await.unwrap().is_some() {}
    while answers.recv().await.unwrap().is_some() {}
    send.finished().await.unwrap();
    back.finished().await.unwrap();
    send.id()
}

/// The value of a stream ends with it: the next one with its number begins with 0, on both sides.
#[tokio::test(start_paused = true)]
async fn reused_numbers_have_no_value() {
    let (client, server) = streams_over(rough(31), &AssociationConfig::default()).await;
    let first = use_once(&client, &server, |send, back| {
        send.set_scheduler_value(9).unwrap();
        back.set_scheduler_value(7).unwrap();
        assert_eq!((value(&client, send.id()), value(&server, back.id())), (9, 7));
    })
    .await;
    assert_eq!((value(&client, first), value(&server, first)), (0, 0), "nothing is left of it");
    let again = use_once(&client, &server, |send, back| {
        assert_eq!((value(&client, send.id()), value(&server, back.id())), (0, 0));
    })
    .await;
    assert_eq!(first, again);
}

/// A value that was set while nobody used the number, or of a stream that was never used, concerns no later stream.
#[tokio::test(start_paused = true)]
async fn values_between_uses_are_forgotten() {
    let (client, server) = streams().await;
    let (recv, mut send) = client.open_stream().await.unwrap().into_split();
    let id = send.id();
    send.set_scheduler_value(9).unwrap();
    drop((recv, send));
    let stream = client.open_stream().await.unwrap();
    assert_eq!((stream.id(), value(&client, id)), (id, 0));
    drop(stream);
    for association in [&client, &server] {
        association.control().set_stream_value(id, 5).unwrap();
    }
    let again = use_once(&client, &server, |send, back| {
        assert_eq!((value(&client, send.id()), value(&server, back.id())), (0, 0));
    })
    .await;
    assert_eq!(again, id);
}

/// What is queued keeps the value of its stream until it is sent, also if the stream is finished or reset.
#[tokio::test(start_paused = true)]
async fn values_last_until_everything_is_sent() {
    let config =
        AssociationConfig { stream_scheduler: StreamScheduler::Priority, ..AssociationConfig::default() };
    for resets in [false, true] {
        let (client, server) = streams_over(rough(37), &config).await;
        let (_answers, mut bulk) = client.open_stream().await.unwrap().into_split();
        let id = bulk.id();
        bulk.set_scheduler_value(100).unwrap();
        bulk.send(vec![0; 200_000].into()).await.unwrap();
        if resets {
            bulk.reset();
        } else {
            bulk.finish().unwrap();
            assert_eq!(value(&client, id), 100, "most of it is still to be sent");
            assert_eq!(bulk.set_scheduler_value(1), Err(SendError::Finished));
        }
        let mut accepted = server.accept_stream().await.unwrap();
        assert_eq!(accepted.read_to_end(&mut Vec::new()).await.is_ok(), !resets);
        assert_eq!(value(&client, id), 0);
    }
}

/// A restart of the peer or a reset of all numbers ends the streams, and their values with them; those of
/// other streams stay.
#[tokio::test(start_paused = true)]
async fn values_end_with_all_numbers() {
    let extensions = ExtensionsConfig { peer_requests: PeerRequests::ALL, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let (client, server) = streams_over(Network::builder(), &config).await;
    let (_answers, mut send) = client.open_stream().await.unwrap().into_split();
    send.set_scheduler_value(9).unwrap();
    send.send(Bytes::from_static(b"data")).await.unwrap();
    client.control().set_stream_value(StreamId(0), 4).unwrap();
    crate::common::all_arrived(&client).await;
    client.reset_association().unwrap();
    let (mut reader, _) = server.accept_stream().await.unwrap().into_split();
    while reader.recv().await.is_ok() {}
    assert_eq!(send.set_scheduler_value(1), Err(SendError::Lost));
    assert_eq!((value(&client, send.id()), value(&client, StreamId(0))), (0, 4));
}

#[tokio::test(start_paused = true)]
async fn fixed_streams_have_values() {
    let (here, there) = stacks();
    let (client, _server) = pair(&here, &there).await;
    let mut send = client.open_send(StreamId(3)).unwrap();
    send.set_scheduler_value(8).unwrap();
    assert_eq!(value(&client, StreamId(3)), 8);
    client.abort("enough");
    assert_eq!(send.set_scheduler_value(8), Err(SendError::ShuttingDown));
}
