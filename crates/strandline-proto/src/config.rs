//! Configuration: every protocol parameter of RFC 9260 section 16 and every limit, for the endpoint and for each
//! association. All have defaults. `validate` reports the parameter that is out of range, and its range.

mod extensions;

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

pub use self::extensions::{ErrorDetectionMethod, ExtensionsConfig, Multipath, StreamCredit};
use crate::error::ConfigError;
use crate::memory::MemoryAccount;
use crate::packet_sizes::{ETHERNET_MTU, IPV6_MTU_MIN, UDP_HEADER_LEN};

/// Maximum number of paths of an association. Further addresses of a peer are ignored.
pub const PATHS_MAX: usize = 8;

/// Initial size of auto-tuned receive and send buffers, in bytes.
pub const BUFFER_START: u32 = 1 << 20;

/// Minimum size of a buffer in bytes: the minimum a_rwnd (RFC 9260 section 3.3.2).
const BUFFER_MIN: u32 = 1500;

/// Maximum size of a buffer or message in bytes.
const SIZE_MAX: u32 = 1 << 30;

/// Minimum path MTU in bytes: the size that every IPv4 host reassembles (RFC 1122 section 3.3.2).
const PATH_MTU_MIN: u16 = 576;

/// Upper limit of RTO.Max.
const RTO_MAX_LIMIT: Duration = Duration::from_secs(3600);

/// Maximum shift for RTO.Alpha and RTO.Beta, which are then 2^-8.
const RTO_SHIFT_MAX: u8 = 8;

/// T5-shutdown-guard in multiples of RTO.Max (RFC 9260 section 9.2).
const SHUTDOWN_GUARD_RTOS: u32 = 5;

/// Maximum number of bits in a tag for the shard number.
const SHARD_BITS_MAX: u8 = 10;

/// Limits of associations, whose numbers have 28 bits, and of remembered paths.
const ASSOCIATIONS_END: u32 = 1 << 28;
const KNOWN_PATHS_LIMIT: u32 = 1 << 24;

/// How losses are detected and repaired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// Exactly as in RFC 9260: three miss indications (section 7.2.4) and T3-rtx.
    Rfc9260,
    /// Also by time, as in RFC 8985 (RACK-TLP): lost retransmissions are detected without a time-out, the last
    /// packets of a flight are probed for, reordering is tolerated, the window shrinks in proportion (RFC 9937), and
    /// spurious reactions are undone. Peers see nothing unknown to them.
    #[default]
    Rack,
}

/// Where a chunk that was declared lost is retransmitted if the peer has several addresses. Chunks that timed out use
/// another active path in any case (RFC 9260 section 6.4.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FastRetransmit {
    /// On the path where it was lost, as in section 6.4: its round-trip time and window are known, and the order is
    /// kept. With [`Recovery::Rack`] a chunk that is lost there a second time uses another path.
    #[default]
    SamePath,
    /// On another active path at once, in whose window and flight it counts. While the windows of the others are
    /// full, it stays on its path.
    OtherPath,
}

/// How many packets with data one acknowledgement covers. Whatever is selected, one is sent at once for the first
/// data, for gaps, duplicates and the I bit (RFC 7053), and after SACK.Delay at the latest. Packets that the kernel
/// delivered in one train get one acknowledgement, unless [`to_the_letter`](AssociationConfig::to_the_letter) is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SackFrequency {
    /// Two packets (RFC 9260 section 6.2) while it matters: at the beginning, while the rate grows, after losses,
    /// with little in flight, or when the window is nearly used up. Up to 16 packets while many arrive in each round
    /// trip at a steady rate, since more acknowledgements are only a cost then. While something is missing, each
    /// packet; but with 32 gaps or more, one acknowledgement per packet for each eight gaps, up to 32 packets or a
    /// millisecond.
    #[default]
    Adaptive,
    /// Always this many, at least 1. With 1, each single packet and each train has its own acknowledgement.
    Every(u8),
}

