//! Extensions of the protocol that an association offers in its set-up.

use strandline_wire::chunk::kind;

use super::Recovery;
use crate::authentication::Authentication;
use crate::error::ConfigError;
use crate::reconfiguration::PeerRequests;
use crate::reliability::Reliability;

/// An alternate error detection method (RFC 9653 section 3), which makes the checksum of SCTP superfluous. An
/// application that selects one guarantees for the lower layer, on all paths and in both directions:
///
/// 1. It detects damage to a packet at least as reliably as CRC32c, and never delivers a damaged packet.
/// 2. Nothing between the two endpoints checks the checksum and drops packets for it.
///
/// UDP encapsulation (RFC 6951) alone meets neither condition, nor does raw IP: UDP's checksum of 16 bits is weaker
/// and may be missing, and firewalls and network cards check SCTP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorDetectionMethod {
    /// EDMID 1 (section 6): packets are carried in DTLS records (RFC 8261), whose authentication detects any change.
    /// Other layers that carry packets whole and unseen, such as memory within one process, may be declared as this.
    SctpOverDtls,
}

impl ErrorDetectionMethod {
    /// Returns the Error Detection Method Identifier.
    #[must_use]
    pub const fn edmid(self) -> u32 {
        match self {
            Self::SctpOverDtls => strandline_wire::parameter::EDMID_SCTP_OVER_DTLS,
        }
    }

    /// Returns the method with an identifier, if there is one.
    #[must_use]
    pub const fn from_edmid(edmid: u32) -> Option<Self> {
        match edmid {
            strandline_wire::parameter::EDMID_SCTP_OVER_DTLS => Some(Self::SctpOverDtls),
            _ => None,
        }
    }
}

/// How much unread data each of the peer's streams may hold (docs/stream-credit.md).
///
/// A stream begins with `initial` bytes. While its reader keeps up, the allowance doubles, up to `max`. What
/// all streams hold together stays within the receive buffer. A message longer than half of the initial
/// allowance may be received in parts (see [`Message`](crate::event::Message)), because the rest of it comes
/// once the beginning was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamCredit {
    /// Bytes that a new stream may hold, rounded down to a power of two: 1 KiB to 32 MiB. Default 64 KiB.
    pub initial: u32,
    /// Bytes that a stream with a fast reader may hold. Default 1 MiB.
    pub max: u32,
    /// Bytes by which the allowances of all open streams together may exceed their initial ones: what readers that were
    /// fast can hold if they stop. Default: no limit.
    pub growth_max: u32,
}

impl StreamCredit {
    /// Returns an allowance of `initial` bytes for a new stream, and of `max` bytes for one with a fast reader.
    #[must_use]
    pub const fn new(initial: u32, max: u32) -> Self {
        Self { initial, max, growth_max: u32::MAX }
    }

    /// Limits the bytes by which the allowances of all open streams together may exceed their initial ones.
    #[must_use]
    pub const fn growing_by(mut self, growth_max: u32) -> Self {
        self.growth_max = growth_max;
        self
    }

    /// Returns the initial credit in units of 1,024 bytes, rounded down.
    pub(crate) fn initial_kib(self) -> u16 {
        u16::try_from(self.initial >> 10).unwrap_or(u16::MAX)
    }
}

impl Default for StreamCredit {
    fn default() -> Self {
        Self { initial: 64 << 10, max: 1 << 20, growth_max: u32::MAX }
    }
}

/// Whether new data uses several paths to the peer at the same time (draft-tuexen-tsvwg-sctp-multipath). Only
/// the sender decides: the peer needs no extension. Each path has its own window, loss detection and T3-rtx.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Multipath {
    /// New data uses one path at a time, the primary path while it works (RFC 9260 section 6.4).
    #[default]
    Off,
    /// All active paths at once. Their windows grow together no faster than one flow's would on the best of them (RFC
    /// 6356), so that paths which share a bottleneck take no more than one flow there. For
    /// [`Rfc9260`](crate::congestion::Algorithm::Rfc9260), [`Cubic`](crate::congestion::Algorithm::Cubic),
    /// [`Dctcp`](crate::congestion::Algorithm::Dctcp) and [`Swift`](crate::congestion::Algorithm::Swift);
    /// [`Bbr`](crate::congestion::Algorithm::Bbr) measures each path by itself.
    Coupled,
    /// All active paths at once, each as if it were an association of its own. For paths that share no link.
    Independent,
}

