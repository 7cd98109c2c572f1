//! Log events of an association. Each has the span `association`, and `path` within it if it belongs to a path.

use strandline_wire::cause::Causes;
use strandline_wire::print;
use tracing::Level;

use super::{Association, State};
use crate::config::Recovery;
use crate::congestion::Controller;
use crate::diagnostics::{ASSOCIATION, LOSS, PATH, wants};
use crate::event::{CloseReason, PathChange};
use crate::outbound::PathAck;
use crate::path_index::PathIndex;
use crate::stats::AssociationState;

/// Enters the span of an association.
macro_rules! association_span {
    ($association:expr, $level:ident, $target:expr) => {
        tracing::span!(
            target: $target,
            Level::$level,
            "association",
            peer = %$association.paths.get($association.paths.primary()).remote,
            local_port = $association.local_port,
            peer_port = $association.peer_port,
            local_tag = %$association.local_tag,
            peer_tag = %$association.peer_tag,
        )
        .entered()
    };
}

/// An event in the span of an association.
macro_rules! event {
    ($association:expr, $level:ident, $target:expr, $($event:tt)+) => {
        let _association = association_span!($association, $level, $target);
        tracing::event!(target: $target, Level::$level, $($event)+);
    };
}

/// An event in the span of a path.
macro_rules! path_event {
    ($association:expr, $index:expr, $level:ident, $target:expr, $($event:tt)+) => {
        let _association = association_span!($association, $level, $target);
        let address = $association.paths.get($index).remote;
        let _path = tracing::span!(target: $target, Level::$level, "path", %address).entered();
        tracing::event!(target: $target, Level::$level, $($event)+);
    };
}

/// A timer of the set-up or of the shutdown (RFC 9260 section 16).
#[derive(Debug, Clone, Copy)]
pub(super) enum ControlTimer {
    Init,
    Cookie,
    Shutdown,
    ShutdownGuard,
    Linger,
}

impl ControlTimer {
    const fn name(self) -> &'static str {
        match self {
            Self::Init => "T1-init",
            Self::Cookie => "T1-cookie",
            Self::Shutdown => "T2-shutdown",
            Self::ShutdownGuard => "T5-shutdown-guard",
            Self::Linger => "linger time",
        }
    }
}

/// What an expiry of T3-rtx did.
#[derive(Debug, Clone, Copy)]
pub(super) struct RtxExpiry {
    /// Number of chunks marked for retransmission, and their bytes that were in flight.
    pub(super) chunks: u32,
    pub(super) bytes: u32,
    /// True if the peer's window was closed, so that the chunks only probe it.
    pub(super) probing: bool,
}

/// The log of an association, for which somebody listens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Log<'a>(&'a Association);

/// Returns the log of an association if somebody may listen to events at debug.
#[inline(always)]
pub(super) fn log_of(association: &Association) -> Option<Log<'_>> {
    wants(Level::DEBUG).then_some(Log(association))
}

/// Returns the log of an association if somebody may listen to events at trace.
#[inline(always)]
pub(super) fn trace_of(association: &Association) -> Option<Log<'_>> {
    wants(Level::TRACE).then_some(Log(association))
}

/// Enters a state.
#[inline]
pub(super) fn enter(association: &mut Association, state: State) {
    let before = core::mem::replace(&mut association.state, state);
    if let Some(log) = log_of(association) {
        log.state(before.public());
    }
}

/// Logs the path MTU if it is not `before`.
#[inline]
pub(super) fn log_mtu_change(association: &Association, index: PathIndex, before: u16) {
    let mtu = association.paths.get(index).pmtu.mtu();
    if mtu != before
        && let Some(log) = log_of(association)
    {
        log.mtu(index, before, mtu);
    }
}

/// Logs an expiry of T3-rtx, and the path MTU if it was not `mtu` before.
#[inline]
pub(super) fn log_rtx_expiry(association: &Association, index: PathIndex, expiry: RtxExpiry, mtu: u16) {
    if let Some(log) = log_of(association) {
        log.rtx_expiry(index, expiry);
        log_mtu_change(association, index, mtu);
    }
}

