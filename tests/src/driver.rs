//! An endpoint of the engine on a real socket, driven by the test itself, without a runtime.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket, sockopt};
use strandline_io::{
    Carrier, IcmpKind as Icmp, Outgoing, RawCarrier, RawOptions, RecvBatch, UdpCarrier, UdpOptions,
};
use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{
    AssociationId, CloseReason, Datagram, Event, IcmpError, IcmpKind, Message, SendInfo,
};
use strandline_proto::stats::Reachability;
use strandline_proto::time::Time;
use strandline_wire::Packet;
use strandline_wire::chunk::{Chunk, RawChunk, kind};

use crate::random::Random;
use crate::traffic::{Expected, Planned, take_whole};

/// Maximum time of one step of a test. Peers whose T3-rtx has backed off under losses may pause for a minute.
pub const TIMEOUT: Duration = Duration::from_secs(180);
/// The ECN bits of the IP header that a router sets (RFC 3168 section 5).
const CONGESTION_EXPERIENCED: u8 = 3;
/// Maximum number of packets of one burst.
const SEGMENTS_MAX: usize = 16;
/// Number of packets kept for the output of a failing test.
const LOG_MAX: usize = 60;

/// An endpoint and its carrier.
#[derive(Debug)]
pub struct Driver {
    /// The endpoint. Tests can give it commands directly; `run` sends the resulting packets.
    pub endpoint: Endpoint,
    carrier: Box<dyn Carrier>,
    batch: RecvBatch,
    buffer: Vec<u8>,
    origin: Instant,
    /// What the endpoint reported and no step of the test has taken.
    pub events: VecDeque<(AssociationId, Event)>,
    loss_per_mille: u32,
    random: Random,
    cut: Vec<IpAddr>,
    /// An address of this side, and the one that a NAT puts in its place.
    translation: Option<(IpAddr, IpAddr)>,
    /// Every such received packet is treated as marked by the network; 0: none.
    mark_every: usize,
    received: usize,
    /// Sends packets with the mark of a congested router, and every how many of those that may be marked.
    marked: Option<(OwnedFd, usize)>,
    /// Number of packets sent as ECN-capable.
    pub ecn_capable_sent: usize,
    /// Types of the chunks received.
    pub kinds_received: BTreeSet<u8>,
    /// Types of the chunks that were lost on the way to this side.
    pub kinds_lost: BTreeSet<u8>,
    /// Identifiers of the algorithms of the AUTH chunks received.
    pub hmacs_received: BTreeSet<u16>,
    /// Those of the AUTH chunks sent.
    pub hmacs_sent: BTreeSet<u16>,
    /// Identifiers of the keys of the AUTH chunks received.
    pub keys_received: BTreeSet<u16>,
    /// Number of packets with data sent to each address of the peer, and received at each of this side's.
    pub data_packets: BTreeMap<IpAddr, usize>,
    /// Types of chunks that must be authenticated: it is a failure if one arrives otherwise.
    pub demanded: BTreeSet<u8>,
    log: VecDeque<String>,
    /// PPIDs of the messages that were reported as not delivered.
    pub failed: Vec<u32>,
}

/// Prints the last packets of a failing test in the manner of tcpdump.
impl Drop for Driver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.log.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl Driver {
    /// Creates a driver on a UDP socket at this address. The seed must differ between restarts of what a peer
    /// takes for one endpoint.
    ///
    /// # Panics
    /// If the socket can't be opened or the configuration is invalid.
    #[must_use]
    pub fn udp(address: SocketAddr, config: EndpointConfig, seed: u8) -> Self {
        let carrier = UdpCarrier::bind(address, &UdpOptions::default()).expect("a UDP socket");
        Self::new(Box::new(carrier), EndpointConfig { encapsulation_overhead: 8, ..config }, seed)
    }

    /// Creates a driver on a raw socket for protocol 132, which other sockets share.
    ///
    /// # Panics
    /// Without the privilege, or if the configuration is invalid.
    #[must_use]
    pub fn raw(address: IpAddr, config: EndpointConfig, seed: u8) -> Self {
        let carrier = RawCarrier::open(address, &RawOptions::default()).expect("a raw socket");
        let config = EndpointConfig { encapsulation_overhead: 0, owns_all_ports: false, ..config };
        Self::new(Box::new(carrier), config, seed)
    }

