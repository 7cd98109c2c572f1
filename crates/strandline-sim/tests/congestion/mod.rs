//! Congestion control over links with a rate and a queue: throughput, queueing delay and shares. One file for each
//! document.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests say what they measure")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bbr;
mod multipath;
mod rfc3168;
mod rfc6928;
mod rfc8257;
mod rfc9438;
mod shares;
mod swift;

use core::time::Duration;
use std::sync::Arc;

use strandline_netem::{Change, LinkConfig};
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::congestion::Algorithm;
use strandline_proto::event::{AssociationId, SendInfo};
use strandline_proto::stats::AssociationStats;
use strandline_sim::pair::{Pair, Side};

/// Several associations that send as much as they can over one link.
struct Flows {
    pair: Pair,
    flows: Vec<(AssociationId, AssociationId)>,
    received: Vec<u64>,
    /// Number of bytes kept in each send buffer.
    ahead: usize,
}

/// Measurements of a period of sending.
#[derive(Debug)]
struct Measured {
    /// Rate of each flow in bits per second.
    rates: Vec<f64>,
    /// Mean of the queue's length, sampled every 10 ms, in bytes.
    queue_bytes_mean: f64,
}

fn config(algorithm: Algorithm) -> EndpointConfig {
    let association = AssociationConfig {
        congestion: algorithm,
        send_buffer: Some(16 << 20),
        receive_buffer: Some(16 << 20),
        ..AssociationConfig::default()
    };
    EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() }
}

/// Returns a link with this rate in Mbit/s and round-trip time, with a queue of `queue_bytes_max` bytes from the
/// sender on.
fn link(mbit: u64, rtt: Duration, queue_bytes_max: usize) -> LinkConfig {
    LinkConfig { rate_bps: mbit * 1_000_000, queue_bytes_max, ..LinkConfig::with_delay(rtt / 2) }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Flows {
    fn new(config: &EndpointConfig, link: LinkConfig, flows: usize) -> Self {
        let mut pair = Pair::new(config.clone(), config.clone(), link);
        let flows: Vec<_> = (0..flows).map(|_| pair.connect()).collect();
        let received = vec![0; flows.len()];
        Self { pair, flows, received, ahead: 8 << 20 }
    }

    /// Lets all flows send for `time`.
    fn run(&mut self, time: Duration) -> Measured {
        let (ahead, Self { pair, flows, received, .. }) = (self.ahead, self);
        let began = (pair.now, received.clone());
        let ends = [Side::A, Side::B].map(|side| pair.addresses(side)[0].ip());
        let (mut looks, mut queued, mut next) = (0_u64, 0_u64, pair.now);
        pair.run_until(time, |pair| {
            for (index, (sender, receiver)) in flows.iter().enumerate() {
                while pair.a.endpoint.status(*sender).unwrap().send_buffered < ahead {
                    let message = bytes::Bytes::from_static(&[7; 8192]);
                    pair.a.endpoint.send(pair.now, *sender, SendInfo::default(), message).unwrap();
                }
                let messages = pair.recv_all(Side::B, *receiver);
                received[index] += messages.iter().map(|message| message.data.len() as u64).sum::<u64>();
            }
            if pair.now >= next {
                let now_ns = pair.now.as_nanos();
                queued += pair.network.link(ends[0], ends[1]).queued_bytes(now_ns) as u64;
                looks += 1;
                next = pair.now + ms(10);
            }
            pair.clear_captured();
            false
        });
        let seconds = pair.now.since(began.0).as_secs_f64();
        let rates = received.iter().zip(&began.1).map(|(now, then)| (now - then) as f64 * 8.0 / seconds);
        Measured { rates: rates.collect(), queue_bytes_mean: queued as f64 / looks.max(1) as f64 }
    }

    fn change(&mut self, change: Change) {
        let ends = [Side::A, Side::B].map(|side| self.pair.addresses(side)[0].ip());
        self.pair.network.link(ends[0], ends[1]).change(change);
    }

    fn stats(&self, flow: usize) -> AssociationStats {
        self.pair.a.endpoint.status(self.flows[flow].0).unwrap().stats
    }

    /// Returns the numbers of packets that the link dropped for lack of room, and that it marked.
    fn dropped_and_marked(&mut self) -> (u64, u64) {
        let ends = [Side::A, Side::B].map(|side| self.pair.addresses(side)[0].ip());
        let stats = self.pair.network.link(ends[0], ends[1]).stats();
        (stats.dropped_queue, stats.marked)
    }
}
