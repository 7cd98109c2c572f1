//! Notifications to the application (RFC 9260 section 11.2), and the types that pass between it and the engine.

use core::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use strandline_wire::number::{Ppid, Ssn, StreamId, Tsn};

use crate::authentication::AuthenticationEvent;
use crate::dynamic_addresses::{AddressOutcome, AddressRequest};
use crate::reconfiguration::{DynamicStreamsEvent, Outcome, StreamDirection, Streams};
use crate::reliability::Reliability;

/// Identifies an association within its endpoint. Never reused: the generation distinguishes an old association from
/// the next one in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssociationId {
    /// Index in the endpoint's table.
    pub slot: u32,
    /// How often the slot had been used before.
    pub generation: u32,
}

/// Notifications of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// COMMUNICATION UP: the association is established.
    Established {
        /// True if the peer initiated it (a listener's new association).
        incoming: bool,
        /// Negotiated number of outgoing streams.
        outbound_streams: u16,
        /// Negotiated number of incoming streams.
        inbound_streams: u16,
    },
    /// RESTART: the peer lost its state and set up the association anew (section 5.2.4, action A). Sequence numbers
    /// start again, and unacknowledged messages are reported as failed. A shutdown that the application requested
    /// continues with the new association.
    Restarted {
        /// Number of messages received before the restart, or parts of them, that `recv` still returns.
        unread: usize,
        /// The stream of a message of which a part was or will be returned by `recv` and the rest is lost.
        cut: Option<StreamId>,
    },
    /// Messages can be received. Not repeated until `recv` returned `None`.
    Readable,
    /// The send buffer has room again after `send` returned `WouldBlock`.
    Writable,
    /// A stream that waited for credit has room again after `send` returned `StreamBlocked`.
    StreamWritable {
        /// The stream.
        stream: StreamId,
    },
    /// NETWORK STATUS CHANGE of a destination address.
    PathChanged {
        /// The peer's address.
        address: SocketAddr,
        /// The change.
        change: PathChange,
    },
    /// SEND FAILURE: an accepted message was not delivered, or it is not known whether it was.
    SendFailed(FailedMessage),
    /// Sequence numbers of streams begin anew, because one side asked for it, or what this side asked for was refused
    /// (RFC 6525 section 6.1.1).
    StreamsReset {
        /// The direction of the streams.
        direction: StreamDirection,
        /// The streams.
        streams: Streams,
        /// What became of the request.
        outcome: Outcome,
        /// For a reset of incoming streams: number of messages that `recv` still returns from before it.
        unread: usize,
    },
    /// Something happened to streams that are opened and closed at run time.
    DynamicStreams(DynamicStreamsEvent),
    /// All sequence numbers begin anew, TSNs included, because one side asked for it, or what this side asked for was
    /// refused (RFC 6525 section 6.1.2).
    AssociationReset {
        /// What became of the request.
        outcome: Outcome,
        /// The next TSN that this side sends.
        local_tsn: Tsn,
        /// The next TSN that is expected of the peer.
        peer_tsn: Tsn,
        /// Number of messages, or parts of some, that `recv` still returns from before the reset.
        unread: usize,
        /// The stream of a message of which a part was or will be returned by `recv` and the rest is lost. Only peers
        /// that drop their unacknowledged data cause this.
        cut: Option<StreamId>,
    },
    /// The number of streams has changed, or what this side asked for was refused (RFC 6525 section 6.1.3).
    StreamsChanged {
        /// What became of the request.
        outcome: Outcome,
        /// Number of outgoing streams.
        outbound_streams: u16,
        /// Number of incoming streams.
        inbound_streams: u16,
    },
    /// The rest of a message of which `recv` has returned a part, or will return one, is lost: the peer gave
    /// the message up (RFC 3758 section 3.6).
    PartialDeliveryAborted {
        /// Its stream.
        stream: StreamId,
        /// Number of messages, or parts of some, that `recv` still returns from before the end of the message.
        unread: usize,
    },
    /// AUTHENTICATION: a key came into use or went out of use, or the peer does not support authentication (RFC 4895).
    Authentication(AuthenticationEvent),
    /// What became of a request of this side to change addresses (RFC 5061). Requests of the peer are reported as
    /// [`PathChanged`](Self::PathChanged).
    AddressRequest {
        /// The request.
        request: AddressRequest,
        /// What became of it.
        outcome: AddressOutcome,
    },
    /// ADAPTATION INDICATION: the peer's set-up named the protocol between SCTP and its application (RFC 5061 section
    /// 4.2.6). Follows `Established` and `Restarted`.
    AdaptationLayer {
        /// The adaptation code point.
        code_point: u32,
    },
    /// SENDER DRY: the peer has acknowledged all data, and no message waits to be sent. Only if
    /// [`DryReports`](crate::endpoint::DryReports) asked for it.
    SenderDry,
    /// The peer shuts down. It accepts no messages beyond those already queued. What it sent can still be received.
    PeerShutdown,
    /// COMMUNICATION ERROR: the peer reported an error cause that does not end the association.
    PeerError {
        /// The cause code of RFC 9260 section 3.3.10.
        code: u16,
        /// The cause's content as the peer sent it, without code and length; at most 256 bytes.
        data: Bytes,
    },
    /// The association has ended; no event follows. `recv` still returns what arrived before.
    Closed(CloseReason),
}

