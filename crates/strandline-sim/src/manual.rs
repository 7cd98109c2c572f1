//! One endpoint against hand-made packets, for rules about what a peer may not do.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{AssociationId, Datagram, Event, Message};
use strandline_proto::time::Time;
use strandline_wire::{
    Chunk, CookieAck, CookieEcho, Data, Init, InitAck, Packet, PacketBuilder, Parameter, Parameters, Ssn,
    StreamId, TlvWriter, Tsn, UDP_ENCAPSULATION_PORT, VerificationTag, print,
};

use crate::network::DATAGRAM_BUFFER_LEN;
use crate::random::Random;

/// The SCTP port of the hand-made peer.
pub const PEER_SCTP_PORT: u16 = 6000;

/// The SCTP port on which the endpoint listens.
pub const SCTP_PORT: u16 = 5000;

/// The receive window of the hand-made peer in bytes, and the number of its streams in each direction.
const A_RWND: u32 = 128 << 10;
const STREAMS: u16 = 16;

/// A packet that the endpoint transmitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// When it was sent.
    pub at: Time,
    /// The source address, if the endpoint set one.
    pub source: Option<IpAddr>,
    /// The destination.
    pub destination: SocketAddr,
    /// The packet.
    pub bytes: Bytes,
}

impl Sent {
    /// Returns the parsed packet.
    ///
    /// # Panics
    /// Panics if the bytes are no valid packet.
    #[must_use]
    pub fn packet(&self) -> Packet<'_> {
        Packet::parse(&self.bytes).expect("an endpoint sends packets")
    }

    /// Returns the parsed chunks.
    ///
    /// # Panics
    /// Panics if a chunk is malformed or the checksum is wrong.
    #[must_use]
    pub fn chunks(&self) -> Vec<Chunk<'_>> {
        assert!(self.packet().verify_checksum(), "checksum of {self}");
        self.packet().chunks().map(|raw| raw.expect("framed").parse().expect("well-formed")).collect()
    }

    /// Returns the types of the chunks, in order.
    #[must_use]
    pub fn chunk_kinds(&self) -> Vec<u8> {
        self.packet().chunks().flatten().map(|chunk| chunk.kind).collect()
    }
}

impl core::fmt::Display for Sent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} to {} {}", self.at, self.destination, print::line(&self.bytes))
    }
}

/// One endpoint, and the state of its hand-made peer.
///
/// ```
/// use strandline_proto::config::EndpointConfig;
/// use strandline_sim::manual::ManualPeer;
/// use strandline_wire::{Chunk, Tsn};
///
/// // The peer connects by hand; then it sends one DATA chunk with a gap before it.
/// let (mut manual, id) = ManualPeer::accepted(EndpointConfig::default());
/// let cumulative = Tsn(manual.next_tsn.0.wrapping_sub(1));
/// manual.next_tsn = manual.next_tsn.next();
/// let data = manual.data(0, 0, b"out of order");
/// let answers = manual.handle(&data);
/// let [Chunk::Sack(sack)] = answers[0].chunks()[..] else { return Err(answers[0].to_string()) };
/// assert_eq!(sack.cumulative_tsn(), cumulative);
/// assert_eq!(sack.gap_blocks().len(), 1);
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct ManualPeer {
    /// The current time.
    pub now: Time,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The source of the peer's packets.
    pub source: SocketAddr,
    /// The endpoint's SCTP port.
    pub local_port: u16,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The tag of packets to the endpoint.
    pub local_tag: VerificationTag,
    /// The tag that the peer chose, which packets from the endpoint carry.
    pub peer_tag: VerificationTag,
    /// The next TSN of the peer.
    pub next_tsn: Tsn,
    /// The first TSN of the endpoint.
    pub initial_tsn: Tsn,
    events: VecDeque<Event>,
    address: IpAddr,
}

