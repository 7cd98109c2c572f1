//! Counters and snapshots for the application (RFC 9260 sections 11.1.8 and 11.1.11).

mod abandoned;

pub use self::abandoned::{AbandonedByPolicy, AbandonedCounts, AbandonedStats};

use core::net::SocketAddr;
use core::time::Duration;

use crate::number::VerificationTag;

/// Counters of an endpoint since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Packets received, valid or not.
    pub packets_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets dropped because they were too short or their common header was invalid.
    pub malformed: u64,
    /// Packets dropped for a wrong checksum.
    pub checksum_errors: u64,
    /// Packets accepted with a checksum of zero (RFC 9653).
    pub zero_checksums_received: u64,
    /// Packets sent with a checksum of zero (RFC 9653).
    pub zero_checksums_sent: u64,
    /// Packets that belong to no association (section 8.4).
    pub out_of_the_blue: u64,
    /// Packets dropped for a wrong verification tag (section 8.5).
    pub wrong_tag: u64,
    /// Packets with a valid tag dropped because their source is not one of the peer's addresses, or their destination
    /// not one of the association's own.
    pub unknown_address: u64,
    /// ASCONF chunks dropped because of their sequence number: too far ahead, so stale or forged (RFC 5061
    /// section 5.2).
    pub asconfs_dropped: u64,
    /// Packets of this endpoint that came back to it and were dropped: a peer listed an address that this host has
    /// too.
    pub looped: u64,
    /// INIT chunks answered.
    pub inits: u64,
    /// Packets with verification tag 0 dropped unread because `init_rate_max` was reached.
    pub inits_shed: u64,
    /// COOKIE ECHO chunks with a forged or unknown cookie.
    pub cookies_forged: u64,
    /// COOKIE ECHO chunks with a cookie past its lifetime.
    pub cookies_stale: u64,
    /// COOKIE ECHO chunks dropped because the association of the cookie has already ended, or its peer has deleted the
    /// address that its INIT came from.
    pub cookies_spent: u64,
    /// COOKIE ECHO chunks refused because `associations_max` was reached.
    pub refused: u64,
    /// Associations that reached ESTABLISHED.
    pub established: u64,
    /// Associations that ended by ABORT, from either side.
    pub aborted: u64,
    /// Associations that ended by shutdown.
    pub shut_down: u64,
    /// Associations that ended because the peer did not answer.
    pub timed_out: u64,
    /// Restarts by peers.
    pub restarts: u64,
    /// Stateless answers and control packets dropped because their queue was full.
    pub replies_dropped: u64,
    /// ICMP messages acted on.
    pub icmp: u64,
    /// Datagrams, or coalesced batches, that found the carrier's receive queue full.
    pub receive_queue_drops: u64,
}

impl core::ops::AddAssign for EndpointStats {
    fn add_assign(&mut self, other: Self) {
        let Self {
            packets_received,
            packets_sent,
            malformed,
            checksum_errors,
            out_of_the_blue,
            wrong_tag,
            unknown_address,
            asconfs_dropped,
            looped,
            inits,
            inits_shed,
            cookies_forged,
            cookies_stale,
            cookies_spent,
            refused,
            established,
            aborted,
            shut_down,
            timed_out,
            restarts,
            replies_dropped,
            icmp,
            zero_checksums_received,
            zero_checksums_sent,
            receive_queue_drops,
        } = other;
        self.packets_received += packets_received;
        self.packets_sent += packets_sent;
        self.malformed += malformed;
        self.checksum_errors += checksum_errors;
        self.out_of_the_blue += out_of_the_blue;
        self.wrong_tag += wrong_tag;
        self.unknown_address += unknown_address;
        self.asconfs_dropped += asconfs_dropped;
        self.looped += looped;
        self.inits += inits;
        self.inits_shed += inits_shed;
        self.cookies_forged += cookies_forged;
        self.cookies_stale += cookies_stale;
        self.cookies_spent += cookies_spent;
        self.refused += refused;
        self.established += established;
        self.aborted += aborted;
        self.shut_down += shut_down;
        self.timed_out += timed_out;
        self.restarts += restarts;
        self.replies_dropped += replies_dropped;
        self.icmp += icmp;
        self.zero_checksums_received += zero_checksums_received;
        self.zero_checksums_sent += zero_checksums_sent;
        self.receive_queue_drops += receive_queue_drops;
    }
}

/// Fill level and limits of the buffers of all associations together, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buffers {
    /// Bytes received and not read yet, including the overhead of small and of held chunks.
    pub receive_bytes: u64,
    /// `EndpointConfig::receive_bytes_max`.
    pub receive_bytes_max: u64,
    /// Bytes given to send and not acknowledged.
    pub send_bytes: u64,
    /// `EndpointConfig::send_bytes_max`.
    pub send_bytes_max: u64,
}

