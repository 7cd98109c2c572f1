//! Notifications of the extensions (RFC 6458 section 6.1).

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{SERVER, all_arrived, pair, peer_at, stacks_with, udp_stack, until, with_switch};
use strandline::memory::Network;
use strandline::{
    AddressOutcome, AddressRequest, Association, AssociationConfig, Authentication, AuthenticationEvent,
    ChunkTypes, ErrorCause, Events, ExtensionsConfig, FailureCause, KeyChange, KeyId, Listener, Notification,
    PathChange, RecvError, Reliability, SendInfo, SharedKey, Stack, StreamId,
};
use strandline_wire::PacketBuilder;
use strandline_wire::chunk::kind;
use tokio::time::timeout;

fn config(extensions: ExtensionsConfig) -> AssociationConfig {
    AssociationConfig { extensions, ..AssociationConfig::default() }
}

async fn next(events: &mut Events) -> Notification {
    timeout(Duration::from_secs(60), events.next()).await.expect("a notification").expect("it lives")
}

/// Returns the next notification that `wanted` accepts.
async fn wait_for<T>(events: &mut Events, wanted: impl Fn(&Notification) -> Option<T>) -> T {
    loop {
        if let Some(found) = wanted(&next(events).await) {
            return found;
        }
    }
}

fn authentication(notification: &Notification) -> Option<AuthenticationEvent> {
    match notification {
        Notification::Authentication(event) => Some(*event),
        _ => None,
    }
}

/// The receiver learns when the peer uses another key, and the sender when one is no longer in use.
#[tokio::test(start_paused = true)]
async fn keys_that_come_and_go_are_reported() {
    let demanded = Authentication { chunks: ChunkTypes::NONE.with(0), ..Authentication::default() };
    let extensions = ExtensionsConfig { authentication: Some(demanded), ..ExtensionsConfig::default() };
    let (here, there) = stacks_with(Network::builder(), &config(extensions));
    let (client, server) = pair(&here, &there).await;
    let (mut sent, mut received) = (client.events(), server.events());
    for side in [&client, &server] {
        side.control().change_key(KeyChange::Set(KeyId(1), SharedKey::new(b"another secret"))).unwrap();
    }
    client.control().change_key(KeyChange::Activate(KeyId(1))).unwrap();
    client.send(b"with the new key", SendInfo::default()).await.unwrap();
    server.recv().await.unwrap().unwrap();
    let event = wait_for(&mut received, authentication).await;
    assert_eq!(event, AuthenticationEvent::NewKey(KeyId(1)));
    all_arrived(&client).await;
    client.control().change_key(KeyChange::Deactivate(KeyId(0))).unwrap();
    let event = wait_for(&mut sent, authentication).await;
    assert_eq!(event, AuthenticationEvent::FreeKey(KeyId(0)));
}

/// A peer without the extension is reported, if it is not demanded.
#[tokio::test(start_paused = true)]
async fn peers_without_authentication_are_reported() {
    let network = Network::new();
    let extensions =
        ExtensionsConfig { authentication: Some(Authentication::default()), ..ExtensionsConfig::default() };
    let here =
        Stack::builder().association(config(extensions)).memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let there = Stack::builder().memory(&network, [crate::common::SERVER.into()]).unwrap();
    let listener = strandline::Listener::bind(&there, 7).unwrap();
    let peer = strandline::Peer::new(crate::common::SERVER, 7);
    let client = Association::start(&here, peer, 0, None).unwrap();
    let mut events = client.events();
    let event = wait_for(&mut events, authentication).await;
    assert_eq!(event, AuthenticationEvent::NotSupported);
    assert!(listener.accept().await.is_ok());
}

