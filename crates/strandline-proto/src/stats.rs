//! Counters and snapshots for the application (RFC 9260 sections 11.1.8 and 11.1.11).

use core::net::SocketAddr;
use core::time::Duration;

use crate::number::VerificationTag;

/// Counters of an endpoint since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// Packets received, good or bad.
    pub packets_received: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets dropped because they were too short or their common header was wrong.
    pub malformed: u64,
    /// Packets dropped for a wrong checksum.
    pub checksum_errors: u64,
    /// Packets accepted with zero in place of a checksum (RFC 9653).
    pub zero_checksums_received: u64,
    /// Packets sent with zero in place of a checksum.
    pub zero_checksums_sent: u64,
    /// Packets that belong to no association (section 8.4).
    pub out_of_the_blue: u64,
    /// Packets dropped for a wrong verification tag (section 8.5).
    pub wrong_tag: u64,
    /// Packets with a good tag from an address that is none of the peer's, dropped.
    pub unknown_address: u64,
    /// Packets of this endpoint that came back to it, dropped: a peer listed an address that this host has as well.
    pub looped: u64,
    /// INIT chunks answered.
    pub inits: u64,
    /// Packets with verification tag 0 dropped unread because `init_rate_max` was reached.
    pub inits_shed: u64,
    /// COOKIE ECHO chunks with a forged or unknown cookie.
    pub cookies_forged: u64,
    /// COOKIE ECHO chunks with a cookie past its lifetime.
    pub cookies_stale: u64,
    /// COOKIE ECHO chunks whose association has been and ended, dropped.
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
        } = other;
        self.packets_received += packets_received;
        self.packets_sent += packets_sent;
        self.malformed += malformed;
        self.checksum_errors += checksum_errors;
        self.out_of_the_blue += out_of_the_blue;
        self.wrong_tag += wrong_tag;
        self.unknown_address += unknown_address;
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
    }
}

/// What the buffers of all associations hold together, and may hold, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buffers {
    /// Received and not read yet, cost of small and of held chunks included.
    pub receive_bytes: u64,
    /// `EndpointConfig::receive_bytes_max`.
    pub receive_bytes_max: u64,
    /// Given to send and not acknowledged.
    pub send_bytes: u64,
    /// `EndpointConfig::send_bytes_max`.
    pub send_bytes_max: u64,
}

/// Of endpoints that share an account, whose limits hold for all of them.
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
    /// DATA chunks received, duplicates included.
    pub data_received: u64,
    /// DATA chunks sent, retransmissions included.
    pub data_sent: u64,
    /// DATA chunks sent again.
    pub retransmissions: u32,
    /// Fast recoveries entered.
    pub fast_recoveries: u32,
    /// T3-rtx expirations, and paths found silent before that.
    pub timeouts: u32,
    /// SACK chunks sent.
    pub sacks_sent: u32,
    /// Tail-loss probes (RFC 8985 section 7.3).
    pub tail_probes: u32,
    /// Recoveries and time-outs that turned out to be needless and were undone.
    pub undone: u32,
    /// Packets with data that the network had marked (ECN), where that was agreed on.
    pub marks_received: u32,
    /// Paths on which ECN was given up: they drop packets that may be marked, or mark them all.
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
    /// Messages go in both directions.
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
    /// The state's name in RFC 9260 section 4, such as `ESTABLISHED`.
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
    /// The tag that packets to us carry.
    pub local_tag: VerificationTag,
    /// The tag that packets to the peer carry; 0 while it is not known.
    pub peer_tag: VerificationTag,
    /// Streams out and in.
    pub outbound_streams: u16,
    /// Streams that the peer may use.
    pub inbound_streams: u16,
    /// The primary path's address.
    pub primary: SocketAddr,
    /// The peer's receive window as far as is known, bytes.
    pub peer_rwnd: u32,
    /// The receive window advertised, bytes.
    pub a_rwnd: u32,
    /// Bytes taken from the application and not acknowledged yet, sent or not.
    pub send_buffered: usize,
    /// Of these, bytes sent and neither acknowledged nor marked for retransmission.
    pub in_flight: u32,
    /// Of these, bytes sent and not acknowledged cumulatively: in flight, marked, or acknowledged out of order.
    pub unacknowledged_bytes: u32,
    /// Messages begun and not acknowledged whole.
    pub unacknowledged_messages: usize,
    /// Messages of which nothing was sent.
    pub pending_messages: usize,
    /// Fast recovery is under way (section 7.2.4).
    pub in_fast_recovery: bool,
    /// Bytes received and not read yet.
    pub receive_buffered: u32,
    /// The receive buffer as it is now, bytes.
    pub receive_buffer: u32,
    /// The send buffer as it is now, bytes.
    pub send_buffer: u32,
    /// Packets of the peer may have zero for their checksum (RFC 9653): we said so at set-up.
    pub accepts_zero_checksum: bool,
    /// Ours to the peer have: it said so, and named the method that we use.
    pub sends_zero_checksum: bool,
    /// Both sides asked for ECN when the association was set up.
    pub ecn: bool,
    /// Marks that the peer told of (ECNE) and that were answered, once in a round trip each; since the peer's last restart.
    pub marks_answered: u32,
    /// Consecutive errors (section 8.1).
    pub error_count: u16,
    /// Counters.
    pub stats: AssociationStats,
}

