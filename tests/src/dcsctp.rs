//! An endpoint of the engine and a dcsctp socket in one process, joined by a link of fixed delay and
//! configurable loss, in virtual time.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use dcsctp::api::{
    DcSctpSocket, LifecycleId, Message as DcMessage, Options, PpId, SendOptions, SocketEvent, SocketTime,
    StreamId, ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_NONE,
};
use strandline_proto::config::{
    AssociationConfig, EndpointConfig, ErrorDetectionMethod, ExtensionsConfig, StreamScheduler,
};
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{AssociationId, CloseReason, Datagram, Event, Message};
use strandline_proto::reconfiguration::PeerRequests;
use strandline_proto::reliability::Reliability;
use strandline_proto::time::Time;
use strandline_wire::Packet;

use crate::driver::note;
use crate::dynamic::Opened;
use crate::random::Random;
use crate::traffic::{Expected, Planned, check_limits, take_whole};

/// SCTP port of both sides.
pub const SCTP_PORT: u16 = 5000;
/// Address of the dcsctp socket, as the endpoint sees it.
pub const DCSCTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 9899);
/// One-way delay of the link.
const DELAY: Duration = Duration::from_millis(10);
/// Maximum virtual time of one step of a test. dcsctp backs off to a minute: with every fifth packet lost, 60
/// messages from it took up to 14.
const TIMEOUT: Duration = Duration::from_secs(3_600);

/// The destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Endpoint,
    Dcsctp,
}

/// Both sides and the packets in flight.
pub struct World {
    /// The engine's side. Tests can give it commands directly; `until` carries out their effects.
    pub endpoint: Endpoint,
    /// The dcsctp socket.
    pub dcsctp: Box<dyn DcSctpSocket>,
    now: Time,
    /// Time when the dcsctp socket was created, which is the origin of its time.
    dcsctp_origin: Time,
    flying: VecDeque<(Time, To, Vec<u8>)>,
    events: VecDeque<(AssociationId, Event)>,
    dcsctp_events: Vec<SocketEvent>,
    buffer: Vec<u8>,
    random: Random,
    loss_per_mille: u32,
    seed: u8,
    zero_checksum: ZeroChecksum,
    extensions: ExtensionsConfig,
    /// Types of the chunks that dcsctp has sent, those of lost packets included.
    pub kinds_sent: BTreeSet<u8>,
    log: VecDeque<String>,
}

/// Prints the last packets of a failing test in the manner of tcpdump.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.log.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("World");
        shown.field("now", &self.now).field("events", &self.events).field("dcsctp", &self.dcsctp_events);
        shown.finish_non_exhaustive()
    }
}

/// The sides that accept packets without checksum (RFC 9653).
#[derive(Debug, Clone, Copy, Default)]
pub struct ZeroChecksum {
    /// Whether the engine accepts them.
    pub engine: bool,
    /// Whether dcsctp accepts them.
    pub dcsctp: bool,
}

fn new_dcsctp(zero_checksum: bool, interleaving: bool) -> Box<dyn DcSctpSocket> {
    let options = Options {
        zero_checksum_alternate_error_detection_method: if zero_checksum {
            ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS
        } else {
            ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_NONE
        },
        enable_message_interleaving: interleaving,
        max_message_size: 4 << 20,
        max_send_buffer_size: 8 << 20,
        per_stream_send_queue_limit: 8 << 20,
        ..Options::default()
    };
    dcsctp::new_socket("peer", &options)
}

fn new_endpoint(seed: u8, zero_checksum: bool, extensions: ExtensionsConfig, now: Time) -> Endpoint {
    let zero_checksum = zero_checksum.then_some(ErrorDetectionMethod::SctpOverDtls);
    let extensions = ExtensionsConfig { zero_checksum, ..extensions };
    let stream_scheduler =
        if extensions.interleaving { StreamScheduler::RoundRobin } else { StreamScheduler::default() };
    let association = AssociationConfig { extensions, stream_scheduler, ..AssociationConfig::default() };
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::new(config, [seed; 32], now).expect("the configuration is valid");
    endpoint.listen(SCTP_PORT).expect("nobody else listens");
    endpoint
}

impl World {
    /// Creates both sides, without an association; the endpoint listens.
    #[must_use]
    pub fn new(seed: u8) -> Self {
        Self::with(seed, ZeroChecksum::default())
    }