/// The order in which queued messages of different streams are sent (RFC 8260 section 3). Messages of one stream keep
/// their order. Unless interleaving (RFC 8260) was agreed on, a message is sent to its end before another one begins.
///
/// [`Priority`](Self::Priority) and [`WeightedFairQueueing`](Self::WeightedFairQueueing) depend on a value of
/// each stream, which the others ignore; it can be set at any time
/// ([`StreamValue`](crate::endpoint::StreamValue)). With all but the first one, while the send buffer is
/// full, a stream with nothing queued may use a quarter more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamScheduler {
    /// The order in which they were given to `send` (section 3.1).
    #[default]
    FirstComeFirstServed,
    /// One message of each stream in turn (section 3.2): a short message doesn't wait for all that other streams have
    /// queued.
    RoundRobin,
    /// One packet of each stream in turn (section 3.3): a packet carries chunks of one stream only, so that its loss
    /// holds up no other. Costs more packets if messages are short.
    RoundRobinPerPacket,
    /// Messages of the stream with the highest priority first (section 3.4). Value 0, the default, is the highest
    /// priority and 65,535 the lowest. Streams of equal priority take turns. Others may wait without a limit.
    Priority,
    /// Equal numbers of bytes for all streams that have messages queued (section 3.5).
    FairCapacity,
    /// Bytes in proportion to the weights of the streams that have messages queued (section 3.6). The value is the
    /// weight, from 1 to 65,535; 0, the default, counts as 1.
    WeightedFairQueueing,
}

impl StreamScheduler {
    /// Every scheduler.
    pub const ALL: &'static [Self] = &[
        Self::FirstComeFirstServed,
        Self::RoundRobin,
        Self::RoundRobinPerPacket,
        Self::Priority,
        Self::FairCapacity,
        Self::WeightedFairQueueing,
    ];
}

