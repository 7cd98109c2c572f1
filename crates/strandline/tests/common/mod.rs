//! Pairs of stacks and helpers for tests.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, of which each file uses a part"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use strandline::memory::{Fate, Network, NetworkBuilder, Passing};
use strandline::{Association, AssociationConfig, Listener, Message, Peer, Stack, StackError};
use tokio::time::{interval, timeout};

pub const SERVER: [u8; 4] = [10, 0, 0, 2];

pub fn server(port: u16) -> Peer {
    Peer::new(SERVER, port)
}

/// Returns two stacks on a network that delivers at once.
pub fn stacks() -> (Stack, Stack) {
    stacks_with(Network::builder(), &AssociationConfig::default())
}

pub fn stacks_with(network: NetworkBuilder, config: &AssociationConfig) -> (Stack, Stack) {
    let network = network.build();
    let partial_delivery_point = config.partial_delivery_point.min(config.receive_buffer_start());
    let config = AssociationConfig { partial_delivery_point, ..config.clone() };
    let stack = |address: [u8; 4], seed| {
        let builder = Stack::builder().association(config.clone()).seed([seed; 32]);
        builder.memory(&network, [address.into()]).unwrap()
    };
    (stack([10, 0, 0, 1], 1), stack(SERVER, 2))
}

/// Returns a network with a switch that drops all packets from and to the client.
pub fn with_switch() -> (NetworkBuilder, Arc<AtomicBool>) {
    let dead = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&dead);
    let judge = move |_: &Passing<'_>| {
        if switch.load(Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver }
    };
    (Network::builder().judge(judge), dead)
}

/// Returns both ends of an association between two stacks.
pub async fn pair(here: &Stack, there: &Stack) -> (Association, Association) {
    let listener = Listener::bind(there, 0).unwrap();
    let client = Association::connect(here, server(listener.port())).await.unwrap();
    (client, listener.accept().await.unwrap())
}

/// Waits in virtual time until the condition holds, at most a minute.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut looks = interval(Duration::from_millis(1));
    let waiting = async {
        while !is_so() {
            looks.tick().await;
        }
    };
    assert!(timeout(Duration::from_secs(60), waiting).await.is_ok(), "waited a minute in vain: {what}");
}

/// Asserts that the condition holds throughout a period of virtual time.
pub async fn stays(what: &str, time: Duration, mut is_so: impl FnMut() -> bool) {
    let mut looks = interval(Duration::from_millis(1));
    for _ in 0..time.as_millis() {
        looks.tick().await;
        assert!(is_so(), "no longer: {what}");
    }
}

/// Waits until the peer has acknowledged all sent messages.
pub async fn all_arrived(association: &Association) {
    until("all is acknowledged", || association.status().unwrap().send_buffered == 0).await;
}

/// Returns a stack on a UDP socket of the loopback interface, with timers for it.
pub fn udp_stack() -> Stack {
    let config = AssociationConfig {
        rto_initial: Duration::from_millis(200),
        rto_min: Duration::from_millis(100),
        ..AssociationConfig::default()
    };
    Stack::builder().association(config).udp("127.0.0.1:0".parse().unwrap()).unwrap()
}

/// Returns whether this process has CAP_NET_RAW, bit 13 of its effective capabilities.
fn may_open_raw_sockets() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() & 1 << 13 != 0
}

/// Returns a stack on raw IP, or `None` if it is not permitted and the error names the missing privilege.
pub fn if_permitted(stack: Result<Stack, StackError>) -> Option<Stack> {
    match stack {
        Ok(stack) => Some(stack),
        Err(StackError::Open(error)) => {
            let text = error.to_string();
            assert!(text.contains("CAP_NET_RAW") || text.contains("kernel's own SCTP"), "{text}");
            assert!(
                !may_open_raw_sockets() || text.contains("kernel's own SCTP"),
                "permitted, and yet: {text}"
            );
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns the peer for an SCTP port of a stack on UDP.
pub fn peer_at(stack: &Stack, port: u16) -> Peer {
    Peer::encapsulated(stack.local_addr().unwrap(), port)
}

/// Returns bytes that depend on their position.
pub fn pattern(len: usize, seed: u8) -> Bytes {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ seed).collect()
}

/// Receives a whole message, joined from its parts.
pub async fn recv_whole(association: &Association) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let Message { data, ends, .. } = association.recv().await.unwrap()?;
        whole.extend_from_slice(&data);
        if ends {
            return Some(whole);
        }
    }
}
