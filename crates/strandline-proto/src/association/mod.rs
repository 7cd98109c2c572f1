//! One association: its fields and its interface to the endpoint. Each procedure of RFC 9260 has its own file beside
//! this one. The halves that send and receive data, and the paths, are sub-states that do not know the association.
//!
//! Commands, and the steps of RFC 9260's procedures that most packets take, are methods. Cold procedures and those of
//! extensions are free functions with the association as their first parameter.
//!
//! | files | concern |
//! |---|---|
//! | [`setup`], [`offer`], [`cookie`], [`features`], [`restart`], [`left_over`] | set-up, negotiation of extensions, restart |
//! | [`receive`], [`data`], [`transmit`], [`build`], [`gather`] | packets in and out, bundling |
//! | [`timeout`], [`deadlines`], [`error_counts`] | timers, deadlines, error counts |
//! | [`heartbeat`], [`verification`], [`mod@unreachable`], [`paths`], [`host_addresses`], [`sack_size`] | paths: heartbeats, ICMP, addresses of this host |
//! | [`multipath`], [`ecn`], [`buffers`] | several paths at once, ECN, auto-tuned buffers |
//! | [`abandon`], [`expiry`], [`forward`] | partial reliability |
//! | [`reconfig`], [`stream_credit`] | reconfiguration of streams, stream credit |
//! | [`auth`], [`keys`] | authenticated chunks |
//! | [`asconf`], [`asconf_state`], [`addresses`] | dynamic addresses |
//! | [`zero_checksum`] | checksums of zero |
//! | [`teardown`], [`state`] | shutdown and abort, the state machine |
//! | [`context`], [`extras`], [`report`], [`diagnostics`] | what associations share, rare state, status, log events |

pub(crate) mod abandon;
mod adaptation;
pub(crate) mod addresses;
pub(crate) mod asconf;
pub(crate) mod asconf_state;
pub(crate) mod auth;
pub(crate) mod buffers;
mod build;
pub(crate) mod context;
pub(crate) mod cookie;
mod data;
mod deadlines;
mod diagnostics;
pub(crate) mod dry;
pub(crate) mod early_streams;
mod ecn;
mod error_counts;
pub(crate) mod expiry;
mod extras;
pub(crate) mod features;
mod forward;
mod gather;
mod heartbeat;
pub(crate) mod host_addresses;
pub(crate) mod keys;
mod left_over;
mod multipath;
pub(crate) mod offer;
mod paths;
mod receive;
pub(crate) mod reconfig;
mod report;
pub(crate) mod restart;
mod sack_size;
mod seen;
mod setup;
mod state;
pub(crate) mod stream_credit;
mod teardown;
mod timeout;
mod transmit;
mod unreachable;
mod verification;
pub(crate) mod zero_checksum;

use std::sync::Arc;

use strandline_wire::number::{Tsn, VerificationTag};

pub(crate) use self::build::{Ports as AnswerPorts, abort_packet, control_packet, cookie_answer};
pub(crate) use self::data::check_writable;
use self::deadlines::Deadlines;
use self::ecn::Ecn;
use self::error_counts::ErrorCounts;
use self::extras::Extras;
use self::features::Features;
pub(crate) use self::left_over::note_init;
pub(crate) use self::receive::{contains, starts_with};
use self::reconfig::Reconfig;
pub(crate) use self::setup::{Opening, PRESERVATIVE_MAX, init_packet};
pub(crate) use self::state::State;
use self::verification::AmplificationBudget;
use crate::config::AssociationConfig;
use crate::event::AssociationId;
use crate::inbound::Inbound;
use crate::outbound::Outbound;
use crate::path::PathSet;
use crate::path_index::{PathIndex, PathMask};
use crate::stats::AssociationStats;
use crate::time::Time;

