//! Termination (RFC 9260 section 9): abort, and the graceful shutdown with all its collisions.

use core::time::Duration;

use bytes::Bytes;

use strandline_wire::cause::Cause;
use strandline_wire::chunk::{Abort, CookieAck, Shutdown, ShutdownAck, ShutdownComplete};

use super::build;
use super::context::{EndpointContext, Route};
use super::diagnostics::{ControlTimer, enter, log_of};
use super::offer::encode_cause;
use super::{Association, State, asconf, reconfig};
use crate::event::{CloseReason, Event, FailureCause};
use crate::inbound::i_data::charged_bytes;
use crate::outbound::stream_credit::parked_bytes;
use crate::packet_sizes::CONTROL_PACKET_LEN_MAX;
use crate::path::PathState;
use crate::path_index::{PathIndex, PerPath};
use crate::time::Time;

/// Maximum number of bytes of an abort reason that are sent, or kept for the application.
const REASON_LEN_MAX: usize = 512;

/// Time for which a peer may deliver data after the first SHUTDOWN, if T5-shutdown-guard is not longer. It
/// accepts no new messages by then.
const DELIVERY_MAX: Duration = Duration::from_secs(3600);

/// Restarts T5-shutdown-guard: when SHUTDOWN is first sent, and whenever more of the peer's data has arrived, which the
/// peer delivers before it answers (section 9.2), or the application has made room for more.
pub(super) fn restart_guard(association: &mut Association, now: Time) {
    if let State::ShutdownSent { end } = association.state {
        association.deadlines.guard = end.min(now + association.config.shutdown_guard());
    }
}

impl Association {
    /// SHUTDOWN (section 11.1.3): queued data is sent first. It also applies to an association that the peer
    /// restarts.
    pub(crate) fn shutdown(&mut self, cx: &mut EndpointContext, now: Time) {
        self.flags.shutdown_wanted = true;
        // During set-up it waits for the end of the set-up. Once SHUTDOWN was received it is ignored, and a second
        // call has no effect (section 9.2).
        if matches!(self.state, State::Established) {
            enter(self, State::ShutdownPending);
            self.flags.burst_open = true;
            self.restart_linger(now);
            self.progress_shutdown(cx, now);
        }
    }

    /// ABORT (section 11.1.4).
    pub(crate) fn abort(&mut self, cx: &mut EndpointContext, now: Time, reason: &[u8]) {
        if self.state.is_closed() {
            return;
        }
        let reason = reason.get(..REASON_LEN_MAX).unwrap_or(reason);
        let causes = encode_cause(&Cause::UserInitiatedAbort(reason));
        // Before the INIT ACK there is no tag to send it with, and the peer holds no state.
        if !matches!(self.state, State::CookieWait(_)) {
            self.send_abort(cx, &causes);
        }
        self.end(cx, now, CloseReason::Aborted);
    }

    /// Sends ABORT on the path in use.
    pub(super) fn send_abort(&self, cx: &mut EndpointContext, causes: &[u8]) {
        if let Some(log) = log_of(self) {
            log.abort(causes);
        }
        let path = self.paths.data_path().unwrap_or(self.control_path);
        build::abort(self, cx, self.route(path), causes);
    }

    /// Ends the association because the peer does not answer. An ABORT to each confirmed address informs a peer that
    /// can still hear us (section 8.1). In COOKIE-WAIT the peer has no association, and no tag is known.
    pub(super) fn give_up(&mut self, cx: &mut EndpointContext, now: Time, why: &'static str) {
        if !matches!(self.state, State::CookieWait(_)) {
            let causes = encode_cause(&Cause::ProtocolViolation(why.as_bytes()));
            if let Some(log) = log_of(self) {
                log.abort(&causes);
            }
            for (_, path) in self.paths.iter().filter(|(_, path)| path.state != PathState::Unconfirmed) {
                let route = Route { destination: path.remote, source: path.local };
                build::abort(self, cx, route, &causes);
            }
        }
        self.end(cx, now, CloseReason::TimedOut);
    }

    /// Processes an ABORT whose tag was checked. One with a format error is discarded (section 3.3.7).
    pub(crate) fn on_abort(&mut self, cx: &mut EndpointContext, now: Time, abort: &Abort<'_>) {
        if let Some(log) = log_of(self) {
            log.report("ABORT", abort.causes);
        }
        if abort.causes.iter().any(|cause| cause.is_err()) {
            return;
        }
        let (code, reason) = match abort.causes.iter().next() {
            Some(Ok(cause)) => {
                let value = cause.value.get(..REASON_LEN_MAX).unwrap_or(cause.value);
                (cause.code, Bytes::copy_from_slice(value))
            }
            _ => (0, Bytes::new()),
        };
        self.end(cx, now, CloseReason::PeerAborted { code, reason });
    }