/// Whether a destination can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reachability {
    /// Not confirmed yet (section 5.4).
    Unconfirmed,
    /// In use or usable.
    Active,
    /// It did not answer lately: other paths come first (RFC 7829).
    PotentiallyFailed,
    /// Path.Max.Retrans was exceeded.
    Inactive,
}

/// Why a chunk was sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SentAgain {
    /// It was found lost: by the time that passed (RFC 8985 section 6.2), or by three miss indications (RFC 9260 section
    /// 7.2.4).
    Lost,
    /// As a tail-loss probe (RFC 8985 section 7.3).
    Probe,
    /// T3-rtx expired, or the path was left because it was silent.
    TimedOut,
}

/// One path of an association (section 11.1.8).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStatus {
    /// The peer's address and encapsulation port.
    pub address: SocketAddr,
    /// Whether it can be used.
    pub state: Reachability,
    /// True for the primary path.
    pub primary: bool,
    /// New data goes there: the primary path while it is active, or another one instead.
    pub in_use: bool,
    /// The name of its congestion controller.
    pub congestion: &'static str,
    /// Congestion window of the controller, bytes.
    pub cwnd: u32,
    /// What may be in flight instead while a recovery brings that down to the congestion window (RFC 9937), bytes.
    pub recovery_window: Option<u32>,
    /// Slow start threshold, bytes.
    pub ssthresh: u32,
    /// Bytes of DATA chunks in flight, headers and padding included.
    pub flight: u32,
    /// Bytes of DATA chunks a second at which data goes; none where it isn't paced.
    pub pacing_rate: Option<u64>,
    /// Smoothed round trip time; none before the first measurement.
    pub srtt: Option<Duration>,
    /// Variation of the round trip time; none before the first measurement.
    pub rttvar: Option<Duration>,
    /// Retransmission time-out.
    pub rto: Duration,
    /// Path MTU: size of an IP packet, bytes.
    pub mtu: u16,
    /// Consecutive errors.
    pub error_count: u16,
    /// How often T3-rtx expired, or the path was left because it was silent; no more than 65,535.
    pub timeouts: u16,
}

/// Heap and table memory of one association, itemised, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Name and bytes of each item.
    pub items: Vec<(&'static str, usize)>,
}

impl MemoryReport {
    /// The sum.
    #[must_use]
    pub fn total(&self) -> usize {
        self.items.iter().map(|(_, bytes)| bytes).sum()
    }
}
