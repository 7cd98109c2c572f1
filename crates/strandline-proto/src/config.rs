//! Configuration: every protocol parameter of RFC 9260 section 16 and every limit, for the endpoint and for each
//! association. All have defaults; `validate` names what is out of range and what would be right.

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use crate::error::ConfigError;
use crate::memory::MemoryAccount;

/// The most paths an association keeps; further addresses of a peer are ignored.
pub const PATHS_MAX: usize = 8;

/// Where the receive window and the send buffer of an association start that tune themselves, in bytes.
pub const BUFFER_START: u32 = 1 << 20;

/// An alternate error detection method (RFC 9653 section 3): what makes the checksum of SCTP superfluous. Whoever
/// chooses one vouches for the lower layer, on all paths, in both directions:
///
/// 1. Damage to a packet is found at least as surely as by CRC32c, and a damaged packet is never handed up.
/// 2. Nothing between the two endpoints looks at the checksum and drops what is wrong.
///
/// UDP encapsulation (RFC 6951) alone fulfils neither, nor does raw IP: UDP's checksum of 16 bits is weaker and may be
/// missing, and firewalls and network cards check SCTP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorDetectionMethod {
    /// EDMID 1 (section 6): packets are carried in DTLS records (RFC 8261), whose authentication finds any change.
    /// Whatever else carries packets whole and unseen, such as memory within one process, may be declared as this.
    SctpOverDtls,
}

impl ErrorDetectionMethod {
    /// The Error Detection Method Identifier.
    #[must_use]
    pub const fn edmid(self) -> u32 {
        match self {
            Self::SctpOverDtls => strandline_wire::parameter::EDMID_SCTP_OVER_DTLS,
        }
    }

    /// The method of an identifier, if it is one of these.
    #[must_use]
    pub const fn from_edmid(edmid: u32) -> Option<Self> {
        match edmid {
            strandline_wire::parameter::EDMID_SCTP_OVER_DTLS => Some(Self::SctpOverDtls),
            _ => None,
        }
    }
}

/// How losses are found and repaired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// As RFC 9260 has it, and nothing else: three miss indications (section 7.2.4) and T3-rtx.
    Rfc9260,
    /// By time as well, after RFC 8985 (RACK-TLP): retransmissions that are lost are found without a time-out, the last
    /// packets of a flight are probed for, paths that reorder are put up with, the window shrinks in proportion (RFC 9937),
    /// and what turns out to have been needless is undone. Peers see nothing that they don't know.
    #[default]
    Rack,
}

/// Where a chunk that was found lost goes again, if the peer has several addresses. What timed out takes another active path in any case
/// (RFC 9260 section 6.4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FastRetransmit {
    /// To where it was lost, as section 6.4 has it: the round trip and the window there are known, and order is kept. With
    /// [`Recovery::Rack`] what is lost there a second time takes another path.
    #[default]
    SamePath,
    /// To another active path at once, whose window and flight it counts in; to the same one while the others' windows are full.
    OtherPath,
}

/// How many packets with data one acknowledgement stands for. Whatever is chosen, one goes at once for the first data, for
/// gaps, duplicates and the I bit (RFC 7053), and at the latest after SACK.Delay; packets that the kernel gave in one
/// train are answered by one, unless [`to_the_letter`](AssociationConfig::to_the_letter) is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SackFrequency {
    /// Two (RFC 9260 section 6.2) while it matters: at the beginning, while the rate grows, after losses, when little is
    /// under way or the window is nearly used up; and up to 16 while many packets come in each round trip at a steady
    /// rate, since then it only costs. While something is missing each packet, unless 32 gaps or more are: then a packet for each
    /// eight of them, up to 32, or a millisecond.
    #[default]
    Adaptive,
    /// Always so many, from 1. With 1, each packet that comes alone, and each train, has its own.
    Every(u8),
}