/// It is reported each time that everything is acknowledged, while it is asked for.
#[tokio::test(start_paused = true)]
async fn a_dry_sender_is_reported_each_time() {
    let network = Network::builder().delay(Duration::from_millis(10)).loss(0.05).seed(1);
    let (here, there) = stacks_with(network, &AssociationConfig::default());
    let (client, _server) = pair(&here, &there).await;
    let mut events = client.events();
    client.control().report_dry(true).unwrap();
    assert_eq!(next(&mut events).await, Notification::SenderDry, "it is so now");
    for _ in 0..3 {
        client.send(&[7; 30_000], SendInfo::default()).await.unwrap();
        wait_for(&mut events, |event| (*event == Notification::SenderDry).then_some(())).await;
        assert_eq!(client.status().unwrap().send_buffered, 0);
    }
    client.control().report_dry(false).unwrap();
    client.send(b"without", SendInfo::default()).await.unwrap();
    all_arrived(&client).await;
    client.abort("enough");
    let closed = wait_for(&mut events, |event| match event {
        Notification::SenderDry => Some(false),
        Notification::Closed { .. } => Some(true),
        _ => None,
    });
    assert!(closed.await, "no longer reported");
}

/// Each side learns the code point of the other one, behind the end of the set-up.
#[tokio::test(start_paused = true)]
async fn adaptation_layers_are_reported() {
    let network = Network::new();
    let stack = |address: [u8; 4], adaptation_layer| {
        let extensions = ExtensionsConfig { adaptation_layer, ..ExtensionsConfig::default() };
        Stack::builder().association(config(extensions)).memory(&network, [address.into()]).unwrap()
    };
    let (here, there) = (stack([10, 0, 0, 1], Some(7)), stack(crate::common::SERVER, Some(9)));
    let listener = strandline::Listener::bind(&there, 7).unwrap();
    let peer = strandline::Peer::new(crate::common::SERVER, 7);
    let client = Association::start(&here, peer, 0, None).unwrap();
    let mut events = client.events();
    assert!(matches!(next(&mut events).await, Notification::Established { .. }));
    let Notification::AdaptationLayer { code_point, .. } = next(&mut events).await else {
        panic!("no code point")
    };
    assert_eq!(code_point, 9);
    let server = listener.accept().await.unwrap();
    assert_eq!(server.status().unwrap().extensions.adaptation_layer, Some(7));
}

/// A message too large for the buffer arrives in parts. If the peer gives it up, the reader and the
/// notifications say so.
#[tokio::test(start_paused = true)]
async fn aborted_partial_deliveries_are_reported() {
    for interleaving in [false, true] {
        let (network, dead) = with_switch();
        let extensions = ExtensionsConfig { interleaving, ..ExtensionsConfig::default() };
        let config = AssociationConfig {
            receive_buffer: Some(20_000),
            partial_delivery_point: 10_000,
            ..config(extensions)
        };
        let (here, there) = stacks_with(network, &config);
        let (client, server) = pair(&here, &there).await;
        let mut events = server.events();
        let info = SendInfo::on(StreamId(4)).reliability(Reliability::lifetime(Duration::from_secs(5)));
        client.send(&[7; 200_000], info.context(3)).await.unwrap();
        let first = server.recv().await.unwrap().unwrap();
        assert!(first.begins && !first.ends);
        dead.store(true, Ordering::Relaxed);
        let given_up = || client.control().abandoned().unwrap().all.lifetime.sent > 0;
        until("it is given up", given_up).await;
        dead.store(false, Ordering::Relaxed);
        client.send(b"behind it", SendInfo::on(StreamId(4))).await.unwrap();
        let error = loop {
            match server.recv().await {
                Ok(part) => assert!(!part.unwrap().ends),
                Err(error) => break error,
            }
        };
        assert_eq!(error, RecvError::Abandoned);
        let stream = wait_for(&mut events, |event| match event {
            Notification::PartialDeliveryAborted { stream, .. } => Some(*stream),
            _ => None,
        });
        assert_eq!(stream.await, StreamId(4));
        assert_eq!(server.recv().await.unwrap().unwrap().data, "behind it");
    }
}

/// The default limit of an association holds for messages without one of their own, and can be changed.
#[tokio::test(start_paused = true)]
async fn messages_are_given_up_by_default() {
    let (network, dead) = with_switch();
    let lifetime = Reliability::lifetime(Duration::from_millis(100));
    let config = config(ExtensionsConfig { default_reliability: lifetime, ..ExtensionsConfig::default() });
    let (here, there) = stacks_with(network, &config);
    let (client, server) = pair(&here, &there).await;
    let mut events = client.events();
    dead.store(true, Ordering::Relaxed);
    client.send(b"given up", SendInfo::default().context(1)).await.unwrap();
    client.send(b"kept", SendInfo::default().reliability(Reliability::FULL)).await.unwrap();
    let failed = wait_for(&mut events, |event| match event {
        Notification::SendFailed(message) => Some(message.clone()),
        _ => None,
    });
    let failed = failed.await;
    assert_eq!(
        (failed.info.context, failed.cause, failed.info.reliability),
        (1, FailureCause::Expired, lifetime)
    );
    client.control().configure(AssociationConfig::default()).unwrap();
    client.send(b"kept, too", SendInfo::default()).await.unwrap();
    dead.store(false, Ordering::Relaxed);
    for expected in ["kept", "kept, too"] {
        assert_eq!(server.recv().await.unwrap().unwrap().data, expected);
    }
}

