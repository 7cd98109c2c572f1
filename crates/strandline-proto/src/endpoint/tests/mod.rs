//! Two endpoints in virtual time, driven packet by packet.

mod addresses;
mod bound;
mod changed_addresses;
mod check;
mod conformance_3;
mod conformance_5;
mod conformance_6_1;
mod conformance_6_2;
mod conformance_7;
mod conformance_8;
mod conformance_9;
mod conformance_9_2;
mod conformance_rfc3168;
mod conformance_rfc3758;
mod conformance_rfc4895;
mod conformance_rfc5061;
mod conformance_rfc5062;
mod conformance_rfc6525;
mod conformance_rfc7496;
mod conformance_rfc8260;
mod conformance_rfc9653;
mod data;
mod early;
mod early_streams;
mod hostile;
mod known;
mod left_over_cookies;
mod letter;
mod limits;
mod local_addresses;
mod nat;
mod notices;
mod nr_sack;
mod out_of_the_blue;
mod partial_reliability;
mod paths;
mod raw;
mod receive_queue;
mod restart;
mod settings;
mod setup;
mod stream_credit;
mod stream_schedulers;
mod teardown;
mod verification;
mod wire_format;
mod zones;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use strandline_wire::chunk::kind;
use strandline_wire::number::{Ppid, StreamId, VerificationTag};
use strandline_wire::{Packet, PacketBuilder};

use super::{Connect, Endpoint};
use crate::config::{AssociationConfig, EndpointConfig};
use crate::event::{AssociationId, CloseReason, Datagram, Event, Message, SendInfo};
use crate::time::Time;

pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;
pub(super) const PORT: u16 = 7;

#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) bytes: Vec<u8>,
    /// True if IP may fragment the packet.
    pub(super) fragment: bool,
}

impl Sent {
    /// Returns the types of the chunks in the packet.
    pub(super) fn kinds(&self) -> Vec<u8> {
        Packet::parse(&self.bytes).unwrap().chunks().map(|raw| raw.unwrap().kind).collect()
    }

    pub(super) fn tag(&self) -> VerificationTag {
        Packet::parse(&self.bytes).unwrap().verification_tag()
    }
}

pub(super) struct Host {
    pub(super) endpoint: Endpoint,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) events: Vec<(AssociationId, Event)>,
}

/// Two hosts and the packets between them. Host 0 has 192.0.2.1 (and .2 for a second path), host 1 has 192.0.2.101.
pub(super) struct Pair {
    pub(super) now: Time,
    pub(super) hosts: [Host; 2],
    pub(super) wire: VecDeque<Sent>,
    /// Every packet that was sent.
    pub(super) log: Vec<Sent>,
    /// Number of packets sent for IP to fragment.
    pub(super) oversize: usize,
}

pub(super) fn address(host: usize, path: u8) -> SocketAddr {
    let last = 1 + path + 100 * host as u8;
    SocketAddr::from(([192, 0, 2 + path, last], 9899))
}

pub(super) fn config(paths: u8, host: usize) -> EndpointConfig {
    let local_addresses: Vec<IpAddr> = (0..paths).map(|path| address(host, path).ip()).collect();
    EndpointConfig { local_addresses, ..EndpointConfig::default() }
}

impl Pair {
    pub(super) fn new() -> Self {
        Self::with(config(1, CLIENT), config(1, SERVER))
    }

    pub(super) fn with(client: EndpointConfig, server: EndpointConfig) -> Self {
        let host = |index: usize, config: EndpointConfig| {
            let count = config.local_addresses.len().max(1) as u8;
            let addresses = (0..count).map(|path| address(index, path)).collect();
            let mut endpoint = Endpoint::new(config, [index as u8 + 1; 32], Time::ZERO).unwrap();
            endpoint.listen(PORT).unwrap();
            Host { endpoint, addresses, events: Vec::new() }
        };
        let hosts = [host(CLIENT, client), host(SERVER, server)];
        Self { now: Time::ZERO, hosts, wire: VecDeque::new(), log: Vec::new(), oversize: 0 }
    }

    /// Two endpoints with these parameters for all associations.
    pub(super) fn configured(change: impl Fn(&mut AssociationConfig)) -> Self {
        let mut association = AssociationConfig::default();
        change(&mut association);
        let association = Arc::new(association);
        let with = |host| EndpointConfig { association: Arc::clone(&association), ..config(1, host) };
        Self::with(with(CLIENT), with(SERVER))
    }

    pub(super) fn connect(&mut self) -> AssociationId {
        let remotes = vec![self.hosts[SERVER].addresses[0]];
        let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
        self.hosts[CLIENT].endpoint.connect(self.now, request).unwrap()
    }

    /// An association established on both sides.
    pub(super) fn established() -> (Self, AssociationId, AssociationId) {
        Self::new().establish()
    }

    pub(super) fn establish(mut self) -> (Self, AssociationId, AssociationId) {
        let client = self.connect();
        self.run();
        let server = self.accepted();
        self.hosts[CLIENT].events.clear();
        self.hosts[SERVER].events.clear();
        (self, client, server)
    }

    /// Returns the server's association, from its event.
    pub(super) fn accepted(&self) -> AssociationId {
        let found = self.hosts[SERVER].events.iter().find_map(|(id, event)| match event {
            Event::Established { incoming: true, .. } => Some(*id),
            _ => None,
        });
        found.expect("the server accepted an association")
    }