    fn new(carrier: Box<dyn Carrier>, config: EndpointConfig, seed: u8) -> Self {
        let endpoint = Endpoint::new(config, [seed; 32], Time::ZERO).expect("the configuration is valid");
        Self {
            endpoint,
            carrier,
            batch: RecvBatch::new(16),
            buffer: vec![0; 64 << 10],
            origin: Instant::now(),
            events: VecDeque::new(),
            loss_per_mille: 0,
            random: Random::new(u64::from(seed)),
            cut: Vec::new(),
            translation: None,
            mark_every: 0,
            received: 0,
            marked: None,
            ecn_capable_sent: 0,
            kinds_received: BTreeSet::new(),
            kinds_lost: BTreeSet::new(),
            hmacs_received: BTreeSet::new(),
            hmacs_sent: BTreeSet::new(),
            keys_received: BTreeSet::new(),
            data_packets: BTreeMap::new(),
            demanded: BTreeSet::new(),
            log: VecDeque::new(),
            failed: Vec::new(),
        }
    }

    /// Moves to another UDP port, as a NAT does that has forgotten the mapping (RFC 6951). The old one is closed.
    ///
    /// # Panics
    /// If the socket can't be opened.
    pub fn rebind(&mut self) {
        let address = SocketAddr::new(self.local_addr().ip(), 0);
        self.carrier = Box::new(UdpCarrier::bind(address, &UdpOptions::default()).expect("a UDP socket"));
    }

    /// Loses `per_mille` of 1,000 packets in each direction from now on.
    pub fn lose(&mut self, per_mille: u32) {
        self.loss_per_mille = per_mille;
    }

    /// Forgets what AUTH chunks received have named, and the types of the chunks received.
    pub fn forget_received(&mut self) {
        self.kinds_received.clear();
        self.hmacs_received.clear();
        self.keys_received.clear();
    }

    /// Loses all packets to these addresses, this side's or the peer's, until `heal`.
    pub fn cut(&mut self, addresses: &[IpAddr]) {
        self.cut.extend(addresses);
    }

    /// Puts a NAT between this side and the peers: packets from `inside` come from `outside`, which packets
    /// are sent to in turn.
    pub fn translate(&mut self, inside: IpAddr, outside: IpAddr) {
        self.translation = Some((inside, outside));
    }

    /// Treats every `nth` received packet from now on as marked by the network (ECN); 0: none.
    pub fn mark_every(&mut self, nth: usize) {
        self.mark_every = nth;
    }

    /// Marks every `nth` packet sent from now on over raw IPv4, of those that may be marked, as congested
    /// routers do (ECN); 0: none.
    ///
    /// # Panics
    /// Without the privilege.
    pub fn mark_sent(&mut self, nth: usize) {
        self.marked = (nth > 0).then(|| (marking_socket().expect("a raw socket"), nth));
    }