/// Waits for the next address of the peer that was added, removed or made the primary one.
async fn next_address(events: &mut Events) -> (IpAddr, PathChange) {
    let wanted = [PathChange::Added, PathChange::Removed, PathChange::Primary];
    wait_for(events, |event| match event {
        Notification::PathChanged { address, change, .. } if wanted.contains(change) => {
            Some((address.ip(), *change))
        }
        _ => None,
    })
    .await
}

/// Each side hears of changes of the other one's addresses, and of what became of its own requests (RFC 5061).
#[tokio::test(start_paused = true)]
async fn changes_of_addresses_are_reported() {
    let network = Network::new();
    let config = config(ExtensionsConfig { dynamic_addresses: true, ..ExtensionsConfig::default() });
    let (cable, radio) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 1, 1]));
    let here = Stack::builder()
        .association(config.clone())
        .local_addresses([cable])
        .memory(&network, [cable, radio])
        .unwrap();
    let there = Stack::builder().association(config).memory(&network, [SERVER.into()]).unwrap();
    let (client, server) = pair(&here, &there).await;
    let (mut ours, mut theirs) = (client.events(), server.events());
    // The peer's own address is none of this host.
    let own = AddressRequest::Add(SERVER.into());
    for (wanted, seen) in [
        (AddressRequest::Add(radio), Some((radio, PathChange::Added))),
        (AddressRequest::SetPrimary(radio), Some((radio, PathChange::Primary))),
        (AddressRequest::Delete(cable), Some((cable, PathChange::Removed))),
        (own, None),
    ] {
        client.control().request_addresses(&[wanted]).unwrap();
        let outcome = wait_for(&mut ours, |event| match event {
            Notification::AddressRequest { request, outcome, .. } => Some((*request, *outcome)),
            _ => None,
        })
        .await;
        match seen {
            Some(seen) => {
                assert_eq!(outcome, (wanted, AddressOutcome::Performed));
                assert_eq!(next_address(&mut theirs).await, seen);
            }
            // Request Refused - No Authorization (section 4.3.5).
            None => assert_eq!(outcome, (wanted, AddressOutcome::Refused { code: 0xa4 })),
        }
    }
}

/// What the peer reports in an ERROR chunk, and that does not end the association.
#[tokio::test]
async fn errors_of_the_peer_are_reported() {
    let (here, there) = (udp_stack(), udp_stack());
    let listener = Listener::bind(&there, 0).unwrap();
    let client = Association::connect(&here, peer_at(&there, listener.port())).await.unwrap();
    let _server = listener.accept().await.unwrap();
    let mut events = client.events();
    let status = client.status().unwrap();
    // Unrecognized Chunk Type (RFC 9260 section 3.3.10.6), with a chunk of type 250.
    let cause = [0, 6, 0, 8, 250, 0, 0, 4];
    let mut bytes = [0; 64];
    let mut packet = PacketBuilder::new(&mut bytes, listener.port(), status.local_port, status.local_tag);
    packet.push_raw(kind::ERROR, 0, cause.len()).unwrap().copy_from_slice(&cause);
    let len = packet.finish();
    let forger = UdpSocket::bind("127.0.0.1:0").unwrap();
    forger.send_to(&bytes[..len], here.local_addr().unwrap()).unwrap();
    let (cause, data) = wait_for(&mut events, |event| match event {
        Notification::PeerError { cause, data, .. } => Some((*cause, data.clone())),
        _ => None,
    })
    .await;
    assert_eq!((cause, &data[..]), (ErrorCause::UnrecognizedChunkType, &[250, 0, 0, 4][..]));
}
