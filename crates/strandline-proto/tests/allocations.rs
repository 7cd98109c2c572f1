//! In steady state the engine allocates nothing per packet. Counted over a stream between two endpoints, including
//! sending, acknowledging, timers and reading.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests say what they measure")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use bytes::Bytes;
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{AssociationId, Datagram, Event, SendInfo};
use strandline_proto::number::StreamId;
use strandline_proto::time::Time;

/// Minimum number of packets to count over.
const PACKETS: u64 = 10_000;
/// Packets of one burst.
const SEGMENTS: usize = 16;

/// One side: its endpoint, its associations, and the address that its packets come from.
struct Side {
    endpoint: Endpoint,
    associations: Vec<AssociationId>,
    address: core::net::SocketAddr,
}

impl Side {
    fn new(seed: u8, address: &str) -> Self {
        // So small that the windows soon reach their full size and stay there.
        let association = AssociationConfig { send_buffer: Some(200_000), ..AssociationConfig::default() };
        let config = EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() };
        let endpoint = Endpoint::new(config, [seed; 32], Time::ZERO).unwrap();
        Self { endpoint, associations: Vec::new(), address: address.parse().unwrap() }
    }

    /// Sends messages until the send buffers are full, on alternating streams.
    fn send(&mut self, now: Time, messages: &[Bytes]) {
        for id in &self.associations {
            let full = |(number, message): (usize, &Bytes)| {
                let info = SendInfo::on(StreamId(number as u16 % 7));
                self.endpoint.send(now, *id, info, message.clone()).is_err()
            };
            let _ = messages.iter().cycle().take(200).enumerate().any(full);
        }
    }

    /// Delivers everything that this side has to send to the other one.
    fn carry(&mut self, now: Time, to: &mut Self, buffer: &mut [u8]) {
        while let Some(transmit) = self.endpoint.poll_transmit(now, buffer, SEGMENTS) {
            for bytes in buffer[..transmit.len].chunks(transmit.segment_size) {
                let datagram = Datagram { source: self.address, destination: None, bytes, ecn: 0 };
                to.endpoint.handle_datagram(now, datagram);
            }
        }
    }

    /// Reads everything. Returns the number of bytes.
    fn read(&mut self, now: Time) -> usize {
        let mut bytes = 0;
        for id in &self.associations {
            while let Some(message) = self.endpoint.recv(now, *id) {
                bytes += message.data.len();
            }
        }
        bytes
    }

    fn events(&mut self) {
        while let Some((id, event)) = self.endpoint.poll_event() {
            if let Event::Established { incoming: true, .. } = event {
                self.associations.push(id);
            }
        }
    }
}

struct World {
    client: Side,
    server: Side,
    now: Time,
    buffer: Vec<u8>,
}

impl World {
    fn new(associations: u16) -> Self {
        let mut client = Side::new(1, "192.0.2.1:9899");
        let mut server = Side::new(2, "192.0.2.2:9899");
        server.endpoint.listen(7).unwrap();
        for number in 0..associations {
            let connect = Connect { local_port: 10_000 + number, ..Connect::to(server.address, 7) };
            client.associations.push(client.endpoint.connect(Time::ZERO, connect).unwrap());
        }
        let mut world = Self { client, server, now: Time::ZERO, buffer: vec![0; 65_536] };
        for _ in 0..10 {
            world.step();
        }
        assert_eq!(world.server.associations.len(), usize::from(associations));
        world
    }

    /// Runs 50 microseconds: packets each way, timers, events, and reading. Returns the bytes read.
    fn step(&mut self) -> usize {
        self.now += Duration::from_micros(50);
        self.client.carry(self.now, &mut self.server, &mut self.buffer);
        self.server.carry(self.now, &mut self.client, &mut self.buffer);
        for side in [&mut self.client, &mut self.server] {
            side.endpoint.handle_timeout(self.now);
            side.events();
        }
        self.client.read(self.now) + self.server.read(self.now)
    }

    fn packets(&self) -> u64 {
        self.client.endpoint.stats().packets_sent + self.server.endpoint.stats().packets_sent
    }

    /// Streams `there` and `back` until enough packets were sent. Returns packets and bytes.
    fn stream(&mut self, there: &[Bytes], back: &[Bytes], packets: u64) -> (u64, usize) {
        let begin = self.packets();
        let mut bytes = 0;
        while self.packets() - begin < packets {
            self.client.send(self.now, there);
            self.server.send(self.now, back);
            bytes += self.step();
        }
        (self.packets() - begin, bytes)
    }
}

fn messages(sizes: &[usize]) -> Vec<Bytes> {
    let shared = Bytes::from(vec![7; 70_000]);
    sizes.iter().map(|size| shared.slice(..*size)).collect()
}

fn assert_none(what: &str, associations: u16, there: &[usize], back: &[usize]) {
    let (there, back) = (messages(there), messages(back));
    let mut world = World::new(associations);
    // Windows, buffers and tables reach their size, and the path MTU is found.
    world.stream(&there, &back, 20 * PACKETS);
    let mut streamed = (0, 0);
    let info = measure(|| streamed = world.stream(&there, &back, PACKETS));
    let (packets, bytes) = streamed;
    println!(
        "{what}: {} allocations over {packets} packets with {bytes} bytes of messages",
        info.count_total
    );
    assert!(packets >= PACKETS && bytes > 100_000);
    assert_eq!(info.count_total, 0, "{what}: {info:?}");
    let lost: u32 = world
        .client
        .associations
        .iter()
        .map(|id| world.client.endpoint.status(*id).unwrap().stats.retransmissions)
        .sum();
    assert_eq!(lost, 0, "a steady state");
}

#[test]
fn messages_in_fragments_cost_no_allocation() {
    assert_none("8 KB", 1, &[8192], &[]);
}

#[test]
fn bundled_messages_cost_no_allocation() {
    assert_none("200 bytes", 1, &[200], &[]);
}

#[test]
fn single_bytes_cost_no_allocation() {
    assert_none("1 byte", 1, &[1], &[]);
}

#[test]
fn data_in_both_directions_costs_no_allocation() {
    assert_none("both ways", 1, &[8192, 200, 1400, 3000], &[200, 16_384]);
}

#[test]
fn several_associations_cost_no_allocation() {
    assert_none("5 associations", 5, &[8192, 200], &[200]);
}