/// Parameters of one association. Cheap to share: an endpoint's associations hold one `Arc` of it.
///
/// Fields will be added. The struct is not `#[non_exhaustive]`, so that it can be written as a literal: end each with
/// `..AssociationConfig::default()`.
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
    /// PotentiallyFailed.Max.Retrans (RFC 7829): consecutive errors after which a path is not used while another one
    /// is active. HEARTBEATs then probe it once per RTO. Default 0; `None` disables this state.
    pub potentially_failed_retrans_max: Option<u16>,
    /// Primary.Switchover.Max.Retrans (RFC 7829 section 5): after this many consecutive errors of the primary path,
    /// the one in use instead becomes primary permanently. At least `potentially_failed_retrans_max`. Default `None`:
    /// data returns to the primary path as soon as it works.
    pub primary_switchover_retrans_max: Option<u16>,
    /// Time without an answer to data and a tail-loss probe that counts as a T3-rtx time-out if another path is
    /// active. T3-rtx itself takes at least RTO.Min. Only with `Recovery::Rack`. Default 300 ms; `None` leaves only
    /// T3-rtx.
    pub path_silence_max: Option<Duration>,
    /// Max.Init.Retransmits: retransmissions of INIT and of COOKIE ECHO. Default 8.
    pub init_retrans_max: u16,
    /// Number of packets with the COOKIE ECHO and data given before or during the set-up that are sent at once, as far
    /// as the window allows; each carries the same COOKIE ECHO. Default 14, which is enough for the initial window. 1
    /// is the single packet of RFC 9260 section 5.1, as with `Recovery::Rfc9260`.
    pub cookie_echo_packets_max: u8,
    /// HB.interval; `None` switches heartbeats off. Default 30 s.
    pub heartbeat_interval: Option<Duration>,
    /// HB.Max.Burst: heartbeats sent at one heartbeat opportunity. Default 1.
    pub heartbeat_burst_max: u8,
    /// SACK.Delay: maximum delay of an acknowledgement, at most 500 ms. Default 200 ms.
    pub sack_delay: Duration,
    /// How many packets with data one acknowledgement covers.
    pub sack_frequency: SackFrequency,
    /// Number of outgoing streams to ask for. Default 65,535: a stream costs nothing until it is used.
    pub outbound_streams: u16,
    /// Maximum number of incoming streams. Default 65,535.
    pub inbound_streams_max: u16,
    /// Receive buffer in bytes, from which a_rwnd is derived; at least 1,500. With `None`, the default, it starts at
    /// [`BUFFER_START`] and grows to what the path and the reader need.
    pub receive_buffer: Option<u32>,
    /// Maximum size of an auto-tuned receive buffer, in bytes. Default 64 MiB.
    pub receive_buffer_max: u32,
    /// Send buffer in bytes, beyond which `send` refuses messages; at least 1,500. With `None`, the default, it is
    /// [`BUFFER_START`], or larger if the congestion window needs more.
    pub send_buffer: Option<u32>,
    /// Maximum size of an auto-tuned send buffer, in bytes. Default 64 MiB.
    pub send_buffer_max: u32,
    /// Maximum size of a message that `send` accepts, in bytes. Default 16 MiB. At most the send buffer is
    /// accepted at a time, except that one message is always accepted into an empty buffer, or into an
    /// auto-tuned one that is at most half full.
    pub message_size_max: u32,
    /// Number of received bytes from which on a message whose turn it is is delivered in parts (RFC 9260 section
    /// 6.9), so that it need not fit the receive buffer. Default 512 KiB.
    pub partial_delivery_point: u32,
    /// Maximum number of messages queued and not sent yet. Default 65,536.
    pub send_messages_max: u32,
    /// Order of messages of different streams. Default: first come, first served.
    pub stream_scheduler: StreamScheduler,
    /// Send small messages at once (true), or wait for acknowledgements to bundle them (false, the Nagle algorithm as
    /// in section 6.1). Default true.
    pub nodelay: bool,
    /// Allow several chunks of new data in one packet (RFC 9260 section 6.10). False gives each its own packet, which
    /// costs throughput and serves to measure the gain of bundling. Default true.
    pub bundling: bool,
    /// Path MTU (IP packet size in bytes) assumed before it is known. Default 1,280.
    pub path_mtu_initial: u16,
    /// Maximum path MTU of the search (RFC 8899). The MTU of the link bounds it as well
    /// ([`EndpointConfig::link_mtu`]). Equal to `path_mtu_initial` disables the search. Default 65,535.
    pub path_mtu_max: u16,
    /// Lifetime of a State Cookie. Default 60 s.
    pub cookie_lifetime: Duration,
    /// Idle time after which buffers that grew are released. Default 2 s.
    pub idle_release: Duration,
    /// T5-shutdown-guard (RFC 9260 section 9.2): time from the first SHUTDOWN that this side sends, which it does
    /// once all its data is acknowledged, to the peer's answer. New data of the peer restarts it, for an hour
    /// at most. When it expires the association is aborted, even if the peer still sends anything else. It does not run
    /// in other states. Default `None`: 5 times `rto_max`.
    pub shutdown_guard: Option<Duration>,
    /// Time without a newly acknowledged TSN after which an association that shuts down with undelivered data
    /// (SHUTDOWN-PENDING, SHUTDOWN-RECEIVED) is aborted, and the data reported as failed. Each acknowledgement
    /// restarts it. Default `None`: such an association waits as long as the peer answers, even with a closed window.
    pub shutdown_linger: Option<Duration>,
    /// Extensions that are offered when an association is set up.
    pub extensions: ExtensionsConfig,
    /// How losses are detected and repaired. A change applies from the next time that nothing is outstanding.
    pub recovery: Recovery,
    /// Where a chunk that was declared lost is retransmitted. Default: the path where it was lost.
    pub fast_retransmit: FastRetransmit,
    /// Congestion controller of each path, unless
    /// [`set_path_congestion`](crate::endpoint::Endpoint::set_path_congestion) selected another one for it. A
    /// controller that is changed during the association starts as on a new path.
    pub congestion: crate::congestion::Algorithm,
    /// Follows RFC 9260 strictly where the default deviates from it and no other parameter controls that:
    ///
    /// - Max.Burst is the limit, whatever was acknowledged (section 6.1 rule D).
    /// - Every second packet gets a SACK, even within trains that the kernel delivers at once (section 6.2).
    /// - The window counts as full only as each SACK finds it, and with [`Algorithm::Rfc9260`] grows by one PMDCS for
    ///   each (section 7.2.1).
    /// - DATA in COOKIE-ECHOED is discarded: the set-up waits for the COOKIE ACK (section 6).
    /// - The State Cookie's time on the way is no round-trip time measurement (section 6.3.1).
    /// - With `path_mtu_max` equal to `path_mtu_initial` only routers lower the path MTU, and it stays low. Otherwise
    ///   time-outs reveal a path that drops long packets, and the search starts again.
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
            stream_scheduler: StreamScheduler::default(),
            nodelay: true,
            bundling: true,
            path_mtu_initial: IPV6_MTU_MIN,
            path_mtu_max: u16::MAX,
            cookie_lifetime: Duration::from_secs(60),
            idle_release: Duration::from_secs(2),
            shutdown_guard: None,
            shutdown_linger: None,
            extensions: ExtensionsConfig::default(),
            recovery: Recovery::default(),
            fast_retransmit: FastRetransmit::default(),
            congestion: crate::congestion::Algorithm::default(),
            to_the_letter: false,
        }
    }
}

