//! Two endpoints and the links between them, driven packet by packet, for tests of the protocol's procedures.

mod packets;
mod peer;
mod stalls;

pub use packets::{chunk_kinds, with_chunk};
pub use peer::Peer;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use bytes::Bytes;
use strandline_netem::{LinkConfig, Verdict};
use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::{Connect, Endpoint, StreamValue};
pub use strandline_proto::event::AssociationId;
use strandline_proto::event::{Datagram, Event, Message, SendInfo};
use strandline_proto::time::Time;
use strandline_wire::{Packet, StreamId};

use self::packets::without_i_bits;
use self::stalls::Stalls;
use crate::network::{CONGESTION_EXPERIENCED, Carried, DATAGRAM_BUFFER_LEN, ECN_CAPABLE, Network};
use crate::random::Random;
use crate::trace::print_packet;

/// The UDP port of encapsulation that both sides use.
pub const CARRIER_PORT: u16 = strandline_wire::UDP_ENCAPSULATION_PORT;

/// The SCTP port on which the second side of a [`Pair`] listens.
pub const SCTP_PORT: u16 = 5000;

/// One of the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that connects.
    A,
    /// The side that listens.
    B,
}

impl Side {
    /// Returns the other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// A filter's decision about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The next filter decides. After the last one the packet goes to its link.
    Pass,
    /// The packet is lost.
    Drop,
    /// The packet goes to its link twice.
    Duplicate,
    /// The packet goes to its link with an ECN mark, if it is ECN-capable.
    Mark,
    /// The packet arrives with this delay, without its link, however long others take there.
    Delay(Duration),
}

/// A packet that one side transmitted.
#[derive(Debug, Clone)]
pub struct Captured {
    /// When it was sent.
    pub at: Time,
    /// The sender.
    pub from: Side,
    /// The datagram.
    pub datagram: Carried,
    /// False if a filter or the link dropped it.
    pub delivered: bool,
}

impl Captured {
    /// Returns the types of its chunks, in order.
    #[must_use]
    pub fn chunk_kinds(&self) -> Vec<u8> {
        chunk_kinds(&self.datagram.bytes)
    }
}

type Filter = Box<dyn FnMut(Side, &Packet<'_>) -> Fate>;

/// How the network treats the ECN bits of the IP header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EcnPath {
    /// Preserves them.
    #[default]
    Carries,
    /// Drops packets with ECN bits.
    Drops,
    /// Clears them.
    Clears,
    /// Marks all ECN-capable packets.
    MarksAll,
}

/// Two endpoints in virtual time.
///
/// - in: commands to `a.endpoint` and `b.endpoint`, or the shorter methods of this type; [`inject`](Self::inject)
/// - time: [`step`](Self::step), [`run_for`](Self::run_for), [`run_until`](Self::run_until),
///   [`settle`](Self::settle)
/// - faults: [`filter`](Self::filter), [`drop_next`](Self::drop_next), the links of [`network`](Self::network)
/// - out: [`events`](Self::events), [`recv`](Self::recv), [`captured`](Self::captured)
///
/// Side A has the address 10.0.0.1 and side B 10.0.1.1, unless their configurations name local addresses. Each address
/// of one side has a link to and from each address of the other.
///
/// ```
/// use core::time::Duration;
/// use strandline_netem::LinkConfig;
/// use strandline_proto::config::EndpointConfig;
/// use strandline_sim::pair::{Pair, Side, with_chunk};
/// use strandline_wire::chunk::kind;
///
/// let link = LinkConfig::with_delay(Duration::from_millis(10));
/// let mut pair = Pair::new(EndpointConfig::default(), EndpointConfig::default(), link);
/// let (a, b) = pair.connect();
/// // The first packet with DATA is lost; its retransmission is not.
/// pair.drop_next(Side::A, with_chunk(kind::DATA));
/// pair.send(Side::A, a, 0, "hello");
/// pair.settle();
/// assert_eq!(pair.recv(Side::B, b).ok_or("it must arrive")?.data, "hello");
/// # Ok::<(), &str>(())
/// ```
pub struct Pair {
    /// The current time.
    pub now: Time,
    /// The side that connects.
    pub a: Peer,
    /// The side that listens.
    pub b: Peer,
    /// The links; `pair.network.link(from, to)` can be cut or changed at any time.
    pub network: Network,
    /// Maximum number of packets in one transmission: more than 1 lets an endpoint fill bursts.
    pub segments_max: usize,
    /// False if the carriers can't fragment packets, as on IPv4 over UDP without CAP_NET_RAW. True by default.
    pub fragments: bool,
    filters: Vec<Filter>,
    ecn_path: EcnPath,
    ignores_i_bits: Option<Side>,
    stalls: Stalls,
    captured: Vec<Captured>,
    random: Random,
    buffer: Vec<u8>,
}