impl ManualPeer {
    /// Creates an endpoint that listens on [`SCTP_PORT`], without an association.
    ///
    /// # Panics
    /// Panics if the configuration is not valid.
    #[must_use]
    pub fn new(config: EndpointConfig) -> Self {
        let address = config.local_addresses.first().copied().unwrap_or(IpAddr::from([10, 0, 0, 1]));
        let mut endpoint =
            Endpoint::new(config, Random::new(7).seed(), Time::ZERO).expect("the configuration is valid");
        endpoint.listen(SCTP_PORT).expect("a new endpoint can listen");
        Self {
            now: Time::ZERO,
            endpoint,
            source: SocketAddr::from(([10, 0, 1, 1], UDP_ENCAPSULATION_PORT)),
            local_port: SCTP_PORT,
            peer_port: PEER_SCTP_PORT,
            local_tag: VerificationTag(0),
            peer_tag: VerificationTag(0x7ee7_0001),
            next_tsn: Tsn(1000),
            initial_tsn: Tsn(0),
            events: VecDeque::new(),
            address,
        }
    }

    /// Creates an endpoint with an association that the peer set up. Its `Established` event is already taken.
    ///
    /// # Panics
    /// Panics if the endpoint does not answer as it must.
    #[must_use]
    pub fn accepted(config: EndpointConfig) -> (Self, AssociationId) {
        let mut manual = Self::new(config);
        let init = manual.init();
        let answers = manual.handle(&init);
        let cookie = manual.take_init_ack(answers.first().expect("INIT ACK"));
        let echo = manual.packet(|builder| assert!(builder.push(&CookieEcho { cookie: &cookie })));
        let answers = manual.handle(&echo);
        assert!(
            matches!(answers.first().map(Sent::chunks).as_deref(), Some([Chunk::CookieAck, ..])),
            "{answers:?}"
        );
        let id = manual.take_established();
        (manual, id)
    }

    /// Creates an endpoint with an association that it set up itself. Its `Established` event is already taken.
    ///
    /// # Panics
    /// Panics if the endpoint does not answer as it must.
    #[must_use]
    pub fn connected(config: EndpointConfig) -> (Self, AssociationId) {
        let mut manual = Self::new(config);
        let id =
            manual.endpoint.connect(manual.now, Connect::to(manual.source, PEER_SCTP_PORT)).expect("connect");
        let init = manual.output();
        manual.take_init(init.first().expect("INIT"));
        let answers = manual.init_ack(b"a cookie of the peer's");
        let echo = manual.handle(&answers);
        assert!(
            matches!(echo.first().map(Sent::chunks).as_deref(), Some([Chunk::CookieEcho(_), ..])),
            "{echo:?}"
        );
        let ack = manual.packet(|builder| assert!(builder.push(&CookieAck)));
        manual.handle(&ack);
        assert_eq!(manual.take_established(), id);
        (manual, id)
    }

