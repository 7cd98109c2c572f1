//! Tests of settings of a stack and its associations, on the in-memory network, in virtual time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{SERVER, all_arrived, pair, server, until};
use strandline::memory::{Fate, Network, Passing};
use strandline::{
    Algorithm, Association, AssociationConfig, Endpoint, FastRetransmit, Listener, Reachability, SendInfo,
    Stack,
};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
/// The second address of each side.
const CLIENT_TOO: [u8; 4] = [10, 1, 0, 1];
const SERVER_TOO: [u8; 4] = [10, 1, 0, 2];

/// Returns the TSNs of a packet's DATA chunks.
fn tsns(packet: &[u8]) -> Vec<u32> {
    let (mut tsns, mut rest) = (Vec::new(), packet.get(12..).unwrap_or_default());
    while let [kind, _, high, low, value @ ..] = rest {
        if let (0, [a, b, c, d, ..]) = (kind, value) {
            tsns.push(u32::from_be_bytes([*a, *b, *c, *d]));
        }
        let len = usize::from(u16::from_be_bytes([*high, *low])).max(4).next_multiple_of(4);
        rest = rest.get(len..).unwrap_or_default();
    }
    tsns
}

/// The destinations of DATA packets, and which of them are lost.
#[derive(Default)]
struct Ways {
    /// The next packet with DATA is dropped.
    armed: bool,
    lost: Option<u32>,
    sent: Vec<(u32, IpAddr)>,
}

impl Ways {
    fn judge(&mut self, passing: &Passing<'_>) -> Fate {
        let tsns = tsns(passing.bytes);
        self.sent.extend(tsns.iter().map(|tsn| (*tsn, passing.destination)));
        if !self.armed || tsns.is_empty() {
            return Fate::Deliver;
        }
        self.armed = false;
        self.lost = tsns.first().copied();
        Fate::Drop
    }

    fn of_what_was_lost(&self) -> Vec<IpAddr> {
        let lost = self.lost.unwrap();
        self.sent.iter().filter(|(tsn, _)| *tsn == lost).map(|(_, way)| *way).collect()
    }
}

/// Drops the first of twenty messages and returns the destinations that it was sent to.
async fn ways_of_a_lost_message(client: &Association, peer: &Association, ways: &Mutex<Ways>) -> Vec<IpAddr> {
    *ways.lock().unwrap() = Ways { armed: true, ..Ways::default() };
    for number in 0..20 {
        client.send(&[number; 1000], SendInfo::default()).await.unwrap();
    }
    for number in 0..20 {
        assert_eq!(peer.recv().await.unwrap().unwrap().data, vec![number; 1000]);
    }
    all_arrived(client).await;
    ways.lock().unwrap().of_what_was_lost()
}

/// DATA lost on one of two paths is retransmitted on the path that the setting names, also after the setting
/// changes.
#[tokio::test(start_paused = true)]
async fn losses_go_where_the_setting_says() {
    let ways = Arc::new(Mutex::new(Ways::default()));
    let judge = {
        let ways = Arc::clone(&ways);
        move |passing: &Passing<'_>| ways.lock().unwrap().judge(passing)
    };
    let network = Network::builder().delay(Duration::from_millis(10)).judge(judge).build();
    let there = Stack::builder().memory(&network, [SERVER, SERVER_TOO].map(IpAddr::from)).unwrap();
    let config = |fast_retransmit| AssociationConfig { fast_retransmit, ..AssociationConfig::default() };
    let here = Stack::builder().association(config(FastRetransmit::OtherPath));
    let here = here.memory(&network, [CLIENT, CLIENT_TOO].map(IpAddr::from)).unwrap();
    let (client, peer) = pair(&here, &there).await;
    let active = || client.paths().iter().filter(|path| path.state == Reachability::Active).count();
    until("both paths work", || active() == 2).await;

    let (one, other) = (IpAddr::from(SERVER), IpAddr::from(SERVER_TOO));
    assert_eq!(ways_of_a_lost_message(&client, &peer, &ways).await, [one, other]);
    client.control().configure(config(FastRetransmit::SamePath)).unwrap();
    assert_eq!(ways_of_a_lost_message(&client, &peer, &ways).await, [one, one]);
    client.control().configure(config(FastRetransmit::OtherPath)).unwrap();
    assert_eq!(ways_of_a_lost_message(&client, &peer, &ways).await, [one, other]);
    let stats = client.status().unwrap().stats;
    assert_eq!((stats.retransmissions, stats.timeouts, stats.tail_probes), (3, 0, 0));
}

fn controller(association: &Association) -> &'static str {
    association.paths()[0].congestion
}

/// A stack's congestion controller applies to later associations, set up by either side, on every shard and
/// socket.
#[tokio::test(start_paused = true)]
async fn the_controller_of_associations_to_come() {
    let network = Network::new();
    let stack = |address: [u8; 4], seed| {
        let builder = Stack::builder().shards(3).seed([seed; 32]);
        builder.memory(&network, [IpAddr::from(address)]).unwrap()
    };
    let (here, there) = (stack(CLIENT, 1), stack(SERVER, 2));
    let listener = Listener::bind(&there, 7).unwrap();
    let endpoint = Endpoint::bind(&there, 8).unwrap();
    let old = pair(&here, &there).await;
    here.set_congestion(Algorithm::Bbr);
    there.set_congestion(Algorithm::Swift);
    assert_eq!((here.congestion(), there.congestion()), (Algorithm::Bbr, Algorithm::Swift));

    for _ in 0..9 {
        let client = Association::connect(&here, server(7)).await.unwrap();
        let peer = listener.accept().await.unwrap();
        assert_eq!((controller(&client), controller(&peer)), ("bbr", "swift"));
    }
    let client = Association::connect(&here, server(8)).await.unwrap();
    client.send(b"x", SendInfo::default()).await.unwrap();
    let (id, _) = endpoint.recv_from().await.unwrap();
    assert_eq!(endpoint.control(id).unwrap().paths()[0].congestion, "swift");
    let own = AssociationConfig { congestion: Algorithm::Rfc9260, ..AssociationConfig::default() };
    let client = Association::connect_with(&here, server(7), 0, own).await.unwrap();
    assert_eq!(controller(&client), "rfc9260");
    assert_eq!((controller(&old.0), controller(&old.1)), ("cubic", "cubic"));
}

/// DCTCP is negotiated as if the stack had started with it, so an association can return to it.
#[tokio::test(start_paused = true)]
async fn dctcp_for_associations_to_come() {
    let network = Network::new();
    let stack = |address: [u8; 4]| Stack::builder().memory(&network, [IpAddr::from(address)]).unwrap();
    let (here, there) = (stack(CLIENT), stack(SERVER));
    let with = |congestion| AssociationConfig { congestion, ..AssociationConfig::default() };
    let (before, _peer) = pair(&here, &there).await;
    for stack in [&here, &there] {
        stack.set_congestion(Algorithm::Dctcp);
    }
    let (client, _peer) = pair(&here, &there).await;
    assert_eq!(controller(&client), "dctcp");
    client.control().configure(with(Algorithm::Cubic)).unwrap();
    client.control().configure(with(Algorithm::Dctcp)).unwrap();
    assert!(before.control().configure(with(Algorithm::Dctcp)).is_err());
}