    /// Ends the effect of `cut`.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Returns the endpoint's time.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    /// Returns the carrier's own address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.carrier.local_addr()
    }

    /// Sends and receives until `done` returns a value.
    ///
    /// # Panics
    /// After [`TIMEOUT`]; the message names `what` was waited for.
    pub fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.turn();
            if let Some(outcome) = done(self) {
                self.turn();
                return outcome;
            }
            assert!(Instant::now() < deadline, "waited for {what}; events: {:?}", self.events);
            self.wait(Duration::from_millis(50));
        }
    }

    /// Sends and receives for the given duration.
    pub fn run_for(&mut self, duration: Duration) {
        let deadline = Instant::now() + duration;
        while Instant::now() < deadline {
            self.turn();
            self.wait(deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
        }
    }

    /// Sends and receives on the calling thread while another one waits for a peer's line.
    ///
    /// # Panics
    /// If `wait` fails, or after [`TIMEOUT`].
    pub fn while_waiting<T: Send>(&mut self, wait: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(wait);
            let deadline = Instant::now() + TIMEOUT + Duration::from_secs(5);
            while !waiting.is_finished() && Instant::now() < deadline {
                self.turn();
                self.wait(Duration::from_millis(5));
            }
            match waiting.join() {
                Ok(outcome) => outcome,
                Err(reason) => std::panic::resume_unwind(reason),
            }
        })
    }

    /// Runs one round: timers, events, packets out, packets in.
    fn turn(&mut self) {
        loop {
            let now = self.now();
            if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
                self.endpoint.handle_timeout(now);
            }
            while let Some((id, event)) = self.endpoint.poll_event() {
                match event {
                    // The callers check for messages and room in each round anyway.
                    Event::Readable | Event::Writable | Event::StreamWritable { .. } => {}
                    Event::SendFailed(failed) => self.failed.push(failed.info.ppid.0),
                    other => self.events.push_back((id, other)),
                }
            }
            self.transmit(now);
            self.take_errors(now);
            if !self.receive(now) {
                return;
            }
        }
    }

    fn transmit(&mut self, now: Time) {
        let segments = self.carrier.segments_max().min(SEGMENTS_MAX);
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.buffer, segments) {
            if self.cut.contains(&transmit.destination.ip()) {
                continue;
            }
            for packet in self.buffer[..transmit.len].chunks(transmit.segment_size) {
                self.ecn_capable_sent += usize::from(transmit.ecn_capable);
                let lost = self.random.per_mille(self.loss_per_mille);
                note(&mut self.log, now, ">", transmit.destination, lost, packet);
                if lost {
                    continue;
                }
                for chunk in chunks(packet) {
                    if let Ok(Chunk::Auth(auth)) = chunk.parse() {
                        self.hmacs_sent.insert(auth.hmac);
                    }
                }
                let has_data = chunks(packet).any(|chunk| is_data(&chunk));
                *self.data_packets.entry(transmit.destination.ip()).or_default() += usize::from(has_data);
                if let Some((socket, nth)) = &self.marked
                    && transmit.ecn_capable
                    && self.ecn_capable_sent.is_multiple_of(*nth)
                {
                    let _ = sendto(socket, packet, SendFlags::empty(), &transmit.destination);
                    continue;
                }
                let mut outgoing = Outgoing::packet(transmit.destination, packet);
                outgoing.source = self.translation.map(|(_, outside)| outside).or(transmit.source);
                outgoing.fragment = transmit.fragment;
                outgoing.ecn_capable = transmit.ecn_capable;
                // A full socket buffer loses the packet, as any queue does.
                let _ = self.carrier.send(&mut outgoing);
            }
        }
    }

    fn receive(&mut self, now: Time) -> bool {
        if self.carrier.recv(&mut self.batch).is_err() {
            return false;
        }
        for (received, packet) in self.batch.packets() {
            // The cut applies to the destination address of a packet, whatever its source.
            let wire = received.destination.unwrap_or(received.source.ip());
            let cut = self.cut.contains(&wire);
            let lost = cut || self.random.per_mille(self.loss_per_mille);
            note(&mut self.log, now, "<", received.source, lost, packet);
            if lost {
                self.kinds_lost.extend(chunks(packet).map(|chunk| chunk.kind));
            } else {
                self.received += 1;
                let marked = self.mark_every > 0 && self.received.is_multiple_of(self.mark_every);
                let mut authenticated = false;
                for chunk in chunks(packet) {
                    self.kinds_received.insert(chunk.kind);
                    assert!(
                        authenticated || !self.demanded.contains(&chunk.kind),
                        "chunk type {}",
                        chunk.kind
                    );
                    if let Ok(Chunk::Auth(auth)) = chunk.parse() {
                        authenticated = true;
                        self.hmacs_received.insert(auth.hmac);
                        self.keys_received.insert(auth.key);
                    }
                    if let Some(here) = received.destination.filter(|_| is_data(&chunk)) {
                        *self.data_packets.entry(here).or_default() += 1;
                    }
                }
                let inside = self.translation.filter(|(_, outside)| received.destination == Some(*outside));
                let datagram = Datagram {
                    source: received.source,
                    destination: inside.map(|(inside, _)| inside).or(received.destination),
                    bytes: packet,
                    ecn: if marked { CONGESTION_EXPERIENCED } else { received.ecn.unwrap_or(0) },
                };
                self.endpoint.handle_datagram(now, datagram);
            }
        }
        true
    }

    fn take_errors(&mut self, now: Time) {
        let endpoint = &mut self.endpoint;
        self.carrier.poll_errors(&mut |report| {
            let kind = match report.kind {
                Icmp::PacketTooBig { mtu } => IcmpKind::PacketTooBig { mtu },
                Icmp::ProtocolUnreachable => IcmpKind::ProtocolUnreachable,
                Icmp::HostUnreachable => IcmpKind::HostUnreachable,
                Icmp::NoRoute => IcmpKind::NoRoute,
            };
            endpoint
                .handle_icmp(now, IcmpError { destination: report.destination, kind, quoted: report.quoted });
        });
    }

    fn wait(&self, longest: Duration) {
        let due = self.endpoint.poll_timeout().map_or(longest, |at| at.since(self.now()));
        let timeout = Timespec::try_from(longest.min(due)).expect("a short time");
        let mut fds = [PollFd::from_borrowed_fd(self.carrier.as_fd(), PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timeout));
    }
}