impl core::fmt::Debug for Pair {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pair")
            .field("now", &self.now)
            .field("captured", &self.captured.len())
            .finish_non_exhaustive()
    }
}

impl Pair {
    /// Creates two endpoints with the same link in both directions.
    ///
    /// # Panics
    /// Panics if a configuration is not valid.
    #[must_use]
    pub fn new(config_a: EndpointConfig, config_b: EndpointConfig, link: LinkConfig) -> Self {
        Self::with_seed(config_a, config_b, link, 1)
    }

    /// Creates a pair with another seed for the endpoints and the links.
    ///
    /// # Panics
    /// Panics if a configuration is not valid.
    #[must_use]
    pub fn with_seed(
        config_a: EndpointConfig,
        config_b: EndpointConfig,
        link: LinkConfig,
        seed: u64,
    ) -> Self {
        let mut random = Random::new(seed);
        Self {
            now: Time::ZERO,
            a: Peer::new(config_a, IpAddr::from([10, 0, 0, 1]), &mut random),
            b: Peer::new(config_b, IpAddr::from([10, 0, 1, 1]), &mut random),
            network: Network::new(link, random.bits()),
            segments_max: 1,
            fragments: true,
            filters: Vec::new(),
            ecn_path: EcnPath::Carries,
            ignores_i_bits: None,
            stalls: Stalls::default(),
            captured: Vec::new(),
            random,
            buffer: vec![0; DATAGRAM_BUFFER_LEN],
        }
    }

    /// Returns a side.
    #[must_use]
    pub fn side(&mut self, side: Side) -> &mut Peer {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// Returns a side's addresses with the carrier's port.
    #[must_use]
    pub fn addresses(&self, side: Side) -> Vec<SocketAddr> {
        let peer = if side == Side::A { &self.a } else { &self.b };
        peer.addresses.iter().map(|address| SocketAddr::new(*address, CARRIER_PORT)).collect()
    }

    /// Makes B listen on [`SCTP_PORT`] and A connect to B's first address. Nothing is sent before the next step.
    ///
    /// # Panics
    /// Panics if the endpoint refuses.
    pub fn start(&mut self) -> AssociationId {
        // B may already listen.
        let _ = self.b.endpoint.listen(SCTP_PORT);
        let remote = self.addresses(Side::B)[0];
        self.a.endpoint.connect(self.now, Connect::to(remote, SCTP_PORT)).expect("connect")
    }

    /// Calls [`start`](Self::start) and runs until both sides are established. Takes their `Established` events.
    ///
    /// # Panics
    /// Panics if that takes more than a minute.
    pub fn connect(&mut self) -> (AssociationId, AssociationId) {
        let both = self.try_connect();
        both.unwrap_or_else(|| panic!("the association was not established:\n{}", self.printed().join("\n")))
    }

    /// As [`connect`](Self::connect), but returns `None` if that takes more than a minute.
    ///
    /// # Panics
    /// Panics if the endpoint refuses.
    pub fn try_connect(&mut self) -> Option<(AssociationId, AssociationId)> {
        let a = self.start();
        let up = |peer: &Peer| {
            let is_up = |event: &Event| matches!(event, Event::Established { .. });
            peer.events.iter().rev().find(|(_, event)| is_up(event)).map(|(id, _)| *id)
        };
        self.run_until(Duration::from_secs(60), |pair| up(&pair.a).and(up(&pair.b)).is_some());
        let established = up(&self.a).and(up(&self.b));
        for peer in [&mut self.a, &mut self.b] {
            peer.events.retain(|(_, event)| !matches!(event, Event::Established { .. }));
        }
        established.map(|b| (a, b))
    }

    /// Returns how much virtual time has passed.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.now.since(Time::ZERO)
    }