/// Logs an expiry of T1-init or T1-cookie.
#[inline]
pub(super) fn log_setup_timer(association: &Association, attempts: u16) {
    if let Some(log) = log_of(association) {
        let waits = matches!(association.state, State::CookieWait(_));
        log.control_timer(if waits { ControlTimer::Init } else { ControlTimer::Cookie }, attempts);
    }
}

/// Logs that nothing speaks SCTP at an address, or that it cannot be reached.
#[inline]
pub(super) fn log_unreachable(association: &Association, index: PathIndex, reason: &'static str) {
    if let Some(log) = log_of(association) {
        log.unreachable(index, reason);
    }
}

/// Logs what an acknowledgement, or the reordering timer, shows about losses on a path.
#[inline]
pub(super) fn log_losses(association: &Association, index: PathIndex, ack: &PathAck) {
    if (ack.lost.chunks > 0 || ack.undo)
        && let Some(log) = log_of(association)
    {
        log.loss(index, ack);
    }
}

/// True if the end of a recovery should be logged: the association is in recovery.
#[inline]
pub(super) fn watches_recovery(association: &Association) -> bool {
    wants(Level::DEBUG) && association.outbound.in_fast_recovery()
}

/// Logs the end of a recovery, if it has ended. `watched` is what [`watches_recovery`] returned before.
#[inline]
pub(super) fn log_recovery_end(association: &Association, watched: bool) {
    if watched && !association.outbound.in_fast_recovery() {
        Log(association).recovered();
    }
}

