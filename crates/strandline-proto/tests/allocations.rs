//! In steady state the engine allocates nothing per packet. Counted over a stream between two endpoints, including
//! sending, acknowledging, timers and reading. An idle association keeps little, as the allocator counts it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests say what they measure")]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Duration;

use allocation_counter::measure;
use bytes::Bytes;
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::congestion::Algorithm;
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
    fn new(seed: u8, address: &str, association: AssociationConfig) -> Self {
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
        // So small that the windows soon reach their full size and stay there.
        let config = AssociationConfig { send_buffer: Some(200_000), ..AssociationConfig::default() };
        let mut world = Self::without_associations(&config);
        world.connect(associations);
        world
    }

    fn without_associations(config: &AssociationConfig) -> Self {
        let client = Side::new(1, "192.0.2.1:9899", config.clone());
        let mut server = Side::new(2, "192.0.2.2:9899", config.clone());
        server.endpoint.listen(7).unwrap();
        Self { client, server, now: Time::ZERO, buffer: vec![0; 65_536] }
    }

    /// Sets associations up.
    fn connect(&mut self, associations: u16) {
        for number in 0..associations {
            let connect = Connect { local_port: 10_000 + number, ..Connect::to(self.server.address, 7) };
            self.client.associations.push(self.client.endpoint.connect(self.now, connect).unwrap());
        }
        for _ in 0..10 {
            self.step();
        }
        assert_eq!(self.server.associations.len(), usize::from(associations));
    }

    /// Runs 50 microseconds. Returns the bytes read.
    fn step(&mut self) -> usize {
        self.pass(Duration::from_micros(50))
    }

    /// Lets time pass, then handles packets each way, timers, events, and reads. Returns the bytes read.
    fn pass(&mut self, time: Duration) -> usize {
        self.now += time;
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

/// Returns the bytes that the allocator counts after associations were set up, have sent data and have been idle, on
/// both sides together.
fn idle_bytes(config: &AssociationConfig, associations: u16) -> (i64, World) {
    let mut world = World::without_associations(config);
    for side in [&mut world.client, &mut world.server] {
        side.associations.reserve(usize::from(associations));
    }
    let message = messages(&[5000]);
    let info = measure(|| {
        world.connect(associations);
        for id in &world.client.associations {
            world.client.endpoint.send(world.now, *id, SendInfo::default(), message[0].clone()).unwrap();
        }
        let read: usize = (0..2000).map(|_| world.pass(Duration::from_millis(10))).sum();
        assert_eq!(read, 5000 * usize::from(associations));
    });
    (info.bytes_current, world)
}

/// What each further idle association takes by the allocator's count, shares of tables and queues included, and by the
/// account of its endpoint.
#[test]
fn idle_associations_stay_small() {
    for (congestion, counted_most, reported_most) in
        [(Algorithm::Cubic, 1024, 792), (Algorithm::Dctcp, 1280, 1024), (Algorithm::Bbr, 1536, 1280)]
    {
        let config = AssociationConfig { congestion, ..AssociationConfig::default() };
        let (few, _) = idle_bytes(&config, 512);
        let (many, world) = idle_bytes(&config, 1024);
        let counted = (many - few) / (2 * 512);
        let reported = [&world.client, &world.server]
            .map(|side| side.endpoint.memory(side.associations[0]).unwrap().total())
            .into_iter()
            .max()
            .unwrap();
        println!("{congestion:?}: {counted} bytes of each idle association, {reported} reported");
        assert!(counted <= counted_most && reported <= reported_most, "{congestion:?}");
    }
}