/// Parameters of one association. Cheap to share: an endpoint's associations hold one `Arc` of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AssociationConfig {
    /// RTO.Initial (RFC 9260 section 16). Default 1 s.
    pub rto_initial: Duration,
    /// RTO.Min. Default 1 s.
    pub rto_min: Duration,
    /// RTO.Max. Default 60 s.
    pub rto_max: Duration,
    /// RTO.Alpha as a right shift: 3 means 1/8.
    pub rto_alpha_shift: u8,
    /// RTO.Beta as a right shift: 2 means 1/4.
    pub rto_beta_shift: u8,
    /// Max.Burst: new packets sent at one opportunity, in units of the path MTU. Default 4; 0 means no limit.
    pub burst_max: u16,
    /// Association.Max.Retrans: consecutive errors on all paths before the association ends. Default 10.
    pub association_retrans_max: u16,
    /// Path.Max.Retrans: consecutive errors before a path is inactive. Default 5.
    pub path_retrans_max: u16,
    /// PotentiallyFailed.Max.Retrans (RFC 7829): consecutive errors after which a path of several is not used as long as
    /// another is active, and asked by HEARTBEATs each RTO whether it works again. Default 0; `None`: no such state.
    pub potentially_failed_retrans_max: Option<u16>,
    /// Primary.Switchover.Max.Retrans (RFC 7829 section 5): after so many consecutive errors of the primary path the one in
    /// use instead becomes primary for good. At least `potentially_failed_retrans_max`. Default `None`: data returns to the
    /// primary path as soon as that works.
    pub primary_switchover_retrans_max: Option<u16>,
    /// With another path active, data and a tail-loss probe that stay without an answer for so long count as a T3-rtx
    /// time-out, which otherwise takes RTO.Min. Only with `Recovery::Rack`. Default 300 ms; `None`: only T3-rtx counts.
    pub path_silence_max: Option<Duration>,
    /// Max.Init.Retransmits: retransmissions of INIT and of COOKIE ECHO. Default 8.
    pub init_retrans_max: u16,
    /// Packets with the COOKIE ECHO and data given before the set-up, sent at once, as the window allows: each carries the same
    /// COOKIE ECHO. Default 14, which take the initial window; 1 is the one packet of RFC 9260 section 5.1, as with `Recovery::Rfc9260`.
    pub cookie_echo_packets_max: u8,
    /// HB.interval; `None` switches heartbeats off. Default 30 s.
    pub heartbeat_interval: Option<Duration>,
    /// HB.Max.Burst: heartbeats sent at one heartbeat opportunity. Default 1.
    pub heartbeat_burst_max: u8,
    /// SACK.Delay: longest time an acknowledgement waits, at most 500 ms. Default 200 ms.
    pub sack_delay: Duration,
    /// How many packets with data one acknowledgement stands for.
    pub sack_frequency: SackFrequency,
    /// Outgoing streams asked for. Default 65,535: a stream costs nothing until it is used.
    pub outbound_streams: u16,
    /// Incoming streams allowed. Default 65,535.
    pub inbound_streams_max: u16,
    /// Receive buffer in bytes: what a_rwnd starts from, at least 1,500. `None`, the default: it starts at
    /// [`BUFFER_START`] and grows to what the path and the reader need.
    pub receive_buffer: Option<u32>,
    /// A receive buffer that tunes itself grows to so many bytes at most. Default 64 MiB.
    pub receive_buffer_max: u32,
    /// Send buffer in bytes: `send` refuses beyond it; at least 1,500. `None`, the default: [`BUFFER_START`], or more where
    /// the congestion window needs more.
    pub send_buffer: Option<u32>,
    /// A send buffer that tunes itself grows to so many bytes at most. Default 64 MiB.
    pub send_buffer_max: u32,
    /// Longest message that `send` takes, in bytes. Default 16 MiB, at most the send buffer is taken at a time, except
    /// that one message is always taken into an empty buffer.
    pub message_size_max: u32,
    /// A message of which this many bytes have come, and whose turn it is, is handed over in parts from then on (RFC
    /// 9260 section 6.9), so that it need not fit the receive buffer. Default 512 KiB.
    pub partial_delivery_point: u32,
    /// Messages queued and not sent yet, at most. Default 65,536.
    pub send_messages_max: u32,
    /// Send small messages at once (true) or wait for acknowledgements to bundle them (false, Nagle as section 6.1
    /// allows). Default true.
    pub nodelay: bool,
    /// Several chunks of new data may share a packet (RFC 9260 section 6.10). False: each has one of its own, which costs
    /// throughput; to measure what bundling gives. Default true.
    pub bundling: bool,
    /// Path MTU (IP packet size, bytes) assumed before it is known. Default 1,280.
    pub path_mtu_initial: u16,
    /// Largest path MTU searched for (RFC 8899); equal to `path_mtu_initial` switches the search off. Default 1,500.
    pub path_mtu_max: u16,
    /// Lifetime of a State Cookie. Default 60 s.
    pub cookie_lifetime: Duration,
    /// Idle time after which buffers that grew are given back. Default 2 s.
    pub idle_release: Duration,
    /// T5-shutdown-guard (RFC 9260 section 9.2): time from the first SHUTDOWN that this side sends, which it does once all its
    /// data is acknowledged, to the peer's answer. When it is over the association is aborted, even if the peer still sends
    /// data. It does not run in other states. Default `None`: 5 times `rto_max`.
    pub shutdown_guard: Option<Duration>,
    /// Time without a newly acknowledged TSN after which an association that shuts down and still has data to deliver
    /// (SHUTDOWN-PENDING, SHUTDOWN-RECEIVED) is aborted, and the data reported as failed. Each acknowledgement starts it anew.
    /// Default `None`: such an association waits as long as the peer answers, even with a closed window.
    pub shutdown_linger: Option<Duration>,
    /// Leaves the checksum out (RFC 9653), because the layer below detects errors by this method: packets with checksum
    /// zero are accepted, and sent if the peer declares the same. Only where that layer keeps what
    /// [`ErrorDetectionMethod`] demands. Default `None`: every packet has its checksum, and none is taken without.
    pub zero_checksum: Option<ErrorDetectionMethod>,
    /// How losses are found and repaired. Holds from the next time that nothing is outstanding.
    pub recovery: Recovery,
    /// Where a chunk that was found lost goes again. Default: the path where it was lost.
    pub fast_retransmit: FastRetransmit,
    /// Asks for explicit congestion notification (RFC 3168) when an association is set up, which both sides have to. The
    /// network then marks packets instead of dropping them, where it can. [`Dctcp`](crate::congestion::Algorithm::Dctcp)
    /// asks by itself. Default false.
    pub ecn: bool,
    /// The congestion controller of each path, unless [`set_path_congestion`](crate::endpoint::Endpoint::set_path_congestion)
    /// chose another one for it. Changed while the association lasts, the new one begins as on a new path.
    pub congestion: crate::congestion::Algorithm,
    /// Keeps to the letter of RFC 9260 where the default departs from it and no other parameter says so:
    ///
    /// - Max.Burst is the limit, whatever was acknowledged (section 6.1 rule D).
    /// - Every second packet has its SACK, also within trains that the kernel gives at once (section 6.2).
    /// - The window counts as full only as each SACK finds it, and with [`Algorithm::Rfc9260`] grows by one PMDCS for each
    ///   (section 7.2.1).
    /// - The time that the State Cookie took is no round-trip time (section 6.3.1).
    /// - With `path_mtu_max` equal to `path_mtu_initial` only routers lower the path MTU, and it stays so; otherwise a path
    ///   that swallows long packets is found out by time-outs, and probed for what it carries again.
    ///
    /// [`rfc9260`](Self::rfc9260) sets it along with everything else. Default false.
    ///
    /// [`Algorithm::Rfc9260`]: crate::congestion::Algorithm::Rfc9260
    pub to_the_letter: bool,
}