    /// Sends an ordered message on a stream.
    ///
    /// # Panics
    /// Panics if the endpoint refuses it.
    pub fn send(&mut self, side: Side, id: AssociationId, stream: u16, data: impl Into<Bytes>) {
        let info = SendInfo::on(StreamId(stream));
        let now = self.now;
        self.side(side).endpoint.send(now, id, info, data.into()).expect("send");
    }

    /// Sets the priority or weight of a stream, as the association's scheduler understands it.
    ///
    /// # Panics
    /// Panics if the association does not have the stream.
    pub fn set_stream_value(&mut self, side: Side, id: AssociationId, stream: u16, value: u16) {
        let value = StreamValue { stream: StreamId(stream), value };
        value.set(&mut self.side(side).endpoint, id).expect("it has the stream");
    }

    /// Returns the next message that can be received.
    pub fn recv(&mut self, side: Side, id: AssociationId) -> Option<Message> {
        let now = self.now;
        self.side(side).endpoint.recv(now, id)
    }

    /// Returns all messages that can be received.
    pub fn recv_all(&mut self, side: Side, id: AssociationId) -> Vec<Message> {
        core::iter::from_fn(|| self.recv(side, id)).collect()
    }

    /// Takes a side's events so far.
    pub fn events(&mut self, side: Side) -> Vec<Event> {
        self.side(side).events.drain(..).map(|(_, event)| event).collect()
    }

    /// Takes a side's events so far, with their associations.
    pub fn events_with_ids(&mut self, side: Side) -> Vec<(AssociationId, Event)> {
        self.side(side).events.drain(..).collect()
    }

