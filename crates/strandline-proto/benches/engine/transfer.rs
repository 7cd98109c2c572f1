//! One association with messages of one size, as fast as both sides go: the processor time of each side by itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use strandline_proto::config::{AssociationConfig, EndpointConfig, ErrorDetectionMethod, ExtensionsConfig};
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{AssociationId, Datagram, Message, SendInfo};
use strandline_proto::time::Time;

use super::processor_time;

/// Packets of a burst, as the kernel's GSO takes them.
const SEGMENTS: usize = 44;
/// Messages read in one call.
const BATCH: usize = 256;

/// An endpoint, and the time spent in it.
pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    address: SocketAddr,
    pub(crate) spent: Duration,
    /// Time that `processor_time` itself takes.
    asking: Duration,
}

impl Side {
    fn new(seed: u8, address: &str, association: &Arc<AssociationConfig>) -> Self {
        let config = EndpointConfig { association: Arc::clone(association), ..EndpointConfig::default() };
        let endpoint = Endpoint::new(config, [seed; 32], Time::ZERO).unwrap();
        let begin = processor_time();
        for _ in 0..99 {
            std::hint::black_box(processor_time());
        }
        let end = processor_time();
        Self {
            endpoint,
            address: address.parse().unwrap(),
            spent: Duration::ZERO,
            asking: (end - begin) / 100,
        }
    }

    /// Adds the time since `start`, without the time for measuring it.
    fn spend(&mut self, start: Duration) {
        self.spent += (processor_time() - start).saturating_sub(self.asking);
    }

    /// Returns the next burst of packets.
    fn transmit(&mut self, now: Time, buffer: &mut [u8]) -> Option<(usize, usize)> {
        let start = processor_time();
        let transmit = self.endpoint.poll_transmit(now, buffer, SEGMENTS);
        self.spend(start);
        transmit.map(|transmit| (transmit.len, transmit.segment_size))
    }

    fn handle(&mut self, now: Time, source: SocketAddr, burst: &[u8], segment: usize) {
        let start = processor_time();
        self.endpoint.handle_datagrams(
            now,
            Datagram { source, destination: None, bytes: burst, ecn: 0 },
            segment,
        );
        self.spend(start);
    }
}

/// Two endpoints and the association between them.
pub(crate) struct World {
    pub(crate) client: Side,
    pub(crate) server: Side,
    pub(crate) id: AssociationId,
    accepted: AssociationId,
    pub(crate) now: Time,
    buffer: Vec<u8>,
    taken: Vec<Message>,
    bursts: u64,
    packets: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(AssociationConfig::default())
    }

    pub(crate) fn with(config: AssociationConfig) -> Self {
        let config = Arc::new(config);
        let mut client = Side::new(1, "192.0.2.1:9899", &config);
        let mut server = Side::new(2, "192.0.2.2:9899", &config);
        server.endpoint.listen(7).unwrap();
        let id = client.endpoint.connect(Time::ZERO, Connect::to(server.address, 7)).unwrap();
        let buffer = vec![0; 65_536];
        let now = Time::ZERO;
        let taken = Vec::new();
        let mut world = Self { client, server, id, accepted: id, now, buffer, taken, bursts: 0, packets: 0 };
        for _ in 0..3 {
            world.exchange();
        }
        world.accepted = world.server.endpoint.poll_event().expect("an association").0;
        world
    }

    /// Delivers everything that either side has to send, in bursts.
    pub(crate) fn exchange(&mut self) {
        self.now += Duration::from_micros(20);
        let Self { client, server, now, buffer, bursts, packets, .. } = self;
        while let Some((len, segment)) = client.transmit(*now, buffer) {
            server.handle(*now, client.address, &buffer[..len], segment);
            *bursts += 1;
            *packets += len.div_ceil(segment) as u64;
        }
        while let Some((len, segment)) = server.transmit(*now, buffer) {
            client.handle(*now, server.address, &buffer[..len], segment);
        }
        while client.endpoint.poll_event().is_some() {}
    }

    /// Sends as many messages as the send buffer takes, each copied from the application's buffer.
    pub(crate) fn sender_gives(&mut self, message: &[u8], bytes_max: usize) -> usize {
        let start = processor_time();
        let mut given = 0;
        let info = SendInfo::default();
        while given < bytes_max && self.client.endpoint.send_slice(self.now, self.id, info, message).is_ok() {
            given += message.len();
        }
        self.client.spend(start);
        given
    }

    /// Reads what has arrived.
    pub(crate) fn receiver_takes(&mut self) -> (usize, u64) {
        let start = processor_time();
        let (mut bytes, mut messages) = (0, 0);
        while self.server.endpoint.recv_many(self.now, self.accepted, &mut self.taken, BATCH) > 0 {
            for message in self.taken.drain(..) {
                bytes += message.data.len();
                messages += 1;
            }
        }
        while self.server.endpoint.poll_event().is_some() {}
        self.server.spend(start);
        (bytes, messages)
    }

    pub(crate) fn run(&mut self, size: usize, total: usize) -> Measured {
        let message = vec![7; size];
        (self.client.spent, self.server.spent) = (Duration::ZERO, Duration::ZERO);
        (self.bursts, self.packets) = (0, 0);
        let (mut sent, mut received, mut messages) = (0, 0, 0);
        while received < total {
            sent += self.sender_gives(&message, total - sent);
            self.exchange();
            let (bytes, count) = self.receiver_takes();
            received += bytes;
            messages += count;
            for side in [&mut self.client, &mut self.server] {
                if side.endpoint.poll_timeout().is_some_and(|at| at <= self.now) {
                    side.endpoint.handle_timeout(self.now);
                }
            }
        }
        let each = |spent: Duration| spent.as_secs_f64() * 1e9 / messages as f64;
        let (sender, receiver) = (each(self.client.spent), each(self.server.spent));
        Measured {
            sender,
            receiver,
            rate: size as f64 * 1e3 / (sender + receiver),
            packet_bytes: received as f64 / self.packets as f64,
            burst_packets: self.packets as f64 / self.bursts as f64,
        }
    }
}