    /// An endpoint with zero checksums where the sides want them.
    #[must_use]
    pub fn with(seed: u8, zero_checksum: ZeroChecksum) -> Self {
        Self::create(seed, zero_checksum, ExtensionsConfig::default())
    }

    /// An endpoint that offers these extensions besides. dcsctp interleaves messages (RFC 8260) if they include that.
    #[must_use]
    pub fn with_extensions(seed: u8, extensions: ExtensionsConfig) -> Self {
        Self::create(seed, ZeroChecksum::default(), extensions)
    }

    fn create(seed: u8, zero_checksum: ZeroChecksum, extensions: ExtensionsConfig) -> Self {
        let now = Time::ZERO;
        let extensions = ExtensionsConfig { peer_requests: PeerRequests::ALL, ..extensions };
        Self {
            endpoint: new_endpoint(seed, zero_checksum.engine, extensions, now),
            dcsctp: new_dcsctp(zero_checksum.dcsctp, extensions.interleaving),
            now,
            dcsctp_origin: now,
            flying: VecDeque::new(),
            events: VecDeque::new(),
            dcsctp_events: Vec::new(),
            buffer: vec![0; 2048],
            random: Random::new(u64::from(seed)),
            loss_per_mille: 0,
            seed,
            zero_checksum,
            extensions,
            kinds_sent: BTreeSet::new(),
            log: VecDeque::new(),
        }
    }

    /// Returns the virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Loses `per_mille` of 1,000 packets in each direction from now on.
    pub fn lose(&mut self, per_mille: u32) {
        self.loss_per_mille = per_mille;
    }

    /// Sets whether the dcsctp side accepts zero checksums after its next restart.
    pub fn set_dcsctp_zero_checksum(&mut self, wanted: bool) {
        self.zero_checksum.dcsctp = wanted;
    }

    /// Restarts the dcsctp side after a crash, without any state.
    pub fn restart_dcsctp(&mut self) {
        self.dcsctp = new_dcsctp(self.zero_checksum.dcsctp, self.extensions.interleaving);
        self.dcsctp_origin = self.now;
        self.dcsctp_events.clear();
    }

    /// Restarts the engine's side after a crash, without any state.
    pub fn restart_endpoint(&mut self) {
        self.seed = self.seed.wrapping_add(100);
        self.endpoint = new_endpoint(self.seed, self.zero_checksum.engine, self.extensions, self.now);
        self.events.clear();
    }

    /// Advances the simulation until `done` returns a value.
    ///
    /// # Panics
    /// If no event is left, or a virtual hour passes; the message names `what` was waited for.
    pub fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = self.now + TIMEOUT;
        loop {
            self.poll();
            if let Some(outcome) = done(self) {
                self.poll();
                return outcome;
            }
            let next = self.next_moment().unwrap_or_else(|| panic!("waited for {what}: {self:?}"));
            assert!(next < deadline, "waited for {what}: {self:?}");
            self.now = self.now.max(next);
            self.advance();
        }
    }

    fn next_moment(&self) -> Option<Time> {
        let dcsctp = self.dcsctp.poll_timeout();
        let dcsctp = (dcsctp != SocketTime::infinite_future())
            .then(|| self.dcsctp_origin + (dcsctp - SocketTime::zero()));
        let arrival = self.flying.front().map(|(at, ..)| *at);
        [self.endpoint.poll_timeout(), dcsctp, arrival].into_iter().flatten().min()
    }

    fn advance(&mut self) {
        while self.flying.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((_, to, bytes)) = self.flying.pop_front() else { break };
            match to {
                To::Dcsctp => self.dcsctp.handle_input(&bytes),
                To::Endpoint => {
                    let datagram = Datagram { source: DCSCTP, destination: None, bytes: &bytes, ecn: 0 };
                    self.endpoint.handle_datagram(self.now, datagram);
                }
            }
        }
        self.endpoint.handle_timeout(self.now);
        self.dcsctp.advance_time(SocketTime::zero() + self.now.since(self.dcsctp_origin));
    }

    /// Takes packets and events from both sides.
    fn poll(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            self.events.push_back(event);
        }
        while let Some(transmit) = self.endpoint.poll_transmit(self.now, &mut self.buffer, 1) {
            assert_eq!(transmit.destination, DCSCTP);
            let bytes = self.buffer[..transmit.len].to_vec();
            self.fly(To::Dcsctp, bytes);
        }
        while let Some(event) = self.dcsctp.poll_event() {
            match event {
                SocketEvent::SendPacket(bytes) => {
                    if let Ok(packet) = Packet::parse(&bytes) {
                        self.kinds_sent.extend(packet.chunks().flatten().map(|chunk| chunk.kind));
                    }
                    self.fly(To::Endpoint, bytes);
                }
                other => self.dcsctp_events.push(other),
            }
        }
    }

    fn fly(&mut self, to: To, bytes: Vec<u8>) {
        let lost = self.random.per_mille(self.loss_per_mille);
        let way = if to == To::Dcsctp { ">" } else { "<" };
        note(&mut self.log, self.now, way, DCSCTP, lost, &bytes);
        if !lost {
            self.flying.push_back((self.now + DELAY, to, bytes));
        }
    }
}