    fn take_established(&mut self) -> AssociationId {
        let mut established = None;
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Established { .. } => established = Some(id),
                other => self.events.push_back(other),
            }
        }
        established.expect("the association is established")
    }

    /// Returns a packet of the peer with the chunks that `write` adds, under the endpoint's tag.
    #[must_use]
    pub fn packet(&self, write: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<u8> {
        self.packet_with_tag(self.local_tag, write)
    }

    /// Returns such a packet with another tag.
    #[must_use]
    pub fn packet_with_tag(
        &self,
        tag: VerificationTag,
        write: impl FnOnce(&mut PacketBuilder<'_>),
    ) -> Vec<u8> {
        let mut buffer = vec![0; DATAGRAM_BUFFER_LEN];
        let mut builder = PacketBuilder::new(&mut buffer, self.peer_port, self.local_port, tag);
        write(&mut builder);
        let len = builder.finish();
        buffer.truncate(len);
        buffer
    }

    fn init_fields<'a>(&self, parameters: Parameters<'a>) -> Init<'a> {
        Init {
            initiate_tag: self.peer_tag,
            a_rwnd: A_RWND,
            outbound_streams: STREAMS,
            inbound_streams: STREAMS,
            initial_tsn: self.next_tsn,
            parameters,
        }
    }

    /// Returns the peer's INIT, without parameters.
    #[must_use]
    pub fn init(&self) -> Vec<u8> {
        let init = self.init_fields(Parameters::new(&[]));
        self.packet_with_tag(VerificationTag(0), |builder| assert!(builder.push(&init)))
    }

    /// Returns the peer's INIT ACK with this cookie.
    #[must_use]
    pub fn init_ack(&self, cookie: &[u8]) -> Vec<u8> {
        let mut buffer = [0; 1024];
        let mut parameters = TlvWriter::new(&mut buffer);
        assert!(parameters.push(&Parameter::StateCookie(cookie)), "a cookie of at most 1,000 bytes");
        let init_ack = InitAck(self.init_fields(Parameters::new(parameters.finish())));
        self.packet(|builder| assert!(builder.push(&init_ack)))
    }

    /// Stores the endpoint's tag and first TSN from its INIT.
    ///
    /// # Panics
    /// Panics if the packet is not an INIT.
    pub fn take_init(&mut self, sent: &Sent) {
        let chunks = sent.chunks();
        let [Chunk::Init(init)] = chunks[..] else { panic!("no INIT: {sent}") };
        self.local_port = sent.packet().source_port();
        self.local_tag = init.initiate_tag;
        self.initial_tsn = init.initial_tsn;
    }

    /// Stores the endpoint's tag and first TSN from its INIT ACK, and returns the cookie.
    ///
    /// # Panics
    /// Panics if the packet is not an INIT ACK with a cookie.
    pub fn take_init_ack(&mut self, sent: &Sent) -> Vec<u8> {
        let chunks = sent.chunks();
        let [Chunk::InitAck(init)] = chunks[..] else { panic!("no INIT ACK: {sent}") };
        self.local_tag = init.initiate_tag;
        self.initial_tsn = init.initial_tsn;
        let parsed = init.parameters.iter().map(|raw| raw.expect("framed").parse().expect("well-formed"));
        let cookies = parsed.filter_map(|parameter| match parameter {
            Parameter::StateCookie(cookie) => Some(cookie.to_vec()),
            _ => None,
        });
        cookies.last().expect("an INIT ACK has a cookie")
    }

    /// Returns the peer's next DATA: one whole ordered message with the next TSN.
    #[must_use]
    pub fn data(&mut self, stream: u16, ssn: u16, payload: &[u8]) -> Vec<u8> {
        let data = self.data_fields(stream, ssn, payload);
        self.next_tsn = self.next_tsn.next();
        self.packet(|builder| assert!(builder.push(&data)))
    }

    /// Returns a DATA chunk of a whole ordered message with the next TSN, which is not used up, for a test to modify.
    #[must_use]
    pub fn data_fields<'a>(&self, stream: u16, ssn: u16, payload: &'a [u8]) -> Data<'a> {
        Data::whole(self.next_tsn, StreamId(stream), Ssn(ssn), payload)
    }

    /// Hands a packet to the endpoint, from the peer's address. Returns what the endpoint transmits.
    pub fn handle(&mut self, bytes: &[u8]) -> Vec<Sent> {
        self.handle_from(self.source, bytes)
    }

    /// Hands over a packet from another address. Returns what the endpoint transmits.
    pub fn handle_from(&mut self, source: SocketAddr, bytes: &[u8]) -> Vec<Sent> {
        let datagram = Datagram { source, destination: Some(self.address), bytes, ecn: 0 };
        self.endpoint.handle_datagram(self.now, datagram);
        self.output()
    }

    /// Returns what the endpoint transmits now.
    pub fn output(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut buffer = vec![0; 4096];
        while let Some(transmit) = self.endpoint.poll_transmit(self.now, &mut buffer, 1) {
            sent.push(Sent {
                at: self.now,
                source: transmit.source,
                destination: transmit.destination,
                bytes: Bytes::copy_from_slice(&buffer[..transmit.len]),
            });
        }
        sent
    }

    /// Lets time pass. Returns what the endpoint transmits meanwhile.
    pub fn advance(&mut self, duration: Duration) -> Vec<Sent> {
        let end = self.now + duration;
        let mut sent = self.output();
        while let Some(at) = self.endpoint.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.endpoint.handle_timeout(self.now);
            sent.extend(self.output());
        }
        self.now = end;
        sent
    }

    /// Takes the events so far.
    pub fn events(&mut self) -> Vec<Event> {
        while let Some((_, event)) = self.endpoint.poll_event() {
            self.events.push_back(event);
        }
        self.events.drain(..).collect()
    }

    /// Returns the next message that can be received.
    pub fn recv(&mut self, id: AssociationId) -> Option<Message> {
        self.endpoint.recv(self.now, id)
    }
}