/// A change of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathChange {
    /// The address answered its first heartbeat (section 5.4).
    Confirmed,
    /// The path works again.
    Active,
    /// PotentiallyFailed.Max.Retrans was exceeded; other paths are preferred (RFC 7829).
    PotentiallyFailed,
    /// Path.Max.Retrans was exceeded (section 8.2).
    Inactive,
    /// The path is now the primary one.
    Primary,
    /// The address is no longer one of the peer's.
    Removed,
    /// The address is one of the peer's from now on, and is being confirmed.
    Added,
}

/// Why an association ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReason {
    /// Graceful: SHUTDOWN COMPLETE was sent or received.
    Shutdown,
    /// This side aborted.
    Aborted,
    /// The peer aborted.
    PeerAborted {
        /// The code of the first cause; 0 if the ABORT had none.
        code: u16,
        /// The reason of a User-Initiated Abort, otherwise the cause's content; at most 512 bytes.
        reason: Bytes,
    },
    /// The peer did not answer: Max.Init.Retransmits or Association.Max.Retrans was exceeded.
    TimedOut,
    /// The peer does not speak SCTP or has no listener (ICMP protocol or port unreachable during set-up).
    Unreachable,
    /// This host cannot send to any of the peer's addresses: no route, an address family that the socket lacks, or a
    /// local firewall.
    NoRoute,
    /// The peer violated the protocol, and this side sent an ABORT.
    ProtocolViolation(&'static str),
}

/// How a message is sent.
///
/// ```
/// use strandline_proto::event::SendInfo;
/// use strandline_proto::number::{Ppid, StreamId};
///
/// let info = SendInfo::on(StreamId(3)).ppid(Ppid(46)).unordered();
/// assert_eq!((info.stream, info.ppid, info.unordered), (StreamId(3), Ppid(46), true));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SendInfo {
    /// The stream to send on.
    pub stream: StreamId,
    /// The payload protocol identifier.
    pub ppid: Ppid,
    /// Deliver the message as soon as it is complete, regardless of the stream's order.
    pub unordered: bool,
    /// Ask for an immediate acknowledgement (I bit, RFC 7053).
    pub immediate: bool,
    /// Returned with a failure, so that the application can identify the message.
    pub context: u32,
    /// How long the message is transmitted and retransmitted. Default: as all messages of the association
    /// without a limit of their own.
    pub reliability: Reliability,
}

impl SendInfo {
    /// An ordered message on a stream, with payload protocol identifier 0.
    #[must_use]
    pub fn on(stream: StreamId) -> Self {
        Self { stream, ..Self::default() }
    }

    /// The stream, payload protocol identifier and order of a received message, for echoing it.
    #[must_use]
    pub fn like(message: &Message) -> Self {
        let Message { stream, ppid, unordered, .. } = *message;
        Self { stream, ppid, unordered, ..Self::default() }
    }

    /// Sets the payload protocol identifier.
    #[must_use]
    pub const fn ppid(mut self, ppid: Ppid) -> Self {
        self.ppid = ppid;
        self
    }

    /// Limits how long the message is transmitted and retransmitted.
    #[must_use]
    pub const fn reliability(mut self, reliability: Reliability) -> Self {
        self.reliability = reliability;
        self
    }

    /// Delivers the message as soon as it is complete, regardless of the stream's order.
    #[must_use]
    pub const fn unordered(mut self) -> Self {
        self.unordered = true;
        self
    }

    /// Asks for an immediate acknowledgement (I bit, RFC 7053).
    #[must_use]
    pub const fn immediate(mut self) -> Self {
        self.immediate = true;
        self
    }

    /// Sets the number that a failure report returns.
    #[must_use]
    pub const fn context(mut self, context: u32) -> Self {
        self.context = context;
        self
    }
}

