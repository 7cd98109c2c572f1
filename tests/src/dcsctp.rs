//! An endpoint of the engine and a dcsctp socket in one process, joined by a link of fixed delay and chosen loss, in
//! virtual time: nothing here waits.

use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use dcsctp::api::{
    DcSctpSocket, Message as DcMessage, Options, PpId, SendOptions, SocketEvent, SocketTime, StreamId,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_NONE,
};
use strandline_proto::config::{AssociationConfig, EndpointConfig, ErrorDetectionMethod};
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{AssociationId, CloseReason, Datagram, Event, Message};
use strandline_proto::time::Time;

use crate::random::Random;
use crate::traffic::{Expected, Planned};

/// The SCTP port of both sides.
pub const SCTP_PORT: u16 = 5000;
/// Where the dcsctp socket is, as the endpoint sees it.
pub const DCSCTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 9899);
/// Time that a packet takes.
const DELAY: Duration = Duration::from_millis(10);
/// No step of a test may take longer, in virtual time.
/// dcsctp backs off to a minute: with every fifth packet lost 60 messages from it took up to 14.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Endpoint,
    Dcsctp,
}

/// Both sides and the packets between them.
pub struct World {
    /// The engine's side. Commands can be given to it directly; `until` carries out what they cause.
    pub endpoint: Endpoint,
    /// The other side.
    pub dcsctp: Box<dyn DcSctpSocket>,
    now: Time,
    /// When the dcsctp socket was made: its time starts there.
    dcsctp_origin: Time,
    flying: VecDeque<(Time, To, Vec<u8>)>,
    events: VecDeque<(AssociationId, Event)>,
    dcsctp_events: Vec<SocketEvent>,
    buffer: Vec<u8>,
    random: Random,
    loss_per_mille: u32,
    seed: u8,
    zero_checksum: ZeroChecksum,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("World");
        shown.field("now", &self.now).field("events", &self.events).field("dcsctp", &self.dcsctp_events);
        shown.finish_non_exhaustive()
    }
}

/// Which sides say that they take packets without checksum (RFC 9653).
#[derive(Debug, Clone, Copy, Default)]
pub struct ZeroChecksum {
    /// The engine.
    pub engine: bool,
    /// dcsctp.
    pub dcsctp: bool,
}

fn new_dcsctp(zero_checksum: bool) -> Box<dyn DcSctpSocket> {
    let options = Options {
        zero_checksum_alternate_error_detection_method: if zero_checksum {
            ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS
        } else {
            ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_NONE
        },
        max_message_size: 4 << 20,
        max_send_buffer_size: 8 << 20,
        per_stream_send_queue_limit: 8 << 20,
        ..Options::default()
    };
    dcsctp::new_socket("peer", &options)
}

fn new_endpoint(seed: u8, zero_checksum: bool, now: Time) -> Endpoint {
    let method = zero_checksum.then_some(ErrorDetectionMethod::SctpOverDtls);
    let association = AssociationConfig { zero_checksum: method, ..AssociationConfig::default() };
    let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
    let mut endpoint = Endpoint::new(config, [seed; 32], now).expect("the configuration is valid");
    endpoint.listen(SCTP_PORT).expect("nobody else listens");
    endpoint
}

impl World {
    /// Both sides, without an association; the endpoint listens.
    #[must_use]
    pub fn new(seed: u8) -> Self {
        Self::with(seed, ZeroChecksum::default())
    }

