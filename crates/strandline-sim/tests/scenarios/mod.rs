//! Scenarios at the packet level, in virtual time: one file for each section of an RFC, or for a behaviour without
//! one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bbr;
mod buffers;
mod multipath;
mod pacing;
mod probe_budget;
mod rfc3042;
mod rfc3168_6_1_2;
mod rfc3522;
mod rfc3708;
mod rfc5681_4_3;
mod rfc5682;
mod rfc6675;
mod rfc6928;
mod rfc7053_4;
mod rfc7661;
mod rfc7829_3;
mod rfc7829_4;
mod rfc8257;
mod rfc8899;
mod rfc8985_6;
mod rfc8985_7;
mod rfc9000_13_4_2;
mod rfc9260_6_1;
mod rfc9260_6_2;
mod rfc9260_6_4;
mod rfc9260_7_2_1;
mod rfc9406;
mod rfc9438;
mod rfc9937;
mod scene;
mod stream_credit;
mod swift;
mod under_load;

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use strandline_netem::LinkConfig;
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::event::{AssociationId, SendInfo};
use strandline_sim::pair::{Captured, Pair, Side};
use strandline_wire::Packet;
use strandline_wire::chunk::{Chunk, Data, kind};

/// User data of a full packet at the path MTU of these tests, in bytes.
const FULL: usize = 1444;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns an endpoint with these parameters and a path MTU that needs no search.
fn endpoint(change: impl Fn(&mut AssociationConfig)) -> EndpointConfig {
    let mut association = AssociationConfig { path_mtu_initial: 1500, ..AssociationConfig::default() };
    change(&mut association);
    EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() }
}

/// Returns a link with a rate and a queue of 200 ms.
fn link(delay: Duration, mbps: u64) -> LinkConfig {
    let rate_bps = mbps * 1_000_000;
    LinkConfig { delay, rate_bps, queue_bytes_max: rate_bps as usize / 40, ..LinkConfig::default() }
}

/// A sends as much as it may and B reads at once, for `time`. Returns the bytes read.
fn stream(pair: &mut Pair, a: AssociationId, b: AssociationId, time: Duration) -> u64 {
    let message = Bytes::from(vec![7; FULL]);
    let fill = |pair: &mut Pair| {
        while pair.a.endpoint.send(pair.now, a, SendInfo::default(), message.clone()).is_ok() {}
    };
    let mut received = 0;
    fill(pair);
    pair.run_until(time, |pair| {
        fill(pair);
        received += pair.recv_all(Side::B, b).iter().map(|message| message.data.len() as u64).sum::<u64>();
        false
    });
    received
}

/// Returns the DATA chunks of a packet.
fn data(captured: &Captured) -> Vec<Data<'_>> {
    let Ok(packet) = Packet::parse(&captured.datagram.bytes) else { return Vec::new() };
    let parsed = packet.chunks().flatten().filter_map(|chunk| chunk.parse().ok());
    parsed.filter_map(|chunk| if let Chunk::Data(data) = chunk { Some(data) } else { None }).collect()
}

/// Returns the number of packets of a side with a chunk of this type.
fn count(pair: &Pair, side: Side, kind: u8) -> usize {
    let wanted = |captured: &&Captured| captured.from == side && captured.chunk_kinds().contains(&kind);
    pair.captured().iter().filter(wanted).count()
}

/// Returns B's numbers of received packets of one chunk each, and of sent SACKs.
fn received(pair: &Pair, b: AssociationId) -> (u64, u64) {
    let stats = pair.b.endpoint.status(b).expect("it lives").stats;
    (stats.data_received, u64::from(stats.sacks_sent))
}

/// Returns the packets per acknowledgement since then.
fn packets_for_a_sack(pair: &Pair, b: AssociationId, since: (u64, u64)) -> f64 {
    let now = received(pair, b);
    (now.0 - since.0) as f64 / (now.1 - since.1) as f64
}
