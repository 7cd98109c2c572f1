//! The engine alone: two endpoints in one thread, packets handed over in memory, no sockets. What it prints is an
//! upper bound for what a carrier can reach, and the place to see what a change of the engine costs.
//!
//! `cargo bench -p strandline-proto` prints MB/s of user data and nanoseconds for each message, both sides together,
//! as medians of five runs; with checksums, and without (RFC 9653) for what they cost. `SIZE BYTES zero|crc` as arguments
//! runs one case once, for a profiler.
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use strandline_proto::config::{AssociationConfig, EndpointConfig, ErrorDetectionMethod};
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{AssociationId, Datagram, SendInfo};
use strandline_proto::time::Time;

struct World {
    client: Endpoint,
    server: Endpoint,
    id: AssociationId,
    accepted: AssociationId,
    now: Time,
    buffer: Vec<u8>,
}

const SEGMENTS: usize = 44;

impl World {
    fn new(zero_checksum: bool) -> Self {
        let now = Time::ZERO;
        let method = zero_checksum.then_some(ErrorDetectionMethod::SctpOverDtls);
        let association = AssociationConfig { zero_checksum: method, ..AssociationConfig::default() };
        let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
        let mut client = Endpoint::new(config.clone(), [1; 32], now).unwrap();
        let mut server = Endpoint::new(config, [2; 32], now).unwrap();
        server.listen(7).unwrap();
        let id = client.connect(now, Connect::to("192.0.2.2:9899".parse().unwrap(), 7)).unwrap();
        let buffer = vec![0; 65_536];
        let mut world = Self { client, server, id, accepted: id, now, buffer };
        for _ in 0..3 {
            world.exchange();
        }
        world.accepted = world.server.poll_event().expect("an association").0;
        world
    }

    /// Everything that either side has to send is delivered, in bursts.
    fn exchange(&mut self) {
        self.now += Duration::from_micros(20);
        let Self { client, server, now, buffer, .. } = self;
        carry(client, server, "192.0.2.1:9899", *now, buffer);
        carry(server, client, "192.0.2.2:9899", *now, buffer);
        while client.poll_event().is_some() {}
    }

    fn run(&mut self, size: usize, total: usize) -> (f64, f64) {
        let message = Bytes::from(vec![7; size]);
        let start = Instant::now();
        let (mut sent, mut received, mut messages) = (0, 0, 0u64);
        while received < total {
            while sent < total
                && self.client.send(self.now, self.id, SendInfo::default(), message.clone()).is_ok()
            {
                sent += size;
            }
            self.exchange();
            while let Some(message) = self.server.recv(self.now, self.accepted) {
                received += message.data.len();
                messages += 1;
            }
            while self.server.poll_event().is_some() {}
            if self.client.poll_timeout().is_some_and(|at| at <= self.now) {
                self.client.handle_timeout(self.now);
            }
        }
        let elapsed = start.elapsed().as_secs_f64();
        (received as f64 / 1e6 / elapsed, elapsed * 1e9 / messages as f64)
    }
}

fn carry(from: &mut Endpoint, to: &mut Endpoint, source: &str, now: Time, buffer: &mut [u8]) {
    let source = source.parse().unwrap();
    while let Some(transmit) = from.poll_transmit(now, buffer, SEGMENTS) {
        for bytes in buffer[..transmit.len].chunks(transmit.segment_size) {
            to.handle_datagram(now, Datagram { source, destination: None, bytes });
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let [size, total, checksum] = &args[..] {
        let (rate, each) = World::new(checksum == "zero").run(size.parse().unwrap(), total.parse().unwrap());
        return println!("{rate:.0} MB/s, {each:.0} ns/message");
    }
    println!(
        "{:>10} {:>12} {:>14} {:>22} {:>14}",
        "message", "MB/s", "ns/message", "no checksum: MB/s", "ns/message"
    );
    for (size, total) in [(64, 20 << 20), (1_024, 200 << 20), (8_192, 500 << 20), (65_536, 500 << 20)] {
        // By turns, so that what else the machine does hits both alike.
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            with.push(World::new(false).run(size, total));
            without.push(World::new(true).run(size, total));
        }
        let [with, without] = [with, without].map(median);
        println!("{size:>10} {:>12.0} {:>14.0} {:>22.0} {:>14.0}", with.0, with.1, without.0, without.1);
    }
}

fn median(mut runs: Vec<(f64, f64)>) -> (f64, f64) {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    runs[runs.len() / 2]
}