/// Returns a raw IPv4 socket whose packets have the mark of a congested router. What it receives is discarded.
fn marking_socket() -> rustix::io::Result<OwnedFd> {
    let made = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::SCTP))?;
    sockopt::set_ip_tos(&made, CONGESTION_EXPERIENCED)?;
    sockopt::set_socket_recv_buffer_size(&made, 0)?;
    Ok(made)
}

/// Returns the chunks of a packet as far as they are well-formed.
fn chunks(packet: &[u8]) -> impl Iterator<Item = RawChunk<'_>> {
    Packet::parse(packet).into_iter().flat_map(|packet| packet.chunks().flatten())
}

fn is_data(chunk: &RawChunk<'_>) -> bool {
    [kind::DATA, kind::I_DATA].contains(&chunk.kind)
}

/// Adds the line of a packet to what a failing test prints.
pub(crate) fn note(
    log: &mut VecDeque<String>,
    now: Time,
    way: &str,
    other: SocketAddr,
    lost: bool,
    packet: &[u8],
) {
    let shown = strandline_wire::print::line(packet).to_string();
    if shown.contains(": HEARTBEAT ") {
        return;
    }
    if log.len() == LOG_MAX {
        log.pop_front();
    }
    let lost = if lost { " LOST" } else { "" };
    log.push_back(format!("{now:?} {way} {other}{lost} {shown}"));
}

/// Operations of tests on associations.
impl Driver {
    /// Connects and waits until the association is established.
    ///
    /// # Panics
    /// If it isn't established.
    pub fn connect(&mut self, request: Connect) -> AssociationId {
        let id = self.endpoint.connect(self.now(), request).expect("the request is valid");
        self.event("Established", |of, event| (of == id && is_up(event)).then_some(id))
    }

    /// Waits for an association that a peer sets up.
    pub fn accept(&mut self) -> AssociationId {
        self.event("an incoming association", |id, event| {
            matches!(event, Event::Established { incoming: true, .. }).then_some(id)
        })
    }

    /// Waits for an event; earlier events are discarded.
    pub fn event<T>(&mut self, what: &str, mut wanted: impl FnMut(AssociationId, &Event) -> Option<T>) -> T {
        self.until(what, |driver| {
            let at = driver.events.iter().position(|(id, event)| wanted(*id, event).is_some())?;
            let (id, event) = driver.events.drain(..=at).next_back()?;
            wanted(id, &event)
        })
    }

    /// Returns whether such an event has occurred and was not waited for yet.
    #[must_use]
    pub fn has_event(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(|(_, event)| wanted(event))
    }