impl Default for AssociationConfig {
    fn default() -> Self {
        Self {
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            rto_alpha_shift: 3,
            rto_beta_shift: 2,
            burst_max: 4,
            association_retrans_max: 10,
            path_retrans_max: 5,
            potentially_failed_retrans_max: Some(0),
            primary_switchover_retrans_max: None,
            path_silence_max: Some(Duration::from_millis(300)),
            init_retrans_max: 8,
            cookie_echo_packets_max: 14,
            heartbeat_interval: Some(Duration::from_secs(30)),
            heartbeat_burst_max: 1,
            sack_delay: Duration::from_millis(200),
            sack_frequency: SackFrequency::default(),
            outbound_streams: u16::MAX,
            inbound_streams_max: u16::MAX,
            receive_buffer: None,
            receive_buffer_max: 64 << 20,
            send_buffer: None,
            send_buffer_max: 64 << 20,
            message_size_max: 16 << 20,
            partial_delivery_point: 512 << 10,
            send_messages_max: 1 << 16,
            nodelay: true,
            bundling: true,
            path_mtu_initial: 1280,
            path_mtu_max: 1500,
            cookie_lifetime: Duration::from_secs(60),
            idle_release: Duration::from_secs(2),
            shutdown_guard: None,
            shutdown_linger: None,
            zero_checksum: None,
            recovery: Recovery::default(),
            fast_retransmit: FastRetransmit::default(),
            ecn: false,
            congestion: crate::congestion::Algorithm::default(),
            to_the_letter: false,
        }
    }
}

