//! Tests of stacks with several shards on real sockets, in real time.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::{if_permitted, pattern, recv_whole};
use strandline::{
    Association, AssociationConfig, Ended, Endpoint, Listener, Peer, SendInfo, ShardStats, Stack,
    StackBuilder, StackError, UdpOptions,
};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

/// Returns a builder with timers so long that a busy host has no chunk repeated by a timer; probes remain.
fn builder(shards: usize) -> StackBuilder {
    let config = AssociationConfig {
        rto_initial: Duration::from_secs(10),
        rto_min: Duration::from_secs(10),
        ..AssociationConfig::default()
    };
    Stack::builder().association(config).shards(shards)
}

fn udp(shards: usize, address: &str) -> Stack {
    builder(shards).udp(address.parse().unwrap()).unwrap()
}

fn at(stack: &Stack, address: &str, port: u16) -> Peer {
    let encapsulation: SocketAddr = stack.local_addr().unwrap();
    Peer::encapsulated(SocketAddr::new(address.parse().unwrap(), encapsulation.port()), port)
}

/// Asserts that hardly anything was handed over. A probe whose data had arrived has a SHUTDOWN repeated, which a
/// second SHUTDOWN ACK answers; the SHUTDOWN COMPLETE for that one has the peer's own tag, which names no shard
/// (RFC 9260 section 8.4 item 5). An INIT for each association on the wrong shard would exceed the limit.
fn assert_nothing_handed_over(stack: &Stack) {
    let mut received = 0;
    for shard in stack.shard_stats() {
        received += shard.packets_received;
        assert!(shard.handed_over * 20 <= shard.packets_received.max(100), "{shard:?}");
        assert_eq!(shard.handed_over_lost, 0, "{shard:?}");
    }
    assert!(stack.stats().out_of_the_blue * 40 <= received, "{:?} {received}", stack.stats());
}

/// Sends a message over each of forty associations that last at the same time, and waits for its echo.
async fn echoed_forty_times(here: &Stack, peer: Peer) {
    let mut clients = Vec::new();
    for _ in 0..40 {
        let client = Association::connect(here, &peer).await.unwrap();
        client.send_bytes(pattern(20_000, 1), SendInfo::default()).await.unwrap();
        clients.push(client);
    }
    for client in clients {
        assert!(recv_whole(&client).await.unwrap() == pattern(20_000, 1));
        assert_eq!(client.shutdown().await, Ended::ShutDown);
    }
}

/// Whether each shard received more packets than a few that were handed over would be.
fn every_shard_received(stack: &Stack) -> bool {
    stack.shard_stats().iter().all(|shard| shard.packets_received > 20)
}

#[tokio::test]
async fn the_kernel_brings_every_packet_to_its_shard() {
    let cases = [
        ("127.0.0.1:0", "127.0.0.1", &["127.0.0.1:0", "127.0.0.9:0"][..]),
        ("[::1]:0", "::1", &["[::1]:0"]),
        ("[::]:0", "127.0.0.1", &["127.0.0.3:0", "[::]:0"]),
        ("[::]:0", "::1", &["[::1]:0"]),
    ];
    for (bound, to, from) in cases {
        for (shards, client_shards) in [(2, 1), (4, 2), (3, 3)] {
            let there = udp(shards, bound);
            let endpoint = Endpoint::bind(&there, 7).unwrap();
            tokio::spawn(async move {
                while let Ok((from, message)) = endpoint.recv_from().await {
                    endpoint.send_to(from, message.data, SendInfo::default()).await.unwrap();
                }
            });
            for from in from {
                let here = udp(client_shards, from);
                echoed_forty_times(&here, at(&there, to, 7)).await;
                assert_nothing_handed_over(&here);
            }
            // An association's shard is drawn by lot: forty can leave one of four shards with hardly any.
            for _ in 0..25 {
                if every_shard_received(&there) {
                    break;
                }
                echoed_forty_times(&udp(client_shards, from[0]), at(&there, to, 7)).await;
            }
            there.wait_idle().await;
            assert_nothing_handed_over(&there);
            assert!(every_shard_received(&there), "{bound}: {:?}", there.shard_stats());
        }
    }
}

