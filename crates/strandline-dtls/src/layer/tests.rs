//! Two or three layers in virtual time, with a network between them that loses, repeats and reorders.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strandline_wire::chunk::kind;
use strandline_wire::number::VerificationTag;
use strandline_wire::{Packet, PacketBuilder};

use super::*;
use crate::identity::Identity;
use crate::tags::PacketStart;
use crate::trust::{Trust, TrustError};

mod addresses;
mod attacks;
mod handshake;
mod keys;
mod resets;
mod trust;

/// SCTP ports of both sides.
const PORTS: (u16, u16) = (40_000, 5000);

fn identity() -> Identity {
    Identity::from_pem(&Identity::generate("test").unwrap()).unwrap()
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn config(own: &Identity, trusted: &[&Identity]) -> Config {
    let trust = trusted.iter().fold(Trust::nobody(), |trust, peer| trust.pin(peer.fingerprint()));
    Config::new(own.clone(), trust)
}

/// A host: its layer and address, and what it has received.
struct Host {
    layer: Layer,
    address: SocketAddr,
    received: Vec<(SocketAddr, Vec<u8>)>,
    inits: Vec<InitOf>,
    events: Vec<Event>,
    packets: Packets,
}

impl Host {
    fn new(config: Config, address: &str, seed: u8, now: Instant) -> Self {
        let wall = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000));
        let layer = Layer::new(Arc::new(config), Shard::default(), [seed; 32], now, wall).unwrap();
        Self {
            layer,
            address: at(address),
            received: Vec::new(),
            inits: Vec::new(),
            events: Vec::new(),
            packets: Packets::default(),
        }
    }

    fn take(&mut self) {
        let (received, inits) = (&mut self.received, &mut self.inits);
        self.packets.for_each_train(|train| {
            inits.extend(train.init.cloned());
            for packet in train.bytes.chunks(train.segment_size) {
                received.push((train.arrival.source, packet.to_vec()));
            }
        });
        self.packets.clear();
        self.events.extend(std::iter::from_fn(|| self.layer.poll_event()));
    }

    fn failure(&self) -> Option<&Failure> {
        self.events.iter().find_map(|event| match event {
            Event::Failed(_, _, failure) | Event::ClientFailed(_, failure, _) => Some(failure),
            _ => None,
        })
    }
}

/// A datagram on its way. Ordered by time, then by number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    due: Instant,
    number: u64,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// Hosts and the network between them.
struct World {
    now: Instant,
    hosts: Vec<Host>,
    flying: BinaryHeap<Reverse<Flying>>,
    number: u64,
    rng: ChaCha20Rng,
    /// Of 100.
    loss: u32,
    duplication: u32,
    reordering: u32,
    corruption: u32,
    /// The addresses that a NAT gives to those of hosts.
    nat: HashMap<SocketAddr, SocketAddr>,
    /// All datagrams that were sent.
    log: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
    /// Tags that engines have: none is forgotten.
    all_used: bool,
}

impl World {
    /// The client is host 0, the server host 1.
    fn new(client: Config, server: Config) -> Self {
        #[allow(clippy::disallowed_methods, reason = "where virtual time begins does not matter")]
        let now = Instant::now();
        let hosts =
            vec![Host::new(client, "192.0.2.1:1001", 1, now), Host::new(server, "192.0.2.2:9899", 2, now)];
        Self {
            now,
            hosts,
            flying: BinaryHeap::new(),
            number: 0,
            rng: ChaCha20Rng::from_seed([3; 32]),
            loss: 0,
            duplication: 0,
            reordering: 0,
            corruption: 0,
            nat: HashMap::new(),
            log: Vec::new(),
            all_used: true,
        }
    }

    fn trusting() -> Self {
        let (client, server) = (identity(), identity());
        Self::new(config(&client, &[&server]), config(&server, &[&client]))
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.rng.next_u32() % 100 < percent
    }

    /// Sends packets of a host's engine.
    fn send(&mut self, host: usize, to: &str, packet: &[u8]) {
        let mut out = vec![0; packet.len() + 200];
        let destination = at(to);
        let burst = Burst { destination, source: None, bytes: packet, segment_size: packet.len() };
        if let Some(sealed) = self.hosts[host].layer.seal(self.now, &burst, &mut out) {
            self.emit(host, sealed.destination, out[..sealed.len].to_vec());
        }
        self.collect(host);
    }

    fn emit(&mut self, host: usize, to: SocketAddr, mut bytes: Vec<u8>) {
        let from = self.hosts[host].address;
        let from = self.nat.get(&from).copied().unwrap_or(from);
        self.log.push((from, to, bytes.clone()));
        if self.chance(self.loss) {
            return;
        }
        if self.chance(self.corruption) {
            self.corrupt(&mut bytes);
        }
        for _ in 0..1 + u32::from(self.chance(self.duplication)) {
            let late = if self.chance(self.reordering) { 15 } else { 0 };
            let due = self.now + Duration::from_millis(10 + late);
            self.number += 1;
            let flying = Flying { due, number: self.number, from, to, bytes: bytes.clone() };
            self.flying.push(Reverse(flying));
        }
    }