/// A received message, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The stream.
    pub stream: StreamId,
    /// Number within the stream; 0 if unordered.
    pub ssn: Ssn,
    /// TSN of the first fragment in `data`.
    pub tsn: Tsn,
    /// The payload protocol identifier.
    pub ppid: Ppid,
    /// True if the message was sent unordered.
    pub unordered: bool,
    /// True if `data` starts the message. False only for the later parts of a partial delivery.
    pub begins: bool,
    /// True if `data` ends the message. False only in a partial delivery; the rest follows in later parts of this
    /// stream. Whole unordered messages of the stream may come in between; they have both `begins` and `ends`.
    pub ends: bool,
    /// The bytes.
    pub data: Bytes,
}

impl Message {
    /// Creates a whole, ordered message with number and TSN 0, for tests of code that takes messages.
    #[must_use]
    pub const fn whole(stream: StreamId, ppid: Ppid, data: Bytes) -> Self {
        Self { stream, ssn: Ssn(0), tsn: Tsn(0), ppid, unordered: false, begins: true, ends: true, data }
    }
}

/// A message that `send` accepted and that was not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedMessage {
    /// The information given to `send`.
    pub info: SendInfo,
    /// The whole message.
    pub data: Bytes,
    /// True if a part of it was sent, so that the peer may have it.
    pub sent: bool,
    /// Why it was not delivered.
    pub cause: FailureCause,
}

impl FailedMessage {
    /// Creates the report for a message, for tests of code that takes reports.
    #[must_use]
    pub const fn new(info: SendInfo, data: Bytes, sent: bool, cause: FailureCause) -> Self {
        Self { info, data, sent, cause }
    }
}

/// Why a message was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureCause {
    /// The association ended before the peer acknowledged the whole message.
    AssociationEnded,
    /// The peer restarted the association before it acknowledged the whole message (section 5.2.4, action A).
    Restarted,
    /// The message was given before the set-up was complete, and the peer takes fewer streams (section 5.1.1).
    InvalidStream,
    /// Its lifetime was over ([`Reliability::lifetime`]).
    Expired,
    /// A chunk of it was lost and had been retransmitted as often as allowed ([`Reliability::retransmissions`]).
    RetransmissionsExhausted,
    /// A message of a higher priority needed its room ([`Reliability::priority`]).
    LowPriority,
    /// Its stream was reset before it was acknowledged
    /// ([`DynamicStreams::reset`](crate::endpoint::DynamicStreams::reset)).
    StreamReset,
}

/// A received datagram.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// The source: IP address and encapsulation port (0 for raw IP).
    pub source: SocketAddr,
    /// The local address that it arrived at, if the carrier knows it.
    pub destination: Option<IpAddr>,
    /// The SCTP packet.
    pub bytes: &'a [u8],
    /// The two ECN bits of the IP header (RFC 3168 section 5); 0 if the carrier does not know them.
    pub ecn: u8,
}

impl Datagram<'_> {
    /// True if the network reports congestion on the path (CE).
    #[must_use]
    pub const fn is_marked(&self) -> bool {
        self.ecn & 0b11 == 0b11
    }
}

/// A burst of packets to one destination: `len` bytes in the caller's buffer, cut every `segment_size` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The destination: IP address and encapsulation port (0 for raw IP).
    pub destination: SocketAddr,
    /// The local address to send from, if it matters.
    pub source: Option<IpAddr>,
    /// Number of bytes in the buffer.
    pub len: usize,
    /// Size of each packet except the last, which may be shorter. Equal to `len` for a single packet.
    pub segment_size: usize,
    /// Set if the packet exceeds the known path MTU and cannot be shortened: the carrier sends it in IP packets of at
    /// most this many bytes, headers included, as far as the system allows.
    pub fragment: Option<u16>,
    /// True if the carrier must set ECT(0) in the IP header (RFC 3168), so that the network may mark the packets
    /// instead of dropping them.
    pub ecn_capable: bool,
}

/// An ICMP message about a sent packet (RFC 9260 section 10).
#[derive(Debug, Clone, Copy)]
pub struct IcmpError<'a> {
    /// The destination of the packet, with the encapsulation port that it was sent to; port 0 for raw IP.
    pub destination: SocketAddr,
    /// The kind of the message.
    pub kind: IcmpKind,
    /// The quoted part of the SCTP packet; empty if the carrier does not know it.
    pub quoted: &'a [u8],
}

/// Kinds of ICMP messages that SCTP reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// Fragmentation needed, or Packet Too Big, with the next hop's MTU (IP packet size).
    PacketTooBig {
        /// The MTU in bytes; 0 from routers that do not report it.
        mtu: u32,
    },
    /// Protocol unreachable, or port unreachable for UDP encapsulation.
    ProtocolUnreachable,
    /// Host or network unreachable, reported by a router.
    HostUnreachable,
    /// This host itself cannot send to the destination: no route, an address family that the socket lacks, or a local
    /// firewall. This is not an ICMP message and therefore cannot be forged.
    NoRoute,
}