    /// Delivers everything before the first packet with such a chunk, which is the next one then.
    pub(super) fn run_to(&mut self, kind: u8) {
        self.collect();
        while !self.wire.front().is_some_and(has(kind)) {
            let sent = self.wire.pop_front().expect("such a packet");
            self.deliver(&sent);
        }
    }

    /// Collects what both sides want to send, without delivering it.
    pub(super) fn collect(&mut self) {
        let mut buffer = vec![0; 65_536];
        for host in &mut self.hosts {
            while let Some(event) = host.endpoint.poll_event() {
                host.events.push(event);
            }
            let zero_allowed = host.endpoint.context.config.association.extensions.zero_checksum.is_some();
            let mut bursts = 0;
            while let Some(transmit) = host.endpoint.poll_transmit(self.now, &mut buffer, 16) {
                bursts += 1;
                assert!(bursts < 10_000, "transmits without end");
                let subnet = |address: &SocketAddr| match address.ip() {
                    IpAddr::V4(v4) => v4.octets()[2],
                    IpAddr::V6(_) => 0,
                };
                let wanted = subnet(&transmit.destination);
                let asked = host.addresses.iter().find(|address| Some(address.ip()) == transmit.source);
                let source =
                    asked.or_else(|| host.addresses.iter().find(|address| subnet(address) == wanted));
                let source = source.copied().unwrap_or(host.addresses[0]);
                self.oversize += usize::from(transmit.fragment.is_some());
                for bytes in buffer[..transmit.len].chunks(transmit.segment_size) {
                    let sent = Sent {
                        source,
                        destination: transmit.destination,
                        bytes: bytes.to_vec(),
                        fragment: transmit.fragment.is_some(),
                    };
                    check::assert_well_formed(&sent, zero_allowed);
                    self.wire.push_back(sent.clone());
                    self.log.push(sent);
                }
            }
            check::assert_balanced(&host.endpoint);
        }
    }

    pub(super) fn deliver(&mut self, sent: &Sent) {
        let to =
            self.hosts.iter().position(|host| host.addresses.iter().any(|a| a.ip() == sent.destination.ip()));
        let Some(to) = to else { return };
        let datagram = Datagram {
            source: sent.source,
            destination: Some(sent.destination.ip()),
            bytes: &sent.bytes,
            ecn: 0,
        };
        self.hosts[to].endpoint.handle_datagram(self.now, datagram);
        self.collect();
    }

    /// Delivers everything, including answers, without letting time pass.
    pub(super) fn run(&mut self) {
        self.run_dropping(|_| false);
    }

    pub(super) fn run_dropping(&mut self, mut drop: impl FnMut(&Sent) -> bool) {
        self.collect();
        let mut rounds = 0;
        while let Some(sent) = self.wire.pop_front() {
            rounds += 1;
            assert!(rounds < 100_000, "the exchange does not end");
            if !drop(&sent) {
                self.deliver(&sent);
            }
        }
    }

    /// Lets time pass: fires timers in order and delivers everything except what `drop` selects.
    pub(super) fn pass_dropping(&mut self, time: Duration, mut drop: impl FnMut(&Sent) -> bool) {
        let end = self.now + time;
        self.run_dropping(&mut drop);
        let mut rounds = 0;
        loop {
            let next = self.hosts.iter().filter_map(|host| host.endpoint.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            rounds += 1;
            assert!(rounds < 1_000_000, "timers do not end");
            self.now = self.now.max(next);
            for host in &mut self.hosts {
                host.endpoint.handle_timeout(self.now);
            }
            self.run_dropping(&mut drop);
        }
        self.now = end;
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.pass_dropping(time, |_| false);
    }

    pub(super) fn send(&mut self, host: usize, id: AssociationId, stream: u16, data: &[u8]) {
        let info = SendInfo { stream: StreamId(stream), ppid: Ppid(1), ..SendInfo::default() };
        self.hosts[host].endpoint.send(self.now, id, info, data.to_vec().into()).unwrap();
    }

    pub(super) fn recv(&mut self, host: usize, id: AssociationId) -> Option<Message> {
        let message = self.hosts[host].endpoint.recv(self.now, id);
        self.collect();
        message
    }

    pub(super) fn state(&self, host: usize, id: AssociationId) -> &'static str {
        self.hosts[host].endpoint.status(id).map_or("none", |status| status.state.name())
    }

    pub(super) fn closed(&self, host: usize) -> Option<&CloseReason> {
        self.hosts[host].events.iter().find_map(|(_, event)| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    }

    /// Returns the chunk types of every packet that was sent, in order.
    pub(super) fn kinds(&self) -> Vec<Vec<u8>> {
        self.log.iter().map(Sent::kinds).collect()
    }

    /// Returns a packet that neither side made, from one host to the other.
    pub(super) fn forge(
        &self,
        from: usize,
        ports: (u16, u16),
        tag: VerificationTag,
        build: impl FnOnce(&mut PacketBuilder<'_>),
    ) -> Sent {
        let mut buffer = vec![0; 4096];
        let mut packet = PacketBuilder::new(&mut buffer, ports.0, ports.1, tag);
        build(&mut packet);
        let len = packet.finish();
        buffer.truncate(len);
        Sent { source: address(from, 0), destination: address(1 - from, 0), bytes: buffer, fragment: false }
    }
}

pub(super) fn has(kind: u8) -> impl Fn(&Sent) -> bool {
    move |sent| sent.kinds().contains(&kind)
}

pub(super) const SETUP: [u8; 4] = [kind::INIT, kind::INIT_ACK, kind::COOKIE_ECHO, kind::COOKIE_ACK];