/// Operations of tests on the association.
impl World {
    /// Connects from the engine.
    ///
    /// # Panics
    /// If the association isn't established.
    pub fn connect(&mut self) -> AssociationId {
        let request = Connect { local_port: SCTP_PORT, ..Connect::to(DCSCTP, SCTP_PORT) };
        let id = self.endpoint.connect(self.now, request).expect("the request is valid");
        self.established();
        self.dcsctp_event("OnConnected", |event| matches!(event, SocketEvent::OnConnected()));
        id
    }

    /// Connects from dcsctp.
    pub fn accept(&mut self) -> AssociationId {
        self.dcsctp.connect();
        let id = self.established();
        self.dcsctp_event("OnConnected", |event| matches!(event, SocketEvent::OnConnected()));
        id
    }

    fn established(&mut self) -> AssociationId {
        self.event("Established", |id, event| matches!(event, Event::Established { .. }).then_some(id))
    }

    /// Waits for an event of the engine; earlier events are discarded.
    pub fn event<T>(&mut self, what: &str, mut wanted: impl FnMut(AssociationId, &Event) -> Option<T>) -> T {
        self.until(what, |world| {
            while let Some((id, event)) = world.events.pop_front() {
                if let Some(outcome) = wanted(id, &event) {
                    return Some(outcome);
                }
            }
            None
        })
    }

    /// Waits for an event of dcsctp; earlier events are discarded.
    pub fn dcsctp_event(&mut self, what: &str, wanted: impl Fn(&SocketEvent) -> bool) {
        self.until(what, |world| {
            let at = world.dcsctp_events.iter().position(&wanted)?;
            world.dcsctp_events.drain(..=at);
            Some(())
        });
    }

    /// Waits for the end of the association, as reported by the engine.
    pub fn closed(&mut self, id: AssociationId) -> CloseReason {
        self.event("Closed", |of, event| match event {
            Event::Closed(reason) if of == id => Some(reason.clone()),
            _ => None,
        })
    }

    /// Sends the messages of the plan from the engine, and waits until dcsctp has received all of them.
    pub fn send_to_dcsctp(&mut self, id: AssociationId, plan: &[Planned]) {
        let mut expected = Expected::new(plan);
        let mut unsent: VecDeque<&Planned> = plan.iter().collect();
        self.until("messages at dcsctp", |world| {
            while let Some(next) = unsent.front() {
                if world.endpoint.send(world.now, id, next.info(), next.data()).is_err() {
                    break;
                }
                unsent.pop_front();
            }
            while let Some(message) = world.dcsctp.get_next_message() {
                expected.take(&as_message(message));
            }
            expected.is_done().then_some(())
        });
    }

    /// Sends the messages of the plan from dcsctp, and waits until the engine has received all of them.
    ///
    /// # Panics
    /// If dcsctp refuses a message.
    pub fn send_to_engine(&mut self, id: AssociationId, plan: &[Planned]) {
        let mut expected = Expected::new(plan);
        let mut parts: Vec<Message> = Vec::new();
        for planned in plan {
            let options = SendOptions { unordered: planned.unordered, ..SendOptions::default() };
            let payload = planned.data().to_vec();
            let message = DcMessage::new(StreamId(planned.stream), PpId(planned.number + 1), payload);
            self.dcsctp.send(message, &options).expect("its send buffer is large enough");
        }
        self.until("messages at the engine", |world| {
            while let Some(part) = world.endpoint.recv(world.now, id) {
                parts.push(part);
                if let Some(whole) = take_whole(&mut parts) {
                    expected.take(&whole);
                }
            }
            expected.is_done().then_some(())
        });
    }
}

