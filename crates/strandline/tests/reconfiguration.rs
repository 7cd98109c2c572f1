//! Resets of streams and more streams (RFC 6525).

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::io;
use std::time::Duration;

use crate::common::{all_arrived, pair, stacks, stacks_with, until};
use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, Ended, Endpoint, Events, ExtensionsConfig, Listener, Notification,
    OpenStreamError, Outcome, PeerRequests, ReconfigureError, RecvError, SendInfo, Ssn, Stack,
    StreamDirection, StreamId, Streams,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const STREAM: StreamId = StreamId(5);
const OTHER: StreamId = StreamId(6);

fn allowing(peer_requests: PeerRequests) -> AssociationConfig {
    let extensions = ExtensionsConfig { peer_requests, ..ExtensionsConfig::default() };
    AssociationConfig { extensions, outbound_streams: 100, ..AssociationConfig::default() }
}

/// Two stacks that perform every request, with losses.
fn lossy() -> (Stack, Stack) {
    let network = Network::builder().delay(Duration::from_millis(5)).loss(0.1).seed(7);
    stacks_with(network, &allowing(PeerRequests::ALL))
}

/// Returns direction and outcome of the next reset of streams.
async fn next_reset(events: &mut Events) -> (StreamDirection, Streams, Outcome) {
    loop {
        match events.next().await.expect("an outcome") {
            Notification::StreamsReset { direction, streams, outcome, .. } => {
                return (direction, streams, outcome);
            }
            _ => continue,
        }
    }
}

/// Returns the outcome of the next change of the number of streams, and how many there are, outgoing and incoming.
async fn next_change(events: &mut Events) -> (Outcome, u16, u16) {
    loop {
        if let Notification::StreamsChanged { outcome, outbound_streams, inbound_streams, .. } =
            events.next().await.expect("an outcome")
        {
            return (outcome, outbound_streams, inbound_streams);
        }
    }
}

async fn numbers(association: &Association, count: usize) -> Vec<(u16, Ssn)> {
    let mut found = Vec::new();
    for _ in 0..count {
        let message = association.recv().await.unwrap().unwrap();
        found.push((message.stream.0, message.ssn));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn numbers_begin_at_0_again() {
    let (here, there) = lossy();
    let (client, server) = pair(&here, &there).await;
    let (mut ours, mut theirs) = (client.events(), server.events());
    for stream in [STREAM, STREAM, OTHER] {
        client.send(b"before", SendInfo::on(stream)).await.unwrap();
    }
    client.reset_streams(StreamDirection::Outgoing, STREAM).unwrap();
    for stream in [STREAM, OTHER] {
        client.send(b"after", SendInfo::on(stream)).await.unwrap();
    }
    let mut found = numbers(&server, 5).await;
    found.sort_unstable_by_key(|(stream, _)| *stream);
    assert_eq!(found, [(5, Ssn(0)), (5, Ssn(1)), (5, Ssn(0)), (6, Ssn(0)), (6, Ssn(1))]);
    let streams = Streams::from(STREAM);
    let expected = (StreamDirection::Outgoing, streams.clone(), Outcome::Performed);
    assert_eq!(next_reset(&mut ours).await, expected);
    assert_eq!(next_reset(&mut theirs).await, (StreamDirection::Incoming, streams, Outcome::Performed));
}

/// The reader of a byte stream gets an error where the reset is, and never a clean end after half of something.
#[tokio::test(start_paused = true)]
async fn a_byte_stream_breaks_at_the_reset() {
    let (here, there) = lossy();
    let (client, server) = pair(&here, &there).await;
    let mut reader = server.open_recv(STREAM).unwrap();
    let mut other = server.open_recv(OTHER).unwrap();
    let mut writer = client.open_send(STREAM).unwrap();
    writer.write_all(b"half of it").await.unwrap();
    client.reset_streams(StreamDirection::Outgoing, STREAM).unwrap();
    writer.write_all(b"something else").await.unwrap();
    client.open_send(OTHER).unwrap().write_all(b"goes on").await.unwrap();
    let ended = tokio::spawn(async move { client.shutdown().await });

    let mut bytes = Vec::new();
    let error = reader.read_to_end(&mut bytes).await.unwrap_err();
    assert_eq!((error.kind(), &bytes[..]), (io::ErrorKind::ConnectionReset, &b"half of it"[..]));
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<RecvError>());
    assert_eq!(inner, Some(&RecvError::Reset));
    bytes.clear();
    reader.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes, b"something else");
    bytes.clear();
    other.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes, b"goes on", "a stream that isn't reset has no break");
    assert_eq!(ended.await.unwrap(), Ended::ShutDown);
}