/// Adds up endpoints that share an account, whose limits apply to all of them together.
impl core::ops::AddAssign for Buffers {
    fn add_assign(&mut self, other: Self) {
        self.receive_bytes += other.receive_bytes;
        self.receive_bytes_max = self.receive_bytes_max.max(other.receive_bytes_max);
        self.send_bytes += other.send_bytes;
        self.send_bytes_max = self.send_bytes_max.max(other.send_bytes_max);
    }
}

/// Counters of one association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AssociationStats {
    /// Packets received.
    pub packets_received: u64,
    /// Packets with DATA, SACK or COOKIE chunks sent.
    pub packets_sent: u64,
    /// DATA chunks received, including duplicates.
    pub data_received: u64,
    /// DATA chunks sent, including retransmissions.
    pub data_sent: u64,
    /// DATA chunks retransmitted.
    pub retransmissions: u32,
    /// Fast recoveries entered.
    pub fast_recoveries: u32,
    /// T3-rtx expirations, and paths found silent before T3-rtx expired.
    pub timeouts: u32,
    /// SACK chunks sent.
    pub sacks_sent: u32,
    /// Tail-loss probes (RFC 8985 section 7.3).
    pub tail_probes: u32,
    /// Recoveries and time-outs that turned out to be spurious and were undone.
    pub undone: u32,
    /// Packets with data that the network had marked, if ECN was negotiated.
    pub marks_received: u32,
    /// Paths on which ECN was given up, because they drop ECN-capable packets or mark them all.
    pub ecn_failures: u32,
}

/// State of an association (RFC 9260 section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AssociationState {
    /// INIT sent; the INIT ACK has not arrived.
    CookieWait,
    /// COOKIE ECHO sent; the COOKIE ACK has not arrived.
    CookieEchoed,
    /// Messages flow in both directions.
    Established,
    /// This side shuts down: it delivers what is queued before it sends SHUTDOWN.
    ShutdownPending,
    /// SHUTDOWN sent.
    ShutdownSent,
    /// SHUTDOWN received: this side delivers what is queued before it answers.
    ShutdownReceived,
    /// SHUTDOWN ACK sent.
    ShutdownAckSent,
    /// The association has ended; messages that arrived before can still be received.
    Closed,
}

impl AssociationState {
    /// Returns the state's name in RFC 9260 section 4, such as `ESTABLISHED`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::CookieWait => "COOKIE-WAIT",
            Self::CookieEchoed => "COOKIE-ECHOED",
            Self::Established => "ESTABLISHED",
            Self::ShutdownPending => "SHUTDOWN-PENDING",
            Self::ShutdownSent => "SHUTDOWN-SENT",
            Self::ShutdownReceived => "SHUTDOWN-RECEIVED",
            Self::ShutdownAckSent => "SHUTDOWN-ACK-SENT",
            Self::Closed => "CLOSED",
        }
    }

    /// True while the association is being set up.
    #[must_use]
    pub const fn in_setup(self) -> bool {
        matches!(self, Self::CookieWait | Self::CookieEchoed)
    }
}

impl core::fmt::Display for AssociationState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// STATUS of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The state.
    pub state: AssociationState,
    /// Local SCTP port.
    pub local_port: u16,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// Verification tag of packets to us.
    pub local_tag: VerificationTag,
    /// Verification tag of packets to the peer; 0 while it is unknown.
    pub peer_tag: VerificationTag,
    /// Number of outgoing streams.
    pub outbound_streams: u16,
    /// Number of incoming streams.
    pub inbound_streams: u16,
    /// The primary path's address.
    pub primary: SocketAddr,
    /// The peer's receive window in bytes, as last reported.
    pub peer_rwnd: u32,
    /// The advertised receive window in bytes.
    pub a_rwnd: u32,
    /// Bytes accepted from the application and not acknowledged yet, sent or not.
    pub send_buffered: usize,
    /// Part of `send_buffered` that was sent and is neither acknowledged nor marked for retransmission.
    pub in_flight: u32,
    /// Part of `send_buffered` that was sent and is not cumulatively acknowledged: in flight, marked, or acknowledged
    /// out of order.
    pub unacknowledged_bytes: u32,
    /// Number of messages sent in part or whole and not completely acknowledged.
    pub unacknowledged_messages: usize,
    /// Number of messages of which nothing was sent.
    pub pending_messages: usize,
    /// True during fast recovery (section 7.2.4).
    pub in_fast_recovery: bool,
    /// Bytes received and not read yet.
    pub receive_buffered: u32,
    /// Current size of the receive buffer in bytes.
    pub receive_buffer: u32,
    /// Current size of the send buffer in bytes.
    pub send_buffer: u32,
    /// True if the peer may send packets with a checksum of zero (RFC 9653), because we declared it at set-up.
    pub accepts_zero_checksum: bool,
    /// True if we send packets with a checksum of zero, because the peer declared the method that we use.
    pub sends_zero_checksum: bool,
    /// The extensions that both sides asked for at set-up.
    pub extensions: AgreedExtensions,
    /// Marks that the peer reported (ECNE) and that were answered, once per round trip each, since the peer's last
    /// restart.
    pub marks_answered: u32,
    /// Number of consecutive errors (section 8.1).
    pub error_count: u16,
    /// The counters.
    pub stats: AssociationStats,
}