impl Multipath {
    /// True if several paths are used at once.
    #[must_use]
    pub const fn is_on(self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// Extensions that are offered in INIT and INIT ACK. Each is used only if the peer offers it too. A change applies to
/// associations that are set up later.
///
/// Fields will be added. The struct is not `#[non_exhaustive]`, so that it can be written as below: end each
/// literal with `..ExtensionsConfig::default()`.
///
/// ```
/// use strandline_proto::config::{AssociationConfig, ExtensionsConfig};
///
/// let extensions = ExtensionsConfig { ecn: true, ..ExtensionsConfig::default() };
/// let config = AssociationConfig { extensions, ..AssociationConfig::default() };
/// assert!(config.wants_ecn());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtensionsConfig {
    /// Explicit congestion notification (RFC 3168): the network marks packets instead of dropping them, where it can.
    /// [`Dctcp`](crate::congestion::Algorithm::Dctcp) asks by itself. Default false.
    pub ecn: bool,
    /// Omits the checksum (RFC 9653), because the layer below detects errors by this method: packets with a checksum
    /// of zero are accepted, and sent if the peer declares the same. Use it only if that layer guarantees what
    /// [`ErrorDetectionMethod`] demands. Default `None`: every packet needs its checksum.
    pub zero_checksum: Option<ErrorDetectionMethod>,
    /// Reconfiguration of streams (RFC 6525): either side may ask to reset streams or to add some. Default true, since
    /// nothing happens before one asks.
    pub stream_reconfiguration: bool,
    /// Partial reliability (RFC 3758): either side may abandon messages of its own that are out of date, and the other
    /// side skips them. Default true, since nothing happens before an application sends such a message.
    pub partial_reliability: bool,
    /// Limit of messages that have none of their own (SCTP_DEFAULT_PRINFO of RFC 6458 section 8.1.11). It
    /// applies to those that are given after it is set, also while the association exists. Default
    /// [`Reliability::DEFAULT`]: none.
    pub default_reliability: Reliability,
    /// Interleaving of user messages (RFC 8260): fragments of messages on different streams may alternate, so
    /// that a large message does not hold up the others.
    /// [`stream_scheduler`](super::AssociationConfig::stream_scheduler) decides about the order. Parts of
    /// large messages of several streams may then be received in turn (see
    /// [`Message`](crate::event::Message)), which an application must be able to handle. Default false.
    pub interleaving: bool,
    /// Credit for each stream (docs/stream-credit.md): a stream whose reader stops holds up no other one. It needs
    /// `interleaving`. Default none.
    pub stream_credit: Option<StreamCredit>,
    /// Authentication of chunks (RFC 4895), and what is demanded of the peer.
    /// [`KeyChange`](crate::endpoint::KeyChange) sets shared keys. Default none.
    pub authentication: Option<Authentication>,
    /// Dynamic address reconfiguration (RFC 5061): either side may add addresses of its own to the
    /// association, remove some, and say which one the other side should send to.
    /// [`Addresses::request`](crate::endpoint::Addresses::request) does so. Its chunks are always
    /// authenticated: [`authentication`](Self::authentication) need not be set for it, and peers that offer
    /// these chunks without authentication are refused. Default false.
    pub dynamic_addresses: bool,
    /// Non-renegable selective acknowledgements (draft-tuexen-tsvwg-sctp-multipath section 4): both sides
    /// acknowledge with NR-SACK instead of SACK, and a message that was delivered leaves the sender's buffer
    /// although an earlier one, of another stream, is missing. Default false.
    pub nr_sack: bool,
    /// Whether new data uses several paths at once. Nothing is offered for it: each side decides for its own
    /// data, and a change applies at once. Needs [`Recovery::Rack`], which detects losses on each path by
    /// itself. Default: one path.
    pub multipath: Multipath,
    /// The code point that INIT and INIT ACK indicate to the peer's application (RFC 5061 section 4.2.6):
    /// which protocol stands between SCTP and this application. The peer's is reported as
    /// [`Event::AdaptationLayer`](crate::event::Event::AdaptationLayer). Default none.
    pub adaptation_layer: Option<u32>,
    /// Which requests of the peer to reconfigure streams are performed. A change also applies to existing
    /// associations. Default none.
    pub peer_requests: PeerRequests,
}

impl ExtensionsConfig {
    pub(super) fn validate(&self, recovery: Recovery) -> Result<(), ConfigError> {
        let check = |ok: bool, name, wants| if ok { Ok(()) } else { Err(ConfigError { name, wants }) };
        check(
            !self.multipath.is_on() || recovery == Recovery::Rack,
            "extensions.multipath",
            "off with Recovery::Rfc9260, whose miss indications take data that overtakes on another path for lost",
        )?;
        let Some(credit) = self.stream_credit else { return Ok(()) };
        check(self.interleaving, "extensions.stream_credit", "extensions.interleaving")?;
        check(
            (1 << 10..=32 << 20).contains(&credit.initial),
            "extensions.stream_credit.initial",
            "1 KiB to 32 MiB",
        )?;
        check(
            (credit.initial..=1 << 30).contains(&credit.max),
            "extensions.stream_credit.max",
            "initial to 1 GiB",
        )
    }

    /// No extension.
    pub const NONE: Self = Self {
        ecn: false,
        zero_checksum: None,
        stream_reconfiguration: false,
        partial_reliability: false,
        default_reliability: Reliability::DEFAULT,
        interleaving: false,
        stream_credit: None,
        authentication: None,
        dynamic_addresses: false,
        nr_sack: false,
        multipath: Multipath::Off,
        adaptation_layer: None,
        peer_requests: PeerRequests::NONE,
    };
}

impl ExtensionsConfig {
    /// Returns what is demanded of peers. Chunks of RFC 5061 must be authenticated (section 4.1).
    pub(crate) fn demanded_authentication(&self) -> Option<Authentication> {
        if !self.dynamic_addresses {
            return self.authentication;
        }
        let settings = self.authentication.unwrap_or_default();
        let chunks = settings.chunks.with(kind::ASCONF).with(kind::ASCONF_ACK);
        Some(Authentication { chunks, ..settings })
    }
}

impl Default for ExtensionsConfig {
    fn default() -> Self {
        Self { stream_reconfiguration: true, partial_reliability: true, ..Self::NONE }
    }
}