    /// An endpoint with zero checksums where the sides want them.
    #[must_use]
    pub fn with(seed: u8, zero_checksum: ZeroChecksum) -> Self {
        let now = Time::ZERO;
        Self {
            endpoint: new_endpoint(seed, zero_checksum.engine, now),
            dcsctp: new_dcsctp(zero_checksum.dcsctp),
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
        }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Loses so many of 1,000 packets in each direction from now on.
    pub fn lose(&mut self, per_mille: u32) {
        self.loss_per_mille = per_mille;
    }

    /// The dcsctp side wants this from its next life on.
    pub fn set_dcsctp_zero_checksum(&mut self, wanted: bool) {
        self.zero_checksum.dcsctp = wanted;
    }

    /// The dcsctp side crashes and starts anew, without memory.
    pub fn restart_dcsctp(&mut self) {
        self.dcsctp = new_dcsctp(self.zero_checksum.dcsctp);
        self.dcsctp_origin = self.now;
        self.dcsctp_events.clear();
    }

    /// The engine's side crashes and starts anew, without memory.
    pub fn restart_endpoint(&mut self) {
        self.seed = self.seed.wrapping_add(100);
        self.endpoint = new_endpoint(self.seed, self.zero_checksum.engine, self.now);
        self.events.clear();
    }

    /// Goes on until `done` gives something.
    ///
    /// # Panics
    /// If nothing is left to happen, or a virtual hour passes; names `what` was waited for.
    pub fn until<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let deadline = self.now + PATIENCE;
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

    /// Takes out of both what they want to send and to tell.
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
                SocketEvent::SendPacket(bytes) => self.fly(To::Endpoint, bytes),
                other => self.dcsctp_events.push(other),
            }
        }
    }

    fn fly(&mut self, to: To, bytes: Vec<u8>) {
        if !self.random.per_mille(self.loss_per_mille) {
            self.flying.push_back((self.now + DELAY, to, bytes));
        }
    }
}

/// What tests do with the association.
impl World {
    /// The engine connects.
    ///
    /// # Panics
    /// If it does not come to be.
    pub fn connect(&mut self) -> AssociationId {
        let request = Connect { local_port: SCTP_PORT, ..Connect::to(DCSCTP, SCTP_PORT) };
        let id = self.endpoint.connect(self.now, request).expect("the request is valid");
        self.established();
        self.dcsctp_event("OnConnected", |event| matches!(event, SocketEvent::OnConnected()));
        id
    }

    /// dcsctp connects.
    pub fn accept(&mut self) -> AssociationId {
        self.dcsctp.connect();
        let id = self.established();
        self.dcsctp_event("OnConnected", |event| matches!(event, SocketEvent::OnConnected()));
        id
    }

    fn established(&mut self) -> AssociationId {
        self.event("Established", |id, event| matches!(event, Event::Established { .. }).then_some(id))
    }

    /// Waits for an event of the engine; those before it are forgotten.
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

    /// Waits for an event of dcsctp; those before it are forgotten.
    pub fn dcsctp_event(&mut self, what: &str, wanted: impl Fn(&SocketEvent) -> bool) {
        self.until(what, |world| {
            let at = world.dcsctp_events.iter().position(&wanted)?;
            world.dcsctp_events.drain(..=at);
            Some(())
        });
    }

    /// Waits for the end of the association, as the engine tells it.
    pub fn closed(&mut self, id: AssociationId) -> CloseReason {
        self.event("Closed", |of, event| match event {
            Event::Closed(reason) if of == id => Some(reason.clone()),
            _ => None,
        })
    }

    /// The engine sends the plan, dcsctp gets all of it.
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

    /// dcsctp sends the plan, the engine gets all of it.
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
                if parts.last().is_some_and(|last| last.ends) {
                    expected.take(&join(&mut parts));
                }
            }
            expected.is_done().then_some(())
        });
    }
}

/// The parts of a message as one.
fn join(parts: &mut Vec<Message>) -> Message {
    let data: Vec<u8> = parts.iter().flat_map(|part| part.data.iter().copied()).collect();
    let mut whole = parts.first().expect("at least one part").clone();
    whole.data = data.into();
    whole.ends = true;
    parts.clear();
    whole
}

/// dcsctp tells neither TSN nor order.
fn as_message(message: DcMessage) -> Message {
    use strandline_wire::number::{Ppid, Ssn, StreamId, Tsn};
    Message {
        stream: StreamId(message.stream_id.0),
        ssn: Ssn(0),
        tsn: Tsn(0),
        ppid: Ppid(message.ppid.0),
        unordered: false,
        begins: true,
        ends: true,
        data: message.payload.into(),
    }
}