/// The extensions of an association: those that both sides asked for at set-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgreedExtensions {
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Reconfiguration of streams (RFC 6525).
    pub stream_reconfiguration: bool,
    /// Dynamic address reconfiguration (RFC 5061).
    pub dynamic_addresses: bool,
    /// Partial reliability (RFC 3758): the peer skips what this side abandons.
    pub partial_reliability: bool,
    /// Authentication of chunks (RFC 4895): each side authenticates what the other demands.
    pub authentication: bool,
    /// Interleaving of user messages (RFC 8260): messages are sent and received in I-DATA chunks.
    pub interleaving: bool,
    /// Non-renegable selective acknowledgements: NR-SACK is sent and received instead of SACK.
    pub nr_sack: bool,
    /// Credit for each stream (docs/stream-credit.md). Without it only the association's window limits what
    /// streams hold, so that one which is not read may hold up the others.
    pub stream_credit: bool,
    /// The code point of the peer's Adaptation Layer Indication (RFC 5061 section 4.2.6), if its set-up has
    /// one, whether this side has one or not.
    pub adaptation_layer: Option<u32>,
}

/// Whether a destination can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reachability {
    /// Not confirmed yet (section 5.4).
    Unconfirmed,
    /// In use or usable.
    Active,
    /// Did not answer recently; other paths are preferred (RFC 7829).
    PotentiallyFailed,
    /// Path.Max.Retrans was exceeded.
    Inactive,
}

/// Why a chunk was retransmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SentAgain {
    /// It was declared lost: by the time that passed (RFC 8985 section 6.2), or by three miss indications (RFC 9260
    /// section 7.2.4).
    Lost,
    /// As a tail-loss probe (RFC 8985 section 7.3).
    Probe,
    /// T3-rtx expired, or the path was abandoned because it was silent.
    TimedOut,
}

/// The state of one path of an association (section 11.1.8).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatus {
    /// The peer's address and encapsulation port.
    pub address: SocketAddr,
    /// Whether the path can be used.
    pub state: Reachability,
    /// True for the primary path.
    pub primary: bool,
    /// True if new data is sent on it: the primary path while it is active, or another one instead.
    pub in_use: bool,
    /// Name of the congestion controller.
    pub congestion: &'static str,
    /// Congestion window of the controller, in bytes.
    pub cwnd: u32,
    /// Bytes that may be in flight during a recovery, which approach the congestion window (RFC 9937).
    pub recovery_window: Option<u32>,
    /// Slow start threshold in bytes.
    pub ssthresh: u32,
    /// Bytes of DATA chunks in flight, including headers and padding.
    pub flight: u32,
    /// Pacing rate in bytes of DATA chunks per second; `None` if the path is not paced.
    pub pacing_rate: Option<u64>,
    /// Smoothed round-trip time; `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// Round-trip time variation; `None` before the first measurement.
    pub rttvar: Option<Duration>,
    /// Retransmission time-out.
    pub rto: Duration,
    /// Path MTU: size of an IP packet in bytes.
    pub mtu: u16,
    /// Number of consecutive errors.
    pub error_count: u16,
    /// How often T3-rtx expired or the path was abandoned because it was silent; at most 65,535.
    pub timeouts: u16,
    /// Packets with data to this address that the peer has reported as marked (ECN), each once. Exact with
    /// peers that count them in ECNE, as this stack and usrsctp do; others report one for each ECNE with
    /// another TSN.
    pub marks_reported: u32,
}

/// Heap and table memory of one association, itemised, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Name and bytes of each item.
    pub items: Vec<(&'static str, usize)>,
}

impl MemoryReport {
    /// Returns the sum of all items.
    #[must_use]
    pub fn total(&self) -> usize {
        self.items.iter().map(|(_, bytes)| bytes).sum()
    }
}