impl AssociationConfig {
    /// Parameters of an endpoint that follows RFC 9260 and nothing beyond it, for comparison and for test plans: its
    /// loss recovery, congestion control, bursts, acknowledgements and paths, only its chunks and parameters, and
    /// buffers of fixed size. The fields describe what each default would do instead.
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
            // Probes of the path MTU are padded with PAD (RFC 4820). Reports of routers count (RFC 1191, RFC 8201).
            path_mtu_max: default.path_mtu_initial,
            extensions: ExtensionsConfig::NONE,
            stream_scheduler: StreamScheduler::FirstComeFirstServed,
            recovery: Recovery::Rfc9260,
            fast_retransmit: FastRetransmit::SamePath,
            congestion: crate::congestion::Algorithm::Rfc9260,
            to_the_letter: true,
            ..default
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Reports the first parameter that is out of range, with the range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = |ok: bool, name: &'static str, wants: &'static str| {
            if ok { Ok(()) } else { Err(ConfigError { name, wants }) }
        };
        let ms = Duration::from_millis(1);
        check(self.rto_min >= ms, "rto_min", "at least 1 ms")?;
        check(self.rto_min <= self.rto_max, "rto_min", "at most rto_max")?;
        check(self.rto_max <= RTO_MAX_LIMIT, "rto_max", "at most 1 hour")?;
        check(self.rto_initial >= self.rto_min, "rto_initial", "at least rto_min")?;
        check(self.rto_initial <= self.rto_max, "rto_initial", "at most rto_max")?;
        check((1..=RTO_SHIFT_MAX).contains(&self.rto_alpha_shift), "rto_alpha_shift", "1 to 8")?;
        check((1..=RTO_SHIFT_MAX).contains(&self.rto_beta_shift), "rto_beta_shift", "1 to 8")?;
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
        check(self.sack_frequency != SackFrequency::Every(0), "sack_frequency", "at least 1")?;
        check(
            self.heartbeat_interval.is_none_or(|i| i >= ms),
            "heartbeat_interval",
            "at least 1 ms, or none",
        )?;
        check(self.cookie_echo_packets_max >= 1, "cookie_echo_packets_max", "at least 1")?;
        check(self.heartbeat_burst_max >= 1, "heartbeat_burst_max", "at least 1")?;
        check(self.outbound_streams >= 1, "outbound_streams", "at least 1")?;
        check(self.inbound_streams_max >= 1, "inbound_streams_max", "at least 1")?;
        let sound = |bytes: u32| (BUFFER_MIN..=SIZE_MAX).contains(&bytes);
        check(self.receive_buffer.is_none_or(sound), "receive_buffer", "1,500 bytes to 1 GiB, or none")?;
        check(sound(self.receive_buffer_max), "receive_buffer_max", "1,500 bytes to 1 GiB")?;
        check(self.send_buffer.is_none_or(sound), "send_buffer", "1,500 bytes to 1 GiB, or none")?;
        check(sound(self.send_buffer_max), "send_buffer_max", "1,500 bytes to 1 GiB")?;
        check((1..=SIZE_MAX).contains(&self.message_size_max), "message_size_max", "1 byte to 1 GiB")?;
        check(self.partial_delivery_point >= 1, "partial_delivery_point", "at least 1")?;
        check(
            self.partial_delivery_point <= self.receive_buffer_start(),
            "partial_delivery_point",
            "at most receive_buffer, or 1 MiB where that tunes itself",
        )?;
        check(self.send_messages_max >= 1, "send_messages_max", "at least 1")?;
        check(self.path_mtu_initial >= PATH_MTU_MIN, "path_mtu_initial", "at least 576")?;
        check(self.path_mtu_max >= self.path_mtu_initial, "path_mtu_max", "at least path_mtu_initial")?;
        check(self.cookie_lifetime >= ms, "cookie_lifetime", "at least 1 ms")?;
        check(
            self.extensions
                .demanded_authentication()
                .is_none_or(|settings| settings.chunks.may_be_demanded()),
            "extensions.authentication.chunks",
            "without INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH (RFC 4895 section 3.2)",
        )?;
        self.extensions.validate(self.recovery)?;
        Ok(())
    }

    /// True if probes search for the path MTU, and time-outs of long packets lower it.
    pub(crate) const fn probes_mtu(&self) -> bool {
        !self.to_the_letter || self.path_mtu_max > self.path_mtu_initial
    }

    /// True if ECN is requested when an association is set up.
    #[must_use]
    pub fn wants_ecn(&self) -> bool {
        self.extensions.ecn || self.congestion == crate::congestion::Algorithm::Dctcp
    }

    /// Returns the size of the receive buffer of a new association, in bytes.
    #[must_use]
    pub fn receive_buffer_start(&self) -> u32 {
        self.receive_buffer.unwrap_or(BUFFER_START.min(self.receive_buffer_max))
    }

    /// Returns the maximum size of the receive buffer, in bytes.
    #[must_use]
    pub fn receive_buffer_limit(&self) -> u32 {
        self.receive_buffer.unwrap_or(self.receive_buffer_max)
    }

    /// Returns the size of the send buffer, in bytes, while the congestion window needs no more.
    #[must_use]
    pub fn send_buffer_start(&self) -> u32 {
        self.send_buffer.unwrap_or(BUFFER_START.min(self.send_buffer_max))
    }

    /// Returns the maximum size of the send buffer, in bytes.
    #[must_use]
    pub fn send_buffer_limit(&self) -> u32 {
        self.send_buffer.unwrap_or(self.send_buffer_max)
    }

    /// Returns T5-shutdown-guard as configured, or 5 times RTO.Max.
    #[must_use]
    pub fn shutdown_guard(&self) -> Duration {
        self.shutdown_guard.unwrap_or(self.rto_max * SHUTDOWN_GUARD_RTOS)
    }
}

