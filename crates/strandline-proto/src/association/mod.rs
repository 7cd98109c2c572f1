//! One association: its fields and what the endpoint may ask of it. Each procedure of RFC 9260 has a file of its own
//! beside this one; the halves that send and receive data, and the paths, are sub-states that know nothing of it.

pub(crate) mod buffers;
mod build;
pub(crate) mod context;
pub(crate) mod cookie;
mod data;
pub(crate) mod ecn;
mod heartbeat;
pub(crate) mod offer;
pub(crate) mod own;
mod paths;
mod receive;
mod report;
pub(crate) mod restart;
mod sack_size;
mod setup;
mod state;
mod teardown;
mod timeout;
mod transmit;
mod unreachable;
pub(crate) mod zero_checksum;

use core::net::SocketAddr;
use std::sync::Arc;

use strandline_wire::number::{Tsn, VerificationTag};

pub(crate) use self::build::{Ports as AnswerPorts, abort_packet, control_packet};
use self::ecn::Ecn;
pub(crate) use self::receive::{contains, starts_with};
pub(crate) use self::setup::{Opening, PRESERVATIVE_MAX, init_packet};
pub(crate) use self::state::State;
use self::zero_checksum::ZeroChecksum;
use crate::config::AssociationConfig;
use crate::event::AssociationId;
use crate::inbound::Inbound;
use crate::outbound::Outbound;
use crate::path::{PathIndex, PathSet, Proof};
use crate::stats::AssociationStats;
use crate::time::Time;

/// The Transmission Control Block (RFC 9260 section 14.2). Everything that an idle association does not need is
/// behind a pointer in the sub-states and allocated only when it is.
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
    /// Our own Initial TSN, repeated in every INIT and INIT ACK of the set-up.
    initial_tsn: Tsn,
    /// T1-init, T1-cookie or T2-shutdown, whichever the state has; `Time::MAX`: stopped.
    control_deadline: Time,
    /// T5-shutdown-guard in SHUTDOWN-SENT, the linger time in SHUTDOWN-PENDING and SHUTDOWN-RECEIVED.
    guard_deadline: Time,
    /// When buffers that grew are given back, unless data comes before.
    idle_deadline: Time,
    /// When the next zero window probe may go (section 6.1 rule A).
    probe_deadline: Time,
    /// Consecutive errors over all paths (section 8.1).
    error_count: u16,
    /// Time-outs of T3-rtx since DATA was last acknowledged. An answered HEARTBEAT leaves this count alone: it says nothing of
    /// packets that are longer.
    data_timeouts: u16,
    /// Retransmissions of SHUTDOWN or SHUTDOWN ACK.
    shutdown_count: u16,
    /// Where the last DATA came from: SACK goes there (section 6.4).
    sack_path: PathIndex,
    /// Where INIT, COOKIE ECHO, SHUTDOWN, SHUTDOWN ACK go, and retransmissions after a time-out.
    control_path: PathIndex,
    flags: Flags,
    /// Which packets may have zero for their checksum.
    pub(crate) zero_checksum: ZeroChecksum,
    /// Allocated where explicit congestion notification was asked for.
    pub(crate) ecn: Option<Box<Ecn>>,
    /// Whether long SACKs arrive; allocated where there are any.
    proof: Option<Box<Proof>>,
}

/// Small facts, a bit each.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Flags {
    /// COOKIE ECHO is to be sent, with whatever data fits.
    cookie_echo_due: bool,
    /// COOKIE ACK is to be sent, before anything else.
    cookie_ack_due: bool,
    /// Once more, with the next packet: the peer's COOKIE ECHO came again, and brought data whose SACK waits for more.
    cookie_ack_again: bool,
    /// An input or command came since packets were last made: the burst limit starts anew.
    pub(crate) burst_open: bool,
    /// The peer came to us.
    pub(crate) incoming: bool,
    /// Another way to find and repair losses waits until nothing is outstanding.
    recovery_due: bool,
    /// `Readable` was given and `recv` has not returned `None` since.
    readable_given: bool,
    /// `shutdown` was called before the association was established.
    shutdown_wanted: bool,
    /// The packet being received had data that came before.
    duplicate_seen: bool,
    /// The endpoint has it in the queue of those with something to send.
    pub(crate) queued: bool,
    /// The application has given up its handle.
    pub(crate) released: bool,
    /// The endpoint's look-up tables have it.
    pub(crate) registered: bool,
}

impl Association {
    /// True if nothing of it is needed any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.state.is_closed() && self.flags.released
    }

    /// The tags of the association as the peer sees them in a packet of ours.
    pub(crate) fn ports(&self) -> build::Ports {
        build::Ports {
            source: self.local_port,
            destination: self.peer_port,
            tag: self.peer_tag,
            zero_checksum: self.zero_checksum.by_peer,
        }
    }

    /// The earliest time at which `handle_timeout` has something to do.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Time {
        let paths = if self.state.is_closed() { Time::MAX } else { self.paths.next_deadline() };
        let sack = if self.state.receives_data() { self.inbound.sack_deadline() } else { Time::MAX };
        self.control_deadline
            .min(self.guard_deadline)
            .min(self.idle_deadline)
            .min(self.probe_deadline)
            .min(self.outbound.loss_deadline())
            .min(sack)
            .min(paths)
            .min(self.silence_deadline())
    }

    /// When buffers that grew are given back; `Time::MAX` if that is done.
    #[inline]
    pub(crate) fn idle_deadline(&self) -> Time {
        self.idle_deadline
    }

    /// The peer's addresses, for the endpoint's look-up table.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.paths.iter().map(|(_, path)| path.remote)
    }
}