    /// Enters CLOSED: reports undelivered messages, then the end itself.
    pub(crate) fn end(&mut self, cx: &mut EndpointContext, _now: Time, reason: CloseReason) {
        if self.state.is_closed() {
            return;
        }
        enter(self, State::Closed);
        if let Some(log) = log_of(self) {
            log.end(&reason);
        }
        self.deadlines.control = Time::MAX;
        self.deadlines.guard = Time::MAX;
        self.deadlines.idle = Time::MAX;
        self.deadlines.probe = Time::MAX;
        self.flags.cookie_echo_due = false;
        self.flags.cookie_ack_due = false;
        self.flags.cookie_ack_again = false;
        match reason {
            CloseReason::Shutdown => cx.stats.shut_down += 1,
            CloseReason::TimedOut | CloseReason::Unreachable | CloseReason::NoRoute => {
                cx.stats.timed_out += 1
            }
            _ => cx.stats.aborted += 1,
        }
        reconfig::end(self, cx);
        asconf::end(self, cx);
        self.fail_queued(cx, FailureCause::AssociationEnded);
        // Incomplete messages are dropped; complete ones can still be read.
        let before = charged_bytes(&self.inbound);
        self.inbound.close();
        let freed = before.saturating_sub(charged_bytes(&self.inbound));
        cx.memory.on_read(freed);
        self.announce_readable(cx);
        cx.event(self.id, Event::Closed(reason));
    }

    /// SEND FAILURE for every message that is not completely acknowledged.
    pub(super) fn fail_queued(&mut self, cx: &mut EndpointContext, cause: FailureCause) {
        cx.on_send_bytes_gone(self.outbound.buffered_bytes() + parked_bytes(&self.outbound));
        for failed in self.outbound.fail_all(cause) {
            cx.events.push_back((self.id, Event::SendFailed(failed)));
        }
        for index in self.paths.indices() {
            let path = self.paths.get_mut(index);
            path.flight = 0;
            path.stop_rtx();
        }
    }

    /// Continues a shutdown once all data is acknowledged, and streams that were finished are reset. It waits
    /// while nothing but ASCONF and HEARTBEAT may be sent: in the states that follow, neither is.
    pub(super) fn progress_shutdown(&mut self, cx: &mut EndpointContext, now: Time) {
        if !self.outbound.is_empty() || self.flags.held || reconfig::closing::is_closing(self) {
            return;
        }
        match self.state {
            State::ShutdownPending => {
                reconfig::stop(self, cx, true);
                let end = now + self.config.shutdown_guard().max(DELIVERY_MAX);
                enter(self, State::ShutdownSent { end });
                restart_guard(self, now);
                self.stop_heartbeats();
                self.control_path = self.paths.data_path().unwrap_or(self.control_path);
                self.send_shutdown(cx, now);
            }
            State::ShutdownReceived => {
                reconfig::stop(self, cx, true);
                enter(self, State::ShutdownAckSent);
                self.deadlines.guard = Time::MAX;
                self.stop_heartbeats();
                self.control_path = self.paths.data_path().unwrap_or(self.control_path);
                self.send_shutdown_ack(cx, now);
            }
            _ => {}
        }
    }

    /// Sends SHUTDOWN and starts T2-shutdown. A COOKIE ACK that is due goes before it in the packet, because
    /// a peer that waits for one ignores SHUTDOWN.
    pub(super) fn send_shutdown(&mut self, cx: &mut EndpointContext, now: Time) {
        let shutdown = Shutdown { cumulative_tsn: self.inbound.cumulative_tsn() };
        let cookie_ack = core::mem::take(&mut self.flags.cookie_ack_due);
        build::push_control(self, cx, self.route(self.control_path), CONTROL_PACKET_LEN_MAX, |packet| {
            (!cookie_ack || packet.push(&CookieAck)) && packet.push(&shutdown)
        });
        self.restart_t2(now);
    }

    /// Sends SHUTDOWN ACK and starts T2-shutdown unless it runs: a peer that repeats SHUTDOWN does not delay the end.
    pub(super) fn send_shutdown_ack(&mut self, cx: &mut EndpointContext, now: Time) {
        self.send_control(cx, self.control_path, &ShutdownAck);
        if self.deadlines.control == Time::MAX {
            self.restart_t2(now);
        }
    }