    /// Waits until the path to this address of the peer has the wanted state.
    pub fn path_is(&mut self, id: AssociationId, address: IpAddr, wanted: Reachability) {
        self.until(&format!("{address} {wanted:?}"), |driver| {
            let paths = driver.endpoint.paths(id)?;
            paths.iter().any(|path| path.address.ip() == address && path.state == wanted).then_some(())
        });
    }

    /// Waits for the end of the association.
    pub fn closed(&mut self, id: AssociationId) -> CloseReason {
        self.event("Closed", |of, event| match event {
            Event::Closed(reason) if of == id => Some(reason.clone()),
            _ => None,
        })
    }

    /// Sends every message, waiting for room in the buffer if necessary.
    ///
    /// # Panics
    /// If a message is refused.
    pub fn send_all(&mut self, id: AssociationId, plan: &[Planned]) {
        for planned in plan {
            self.send(id, planned.info(), planned.data());
        }
    }

    /// Sends a message once there is room.
    ///
    /// # Panics
    /// If it is refused.
    pub fn send(&mut self, id: AssociationId, info: SendInfo, data: bytes::Bytes) {
        self.until("room in the send buffer", |driver| {
            match driver.endpoint.send(driver.now(), id, info, data.clone()) {
                Ok(()) => Some(()),
                Err(strandline_proto::error::SendError::WouldBlock) => None,
                Err(error) => panic!("{error}; events: {:?}", driver.events),
            }
        });
    }

    /// Returns the next whole message; joins the parts of a partial delivery.
    pub fn recv(&mut self, id: AssociationId, parts: &mut Vec<Message>) -> Option<Message> {
        while let Some(message) = self.endpoint.recv(self.now(), id) {
            parts.push(message);
            if let Some(whole) = take_whole(parts) {
                return Some(whole);
            }
        }
        None
    }

    /// Waits until every message of the plan has arrived, each once, whole and in order.
    pub fn receive_all(&mut self, id: AssociationId, plan: &[Planned]) {
        let mut expected = Expected::new(plan);
        let mut parts = Vec::new();
        let what = format!("{} messages", plan.len());
        self.until(&what, |driver| {
            while let Some(message) = driver.recv(id, &mut parts) {
                expected.take(&message);
            }
            expected.is_done().then_some(())
        });
    }

    /// Sends the plan to a peer that echoes, and waits for all of it to come back.
    pub fn exchange(&mut self, id: AssociationId, plan: &[Planned]) {
        let mut expected = Expected::new(plan);
        let mut parts = Vec::new();
        let mut unsent: VecDeque<&Planned> = plan.iter().collect();
        let what = format!("the echo of {} messages", plan.len());
        self.until(&what, |driver| {
            while let Some(next) = unsent.front() {
                match driver.endpoint.send(driver.now(), id, next.info(), next.data()) {
                    Ok(()) => unsent.pop_front(),
                    Err(strandline_proto::error::SendError::WouldBlock) => break,
                    Err(error) => panic!("{error}; events: {:?}", driver.events),
                };
            }
            while let Some(message) = driver.recv(id, &mut parts) {
                expected.take(&message);
            }
            expected.is_done().then_some(())
        });
    }

    /// Echoes `count` messages of a peer.
    pub fn echo(&mut self, id: AssociationId, count: usize) {
        let (mut parts, mut waiting, mut echoed) = (Vec::new(), VecDeque::new(), 0);
        let what = format!("{count} messages to echo");
        self.until(&what, |driver| {
            while echoed + waiting.len() < count {
                let Some(message) = driver.recv(id, &mut parts) else { break };
                waiting.push_back(message);
            }
            while let Some(message) = waiting.front() {
                let info = SendInfo::like(message);
                if driver.endpoint.send(driver.now(), id, info, message.data.clone()).is_err() {
                    break;
                }
                waiting.pop_front();
                echoed += 1;
            }
            (echoed == count).then_some(())
        });
    }
}

fn is_up(event: &Event) -> bool {
    match event {
        Event::Established { .. } => true,
        Event::Closed(reason) => panic!("the association ended: {reason:?}"),
        _ => false,
    }
}