impl AssociationConfig {
    /// An endpoint of RFC 9260 and nothing beyond it, for comparison and for test plans: its loss recovery, congestion
    /// control, bursts, acknowledgements and paths, its chunks and parameters and no others, and buffers that stay as
    /// they are. What each default would do instead says its field.
    #[must_use]
    pub fn rfc9260() -> Self {
        let default = Self::default();
        Self {
            potentially_failed_retrans_max: None,
            primary_switchover_retrans_max: None,
            path_silence_max: None,
            cookie_echo_packets_max: 1,
            sack_frequency: SackFrequency::Every(2),
            receive_buffer: Some(BUFFER_START),
            send_buffer: Some(BUFFER_START),
            // Probes of the path MTU are filled up with PAD (RFC 4820). What routers say of it counts (RFC 1191, RFC 8201).
            path_mtu_max: default.path_mtu_initial,
            zero_checksum: None,
            recovery: Recovery::Rfc9260,
            fast_retransmit: FastRetransmit::SamePath,
            ecn: false,
            congestion: crate::congestion::Algorithm::Rfc9260,
            to_the_letter: true,
            ..default
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first parameter that is out of range, with the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, name: &'static str, wants: &'static str| {
            if ok { Ok(()) } else { Err(ConfigError { name, wants }) }
        };
        let ms = Duration::from_millis(1);
        check(self.rto_min >= ms, "rto_min", "at least 1 ms")?;
        check(self.rto_min <= self.rto_max, "rto_min", "at most rto_max")?;
        check(self.rto_max <= Duration::from_secs(3600), "rto_max", "at most 1 hour")?;
        check(self.rto_initial >= self.rto_min, "rto_initial", "at least rto_min")?;
        check(self.rto_initial <= self.rto_max, "rto_initial", "at most rto_max")?;
        check((1..=8).contains(&self.rto_alpha_shift), "rto_alpha_shift", "1 to 8")?;
        check((1..=8).contains(&self.rto_beta_shift), "rto_beta_shift", "1 to 8")?;
        let ordered = match (self.potentially_failed_retrans_max, self.primary_switchover_retrans_max) {
            (Some(failed), Some(switchover)) => switchover >= failed,
            (None, Some(switchover)) => switchover >= self.path_retrans_max,
            (_, None) => true,
        };
        check(
            ordered,
            "primary_switchover_retrans_max",
            "at least potentially_failed_retrans_max, or path_retrans_max without (RFC 7829 section 5)",
        )?;
        check(
            self.path_silence_max.is_none_or(|silence| silence >= ms),
            "path_silence_max",
            "at least 1 ms, or none",
        )?;
        check(
            self.sack_delay <= Duration::from_millis(500),
            "sack_delay",
            "at most 500 ms (RFC 9260 section 6.2)",
        )?;
        check(self.sack_frequency != SackFrequency::Every(0), "sack_frequency", "every packet at least: 1")?;
        check(
            self.heartbeat_interval.is_none_or(|i| i >= ms),
            "heartbeat_interval",
            "at least 1 ms, or none",
        )?;
        check(self.cookie_echo_packets_max >= 1, "cookie_echo_packets_max", "at least 1")?;
        check(self.heartbeat_burst_max >= 1, "heartbeat_burst_max", "at least 1")?;
        check(self.outbound_streams >= 1, "outbound_streams", "at least 1")?;
        check(self.inbound_streams_max >= 1, "inbound_streams_max", "at least 1")?;
        let sound = |bytes: u32| (1500..=1 << 30).contains(&bytes);
        check(self.receive_buffer.is_none_or(sound), "receive_buffer", "1,500 bytes to 1 GiB, or none")?;
        check(sound(self.receive_buffer_max), "receive_buffer_max", "1,500 bytes to 1 GiB")?;
        check(self.send_buffer.is_none_or(sound), "send_buffer", "1,500 bytes to 1 GiB, or none")?;
        check(sound(self.send_buffer_max), "send_buffer_max", "1,500 bytes to 1 GiB")?;
        check((1..=1 << 30).contains(&self.message_size_max), "message_size_max", "1 byte to 1 GiB")?;
        check(self.partial_delivery_point >= 1, "partial_delivery_point", "at least 1")?;
        check(
            self.partial_delivery_point <= self.receive_buffer_start(),
            "partial_delivery_point",
            "at most receive_buffer, or 1 MiB where that tunes itself",
        )?;
        check(self.send_messages_max >= 1, "send_messages_max", "at least 1")?;
        check(self.path_mtu_initial >= 576, "path_mtu_initial", "at least 576")?;
        check(self.path_mtu_max >= self.path_mtu_initial, "path_mtu_max", "at least path_mtu_initial")?;
        check(self.cookie_lifetime >= ms, "cookie_lifetime", "at least 1 ms")?;
        Ok(())
    }

    /// The path MTU is found by probes, and falls when long packets time out.
    pub(crate) const fn probes_mtu(&self) -> bool {
        !self.to_the_letter || self.path_mtu_max > self.path_mtu_initial
    }

    /// ECN is asked for when an association is set up.
    #[must_use]
    pub fn wants_ecn(&self) -> bool {
        self.ecn || self.congestion == crate::congestion::Algorithm::Dctcp
    }

    /// Bytes of the receive buffer of a new association.
    #[must_use]
    pub fn receive_buffer_start(&self) -> u32 {
        self.receive_buffer.unwrap_or(BUFFER_START.min(self.receive_buffer_max))
    }

    /// Bytes of the receive buffer, at most.
    #[must_use]
    pub fn receive_buffer_limit(&self) -> u32 {
        self.receive_buffer.unwrap_or(self.receive_buffer_max)
    }

    /// Bytes of the send buffer while the congestion window asks for no more.
    #[must_use]
    pub fn send_buffer_start(&self) -> u32 {
        self.send_buffer.unwrap_or(BUFFER_START.min(self.send_buffer_max))
    }

    /// Bytes of the send buffer, at most.
    #[must_use]
    pub fn send_buffer_limit(&self) -> u32 {
        self.send_buffer.unwrap_or(self.send_buffer_max)
    }

    /// T5-shutdown-guard as configured, or 5 times RTO.Max.
    #[must_use]
    pub fn shutdown_guard(&self) -> Duration {
        self.shutdown_guard.unwrap_or(self.rto_max * 5)
    }
}

/// Parameters of an endpoint.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Defaults for associations that don't bring their own.
    pub association: Arc<AssociationConfig>,
    /// Addresses named in INIT and INIT ACK. Empty: none is named and the peer uses the one that packets come from.
    pub local_addresses: Vec<IpAddr>,
    /// Addresses of this host at which packets for the endpoint arrive, besides `local_addresses`. A peer on another host may
    /// list one of them: many hosts have the same private address, such as 172.17.0.1. It is not adopted, because packets to it
    /// would come back. Empty if they are not known.
    pub own_addresses: Vec<IpAddr>,
    /// All addresses of this host, where the endpoint has only some of them: packets to the others come back, too, and are
    /// answered by ICMP or another process. Empty if they are not known.
    pub host_addresses: Vec<IpAddr>,
    /// Bytes that carry a packet below SCTP on IPv4 beyond the 20 of IP: 8 for UDP encapsulation, 0 for raw IP.
    pub encapsulation_overhead: u16,
    /// Packets to ports where nobody listens are answered with ABORT (RFC 9260 section 8.4). False where other
    /// processes share the carrier (raw IP), so that they don't end each other's associations: then only for ports that were
    /// [reserved](crate::endpoint::Endpoint::set_reserved_ports), and for five minutes for those of associations that ended (1,024
    /// ports at most).
    pub owns_all_ports: bool,
    /// Associations at most, of either side. Default 4,194,304.
    pub associations_max: u32,
    /// Stateless answers (INIT ACK, ABORT, ...) waiting to be sent, at most. Default 1,024; more are dropped.
    pub replies_max: usize,
    /// INITs answered in a second, at most; the others are dropped before they are read, so that a flood of them leaves
    /// the associations that there are their time (peers repeat an INIT that gets lost: RFC 9260 section 4). After a
    /// quiet time a quarter of that may come at once. One source gets little more than half of it. Default 200,000, of
    /// which one core can answer several times as many.
    pub init_rate_max: u32,
    /// Received bytes held for applications in all associations together, at most. Default 1 GiB. Once it is reached,
    /// an association may take more only while it holds less than its share of half of the limit; what fills its lowest gap
    /// while it has nothing to read is taken up to an eighth beyond the limit.
    /// From half of it on, receive buffers that tune themselves go back to their start.
    pub receive_bytes_max: u64,
    /// Bytes given to send and not acknowledged in all associations together. Default 1 GiB. From half of it on, send
    /// buffers that tune themselves go back to their start, and beyond it to 64 KiB.
    pub send_bytes_max: u64,
    /// Shared by endpoints of one host that keep to these two limits together, such as the shards of a stack, each with the
    /// same limits. Default `None`: the endpoint has them for itself.
    pub account: Option<Arc<MemoryAccount>>,
    /// How long a cookie key signs before the next one; a cookie is accepted under the current and the previous key.
    /// At least the cookie lifetime. Default 120 s.
    pub cookie_key_lifetime: Duration,
    /// This shard's number and how many low bits of a verification tag carry it. 0 bits: no shards.
    pub shard: Shard,
    /// First and last local port that `connect` picks from. Default 49,152 to 65,535.
    pub ephemeral_ports: (u16, u16),
    /// Addresses of peers of which is remembered what their latest association found out, for ten minutes: the path MTU that a
    /// probe confirmed, which packets then have from the beginning, and the round-trip time, by which INIT and COOKIE ECHO are
    /// repeated the first time (RFC 9040). The addresses that came first are forgotten for new ones. Default 4,096, of about 100 bytes
    /// each; 0: nothing is remembered. Associations that keep to the letter of RFC 9260 make no use of it.
    pub known_paths_max: u32,
}