/// Parameters of an endpoint.
///
/// Fields will be added. The struct is not `#[non_exhaustive]`, so that it can be written as a literal: end each with
/// `..EndpointConfig::default()`.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// Defaults for associations without parameters of their own.
    pub association: Arc<AssociationConfig>,
    /// Addresses listed in INIT and INIT ACK. If empty, none is listed and the peer uses the source address of
    /// packets.
    pub local_addresses: Vec<IpAddr>,
    /// Addresses of this host at which packets for the endpoint arrive, besides `local_addresses`. A peer on another
    /// host may list one of them, since many hosts have the same private address, such as 172.17.0.1. It is not
    /// adopted, because packets to it would come back. Empty if they are unknown.
    /// [`LocalAddresses::set_of_host`](crate::endpoint::LocalAddresses::set_of_host) adds those that come and go.
    pub own_addresses: Vec<IpAddr>,
    /// All addresses of this host, if the endpoint has only some of them: packets to the others come back too, and
    /// are answered by ICMP or another process. Empty if they are unknown.
    pub host_addresses: Vec<IpAddr>,
    /// Number of bytes on IPv4 between the IP header of 20 bytes and SCTP: 8 for UDP encapsulation, 0 for raw IP.
    pub encapsulation_overhead: u16,
    /// MTU of the links that packets leave by (MAX_PLPMTU of RFC 8899 section 5.1.2), as far as it is known.
    pub link_mtu: LinkMtu,
    /// Answer packets to ports without a listener with ABORT (RFC 9260 section 8.4). Set it to false if other
    /// processes share the carrier (raw IP), so that they do not end each other's associations. Then only
    /// [reserved](crate::endpoint::Endpoint::set_reserved_ports) ports are answered for, and for five minutes those
    /// of ended associations (at most 1,024 ports).
    pub owns_all_ports: bool,
    /// Maximum number of associations, initiated by either side. Default 4,194,304.
    pub associations_max: u32,
    /// Maximum number of stateless answers (INIT ACK, ABORT, ...) waiting to be sent; more are dropped. Default
    /// 1,024.
    pub replies_max: usize,
    /// Maximum number of INITs answered per second. The others are dropped unread, so that a flood of them leaves
    /// processing time to existing associations (peers repeat a lost INIT: RFC 9260 section 4). After a quiet period
    /// a quarter of the number may arrive at once. One source gets little more than half of it. Default 200,000, of
    /// which one core can answer several times as many.
    pub init_rate_max: u32,
    /// Maximum number of HEARTBEATs per second to addresses that peers have listed and not confirmed (RFC 9260
    /// section 5.4), in all associations together, a quarter of them at once. Associations with one peer
    /// get a quarter of the rate. Answered ones do not count. Each address gets at most five per second until it
    /// answers, from all shards together. Default 10,000.
    pub verification_rate_max: u32,
    /// Maximum number of received bytes held for applications, in all associations together, with what the caller has
    /// [taken](crate::memory::TakenBytes) and its application not read. Default 1 GiB. When it
    /// is reached, an association may take more only while it holds less than its share of half of the limit. Data
    /// that fills its lowest gap while it has nothing to read is accepted up to an eighth beyond the limit. From half
    /// of the limit on, auto-tuned receive buffers return to their initial size.
    pub receive_bytes_max: u64,
    /// Maximum number of bytes given to send and not acknowledged, in all associations together. Default 1 GiB. From
    /// half of it on, auto-tuned send buffers return to their initial size, and beyond it to 64 KiB.
    pub send_bytes_max: u64,
    /// Account of endpoints of one host that share these two limits, such as the shards of a stack. Each must have
    /// the same limits. Default `None`: the endpoint has the limits for itself.
    pub account: Option<Arc<MemoryAccount>>,
    /// Time after which a cookie key is replaced. Cookies are accepted under the current and the previous key. At
    /// least the cookie lifetime. Default 120 s.
    pub cookie_key_lifetime: Duration,
    /// Number of bytes of packets that the carrier holds until the endpoint is given them, such as half of
    /// `SO_RCVBUF`. Flows over short paths (5 ms) that arrive at the same time get receive windows that together fit
    /// into it, at least 6,000 bytes and two packets of the link each. Default `u32::MAX`: there is no limit.
    pub receive_queue_bytes: u32,
    /// Number of this shard, and how many low bits of a verification tag carry it. 0 bits: no shards.
    pub shard: Shard,
    /// First and last ephemeral port, from which `connect` selects. Default 49,152 to 65,535.
    pub ephemeral_ports: (u16, u16),
    /// Number of peer addresses whose latest measurements are cached for ten minutes (RFC 9040): the confirmed path
    /// MTU, which the next association uses from the beginning, and the round-trip time, by which it first repeats
    /// INIT and COOKIE ECHO. New addresses replace the oldest. Default 4,096, of about 100 bytes each; 0 disables the
    /// cache. Associations in strict RFC 9260 mode do not use it.
    pub known_paths_max: u32,
}