/// The results of one run.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// Nanoseconds per message.
    sender: f64,
    receiver: f64,
    /// MB/s of user data on one core that does both sides.
    rate: f64,
    /// User data of a packet in bytes.
    packet_bytes: f64,
    burst_packets: f64,
}

pub(crate) fn table() {
    println!(
        "{:>10} {:>12} {:>14} {:>12} {:>12} {:>14} {:>14}",
        "message", "sender ns", "receiver ns", "both ns", "MB/s", "bytes/packet", "packets/burst"
    );
    let sizes =
        [(64, 20 << 20), (256, 80 << 20), (1_280, 200 << 20), (8_192, 500 << 20), (65_536, 500 << 20)];
    for (size, total) in sizes {
        let mut runs: Vec<Measured> = (0..super::RUNS).map(|_| World::new().run(size, total)).collect();
        runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let Measured { sender, receiver, rate, packet_bytes, burst_packets } = runs[super::RUNS / 2];
        println!(
            "{size:>10} {sender:>12.1} {receiver:>14.1} {:>12.1} {rate:>12.0} {packet_bytes:>14.0} {burst_packets:>14.1}",
            sender + receiver
        );
    }
    println!();
}

/// One run, for profilers.
pub(crate) fn once(size: usize, total: usize, zero_checksum: bool) {
    let Measured { sender, receiver, .. } = checksums(zero_checksum).run(size, total);
    println!("{size} bytes, {} messages: {sender:.1} + {receiver:.1} ns", total / size);
}

/// With checksums, or without them (RFC 9653).
fn checksums(zero: bool) -> World {
    let zero_checksum = zero.then_some(ErrorDetectionMethod::SctpOverDtls);
    let extensions = ExtensionsConfig { zero_checksum, ..ExtensionsConfig::NONE };
    World::with(AssociationConfig { extensions, ..AssociationConfig::default() })
}

/// Cost of the checksum: alternating runs with and without it.
pub(crate) fn checksum_table() {
    println!(
        "{:>10} {:>12} {:>14} {:>22} {:>14}",
        "message", "sender ns", "receiver ns", "no checksum: sender", "receiver"
    );
    for (size, total) in [(64, 20 << 20), (1_280, 200 << 20), (8_192, 500 << 20)] {
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..super::RUNS {
            for (zero, runs) in [false, true].into_iter().zip(&mut runs) {
                runs.push(checksums(zero).run(size, total));
            }
        }
        let [with, without] = runs.map(|mut runs| {
            runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
            runs[super::RUNS / 2]
        });
        println!(
            "{size:>10} {:>12.1} {:>14.1} {:>22.1} {:>14.1}",
            with.sender, with.receiver, without.sender, without.receiver
        );
    }
    println!();
}