/// Which shard an endpoint is, as carried in the low bits of its verification tags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shard {
    /// This shard, below `1 << bits`.
    pub index: u32,
    /// Low bits of the tag that hold `index`, at most 10.
    pub bits: u8,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            association: Arc::new(AssociationConfig::default()),
            local_addresses: Vec::new(),
            own_addresses: Vec::new(),
            host_addresses: Vec::new(),
            encapsulation_overhead: 8,
            owns_all_ports: true,
            associations_max: 1 << 22,
            replies_max: 1024,
            init_rate_max: 200_000,
            receive_bytes_max: 1 << 30,
            send_bytes_max: 1 << 30,
            account: None,
            cookie_key_lifetime: Duration::from_secs(120),
            shard: Shard::default(),
            ephemeral_ports: (49_152, 65_535),
            known_paths_max: 4096,
        }
    }
}

impl EndpointConfig {
    /// Checks every range.
    ///
    /// # Errors
    /// Names the first parameter that is out of range, with the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.association.validate()?;
        let check = |ok: bool, name: &'static str, wants: &'static str| {
            if ok { Ok(()) } else { Err(ConfigError { name, wants }) }
        };
        check(self.local_addresses.len() <= PATHS_MAX, "local_addresses", "at most 8 addresses")?;
        check(
            self.cookie_key_lifetime >= self.association.cookie_lifetime,
            "cookie_key_lifetime",
            "at least cookie_lifetime, so that a cookie outlives at most one change of key",
        )?;
        check(self.shard.bits <= 10, "shard.bits", "at most 10")?;
        check(self.shard.index < 1 << self.shard.bits, "shard.index", "below 1 << shard.bits")?;
        check(self.associations_max < 1 << 28, "associations_max", "below 2^28")?;
        check(self.init_rate_max >= 1, "init_rate_max", "at least 1")?;
        check(self.ephemeral_ports.0 >= 1, "ephemeral_ports", "ports from 1")?;
        check(self.ephemeral_ports.0 <= self.ephemeral_ports.1, "ephemeral_ports", "first at most last")?;
        check(self.known_paths_max <= 1 << 24, "known_paths_max", "at most 2^24")
    }
}