/// MTU of this host's links, in bytes of an IP packet: the search for a larger path MTU goes no further. Values above
/// an interface's MTU cost a refused system call for each search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkMtu {
    /// To loopback addresses, [`own_addresses`](EndpointConfig::own_addresses), and
    /// [`host_addresses`](EndpointConfig::host_addresses). Default 1,500.
    pub within_host: u16,
    /// To all others: the largest MTU of the interfaces. Default 1,500.
    pub to_others: u16,
}

impl Default for LinkMtu {
    fn default() -> Self {
        Self { within_host: ETHERNET_MTU, to_others: ETHERNET_MTU }
    }
}

/// The shard of an endpoint, which the low bits of its verification tags carry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shard {
    /// Number of this shard, below `1 << bits`.
    pub index: u32,
    /// Number of low bits of the tag that hold `index`, at most 10.
    pub bits: u8,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            association: Arc::new(AssociationConfig::default()),
            local_addresses: Vec::new(),
            own_addresses: Vec::new(),
            host_addresses: Vec::new(),
            encapsulation_overhead: UDP_HEADER_LEN,
            link_mtu: LinkMtu::default(),
            owns_all_ports: true,
            associations_max: 1 << 22,
            replies_max: 1024,
            init_rate_max: 200_000,
            verification_rate_max: 10_000,
            receive_bytes_max: 1 << 30,
            send_bytes_max: 1 << 30,
            account: None,
            cookie_key_lifetime: Duration::from_secs(120),
            receive_queue_bytes: u32::MAX,
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
    /// Reports the first parameter that is out of range, with the range.
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
        check(self.shard.bits <= SHARD_BITS_MAX, "shard.bits", "at most 10")?;
        check(self.shard.index < 1 << self.shard.bits, "shard.index", "below 1 << shard.bits")?;
        check(self.associations_max < ASSOCIATIONS_END, "associations_max", "below 2^28")?;
        check(self.init_rate_max >= 1, "init_rate_max", "at least 1")?;
        check(self.verification_rate_max >= 1, "verification_rate_max", "at least 1")?;
        check(self.ephemeral_ports.0 >= 1, "ephemeral_ports", "ports from 1")?;
        check(self.ephemeral_ports.0 <= self.ephemeral_ports.1, "ephemeral_ports", "first at most last")?;
        check(self.known_paths_max <= KNOWN_PATHS_LIMIT, "known_paths_max", "at most 2^24")
    }
}