/// A current-thread runtime on its own thread, which ends when this value is dropped.
struct Core {
    handle: Handle,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Core {
    fn start() -> Self {
        let (to_us, handle) = mpsc::channel();
        let (end, ended) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime: Runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            to_us.send(runtime.handle().clone()).unwrap();
            let _ = runtime.block_on(ended);
        });
        Self { handle: handle.recv().unwrap(), end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn shards_on_runtimes_of_their_own_share_nothing() {
    let cores = [Core::start(), Core::start()];
    let stack = || {
        let handles = cores.iter().map(|core| core.handle.clone());
        builder(2).runtimes(handles).udp("127.0.0.1:0".parse().unwrap()).unwrap()
    };
    // Not called from within a runtime: the shards have their own.
    let (here, there) = (stack(), stack());
    let listener = Arc::new(Listener::bind(&there, 7).unwrap());
    let peer = at(&there, "127.0.0.1", 7);
    let waits = |stack: &Stack| -> Vec<u64> {
        stack.shard_stats().iter().map(|shard: &ShardStats| shard.lock_waits).collect()
    };
    for core in &cores {
        // After this, the shards' tasks have started and are waiting.
        let (begun, all_begun) = mpsc::channel();
        core.handle.spawn(async move { begun.send(()) });
        all_begun.recv().unwrap();
    }
    let before = [waits(&here), waits(&there)];
    let (done, all_done) = mpsc::channel();
    for (shard, core) in cores.iter().enumerate() {
        let listener = Arc::clone(&listener);
        core.handle.spawn(async move {
            while let Ok(association) = listener.accept_on(shard).await {
                assert_eq!(association.id().shard(), shard);
                tokio::spawn(async move {
                    while let Ok(Some(message)) = association.recv().await {
                        association.send_bytes(message.data, SendInfo::default()).await.unwrap();
                    }
                });
            }
        });
        let (own, peer, done) = (here.on_shard(shard), peer.clone(), done.clone());
        core.handle.spawn(async move {
            for round in 0..20 {
                let client = Association::connect(&own, &peer).await.unwrap();
                for size in [100, 5_000, 100_000] {
                    client.send_bytes(pattern(size, round), SendInfo::default()).await.unwrap();
                    assert!(recv_whole(&client).await.unwrap() == pattern(size, round));
                }
                assert_eq!(client.shutdown().await, Ended::ShutDown);
            }
            done.send(shard).unwrap();
        });
    }
    drop(done);
    assert_eq!(all_done.iter().count(), 2);
    assert_eq!([waits(&here), waits(&there)], before, "nobody waited for anybody");
    assert_nothing_handed_over(&here);
    assert_nothing_handed_over(&there);
    drop((listener, here, there));
}

#[tokio::test]
async fn a_group_keeps_its_address_to_itself() {
    let stack = udp(2, "127.0.0.1:0");
    let address = stack.local_addr().unwrap();
    for shards in [1, 2] {
        let error = builder(shards).udp(address).unwrap_err();
        assert!(matches!(error, StackError::Open(_)), "{error}");
    }
    let shared = UdpOptions { reuse_port: true, ..UdpOptions::default() };
    let error = builder(2).udp_with(address, &shared).unwrap_err();
    assert!(error.to_string().contains("reuse_port"), "{error}");
}

#[tokio::test]
async fn icmp_finds_the_shard_that_it_concerns() {
    let here = udp(4, "127.0.0.1:0");
    for shard in 0..4 {
        // Port 1 (tcpmux) is never assigned to a socket that asks for any port.
        let nobody = Peer::new([127, 0, 0, 1], 7).encapsulation_port(1);
        let own = here.on_shard(shard);
        let error = tokio::time::timeout(Duration::from_secs(5), Association::connect(&own, nobody)).await;
        assert_eq!(error.unwrap().unwrap_err(), strandline::ConnectError::Ended(Ended::Unreachable));
    }
}

#[tokio::test]
async fn shards_on_raw_ip_get_their_own_packets() {
    let raw = |shards: usize, last: u8| builder(shards).raw(IpAddr::from([127, 0, 3, last]));
    let Some(here) = if_permitted(raw(2, 1)) else { return };
    let there = raw(2, 2).unwrap();
    let listener = Listener::bind(&there, 5007).unwrap();
    let mut accepted = [0; 2];
    // The server's shard is drawn by lot: sixteen associations can leave one with hardly any.
    for round in 0..1_000 {
        if round >= 16 && every_shard_received(&there) {
            break;
        }
        let peer = Peer::new([127, 0, 3, 2], 5007);
        let client = Association::connect(&here.on_shard(round % 2), peer).await.unwrap();
        let server = listener.accept().await.unwrap();
        accepted[server.id().shard()] += 1;
        client.send_bytes(pattern(100_000, 1), SendInfo::default()).await.unwrap();
        assert!(recv_whole(&server).await.unwrap() == pattern(100_000, 1));
        assert_eq!(client.shutdown().await, Ended::ShutDown);
    }
    assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
    for stack in [&here, &there] {
        assert_nothing_handed_over(stack);
        assert!(every_shard_received(stack), "{:?}", stack.shard_stats());
    }
}
