//! What the engine tells the application (RFC 9260 section 11.2), and what passes between them.

use core::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use strandline_wire::number::{Ppid, Ssn, StreamId, Tsn};

/// Names an association within its endpoint. Never reused: the generation tells an old one from its slot's next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssociationId {
    /// Place in the endpoint's table.
    pub slot: u32,
    /// How often the place had been used before.
    pub generation: u32,
}

/// Notifications of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// COMMUNICATION UP: the association is established.
    Established {
        /// True if the peer asked for it (a listener's new association).
        incoming: bool,
        /// Outgoing streams agreed on.
        outbound_streams: u16,
        /// Incoming streams agreed on.
        inbound_streams: u16,
    },
    /// RESTART: the peer lost its state and set up the association anew (section 5.2.4, action A). Sequence numbers
    /// start again; messages that were not acknowledged are reported as failed.
    Restarted,
    /// Messages can be received. Given once until `recv` returned `None`.
    Readable,
    /// The send buffer has room again after `send` returned `WouldBlock`.
    Writable,
    /// NETWORK STATUS CHANGE of a destination address.
    PathChanged {
        /// The peer's address.
        address: SocketAddr,
        /// What happened to it.
        change: PathChange,
    },
    /// SEND FAILURE: a message that was taken was not delivered, or it is not known whether it was.
    SendFailed(FailedMessage),
    /// The peer shuts down: it will take no more messages from us than are queued; what it sent can still be received.
    PeerShutdown,
    /// COMMUNICATION ERROR: the peer reported an error cause that does not end the association.
    PeerError {
        /// The cause code of RFC 9260 section 3.3.10.
        code: u16,
    },
    /// The association has ended; nothing follows. `recv` still returns what had arrived before.
    Closed(CloseReason),
}

/// What happened to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathChange {
    /// The address answered its first heartbeat (section 5.4).
    Confirmed,
    /// It can be reached again.
    Active,
    /// PotentiallyFailed.Max.Retrans was exceeded: other paths come first (RFC 7829).
    PotentiallyFailed,
    /// Path.Max.Retrans was exceeded (section 8.2).
    Inactive,
    /// It is now the primary path.
    Primary,
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
        /// The first cause's code, 0 if the ABORT had none.
        code: u16,
        /// The reason of a User-Initiated Abort, else the cause's content; at most 512 bytes.
        reason: Bytes,
    },
    /// The peer did not answer: Max.Init.Retransmits or Association.Max.Retrans was exceeded.
    TimedOut,
    /// The peer does not speak SCTP or nobody listens (ICMP protocol or port unreachable during set-up).
    Unreachable,
    /// This host can't send to any of the peer's addresses: no route, an address family that the socket lacks, a local
    /// firewall.
    NoRoute,
    /// The peer broke the protocol; this side sent an ABORT.
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
    /// The application's label for the payload.
    pub ppid: Ppid,
    /// Deliver as soon as it is complete, without regard to the stream's order.
    pub unordered: bool,
    /// Ask for an immediate acknowledgement (I bit, RFC 7053).
    pub immediate: bool,
    /// Returned with a failure, so that the application can tell which message it was.
    pub context: u32,
}

impl SendInfo {
    /// An ordered message on a stream, with payload protocol identifier 0.
    #[must_use]
    pub fn on(stream: StreamId) -> Self {
        Self { stream, ..Self::default() }
    }

    /// The stream, payload protocol identifier and order of a message that arrived, as an echo needs them.
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

    /// Delivers the message as soon as it is complete, without regard to the stream's order.
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

/// A message, or a part of one, that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The stream.
    pub stream: StreamId,
    /// Number within the stream; 0 if unordered.
    pub ssn: Ssn,
    /// TSN of the first fragment in `data`.
    pub tsn: Tsn,
    /// The sender's label.
    pub ppid: Ppid,
    /// Sent without order.
    pub unordered: bool,
    /// `data` starts the message. False only for the later parts of a partial delivery.
    pub begins: bool,
    /// `data` ends the message. False only in a partial delivery; the rest follows in later parts of this stream.
    /// Whole unordered messages of the stream may come in between; they have both `begins` and `ends`.
    pub ends: bool,
    /// The bytes.
    pub data: Bytes,
}

/// A message that was taken by `send` and not delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedMessage {
    /// As given to `send`.
    pub info: SendInfo,
    /// The message, whole.
    pub data: Bytes,
    /// True if a part of it had been sent, so that the peer may have it.
    pub sent: bool,
}

/// A datagram that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// Where it came from: IP address and encapsulation port (0 for raw IP).
    pub source: SocketAddr,
    /// The local address it came to, if the carrier knows.
    pub destination: Option<IpAddr>,
    /// The SCTP packet.
    pub bytes: &'a [u8],
    /// The two ECN bits of the IP header (RFC 3168 section 5); 0 if the carrier doesn't know.
    pub ecn: u8,
}

impl Datagram<'_> {
    /// The network says that there is congestion on the way (CE).
    #[must_use]
    pub const fn is_marked(&self) -> bool {
        self.ecn & 0b11 == 0b11
    }
}

/// A burst of packets to send to one destination: `len` bytes in the caller's buffer, cut every `segment_size` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// IP address and encapsulation port (0 for raw IP).
    pub destination: SocketAddr,
    /// The local address to send from, if it matters.
    pub source: Option<IpAddr>,
    /// Bytes in the buffer.
    pub len: usize,
    /// Size of each packet but the last, which may be shorter. Equal to `len` for a single packet.
    pub segment_size: usize,
    /// The packet is longer than the path MTU is known to be and can't be made shorter: the carrier sends it in IP packets
    /// of at most so many bytes, headers included, as far as the system lets it.
    pub fragment: Option<u16>,
    /// The carrier sets ECT(0) in the IP header (RFC 3168), so that the network may mark the packets instead of dropping
    /// them.
    pub ecn_capable: bool,
}

/// An ICMP message about a packet that was sent (RFC 9260 section 10).
#[derive(Debug, Clone, Copy)]
pub struct IcmpError<'a> {
    /// Where the packet had been sent to.
    pub destination: SocketAddr,
    /// What it says.
    pub kind: IcmpKind,
    /// As much of the SCTP packet as was quoted; empty if the carrier doesn't know.
    pub quoted: &'a [u8],
}

/// Kinds of ICMP messages that SCTP acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IcmpKind {
    /// Fragmentation needed or Packet Too Big, with the next hop's MTU (IP packet size).
    PacketTooBig {
        /// Bytes; 0 from routers that do not tell.
        mtu: u32,
    },
    /// Protocol unreachable, or port unreachable for UDP encapsulation.
    ProtocolUnreachable,
    /// Host or network unreachable, says a router.
    HostUnreachable,
    /// This host itself can't send there: no route, an address family that the socket lacks, a local firewall. No ICMP
    /// message, and so no forged one.
    NoRoute,
}