/// A reset while the data before it is unread: the position counts, not the time. It is reported once.
#[tokio::test(start_paused = true)]
async fn a_reset_has_its_place_among_unread_messages() {
    let (here, there) = stacks_with(Network::builder(), &allowing(PeerRequests::ALL));
    let (client, server) = pair(&here, &there).await;
    let (mut events, mut reader) = (client.events(), server.open_recv(STREAM).unwrap());
    client.send(b"one", SendInfo::on(STREAM)).await.unwrap();
    for streams in [Streams::All, Streams::from(OTHER), Streams::All] {
        client.reset_streams(StreamDirection::Outgoing, streams.clone()).unwrap();
        let expected = (StreamDirection::Outgoing, streams, Outcome::Performed);
        assert_eq!(next_reset(&mut events).await, expected);
    }
    client.send(b"two", SendInfo::on(STREAM)).await.unwrap();
    all_arrived(&client).await;
    assert_eq!(reader.recv().await.unwrap().unwrap().data, "one");
    assert_eq!(reader.recv().await, Err(RecvError::Reset));
    let two = reader.recv().await.unwrap().unwrap();
    assert_eq!((&two.data[..], two.ssn), (&b"two"[..], Ssn(0)));
}

/// A stream gets its reader after the reset, while the messages from before it are unread: with and without a reader of
/// another stream, after a reset of the stream and of all numbers, and once the association has left its endpoint.
#[tokio::test(start_paused = true)]
async fn a_late_reader_finds_the_reset() {
    for (other, all_numbers, many) in [
        (false, false, false),
        (true, false, false),
        (false, true, false),
        (false, false, true),
        (false, true, true),
    ] {
        let (here, there) = stacks_with(Network::builder(), &allowing(PeerRequests::ALL));
        let endpoint = many.then(|| Endpoint::bind(&there, 7).unwrap());
        let listener = (!many).then(|| Listener::bind(&there, 7).unwrap());
        let client = Association::connect(&here, crate::common::server(7)).await.unwrap();
        let accepted = match &listener {
            Some(listener) => Some(listener.accept().await.unwrap()),
            None => None,
        };
        let _other = accepted.as_ref().filter(|_| other).map(|server| server.open_recv(OTHER).unwrap());
        let mut events = client.events();
        client.send(b"one", SendInfo::on(STREAM)).await.unwrap();
        if all_numbers {
            client.reset_association().unwrap();
            while !matches!(events.next().await, Some(Notification::AssociationReset { .. })) {}
        } else {
            client.reset_streams(StreamDirection::Outgoing, STREAM).unwrap();
            assert_eq!(next_reset(&mut events).await.2, Outcome::Performed);
        }
        client.send(b"two", SendInfo::on(STREAM)).await.unwrap();
        all_arrived(&client).await;
        let server = match (&endpoint, accepted) {
            (Some(endpoint), _) => {
                let id = endpoint.associations()[0];
                endpoint.peel_off(id).unwrap()
            }
            (None, accepted) => accepted.unwrap(),
        };
        let mut reader = server.open_recv(STREAM).unwrap();
        let case = format!("other reader {other}, all numbers {all_numbers}, from an endpoint {many}");
        assert_eq!(reader.recv().await.unwrap().unwrap().data, "one", "{case}");
        assert_eq!(reader.recv().await, Err(RecvError::Reset), "{case}");
        assert_eq!(reader.recv().await.unwrap().unwrap().data, "two", "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_numbers_begin_again() {
    let (here, there) = lossy();
    let (client, server) = pair(&here, &there).await;
    let (mut ours, mut reader) = (client.events(), server.open_recv(STREAM).unwrap());
    for round in 0..3_u8 {
        client.send(&[round], SendInfo::on(STREAM)).await.unwrap();
        server.send(&[round], SendInfo::on(OTHER)).await.unwrap();
    }
    client.reset_association().unwrap();
    client.send(b"after", SendInfo::on(STREAM)).await.unwrap();
    let (local, peer) = loop {
        match ours.next().await.unwrap() {
            Notification::AssociationReset { outcome: Outcome::Performed, local_tsn, peer_tsn, .. } => {
                break (local_tsn, peer_tsn);
            }
            Notification::AssociationReset { outcome, .. } => panic!("{outcome:?}"),
            _ => continue,
        }
    };
    server.send(b"after", SendInfo::on(OTHER)).await.unwrap();
    for round in 0..3_u8 {
        assert_eq!(&reader.recv().await.unwrap().unwrap().data[..], [round]);
        assert_eq!(&client.recv().await.unwrap().unwrap().data[..], [round]);
    }
    assert_eq!(reader.recv().await, Err(RecvError::Reset));
    let theirs = reader.recv().await.unwrap().unwrap();
    assert_eq!((theirs.tsn, theirs.ssn), (local, Ssn(0)));
    let ours = client.recv().await.unwrap().unwrap();
    assert_eq!((ours.tsn, ours.ssn), (peer, Ssn(0)));
}

#[tokio::test(start_paused = true)]
async fn streams_are_added_in_both_directions() {
    let (here, there) = lossy();
    let (client, server) = pair(&here, &there).await;
    let (mut ours, mut theirs) = (client.events(), server.events());
    let last = StreamId(109);
    assert_eq!(
        client.open_send(last).unwrap_err(),
        OpenStreamError::NoSuchStream { stream: 109, streams: 100 }
    );
    client.add_streams(10, 20).unwrap();
    let streams = |association: &Association| {
        let status = association.status().unwrap();
        (status.outbound_streams, status.inbound_streams)
    };
    until("both sides have them", || streams(&client) == (110, 120) && streams(&server) == (120, 110)).await;
    client.send(b"far", SendInfo::on(last)).await.unwrap();
    assert_eq!(numbers(&server, 1).await, [(109, Ssn(0))]);
    // Each side hears of each change, and of no other.
    for (events, wanted) in [(&mut ours, (110, 120)), (&mut theirs, (120, 110))] {
        loop {
            let (outcome, outbound, inbound) = next_change(events).await;
            assert_eq!(outcome, Outcome::Performed);
            if (outbound, inbound) == wanted {
                break;
            }
        }
    }
}

/// By default a peer may ask for nothing, and hears that.
#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_is_denied() {
    let (here, there) = stacks();
    let (client, server) = pair(&here, &there).await;
    let mut events = client.events();
    client.send(b"one", SendInfo::on(STREAM)).await.unwrap();
    client.reset_streams(StreamDirection::Outgoing, Streams::All).unwrap();
    client.send(b"two", SendInfo::on(STREAM)).await.unwrap();
    let expected = (StreamDirection::Outgoing, Streams::All, Outcome::Denied);
    assert_eq!(next_reset(&mut events).await, expected);
    assert_eq!(numbers(&server, 2).await, [(5, Ssn(0)), (5, Ssn(1))]);
    // An application's own wish for its incoming streams is no request of the peer.
    server.reset_streams(StreamDirection::Incoming, STREAM).unwrap();
    let mut events = server.events();
    let expected = (StreamDirection::Incoming, Streams::from(STREAM), Outcome::Denied);
    assert_eq!(next_reset(&mut events).await, expected);
}

#[tokio::test(start_paused = true)]
async fn without_the_extension() {
    let without = AssociationConfig { extensions: ExtensionsConfig::NONE, ..AssociationConfig::default() };
    let (here, there) = stacks_with(Network::builder(), &without);
    let (client, _server) = pair(&here, &there).await;
    assert_eq!(client.reset_association(), Err(ReconfigureError::NotSupported));
    assert_eq!(client.add_streams(1, 1), Err(ReconfigureError::NotSupported));
}

/// A one-to-many socket sends the same requests and gets the same notifications.
#[tokio::test(start_paused = true)]
async fn one_to_many() {
    let (here, there) = lossy();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut notifications = endpoint.notifications();
    let client = Association::connect(&here, crate::common::server(7)).await.unwrap();
    client.send(b"one", SendInfo::on(STREAM)).await.unwrap();
    let (id, _) = endpoint.recv_from().await.unwrap();
    endpoint.control(id).unwrap().reset_streams(StreamDirection::Both, STREAM).unwrap();
    let (mut incoming, mut outgoing) = (false, false);
    while !(incoming && outgoing) {
        if let (_, Notification::StreamsReset { direction, outcome, .. }) =
            notifications.next().await.unwrap()
        {
            assert_eq!(outcome, Outcome::Performed);
            incoming |= direction == StreamDirection::Incoming;
            outgoing |= direction == StreamDirection::Outgoing;
        }
    }
}
