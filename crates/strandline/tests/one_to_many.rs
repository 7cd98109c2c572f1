//! Tests of one-to-many endpoints on the in-memory network, in virtual time.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::common::{SERVER, all_arrived, server, stacks, stacks_with};
use bytes::Bytes;
use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, ConnectError, Ended, Endpoint, Notification, Peer, SendError, SendInfo,
    Stack,
};

fn message(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Answers every message until the stack ends.
fn echo(endpoint: Endpoint) {
    tokio::spawn(async move {
        while let Ok((from, message)) = endpoint.recv_from().await {
            let _ = endpoint.send_to(from, message.data, SendInfo::default()).await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn sending_to_a_peer_sets_up_one_association() {
    let (here, there) = stacks();
    echo(Endpoint::bind(&there, 7).unwrap());
    let client = Endpoint::bind(&here, 0).unwrap();
    let first = client.send_to_peer(server(7), message("one"), SendInfo::default()).await.unwrap();
    let second = client.send_to_peer(server(7), message("two"), SendInfo::default()).await.unwrap();
    assert_eq!(first, second);
    for expected in ["one", "two"] {
        let (from, echo) = client.recv_from().await.unwrap();
        assert_eq!((from, echo.data), (first, message(expected)));
    }
    assert_eq!(client.associations(), [first]);
    assert_eq!(client.control(first).unwrap().status().unwrap().peer_port, 7);
}

#[tokio::test(start_paused = true)]
async fn association_set_up_by_peer_is_found() {
    let (here, there) = stacks();
    let server_side = Endpoint::bind(&there, 7).unwrap();
    let client = Association::connect(&here, server(7)).await.unwrap();
    let back = (std::net::IpAddr::from([10, 0, 0, 1]), client.status().unwrap().local_port);
    server_side.send_to_peer(back, message("you first"), SendInfo::default()).await.unwrap();
    assert_eq!(client.recv().await.unwrap().unwrap().data, "you first");
    assert_eq!(server_side.associations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_associations_on_one_port() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(5)), &AssociationConfig::default());
    echo(Endpoint::bind(&there, 7).unwrap());
    let mut clients = Vec::new();
    for number in 0..1000_u32 {
        let client = Association::start(&here, server(7), 0, None).unwrap();
        client.send(&number.to_be_bytes(), SendInfo::default()).await.unwrap();
        clients.push(client);
    }
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(client.recv().await.unwrap().unwrap().data[..], (number as u32).to_be_bytes());
    }
    assert_eq!(there.association_count(), 1000);
    drop(clients);
    there.wait_idle().await;
    here.wait_idle().await;
    assert_eq!((here.association_count(), there.association_count()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn busy_association_does_not_starve_others() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let noisy = Association::connect(&here, server(7)).await.unwrap();
    let modest = Association::connect(&here, server(7)).await.unwrap();
    for _ in 0..300 {
        noisy.send(b"noise", SendInfo::default()).await.unwrap();
    }
    modest.send(b"please", SendInfo::default()).await.unwrap();
    all_arrived(&noisy).await;
    all_arrived(&modest).await;
    let mut before = 0;
    while endpoint.recv_from().await.unwrap().1.data != "please" {
        before += 1;
    }
    assert!(before < 50, "{before} messages of the other came first");
}

#[tokio::test(start_paused = true)]
async fn notifications_frame_the_data() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut notifications = endpoint.notifications();
    let client = Association::connect(&here, server(7)).await.unwrap();
    client.send(b"hello", SendInfo::default()).await.unwrap();
    assert_eq!(client.shutdown().await, Ended::ShutDown);
    let (Some(id), Notification::Established { incoming: true, .. }) = notifications.next().await.unwrap()
    else {
        panic!("not established")
    };
    assert!(endpoint.control(id).is_ok(), "kept until it was read");
    assert_eq!(endpoint.recv_from().await.unwrap().1.data, "hello");
    tokio::select! {
        biased;
        _ = endpoint.recv_from() => panic!("there is no more"),
        () = tokio::task::yield_now() => {}
    }
    let mut last = None;
    while let Some((from, event)) = notifications.next().await {
        assert_eq!(from, Some(id));
        last = Some(event);
        if matches!(last, Some(Notification::Closed { .. })) {
            break;
        }
    }
    assert!(matches!(last, Some(Notification::Closed { how: Ended::ShutDown, .. })), "{last:?}");
    assert!(endpoint.control(id).is_err(), "forgotten");
    assert_eq!(
        endpoint.send_to(id, message("late"), SendInfo::default()).await,
        Err(SendError::ShuttingDown)
    );
    assert_eq!(there.association_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn peeling_off_keeps_what_was_not_read() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let client = Association::connect(&here, server(7)).await.unwrap();
    client.send(b"one", SendInfo::default()).await.unwrap();
    client.send(b"two", SendInfo::default()).await.unwrap();
    let (id, first) = endpoint.recv_from().await.unwrap();
    assert_eq!(first.data, "one");
    let own = endpoint.peel_off(id).unwrap();
    assert!(endpoint.peel_off(id).is_err());
    assert_eq!(own.recv().await.unwrap().unwrap().data, "two");
    own.send(b"answer", SendInfo::default()).await.unwrap();
    assert_eq!(client.recv().await.unwrap().unwrap().data, "answer");
    assert!(endpoint.associations().is_empty());
    drop(endpoint);
    own.send(b"not the endpoint's any more", SendInfo::default()).await.unwrap();
    assert_eq!(client.recv().await.unwrap().unwrap().data.len(), 27);
}

#[tokio::test(start_paused = true)]
async fn connecting_first_or_in_vain() {
    let (here, there) = stacks();
    echo(Endpoint::bind(&there, 7).unwrap());
    let client = Endpoint::bind(&here, 0).unwrap();
    let id = client.connect(server(7)).await.unwrap();
    assert!(matches!(client.connect(server(7)).await, Err(ConnectError::Request(_))), "it exists");
    client.send_to(id, message("x"), SendInfo::default()).await.unwrap();
    assert_eq!(client.recv_from().await.unwrap().0, id);
    assert!(matches!(client.connect(server(8)).await, Err(ConnectError::Ended(Ended::PeerAborted { .. }))));

    let mut notifications = client.notifications();
    client.send_to_peer(server(9), message("to nobody"), SendInfo::default().context(5)).await.unwrap();
    let mut failed = None;
    while let Some((_, event)) = notifications.next().await {
        match event {
            Notification::SendFailed(message) => failed = Some(message.info.context),
            Notification::Closed { .. } => break,
            _ => {}
        }
    }
    assert_eq!(failed, Some(5));
}

#[tokio::test(start_paused = true)]
async fn dropping_an_endpoint_delivers_and_ends_its_associations() {
    let (here, there) =
        stacks_with(Network::builder().delay(Duration::from_millis(10)), &AssociationConfig::default());
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let client = Association::connect(&here, server(7)).await.unwrap();
        client.send(b"hi", SendInfo::default()).await.unwrap();
        let (id, _) = endpoint.recv_from().await.unwrap();
        endpoint.send_to(id, message("goodbye"), SendInfo::default()).await.unwrap();
        clients.push(client);
    }
    drop(endpoint);
    for client in &clients {
        assert_eq!(client.recv().await.unwrap().unwrap().data, "goodbye");
        assert_eq!(client.recv().await.unwrap(), None);
    }
    there.wait_idle().await;
    Endpoint::bind(&there, 7).unwrap();
}

#[tokio::test(start_paused = true)]
async fn several_tasks_share_the_reading() {
    let (here, there) = stacks();
    let endpoint = std::sync::Arc::new(Endpoint::bind(&there, 7).unwrap());
    let (report, mut reports) = tokio::sync::mpsc::unbounded_channel();
    for task in 0..4 {
        let (endpoint, report) = (endpoint.clone(), report.clone());
        tokio::spawn(async move {
            while let Ok((_, message)) = endpoint.recv_from().await {
                report.send((task, message.data)).unwrap();
            }
        });
    }
    let client = Association::connect(&here, server(7)).await.unwrap();
    let mut seen = HashSet::new();
    let mut by_task: HashMap<i32, usize> = HashMap::new();
    for number in 0..400_u32 {
        client.send(&number.to_be_bytes(), SendInfo::default()).await.unwrap();
    }
    for _ in 0..400 {
        let (task, data) = reports.recv().await.unwrap();
        assert!(seen.insert(data), "twice");
        *by_task.entry(task).or_default() += 1;
    }
    assert!(by_task.len() > 1, "{by_task:?}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_with_two_addresses_is_one_association() {
    let network = Network::new();
    let addresses: [[u8; 4]; 2] = [SERVER, [10, 1, 0, 2]];
    let here = Stack::builder().memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let there = Stack::builder().memory(&network, addresses.map(Into::into)).unwrap();
    echo(Endpoint::bind(&there, 7).unwrap());
    let client = Endpoint::bind(&here, 0).unwrap();
    let id = client.send_to_peer(server(7), message("x"), SendInfo::default()).await.unwrap();
    client.recv_from().await.unwrap();
    let other = Peer::new([10, 1, 0, 2], 7);
    assert_eq!(client.send_to_peer(other, message("y"), SendInfo::default()).await.unwrap(), id);
    assert_eq!(client.control(id).unwrap().paths().len(), 2);
}