/// The Transmission Control Block (RFC 9260 section 14.2). State that an idle association does not need is behind a
/// pointer in the sub-states, and allocated only when needed.
#[derive(Debug)]
pub(crate) struct Association {
    pub(crate) id: AssociationId,
    pub(crate) state: State,
    pub(crate) local_tag: VerificationTag,
    pub(crate) peer_tag: VerificationTag,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) config: Arc<AssociationConfig>,
    pub(crate) inbound: Inbound,
    pub(crate) outbound: Outbound,
    pub(crate) paths: PathSet,
    pub(crate) stats: AssociationStats,
    /// What few associations have.
    pub(crate) extras: Option<Box<Extras>>,
    /// Our own Initial TSN, repeated in every INIT and INIT ACK of the set-up.
    initial_tsn: Tsn,
    /// The peer's Initial TSN.
    peer_initial_tsn: Tsn,
    deadlines: Deadlines,
    errors: ErrorCounts,
    /// Path of the last DATA, which SACKs use (section 6.4).
    sack_path: PathIndex,
    /// Path of INIT, COOKIE ECHO, SHUTDOWN, SHUTDOWN ACK, and of retransmissions after a time-out.
    control_path: PathIndex,
    /// Bytes that may still be sent to unconfirmed addresses.
    verification: AmplificationBudget,
    flags: Flags,
    pub(crate) features: Features,
    /// Allocated if explicit congestion notification was requested.
    pub(crate) ecn: Option<Box<Ecn>>,
    /// Reconfiguration of streams (RFC 6525); allocated when either side asks for it.
    reconfig: Option<Box<Reconfig>>,
}

/// Flags of an association.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Flags {
    /// COOKIE ECHO must be sent, with whatever data fits.
    cookie_echo_due: bool,
    /// COOKIE ACK must be sent, before anything else.
    cookie_ack_due: bool,
    /// COOKIE ACK must be repeated with the next packet: the peer's COOKIE ECHO arrived again, with data whose SACK
    /// is delayed.
    cookie_ack_again: bool,
    /// An input or command arrived since packets were last built: the burst limit starts anew.
    pub(crate) burst_open: bool,
    /// New data waits for room for a train of packets.
    pub(crate) gathering: bool,
    /// The peer initiated the association.
    pub(crate) incoming: bool,
    /// The application chose the local addresses for this association alone, when it initiated it.
    pub(crate) bound: bool,
    /// The peer's addresses are others than those that the association was created with, or were in between.
    pub(crate) readdressed: bool,
    /// Addresses of the peer that are none of its set-up.
    pub(crate) added: PathMask,
    /// A change of loss recovery waits until nothing is outstanding.
    recovery_due: bool,
    /// `Readable` was sent, and `recv` has not returned `None` since.
    pub(crate) readable_given: bool,
    /// `shutdown` was called. It takes effect after the set-up, and after a restart of the peer.
    shutdown_wanted: bool,
    /// The association is in the endpoint's queue of senders.
    pub(crate) queued: bool,
    /// The application has released its handle.
    pub(crate) released: bool,
    /// Packets wait, except ASCONF, ASCONF-ACK and HEARTBEAT: no address of the peer is confirmed, or no
    /// local address may be their source.
    pub(crate) held: bool,
    /// No local address may be the source of packets.
    sourceless: bool,
    /// The application wants to know when nothing waits to be sent or acknowledged.
    reports_dry: bool,
    /// The association is in the endpoint's look-up tables.
    pub(crate) registered: bool,
}

impl Association {
    /// True if the association is not needed any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.state.is_closed() && self.flags.released
    }

    /// Returns the header fields of our packets.
    pub(crate) fn ports(&self) -> build::Ports {
        build::Ports {
            source: self.local_port,
            destination: self.peer_port,
            tag: self.peer_tag,
            zero_checksum: self.features.zero_checksum.by_peer,
        }
    }

    /// Returns the earliest time at which `handle_timeout` has something to do.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Time {
        let paths = if self.state.is_closed() { Time::MAX } else { self.paths.next_deadline() };
        let sack = if self.state.receives_data() && !self.flags.held {
            self.inbound.sack_deadline()
        } else {
            Time::MAX
        };
        let rare = self.extras.as_ref().map_or(Time::MAX, |extras| extras.deadline());
        self.deadlines
            .earliest()
            .min(rare)
            .min(self.outbound.loss_deadline())
            .min(sack)
            .min(paths)
            .min(self.silence_deadline())
    }

    /// Returns when buffers that grew are released; `Time::MAX` if that is done.
    #[inline]
    pub(crate) fn idle_deadline(&self) -> Time {
        self.deadlines.idle
    }
}