    /// Changes some bytes of a datagram, or its length, or appends an earlier one.
    fn corrupt(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.rng.next_u32() % 4 {
            let at = self.rng.next_u32() as usize % bytes.len().max(1);
            match self.rng.next_u32() % 6 {
                0 => bytes.truncate(at),
                1 => bytes.extend_from_slice(&self.rng.next_u64().to_be_bytes()),
                2 if !self.log.is_empty() => {
                    let earlier = self.rng.next_u32() as usize % self.log.len();
                    bytes.truncate(at);
                    bytes.extend_from_slice(&self.log[earlier].2);
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << (self.rng.next_u32() % 8);
                    }
                }
            }
        }
    }

    /// Passes refusals on as if no association had another address.
    fn refuse(&mut self, host: usize) {
        let layer = &mut self.hosts[host].layer;
        while let Some(refusal) = layer.poll_refusal() {
            layer.report(self.now, &refusal, |_, _| false);
        }
    }

    fn collect(&mut self, host: usize) {
        while let Some(outgoing) = self.hosts[host].layer.poll_transmit() {
            self.emit(host, outgoing.destination, outgoing.bytes);
        }
        self.hosts[host].take();
    }

    /// Gives a datagram to a host.
    fn deliver(&mut self, host: usize, from: SocketAddr, bytes: &[u8]) {
        let Host { layer, packets, .. } = &mut self.hosts[host];
        let arrival = Arrival { source: from, destination: None, ecn: 0 };
        layer.handle_datagram(self.now, &arrival, bytes, packets);
        self.refuse(host);
        self.collect(host);
    }

    fn host_at(&self, address: SocketAddr) -> Option<usize> {
        let outside = |host: &Host| self.nat.get(&host.address).copied().unwrap_or(host.address);
        self.hosts.iter().position(|host| outside(host) == address)
    }

    /// Lets time pass.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let timers = self.hosts.iter().filter_map(|host| host.layer.poll_timeout());
            let next_timer = timers.min().map(|at| at.max(self.now));
            let next_flying = self.flying.peek().map(|Reverse(flying)| flying.due);
            let Some(next) = [next_timer, next_flying].into_iter().flatten().min().filter(|at| *at <= end)
            else {
                self.now = end;
                return;
            };
            self.now = next;
            if next_flying == Some(next)
                && let Some(Reverse(flying)) = self.flying.pop()
            {
                if let Some(host) = self.host_at(flying.to) {
                    self.deliver(host, flying.from, &flying.bytes);
                }
                continue;
            }
            let all_used = self.all_used;
            for host in 0..self.hosts.len() {
                let Host { layer, packets, .. } = &mut self.hosts[host];
                if layer.poll_timeout().is_some_and(|at| at <= self.now) {
                    layer.handle_timeout(self.now, packets, |_| all_used);
                    self.collect(host);
                }
            }
        }
    }

    fn secs(&mut self, secs: u64) {
        self.run(Duration::from_secs(secs));
    }

    /// Sets an association up: the client's tag is 0xc1, the server's 0x51.
    fn associate(&mut self) {
        self.send(0, "192.0.2.2:9899", &init(PORTS, 0xc1));
        self.secs(5);
        assert_eq!(self.hosts[1].received.len(), 1, "the INIT arrived: {:?}", self.hosts[0].events);
        self.answer(0xc1, 0x51);
        self.secs(1);
        assert_eq!(self.hosts[0].received.len(), 1, "the INIT ACK arrived");
        self.hosts.iter_mut().for_each(|host| host.received.clear());
    }

    /// The server answers an INIT.
    fn answer(&mut self, peer_tag: u32, own_tag: u32) {
        let source = self.hosts[1].received.last().unwrap().0;
        let ack = init_ack((PORTS.1, PORTS.0), peer_tag, own_tag);
        self.send(1, &source.to_string(), &ack);
    }

    /// Sends data from the client.
    fn up(&mut self, text: &[u8]) {
        self.send(0, "192.0.2.2:9899", &data(PORTS, 0x51, text));
    }

    /// Sends data from the server.
    fn down(&mut self, text: &[u8]) {
        self.send(1, "192.0.2.1:1001", &data((PORTS.1, PORTS.0), 0xc1, text));
    }

    /// Texts of data that a host has received.
    fn texts(&self, host: usize) -> Vec<&[u8]> {
        self.hosts[host].received.iter().map(|(_, packet)| &packet[16..]).collect()
    }
}

fn packet(ports: (u16, u16), tag: u32, kind: u8, value: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 2000];
    let mut builder = PacketBuilder::new(&mut buffer, ports.0, ports.1, VerificationTag(tag));
    builder.push_raw(kind, 0, value.len()).unwrap().copy_from_slice(value);
    let len = builder.finish();
    buffer.truncate(len);
    buffer
}

fn init_value(tag: u32) -> Vec<u8> {
    let mut value = tag.to_be_bytes().to_vec();
    value.extend([0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1]);
    value
}

fn init(ports: (u16, u16), tag: u32) -> Vec<u8> {
    packet(ports, 0, kind::INIT, &init_value(tag))
}

fn init_ack(ports: (u16, u16), peer_tag: u32, tag: u32) -> Vec<u8> {
    packet(ports, peer_tag, kind::INIT_ACK, &init_value(tag))
}

/// The text's length must be a multiple of four.
fn data(ports: (u16, u16), tag: u32, text: &[u8]) -> Vec<u8> {
    packet(ports, tag, kind::DATA, text)
}