/// Streams that are opened and closed at run time.
impl World {
    /// Takes the engine's events, and notes those that concern the streams.
    pub fn note_dynamic(&mut self, opened: &mut Opened) {
        self.events.drain(..).for_each(|(_, event)| opened.note(&event));
    }

    /// Takes dcsctp's reports of the engine's resets. Returns their streams.
    pub fn incoming_resets(&mut self) -> impl Iterator<Item = StreamId> {
        let is_reset = |event: &mut SocketEvent| matches!(event, SocketEvent::OnIncomingStreamReset(_));
        let resets: Vec<_> = self.dcsctp_events.extract_if(.., is_reset).collect();
        resets.into_iter().flat_map(|event| match event {
            SocketEvent::OnIncomingStreamReset(streams) => streams,
            _ => Vec::new(),
        })
    }
}

/// Messages that are given up (RFC 3758).
impl World {
    /// Sends messages with a limit from the engine. Each arrives, or is reported as given up. Those of a
    /// stream stay in order.
    ///
    /// # Panics
    /// If that isn't so, or nothing was given up.
    pub fn send_to_dcsctp_with_limits(&mut self, id: AssociationId, plan: &[Planned], limit: Reliability) {
        let mut unsent: VecDeque<&Planned> = plan.iter().collect();
        let (mut received, mut failed, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
        self.until("all messages have arrived or failed", |world| {
            while let Some(next) = unsent.front() {
                let info = next.info().reliability(limit);
                if world.endpoint.send(world.now, id, info, next.data()).is_err() {
                    break;
                }
                unsent.pop_front();
            }
            while let Some(message) = world.dcsctp.get_next_message() {
                let message = as_message(message);
                plan[message.ppid.0 as usize - 1].assert_is(&message);
                known.insert(message.ppid.0);
                received.push(message.ppid.0);
            }
            for (_, event) in world.events.drain(..) {
                let Event::SendFailed(report) = event else { continue };
                known.insert(report.info.ppid.0);
                failed.push(report.info.ppid.0);
            }
            (known.len() == plan.len()).then_some(())
        });
        check_limits(plan, &received, Some(&failed));
    }

    /// Sends messages with a limit from dcsctp, `batch_len` at a time. Each arrives, or dcsctp reports that
    /// it has given it up. Those of a stream stay in order.
    ///
    /// # Panics
    /// If that isn't so, or nothing was given up.
    pub fn send_to_engine_with_limits(
        &mut self,
        id: AssociationId,
        plan: &[Planned],
        batch_len: usize,
        limit: &SendOptions,
    ) {
        let (mut received, mut failed, mut ended) = (Vec::new(), Vec::new(), 0);
        let mut parts: Vec<Message> = Vec::new();
        for (index, batch) in plan.chunks(batch_len).enumerate() {
            for planned in batch {
                let SendOptions { unordered, lifetime, max_retransmissions, .. } = *limit;
                let lifecycle_id = LifecycleId::new(u64::from(planned.number) + 1);
                let options = SendOptions { unordered, lifetime, max_retransmissions, lifecycle_id };
                let payload = planned.data().to_vec();
                let message = DcMessage::new(StreamId(planned.stream), PpId(planned.number + 1), payload);
                self.dcsctp.send(message, &options).expect("its send buffer is large enough");
            }
            let given = index * batch_len + batch.len();
            self.until("all messages have arrived or failed", |world| {
                while let Some(part) = world.endpoint.recv(world.now, id) {
                    parts.push(part);
                    if let Some(whole) = take_whole(&mut parts) {
                        plan[whole.ppid.0 as usize - 1].assert_is(&whole);
                        received.push(whole.ppid.0);
                    }
                }
                for event in world.dcsctp_events.drain(..) {
                    match event {
                        SocketEvent::OnLifecycleMessageExpired(id)
                        | SocketEvent::OnLifecycleMessageMaybeExpired(id) => {
                            failed.push(u32::try_from(id.value()).expect("it is a number of the plan"));
                        }
                        SocketEvent::OnLifecycleEnd(_) => ended += 1,
                        _ => {}
                    }
                }
                (ended == given).then_some(())
            });
        }
        check_limits(plan, &received, Some(&failed));
    }
}

/// dcsctp reports neither TSN nor order.
fn as_message(message: DcMessage) -> Message {
    use strandline_wire::number::{Ppid, StreamId};
    Message::whole(StreamId(message.stream_id.0), Ppid(message.ppid.0), message.payload.into())
}
