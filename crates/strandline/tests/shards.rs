//! Tests of stacks with several shards on the in-memory network, in virtual time.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::{SERVER, server, stays, until, with_switch};
use bytes::Bytes;
use strandline::memory::Network;
use strandline::{
    AcceptError, Association, AssociationConfig, AssociationState, BindError, ConnectError, Ended, Endpoint,
    EndpointConfig, Listener, Notification, Peer, SendError, SendInfo, Stack, StackError,
};
use tokio::time::{interval, timeout};

const CLIENT: [u8; 4] = [10, 0, 0, 1];

fn stack(network: &Network, shards: usize, addresses: &[[u8; 4]], seed: u8) -> Stack {
    try_stack(network, shards, addresses, seed).unwrap()
}

fn try_stack(network: &Network, shards: usize, addresses: &[[u8; 4]], seed: u8) -> Result<Stack, StackError> {
    let builder = Stack::builder().shards(shards).seed([seed; 32]);
    builder.memory(network, addresses.iter().map(|address| IpAddr::from(*address)))
}

/// Creates a stack on addresses that another stack uses until all of it is gone.
async fn stack_again(network: &Network, addresses: &[[u8; 4]], seed: u8) -> Stack {
    let mut stack = None;
    until("the addresses are free", || {
        stack = try_stack(network, 1, addresses, seed).ok();
        stack.is_some()
    })
    .await;
    stack.unwrap()
}

fn stacks(network: &Network, here: usize, there: usize) -> (Stack, Stack) {
    (stack(network, here, &[CLIENT], 1), stack(network, there, &[SERVER], 2))
}