    /// Adds a filter that sees every transmitted packet; the newest is asked first.
    pub fn filter(&mut self, filter: impl FnMut(Side, &Packet<'_>) -> Fate + 'static) {
        self.filters.push(Box::new(filter));
    }

    /// Sets how the network treats ECN bits.
    pub fn set_ecn_path(&mut self, path: EcnPath) {
        self.ecn_path = path;
    }

    /// Makes this side ignore the I bit (RFC 7053), by removing it from packets to it.
    pub fn ignore_i_bits(&mut self, side: Side) {
        self.ignores_i_bits = Some(side);
    }

    /// Lets a side run only at multiples of `each`, as on a loaded machine: until then its timers wait, it
    /// sends nothing, and what arrives is kept for it.
    pub fn stall(&mut self, side: Side, each: Duration) {
        self.stalls.set(side, each);
    }

    /// Removes all filters.
    pub fn clear_filters(&mut self) {
        self.filters.clear();
    }

    /// Drops the next packet from `side` that matches.
    pub fn drop_next(&mut self, side: Side, matches: impl FnMut(&Packet<'_>) -> bool + 'static) {
        self.drop_some(side, 1, matches);
    }

    /// Drops the next `count` packets from `side` that match.
    pub fn drop_some(
        &mut self,
        side: Side,
        count: usize,
        mut matches: impl FnMut(&Packet<'_>) -> bool + 'static,
    ) {
        let mut left = count;
        self.filter(move |from, packet| {
            if left == 0 || from != side || !matches(packet) {
                return Fate::Pass;
            }
            left -= 1;
            Fate::Drop
        });
    }

    /// Hands bytes to a side at once, as a datagram from `source` to the side's first address.
    pub fn inject(&mut self, to: Side, source: SocketAddr, bytes: &[u8]) {
        let now = self.now;
        let peer = self.side(to);
        let destination = peer.addresses.first().copied();
        peer.endpoint.handle_datagram(now, Datagram { source, destination, bytes, ecn: 0 });
        self.flush();
    }

    /// Changes a side's UDP port, as a NAT does that has forgotten the old one: packets to that are lost.
    pub fn rebind(&mut self, side: Side, port: u16) {
        self.side(side).port = port;
    }

    /// Changes the addresses of a side's host, which has at least one: packets to others are lost.
    pub fn readdress(&mut self, side: Side, addresses: Vec<IpAddr>) {
        self.side(side).addresses = addresses;
    }

    /// Crashes the side: it gets a new endpoint with the same configuration, which was valid before, and another seed.
    pub fn crash(&mut self, side: Side) {
        let (now, seed) = (self.now, self.random.seed());
        let peer = self.side(side);
        peer.endpoint = Endpoint::new(peer.config.clone(), seed, now).expect("valid before");
        peer.events.clear();
    }

    /// Returns every packet transmitted so far.
    #[must_use]
    pub fn captured(&self) -> &[Captured] {
        &self.captured
    }

    /// Clears the captured packets.
    pub fn clear_captured(&mut self) {
        self.captured.clear();
    }

    /// Returns the captured packets, one line each.
    #[must_use]
    pub fn printed(&self) -> Vec<String> {
        let line = |captured: &Captured| {
            let arrow = if captured.delivered { "" } else { " (dropped)" };
            format!("{:?} {:?} {}{arrow}", captured.at, captured.from, print_packet(&captured.datagram))
        };
        self.captured.iter().map(line).collect()
    }

    /// Runs the next event: a datagram arrives or a timer expires, and then both sides transmit. Returns false if
    /// nothing will ever happen.
    pub fn step(&mut self) -> bool {
        self.flush();
        let Some(next) = self.next_time() else { return false };
        self.now = self.now.max(next);
        if let Some(datagram) = self.network.poll(self.now) {
            self.deliver(datagram);
        } else {
            for side in self.stalls.running(self.now) {
                for datagram in self.stalls.take(side) {
                    self.hand_over(&datagram);
                }
                let now = self.now;
                let endpoint = &mut self.side(side).endpoint;
                if endpoint.poll_timeout().is_some_and(|at| at <= now) {
                    endpoint.handle_timeout(now);
                }
            }
        }
        self.flush();
        true
    }

    /// Returns the time of the next event.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        let timers = [Side::A, Side::B].map(|side| {
            let endpoint = if side == Side::A { &self.a.endpoint } else { &self.b.endpoint };
            self.stalls.next(side, endpoint.poll_timeout(), self.now)
        });
        timers.into_iter().chain([self.network.next_arrival()]).flatten().min()
    }