    pub(super) fn restart_t2(&mut self, now: Time) {
        self.deadlines.control = now + self.paths.get(self.control_path).rto.rto();
    }

    /// Restarts the linger time in the states that wait for acknowledgements before the shutdown continues. Called
    /// when the wait begins, and when something was acknowledged.
    pub(super) fn restart_linger(&mut self, now: Time) {
        if matches!(self.state, State::ShutdownPending | State::ShutdownReceived) {
            self.deadlines.guard = self.config.shutdown_linger.map_or(Time::MAX, |linger| now + linger);
        }
    }

    /// Ends the association because nothing was acknowledged for the linger time.
    pub(super) fn end_linger(&mut self, cx: &mut EndpointContext, now: Time) {
        if let Some(log) = log_of(self) {
            log.control_timer(ControlTimer::Linger, 0);
        }
        let reason = b"the shutdown linger time is over: nothing was acknowledged in it";
        let causes = encode_cause(&Cause::UserInitiatedAbort(reason));
        self.send_abort(cx, &causes);
        self.end(cx, now, CloseReason::TimedOut);
    }

    /// Aborts the association if data of a peer that shuts down is missing: the peer may send SHUTDOWN and SHUTDOWN
    /// ACK only once everything was acknowledged (section 9.2). Returns false if it did abort.
    fn received_all(&mut self, cx: &mut EndpointContext, now: Time) -> bool {
        let Some(what) = self.inbound.incomplete() else { return true };
        self.abort_for_violation(cx, now, what);
        false
    }

    /// Processes SHUTDOWN (section 9.2).
    pub(super) fn on_shutdown(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        shutdown: &Shutdown,
        from: PathIndex,
    ) {
        if !self.state.in_setup() && !self.received_all(cx, now) {
            return;
        }
        match self.state {
            State::Established | State::ShutdownPending | State::ShutdownReceived => {
                let mut acks = PerPath::default();
                let outcome = self.outbound.on_cumulative(now, shutdown.cumulative_tsn, &mut acks);
                self.apply_outcome(cx, now, outcome, &acks);
                if self.state.is_closed() {
                    return;
                }
                if !matches!(self.state, State::ShutdownReceived) {
                    enter(self, State::ShutdownReceived);
                    reconfig::stop(self, cx, false);
                    self.restart_linger(now);
                    cx.event(self.id, Event::PeerShutdown);
                }
                // The rest of the packet may acknowledge more: `after_packet` sends SHUTDOWN ACK if everything is
                // acknowledged.
            }
            // Nothing but an ASCONF may be sent before it is answered, which is repeated in this state only. The peer
            // repeats its SHUTDOWN.
            State::ShutdownSent { .. } if self.flags.sourceless => {}
            State::ShutdownSent { .. } => {
                // Simultaneous shutdown.
                enter(self, State::ShutdownAckSent);
                self.deadlines.guard = Time::MAX;
                self.control_path = from;
                self.errors.shutdown = 0;
                self.send_shutdown_ack(cx, now);
                self.restart_t2(now);
            }
            State::ShutdownAckSent => self.send_shutdown_ack(cx, now),
            State::CookieWait(_) | State::CookieEchoed(_) | State::Closed => {}
        }
    }

    /// Processes SHUTDOWN ACK. During set-up the endpoint has answered it as out of the blue (section 8.5.1 E).
    pub(super) fn on_shutdown_ack(&mut self, cx: &mut EndpointContext, now: Time, from: PathIndex) {
        if matches!(self.state, State::ShutdownSent { .. } | State::ShutdownAckSent)
            && self.received_all(cx, now)
        {
            self.send_control(cx, from, &ShutdownComplete { tag_reflected: false });
            self.end(cx, now, CloseReason::Shutdown);
        }
    }

    /// Processes SHUTDOWN COMPLETE whose tag was checked.
    pub(crate) fn on_shutdown_complete(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        _complete: &ShutdownComplete,
    ) {
        if matches!(self.state, State::ShutdownAckSent) && self.received_all(cx, now) {
            self.end(cx, now, CloseReason::Shutdown);
        }
    }

    /// Handles an INIT in SHUTDOWN-ACK-SENT: the SHUTDOWN COMPLETE was lost (section 9.2).
    pub(crate) fn resend_shutdown_ack(&mut self, cx: &mut EndpointContext, now: Time) {
        self.send_shutdown_ack(cx, now);
    }
}