fn message(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// Returns how many packets were handed over between the shards of a stack.
fn handed_over(stack: &Stack) -> u64 {
    stack.shard_stats().iter().map(|shard| shard.handed_over).sum()
}

/// Answers every message of a one-to-many endpoint until the stack ends.
fn echo(endpoint: Endpoint) {
    tokio::spawn(async move {
        while let Ok((from, message)) = endpoint.recv_from().await {
            let _ = endpoint.send_to(from, message.data, SendInfo::default()).await;
        }
    });
}

#[tokio::test(start_paused = true)]
async fn thousands_of_associations_over_any_number_of_shards() {
    for (here, there) in [(1, 2), (2, 1), (3, 4), (4, 3)] {
        let network = Network::builder().delay(Duration::from_millis(5)).build();
        let (here, there) = stacks(&network, here, there);
        echo(Endpoint::bind(&there, 7).unwrap());
        let mut clients = Vec::new();
        for number in 0..2000_u32 {
            let client = Association::start(&here, server(7), 0, None).unwrap();
            client.send(&number.to_be_bytes(), SendInfo::default()).await.unwrap();
            clients.push(client);
        }
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(client.recv().await.unwrap().unwrap().data[..], (number as u32).to_be_bytes());
        }
        assert_eq!((here.association_count(), there.association_count()), (2000, 2000));
        for stack in [&here, &there] {
            let shards = stack.shard_stats();
            let each = 2000 / shards.len();
            for shard in &shards {
                assert!((each / 2..each * 2).contains(&shard.associations), "{shards:?}");
                assert_eq!((shard.handed_over, shard.lock_waits), (0, 0), "{shards:?}");
            }
            assert_eq!(stack.stats().established, 2000);
        }
        drop(clients);
        there.wait_idle().await;
        here.wait_idle().await;
        assert_eq!((here.association_count(), there.association_count()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn misdirected_packets_are_handed_over() {
    transfer_misled(0.0).await;
    transfer_misled(0.05).await;
}

async fn transfer_misled(loss: f64) {
    let network = Network::builder().delay(Duration::from_millis(5)).misled(0.3).loss(loss).seed(3).build();
    let (here, there) = stacks(&network, 3, 4);
    echo(Endpoint::bind(&there, 7).unwrap());
    let mut clients = Vec::new();
    for number in 0..100_u8 {
        let client = Association::start(&here, server(7), 0, None).unwrap();
        for round in 0..10 {
            client.send(&[number, round], SendInfo::default()).await.unwrap();
        }
        clients.push(client);
    }
    for (number, client) in clients.iter().enumerate() {
        for round in 0..10 {
            assert_eq!(client.recv().await.unwrap().unwrap().data[..], [number as u8, round]);
        }
    }
    for client in &clients {
        assert_eq!(client.shutdown().await, Ended::ShutDown);
    }
    there.wait_idle().await;
    for stack in [&here, &there] {
        let sum =
            |count: fn(&strandline::ShardStats) -> u64| stack.shard_stats().iter().map(count).sum::<u64>();
        assert!(sum(|shard| shard.handed_over) > 50);
        assert_eq!(sum(|shard| shard.handed_over), sum(|shard| shard.taken_over));
        assert_eq!(sum(|shard| shard.handed_over_lost), 0);
        assert_eq!(stack.stats().wrong_tag, 0);
        // Retransmissions after a lost answer may arrive for an association that is gone.
        assert!(stack.stats().out_of_the_blue == 0 || loss > 0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn multihomed_peer_restarts_from_any_address() {
    const OTHER: [u8; 4] = [10, 0, 1, 1];
    for port in 5000..5020 {
        for order in [[CLIENT, OTHER], [OTHER, CLIENT]] {
            let (network, dead) = with_switch();
            let network = network.build();
            let there = stack(&network, 4, &[SERVER], 2);
            let listener = Listener::bind(&there, 7).unwrap();
            let config = AssociationConfig::default;
            let before = {
                let here = stack(&network, 1, &[CLIENT, OTHER], 1);
                let client = Association::connect_with(&here, server(7), port, config()).await.unwrap();
                let server = listener.accept().await.unwrap();
                // The host loses power.
                dead.store(true, Ordering::Relaxed);
                client.abort("");
                drop(client);
                here.wait_idle().await;
                server
            };
            let here = stack_again(&network, &order, 9).await;
            dead.store(false, Ordering::Relaxed);
            let mut events = before.events();
            let client = Association::connect_with(&here, server(7), port, config()).await.unwrap();
            assert_eq!(events.next().await, Some(Notification::Restarted), "from port {port}");
            client.send(b"back again", SendInfo::default()).await.unwrap();
            assert_eq!(before.recv().await.unwrap().unwrap().data, "back again");
            assert_eq!(there.association_count(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn both_sides_may_start_at_once() {
    for port in 5000..5040 {
        let network = Network::builder().delay(Duration::from_millis(10)).build();
        let (here, there) = stacks(&network, 2, 3);
        let (one, other) = (Endpoint::bind(&here, port).unwrap(), Endpoint::bind(&there, 7).unwrap());
        let back: Peer = (IpAddr::from(CLIENT), port).into();
        let (to, from) = tokio::join!(
            one.send_to_peer(server(7), message("from one"), SendInfo::default()),
            other.send_to_peer(&back, message("from the other"), SendInfo::default()),
        );
        let (to, from) = (to.unwrap(), from.unwrap());
        let (at_other, received) = other.recv_from().await.unwrap();
        assert_eq!((at_other, received.data), (from, message("from one")));
        let (at_one, received) = one.recv_from().await.unwrap();
        assert_eq!((at_one, received.data), (to, message("from the other")));
        assert_eq!((one.associations(), other.associations()), (vec![to], vec![from]));
        assert_eq!((handed_over(&here), handed_over(&there)), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn abort_with_reflected_tag_finds_its_association() {
    let (network, dead) = with_switch();
    let network = network.build();
    let there = stack(&network, 4, &[SERVER], 2);
    let listener = Listener::bind(&there, 7).unwrap();
    let mut orphans = Vec::new();
    {
        let here = stack(&network, 1, &[CLIENT], 1);
        let mut clients = Vec::new();
        for _ in 0..40 {
            clients.push(Association::connect(&here, server(7)).await.unwrap());
            orphans.push(listener.accept().await.unwrap());
        }
        dead.store(true, Ordering::Relaxed);
        clients.iter().for_each(|client| client.abort(""));
        drop(clients);
        here.wait_idle().await;
    }
    // The host is back without its state: it answers with ABORTs that reflect the tag.
    let _here = stack_again(&network, &[CLIENT], 3).await;
    dead.store(false, Ordering::Relaxed);
    for orphan in &orphans {
        orphan.send(b"still there?", SendInfo::default()).await.unwrap();
        assert!(matches!(orphan.closed().await, Ended::PeerAborted { .. }));
    }
    assert!(handed_over(&there) > 0, "some came to other shards first");
}

#[tokio::test(start_paused = true)]
async fn port_is_bound_on_all_shards_or_none() {
    let network = Network::new();
    let (here, there) = stacks(&network, 3, 4);
    let listener = Listener::bind(&there, 0).unwrap();
    let endpoint = Endpoint::bind(&there, 0).unwrap();
    assert_ne!(listener.port(), endpoint.port());
    for port in [listener.port(), endpoint.port()] {
        assert!(matches!(Listener::bind(&there, port), Err(BindError::Port(_))));
        assert!(matches!(Endpoint::bind(&there, port), Err(BindError::Port(_))));
    }
    for _ in 0..20 {
        Association::connect(&here, server(listener.port())).await.unwrap();
        Association::connect(&here, server(endpoint.port())).await.unwrap();
    }
    let port = listener.port();
    drop(listener);
    let refused = Association::connect(&here, server(port)).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Ended(Ended::PeerAborted { .. })), "{refused}");
    Listener::bind(&there, port).unwrap();
}

#[tokio::test(start_paused = true)]
async fn associations_of_one_port_have_different_peers() {
    let network = Network::new();
    let (here, there) = stacks(&network, 4, 2);
    let _listener = Listener::bind(&there, 7).unwrap();
    let connect = |port: u16| Association::connect_with(&here, server(7), port, AssociationConfig::default());
    let first = connect(4000).await.unwrap();
    let again = connect(4000).await.unwrap_err();
    assert!(matches!(again, ConnectError::Request(_)), "{again}");
    // Another address of what may be the same peer.
    let both = server(7).address([10, 0, 0, 77]);
    let error = Association::start(&here, both, 4000, None).unwrap_err();
    assert!(matches!(error, ConnectError::Request(_)), "{error}");
    drop(first);
    // Every ephemeral port is used once, whichever shard it is on.
    let mut ports = HashSet::new();
    let mut all = Vec::new();
    while let Ok(association) = Association::start(&here, server(7), 0, None) {
        assert!(ports.insert(association.status().unwrap().local_port));
        all.push(association);
    }
    assert_eq!(ports.len(), 65_536 - 49_152);
}

#[tokio::test(start_paused = true)]
async fn a_task_may_keep_to_its_shard() {
    let network = Network::new();
    let (here, there) = stacks(&network, 4, 4);
    let listener = Listener::bind(&there, 7).unwrap();
    let endpoint = Endpoint::bind(&there, 8).unwrap();
    assert_eq!((here.shards(), there.shards()), (4, 4));
    for shard in 0..4 {
        let own = here.on_shard(shard);
        for _ in 0..10 {
            let client = Association::connect(&own, server(7)).await.unwrap();
            assert_eq!(client.id().shard(), shard);
            let client = Association::connect(&own, server(8)).await.unwrap();
            client.send(b"hello", SendInfo::default()).await.unwrap();
            assert_eq!(client.shutdown().await, Ended::ShutDown);
        }
    }
    let (mut accepted, mut received) = (0, 0);
    for (shard, stats) in there.shard_stats().iter().enumerate() {
        let limit = Duration::from_secs(1);
        while let Ok(association) = timeout(limit, listener.accept_on(shard)).await {
            assert_eq!(association.unwrap().id().shard(), shard);
            accepted += 1;
        }
        while let Ok(message) = timeout(limit, endpoint.recv_on(shard)).await {
            assert_eq!(message.unwrap().0.shard(), shard);
            received += 1;
        }
        assert!(stats.packets_received > 0);
    }
    assert_eq!((accepted, received), (40, 40));
    assert_eq!(listener.accept_on(4).await.unwrap_err(), AcceptError::NoSuchShard(4));
    assert!(endpoint.recv_on(9).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn accept_and_recv_alternate_between_shards() {
    let network = Network::new();
    let (here, there) = stacks(&network, 1, 4);
    let listener = Listener::bind(&there, 7).unwrap();
    let endpoint = Endpoint::bind(&there, 8).unwrap();
    for _ in 0..100 {
        Association::connect(&here, server(7)).await.unwrap();
        let client = Association::connect(&here, server(8)).await.unwrap();
        client.send(b"hello", SendInfo::default()).await.unwrap();
        assert_eq!(client.shutdown().await, Ended::ShutDown);
    }
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..40 {
        seen[0].push(listener.accept().await.unwrap().id().shard());
        seen[1].push(endpoint.recv_from().await.unwrap().0.shard());
    }
    // The shards take turns as long as each has associations: of a hundred associations on four shards, each
    // has at least ten.
    for seen in seen {
        assert!(seen.chunks(4).all(|four| HashSet::<&usize>::from_iter(four).len() == 4), "{seen:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelled_turn_goes_to_another_task() {
    let network = Network::new();
    let (here, there) = stacks(&network, 1, 3);
    let listener = Arc::new(Listener::bind(&there, 7).unwrap());
    let endpoint = Arc::new(Endpoint::bind(&there, 8).unwrap());
    let (mut accepting, mut receiving) = (Vec::new(), Vec::new());
    for number in 0..60_u64 {
        // Two of three time out at some time, possibly just when an association arrives.
        let limit = Duration::from_millis(if number % 3 == 0 { 100_000 } else { number });
        let (listener, endpoint) = (Arc::clone(&listener), Arc::clone(&endpoint));
        accepting.push(tokio::spawn(async move { timeout(limit, listener.accept()).await.is_ok() }));
        receiving.push(tokio::spawn(async move { timeout(limit, endpoint.recv_from()).await.is_ok() }));
    }
    let mut clients = Vec::new();
    let mut pace = interval(Duration::from_millis(1));
    for _ in 0..60 {
        pace.tick().await;
        clients.push(Association::connect(&here, server(7)).await.unwrap());
        let client = Association::connect(&here, server(8)).await.unwrap();
        client.send(b"hello", SendInfo::default()).await.unwrap();
        clients.push(client);
    }
    let (mut accepted, mut received) = (0, 0);
    for (accepting, receiving) in accepting.into_iter().zip(receiving) {
        accepted += u32::from(accepting.await.unwrap());
        received += u32::from(receiving.await.unwrap());
    }
    // No task waits on a socket that has messages: those not taken are still there.
    let limit = Duration::from_secs(1);
    while timeout(limit, listener.accept()).await.is_ok() {
        accepted += 1;
    }
    while timeout(limit, endpoint.recv_from()).await.is_ok() {
        received += 1;
    }
    assert_eq!((accepted, received), (60, 60));
}

#[tokio::test(start_paused = true)]
async fn each_shard_has_its_backlog() {
    let network = Network::new();
    let (here, there) = stacks(&network, 1, 2);
    let listener = Listener::bind_with_backlog(&there, 7, 5).unwrap();
    let mut clients = Vec::new();
    for _ in 0..60 {
        clients.push(Association::start(&here, server(7), 0, None).unwrap());
    }
    until("what is too much is refused", || listener.refused() == 50).await;
    let mut counts = HashMap::<usize, u32>::new();
    for _ in 0..10 {
        *counts.entry(listener.accept().await.unwrap().id().shard()).or_default() += 1;
    }
    assert_eq!(counts, HashMap::from([(0, 5), (1, 5)]));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_one_whatever_the_shard() {
    let network = Network::new();
    let (here, there) = stacks(&network, 3, 4);
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let mut notifications = endpoint.notifications();
    let mut clients = Vec::new();
    for number in 0..30_u8 {
        let client = Association::connect(&here, server(7)).await.unwrap();
        client.send(&[number], SendInfo::default()).await.unwrap();
        clients.push(client);
    }
    let mut by_number = HashMap::new();
    for _ in 0..30 {
        let (id, message) = endpoint.recv_from().await.unwrap();
        by_number.insert(message.data[0], id);
        assert!(matches!(notifications.next().await, Some((Some(_), Notification::Established { .. }))));
    }
    assert_eq!(endpoint.associations().len(), 30);
    assert_eq!(HashSet::<_>::from_iter(endpoint.associations()), by_number.values().copied().collect());
    for (number, id) in &by_number {
        let client = &clients[usize::from(*number)];
        let back = (IpAddr::from(CLIENT), client.status().unwrap().local_port);
        let same = endpoint.send_to_peer(back, message("by address"), SendInfo::default()).await.unwrap();
        assert_eq!(same, *id);
        endpoint.send_to(*id, message("by name"), SendInfo::default()).await.unwrap();
        for expected in ["by address", "by name"] {
            assert_eq!(client.recv().await.unwrap().unwrap().data, expected);
        }
    }
    let peeled = endpoint.peel_off(by_number[&7]).unwrap();
    clients[7].send(b"in private", SendInfo::default()).await.unwrap();
    assert_eq!(peeled.recv().await.unwrap().unwrap().data, "in private");
    assert!(endpoint.control(by_number[&7]).is_err());
    endpoint.control(by_number[&8]).unwrap().abort("enough");
    loop {
        if let Some((Some(id), Notification::Closed { how, .. })) = notifications.next().await {
            assert_eq!((id, how), (by_number[&8], Ended::Aborted));
            break;
        }
    }
    assert_eq!(endpoint.associations().len(), 28);
    drop((endpoint, notifications));
    for (number, client) in clients.iter().enumerate().filter(|(number, _)| !matches!(number, 7 | 8)) {
        assert_eq!(client.closed().await, Ended::ShutDown, "{number}");
    }
    assert!(clients[7].status().is_some_and(|status| status.state == AssociationState::Established));
}

#[tokio::test(start_paused = true)]
async fn multihomed_peer_is_found_by_any_address() {
    const OTHER: [u8; 4] = [10, 0, 1, 1];
    let network = Network::new();
    let (here, there) = (stack(&network, 2, &[CLIENT, OTHER], 1), stack(&network, 4, &[SERVER], 2));
    let (one, other) = (Endpoint::bind(&here, 70).unwrap(), Endpoint::bind(&there, 7).unwrap());
    let known = one.send_to_peer(server(7), message("here I am"), SendInfo::default()).await.unwrap();
    let (id, _) = other.recv_from().await.unwrap();
    for address in [CLIENT, OTHER] {
        let back = (IpAddr::from(address), 70);
        assert_eq!(other.send_to_peer(back, message("and I"), SendInfo::default()).await.unwrap(), id);
        assert_eq!(one.recv_from().await.unwrap().0, known);
    }
    assert_eq!(other.associations(), [id]);
    // Whichever shard has it, there is no second association.
    let peeled = other.peel_off(id).unwrap();
    for address in [CLIENT, OTHER] {
        let back = (IpAddr::from(address), 70);
        let error = other.send_to_peer(back, message("and I"), SendInfo::default()).await.unwrap_err();
        assert!(matches!(error, SendError::Connect(_)), "{error}");
    }
    one.send_to(known, message("still the same"), SendInfo::default()).await.unwrap();
    assert_eq!(peeled.recv().await.unwrap().unwrap().data, "still the same");
}

#[tokio::test(start_paused = true)]
async fn init_flood_costs_no_state() {
    // Strangers send INITs that name several addresses, so that every shard is asked. Packets dropped between
    // the shards are counted, and existing associations continue.
    let network = Network::builder().delay(Duration::from_millis(10)).build();
    let (here, there) = stacks(&network, 1, 4);
    echo(Endpoint::bind(&there, 7).unwrap());
    let client = Association::connect(&here, server(7)).await.unwrap();
    let received = || there.shard_stats().iter().map(|shard| shard.packets_received).sum::<u64>();
    let before = received();
    let stranger = stack(&network, 1, &[[10, 9, 0, 1], [10, 9, 0, 2], [10, 9, 0, 3]], 5);
    let mut attempts = Vec::new();
    for _ in 0..5000 {
        attempts.push(Association::start(&stranger, server(7), 0, None).unwrap());
    }
    until("all INITs came", || received() >= before + 5000).await;
    assert_eq!(there.association_count(), 1, "INITs leave no state");
    client.send(b"in the middle of it", SendInfo::default()).await.unwrap();
    assert_eq!(client.recv().await.unwrap().unwrap().data, "in the middle of it");
    for attempt in &attempts {
        attempt.established().await.unwrap();
    }
    assert_eq!(there.association_count(), 5001);
    assert!(handed_over(&there) >= 5000);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_be_is_refused() {
    let network = Network::new();
    for shards in [0, 65, 100_000] {
        let error = Stack::builder().shards(shards).memory(&network, [CLIENT.into()]).unwrap_err();
        assert!(matches!(error, StackError::Config(_)), "{error}");
        assert!(error.to_string().contains("shards"), "{error}");
    }
    Stack::builder().shards(64).memory(&network, [CLIENT.into()]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn stack_ends_with_its_last_association() {
    let network = Network::new();
    let there = stack(&network, 2, &[SERVER], 2);
    echo(Endpoint::bind(&there, 7).unwrap());
    let here = stack(&network, 4, &[CLIENT], 1);
    let mut clients = Vec::new();
    for number in 0..20_u8 {
        let client = Association::connect(&here, server(7)).await.unwrap();
        for _ in 0..100 {
            client.send(&[number; 1000], SendInfo::default()).await.unwrap();
        }
        clients.push(client);
    }
    // No handles are left: sent messages are delivered nevertheless, and then the addresses are free again.
    drop((clients, here));
    there.wait_idle().await;
    let stats = there.stats();
    assert_eq!((stats.shut_down, stats.aborted), (20, 0));
    stack_again(&network, &[CLIENT], 3).await;
}

/// One association may hold more than its shard's part of the stack's memory, and all together no more than the
/// limit.
#[tokio::test(start_paused = true)]
async fn shards_share_the_memory_of_the_stack() {
    const LIMIT: u64 = 1 << 20;
    let network = Network::builder().delay(Duration::from_millis(1)).build();
    let association = AssociationConfig { receive_buffer: Some(700_000), ..AssociationConfig::default() };
    let config = EndpointConfig {
        receive_bytes_max: LIMIT,
        association: Arc::new(association),
        ..EndpointConfig::default()
    };
    let there = Stack::builder().config(config).shards(8).memory(&network, [SERVER.into()]).unwrap();
    let here = stack(&network, 1, &[CLIENT], 1);
    assert_eq!(there.buffers().receive_bytes_max, LIMIT);
    let listener = Listener::bind(&there, 7).unwrap();
    let mut kept = Vec::new();
    for _ in 0..4 {
        let client = Association::connect(&here, Peer::new(SERVER, 7)).await.unwrap();
        let peer = listener.accept().await.unwrap();
        kept.push((client, peer));
    }
    // Nothing is read: the first association fills its buffer, five times as much as an eighth of the limit.
    let send = |client: &Association| {
        while client.try_send_bytes(Bytes::from_static(&[7; 1000]), SendInfo::default()).is_ok() {}
    };
    let held = |peer: &Association| u64::from(peer.status().unwrap().receive_buffered);
    send(&kept[0].0);
    until("it is full", || held(&kept[0].1) > 650_000).await;
    // The other associations get what is left.
    kept.iter().for_each(|(client, _)| send(client));
    let total = || there.buffers().receive_bytes;
    let all_have_some = || kept.iter().all(|(_, peer)| held(peer) > 0);
    until("what is left is taken, by all", || total() > LIMIT * 3 / 4 && all_have_some()).await;
    // The refused senders retry continually, and no more is accepted.
    let slack = LIMIT / 8 + 8 * LIMIT / 4096 + 4 * 64 * 1024;
    stays("within the limit", Duration::from_secs(20), || {
        let held_by_all: u64 = kept.iter().map(|(_, peer)| held(peer)).sum();
        total() == held_by_all && total() > LIMIT * 3 / 4 && total() <= LIMIT + slack && all_have_some()
    })
    .await;
}