impl Log<'_> {
    /// Logs the state that the association has entered.
    #[cold]
    #[inline(never)]
    pub(super) fn state(self, from: AssociationState) {
        event!(self.0, DEBUG, ASSOCIATION, %from, to = %self.0.state.public(), "state changed");
    }

    /// Logs what both sides agreed on.
    #[cold]
    #[inline(never)]
    pub(super) fn established(self) {
        event!(
            self.0,
            DEBUG,
            ASSOCIATION,
            incoming = self.0.flags.incoming,
            outbound_streams = self.0.outbound.streams(),
            inbound_streams = self.0.inbound.streams(),
            paths = self.0.paths.len(),
            "association established"
        );
    }

    /// Logs the end of the association, with its counters.
    #[cold]
    #[inline(never)]
    pub(super) fn end(self, reason: &CloseReason) {
        let stats = &self.0.stats;
        event!(
            self.0,
            DEBUG,
            ASSOCIATION,
            reason = why_closed(reason),
            undelivered = self.0.outbound.buffered_bytes(),
            packets_received = stats.packets_received,
            packets_sent = stats.packets_sent,
            retransmissions = stats.retransmissions,
            timeouts = stats.timeouts,
            "association ended"
        );
    }

    /// Logs a restart by the peer (section 5.2.4, action A).
    #[cold]
    #[inline(never)]
    pub(super) fn restart(self, from: AssociationState) {
        event!(self.0, DEBUG, ASSOCIATION, %from, "the peer restarted the association");
    }

    /// Logs an ABORT or ERROR of the peer. `causes` may be any bytes.
    #[cold]
    #[inline(never)]
    pub(super) fn report(self, chunk: &'static str, causes: Causes<'_>) {
        event!(self.0, DEBUG, ASSOCIATION, chunk, causes = %print::causes(causes), "the peer reports an error");
    }

    /// Logs an ABORT to the peer.
    #[cold]
    #[inline(never)]
    pub(super) fn abort(self, causes: &[u8]) {
        event!(self.0, DEBUG, ASSOCIATION, causes = %print::causes(Causes::new(causes)), "ABORT sent");
    }

    /// Logs an expiry of a timer that is not a path's. `retransmissions` counts those of the chunk that the timer
    /// waits for, including the one that follows.
    #[cold]
    #[inline(never)]
    pub(super) fn control_timer(self, timer: ControlTimer, retransmissions: u16) {
        let timer = timer.name();
        path_event!(self.0, self.0.control_path, DEBUG, ASSOCIATION, timer, retransmissions, "timer expired");
    }

    /// Logs an expiry of T3-rtx.
    #[cold]
    #[inline(never)]
    pub(super) fn rtx_expiry(self, index: PathIndex, expiry: RtxExpiry) {
        let RtxExpiry { chunks, bytes, probing } = expiry;
        let path = self.0.paths.get(index);
        path_event!(
            self.0,
            index,
            DEBUG,
            LOSS,
            timer = "T3-rtx",
            chunks,
            bytes,
            window_probe = probing,
            rto_ms = millis(path.rto.rto()),
            error_count = path.error_count,
            "timer expired"
        );
    }

    /// Logs a HEARTBEAT that was not answered.
    #[cold]
    #[inline(never)]
    pub(super) fn heartbeat_loss(self, index: PathIndex) {
        let path = self.0.paths.get(index);
        path_event!(
            self.0,
            index,
            DEBUG,
            PATH,
            timer = "HEARTBEAT",
            rto_ms = millis(path.rto.rto()),
            error_count = path.error_count,
            "timer expired"
        );
    }

    /// Logs a tail-loss probe.
    #[cold]
    #[inline(never)]
    pub(super) fn tail_probe(self, index: PathIndex) {
        path_event!(self.0, index, TRACE, LOSS, flight = self.0.paths.get(index).flight, "tail-loss probe");
    }

    /// Logs a change of a path.
    #[cold]
    #[inline(never)]
    pub(super) fn path_change(self, index: PathIndex, change: PathChange) {
        let to = match change {
            PathChange::Confirmed => "confirmed",
            PathChange::Active => "active",
            PathChange::PotentiallyFailed => "potentially failed",
            PathChange::Inactive => "inactive",
            PathChange::Primary => "primary",
            PathChange::Removed => "removed",
            PathChange::Added => "added",
        };
        path_event!(
            self.0,
            index,
            DEBUG,
            PATH,
            to,
            error_count = self.0.paths.get(index).error_count,
            "path changed"
        );
    }

    /// Logs that nothing speaks SCTP at an address, or that it cannot be reached.
    #[cold]
    #[inline(never)]
    pub(super) fn unreachable(self, index: PathIndex, reason: &'static str) {
        path_event!(self.0, index, DEBUG, PATH, reason, "destination unreachable");
    }

    #[cold]
    #[inline(never)]
    fn mtu(self, index: PathIndex, from: u16, to: u16) {
        path_event!(self.0, index, DEBUG, PATH, from, to, "path MTU changed");
    }

    #[cold]
    #[inline(never)]
    fn loss(self, index: PathIndex, ack: &PathAck) {
        let path = self.0.paths.get(index);
        let cwnd = path.congestion.window();
        if ack.undo {
            path_event!(self.0, index, DEBUG, LOSS, cwnd, "recovery or time-out was spurious: undone");
        }
        if ack.lost.chunks > 0 {
            let mechanism = mechanism(path.recovery());
            let (chunks, bytes) = (ack.lost.chunks, ack.lost.bytes);
            path_event!(self.0, index, DEBUG, LOSS, mechanism, chunks, bytes, "chunks lost");
        }
        if ack.begins_recovery() {
            let (ssthresh, flight) = (path.congestion.slow_start_threshold(), path.flight);
            path_event!(self.0, index, DEBUG, LOSS, cwnd, ssthresh, flight, "recovery began");
        }
    }

    #[cold]
    #[inline(never)]
    fn recovered(self) {
        event!(self.0, DEBUG, LOSS, retransmissions = self.0.stats.retransmissions, "recovery ended");
    }
}

/// Returns a time in milliseconds.
fn millis(time: core::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the name of what detects losses.
fn mechanism(recovery: Recovery) -> &'static str {
    match recovery {
        Recovery::Rack => "RACK",
        Recovery::Rfc9260 => "fast retransmit",
    }
}

fn why_closed(reason: &CloseReason) -> &'static str {
    match reason {
        CloseReason::Shutdown => "shutdown",
        CloseReason::Aborted => "aborted",
        CloseReason::PeerAborted { .. } => "aborted by the peer",
        CloseReason::TimedOut => "the peer did not answer",
        CloseReason::Unreachable => "unreachable",
        CloseReason::NoRoute => "no route",
        CloseReason::ProtocolViolation(what) => what,
    }
}