    /// Runs for exactly `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.run_until(duration, |_| false);
        self.now = end;
    }

    /// Runs until `done` returns true, which is called after each step, for at most `limit`. Returns whether it did.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        self.flush();
        loop {
            if done(self) {
                return true;
            }
            if self.next_time().is_none_or(|next| next > end) {
                self.now = end;
                return false;
            }
            self.step();
        }
    }

    /// Runs until no datagram is in flight and none was sent for two seconds (retransmissions that back off further
    /// are not waited for), for at most ten minutes.
    pub fn settle(&mut self) {
        let limit = self.now + Duration::from_secs(600);
        let quiet = Duration::from_secs(2);
        let mut last = (self.captured.len(), self.now);
        loop {
            self.flush();
            if self.captured.len() != last.0 {
                last = (self.captured.len(), self.now);
            }
            let end = limit.min(last.1 + quiet);
            if self.network.on_their_way() == 0 && self.next_time().is_none_or(|next| next > end) {
                return;
            }
            if self.now > limit {
                return;
            }
            self.step();
        }
    }

    fn deliver(&mut self, datagram: Carried) {
        let to = if self.a.addresses.contains(&datagram.destination.ip()) { Side::A } else { Side::B };
        if self.stalls.stalls(to) {
            self.stalls.keep(to, datagram);
        } else {
            self.hand_over(&datagram);
        }
    }

    fn hand_over(&mut self, datagram: &Carried) {
        let now = self.now;
        for peer in [&mut self.a, &mut self.b] {
            if datagram.destination.port() == peer.port && peer.addresses.contains(&datagram.destination.ip())
            {
                let destination = Some(datagram.destination.ip());
                let datagram = Datagram {
                    source: datagram.source,
                    destination,
                    bytes: &datagram.bytes,
                    ecn: datagram.ecn,
                };
                peer.endpoint.handle_datagram(now, datagram);
            }
        }
    }

    /// Takes events and transmits on both sides until neither has more.
    fn flush(&mut self) {
        for side in self.stalls.running(self.now) {
            loop {
                let (now, segments) = (self.now, self.segments_max);
                let mut buffer = core::mem::take(&mut self.buffer);
                let peer = self.side(side);
                while let Some(event) = peer.endpoint.poll_event() {
                    peer.events.push_back(event);
                }
                let transmit = peer.endpoint.poll_transmit(now, &mut buffer, segments);
                let source = transmit.map_or(peer.addresses[0], |transmit| peer.source_of(&transmit));
                let source = SocketAddr::new(source, peer.port);
                if let Some(transmit) = transmit {
                    for bytes in buffer[..transmit.len].chunks(transmit.segment_size.max(1)) {
                        let destination = transmit.destination;
                        let fragment = transmit.fragment.filter(|_| self.fragments);
                        let ecn = if transmit.ecn_capable { ECN_CAPABLE } else { 0 };
                        let bytes = Bytes::copy_from_slice(bytes);
                        self.transmit(side, Carried { source, destination, bytes, fragment, ecn });
                    }
                }
                self.buffer = buffer;
                if transmit.is_none() {
                    break;
                }
            }
        }
    }

    fn transmit(&mut self, from: Side, datagram: Carried) {
        let mut carried = datagram.clone();
        carried.ecn = match self.ecn_path {
            EcnPath::MarksAll if datagram.ecn != 0 => CONGESTION_EXPERIENCED,
            EcnPath::Clears => 0,
            _ => datagram.ecn,
        };
        if self.ignores_i_bits == Some(from.other()) {
            carried.bytes = without_i_bits(&carried.bytes);
        }
        let fate = match Packet::parse(&datagram.bytes) {
            Ok(_) if self.ecn_path == EcnPath::Drops && datagram.ecn != 0 => Fate::Drop,
            Ok(packet) => self.fate(from, &packet),
            Err(_) => Fate::Pass,
        };
        let now = self.now;
        let delivered = match fate {
            Fate::Pass => matches!(self.network.send(now, carried.clone()), Verdict::Delivered(_)),
            Fate::Drop => false,
            Fate::Mark => {
                carried.ecn = if datagram.ecn == 0 { 0 } else { CONGESTION_EXPERIENCED };
                matches!(self.network.send(now, carried), Verdict::Delivered(_))
            }
            Fate::Duplicate => {
                let first = self.network.send(now, carried.clone());
                let second = self.network.send(now, carried.clone());
                [first, second].iter().any(|verdict| matches!(verdict, Verdict::Delivered(_)))
            }
            Fate::Delay(delay) => {
                self.network.put(now + delay, carried.clone());
                true
            }
        };
        self.captured.push(Captured { at: now, from, datagram, delivered });
    }

    fn fate(&mut self, from: Side, packet: &Packet<'_>) -> Fate {
        let mut fates = self.filters.iter_mut().rev().map(|filter| filter(from, packet));
        fates.find(|fate| *fate != Fate::Pass).unwrap_or(Fate::Pass)
    }
}
