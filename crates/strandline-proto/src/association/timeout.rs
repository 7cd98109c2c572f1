//! Timers: T1-init, T1-cookie, T2-shutdown, T3-rtx of each path, T5-shutdown-guard and the linger time, heartbeats,
//! path MTU probes, and the time after which an idle association releases its buffers.

use core::time::Duration;
use std::sync::Arc;

use super::abandon::update_t3_rtx;
use super::context::EndpointContext;
use super::diagnostics::{
    ControlTimer, RtxExpiry, log_mtu_change, log_of, log_rtx_expiry, log_setup_timer, trace_of,
};
use super::error_counts::UNANSWERED;
use super::expiry::abandon_due;
use super::multipath::takes_new_data;
use super::verification::is_lost;
use super::{Association, State, asconf, auth, reconfig, sack_size, stream_credit};
use crate::inbound::is_held_up;
use crate::outbound::partial::{forward_again, forward_len};
use crate::outbound::stream_credit as outgoing;
use crate::outbound::{marked_chunks, waits_for_credit};
use crate::path::{PathState, defer_probe, on_window_probes_lost};
use crate::path_index::{PathIndex, PathMask, PerPath};
use crate::time::Time;

/// Minimum time until T5-shutdown-guard expires again while the application does not read.
const GUARD_AGAIN_MIN: Duration = Duration::from_secs(1);

impl Association {
    /// Sets the timer of the zero window probe (section 6.1 rule A): data waits for a closed window, and nothing is
    /// in flight whose acknowledgement could report an open one. It is also that of STREAM BLOCKED. Called whether or
    /// not anything was sent, because the SACK for the last data is what closes the window.
    pub(super) fn watch_window(&mut self, now: Time, index: PathIndex) {
        if self.outbound.window_probe_wanted() {
            self.deadlines.probe = self.deadlines.probe.min(now + self.paths.get(index).rto.rto());
        } else if !waits_for_credit(&self.outbound) {
            self.deadlines.probe = Time::MAX;
        } else if outgoing::take_changed(&mut self.outbound) || self.deadlines.probe == Time::MAX {
            self.deadlines.probe =
                self.deadlines.probe.min(stream_credit::stream_blocked_deadline(self, now));
        }
    }

    /// Handles expired timers. `transmit` sends delayed acknowledgements and checks the time itself.
    pub(crate) fn handle_timeout(&mut self, cx: &mut EndpointContext, now: Time) {
        self.flags.burst_open = true;
        if self.deadlines.expiry <= now {
            // What was sent may have arrived before its lifetime ended, so that there is nothing to set the
            // next end by.
            self.deadlines.expiry = Time::MAX;
            abandon_due(self, cx, now);
        }
        if self.deadlines.control <= now {
            self.on_control_timer(cx, now);
        }
        if self.extras.as_ref().is_some_and(|extras| extras.deadline() <= now) {
            asconf::on_timer(self, cx, now);
        }
        if self.deadlines.guard <= now && !self.state.is_closed() {
            self.on_guard_timer(cx, now);
        }
        if self.deadlines.idle <= now {
            self.on_idle_timer(cx, now);
        }
        if self.deadlines.probe <= now {
            self.deadlines.probe = Time::MAX;
            self.outbound.permit_window_probe();
            stream_credit::send_stream_blocked(self, cx, now);
        }
        if self.outbound.loss_deadline() <= now {
            self.on_loss_timer(cx, now);
        }
        // T3-rtx of all paths comes first: the chunks that it marks replace a probe that is due on another path.
        let mut expired = PerPath::<bool>::default();
        let mut probing = PathMask::default();
        for index in self.paths.indices() {
            self.paths.get_mut(index).on_pace_timer(now);
            expired[index] = self.rtx_expires(now, index);
            if expired[index] && self.outbound.zero_window_probing(index) {
                probing.insert(index);
            } else if expired[index] {
                self.on_t3(cx, now, index);
            }
        }
        // HB.Max.Burst: this many heartbeats at one opportunity, the others an RTO later.
        let mut heartbeats = self.config.heartbeat_burst_max;
        for index in self.paths.indices_by_heartbeat() {
            if self.state.is_closed() {
                return;
            }
            self.on_path_timers(cx, now, index, expired[index], &mut heartbeats);
        }
        // After all errors of paths: a probe of a closed window is one packet on the path that is left for it.
        for index in probing {
            if self.rtx_expires(now, index) {
                self.on_t3(cx, now, index);
            }
        }
    }

    fn on_control_timer(&mut self, cx: &mut EndpointContext, now: Time) {
        self.deadlines.control = Time::MAX;
        let attempts_max = self.config.init_retrans_max;
        match &mut self.state {
            State::CookieWait(setup) | State::CookieEchoed(setup) => {
                setup.attempts += 1;
                setup.echoes = 0;
                let attempts = setup.attempts;
                log_setup_timer(self, attempts);
                if attempts > attempts_max {
                    return self.give_up(cx, now, "Max.Init.Retransmits exceeded: no COOKIE ACK");
                }
                self.back_off_control_path(cx);
                if matches!(self.state, State::CookieWait(_)) {
                    self.send_init(cx, now);
                } else {
                    self.revoke_cached_mtu(cx);
                    self.retract_cookie_data();
                    self.flags.cookie_echo_due = true;
                }
            }
            State::ShutdownSent { .. } | State::ShutdownAckSent => self.on_t2(cx, now),
            State::Established | State::ShutdownPending | State::ShutdownReceived => {
                reconfig::on_timer(self, cx, now);
            }
            State::Closed => {}
        }
    }

    /// Handles unacknowledged data that went with the COOKIE ECHO: the cached path MTU may be outdated.
    fn revoke_cached_mtu(&mut self, cx: &mut EndpointContext) {
        for index in self.paths.indices() {
            let path = self.paths.get(index);
            let (before, lost) = (path.pmtu.mtu(), auth::lost_len(self, path.flight));
            let path = self.paths.get_mut(index);
            if path.flight > 0 && path.on_setup_timeout(lost, &self.config) {
                cx.known.forget_mtu(path.remote.ip());
                log_mtu_change(self, index, before);
            }
        }
    }

    /// Handles an expiry of T2-shutdown (section 9.2).
    fn on_t2(&mut self, cx: &mut EndpointContext, now: Time) {
        self.errors.shutdown += 1;
        if let Some(log) = log_of(self) {
            log.control_timer(ControlTimer::Shutdown, self.errors.shutdown);
        }
        self.errors.total = self.errors.total.saturating_add(1);
        if self.errors.shutdown > self.config.association_retrans_max {
            return self.give_up(cx, now, UNANSWERED);
        }
        self.back_off_control_path(cx);
        if matches!(self.state, State::ShutdownSent { .. }) {
            self.send_shutdown(cx, now);
        } else {
            self.send_shutdown_ack(cx, now);
        }
    }

    /// Handles a missing answer on the control path: its RTO doubles, its error count grows, and the next attempt
    /// uses another path.
    pub(super) fn back_off_control_path(&mut self, cx: &mut EndpointContext) {
        let config = Arc::clone(&self.config);
        let index = self.control_path;
        let path = self.paths.get_mut(index);
        path.rto.back_off(&config);
        // The set-up has its own limit; paths are judged once the association is established.
        if !self.state.in_setup()
            && let Some(change) = path.on_error(&config)
        {
            self.on_path_change(cx, index, change);
        }
        if let Some(other) = self.paths.alternate(index) {
            self.control_path = other;
        }
    }

    fn on_guard_timer(&mut self, cx: &mut EndpointContext, now: Time) {
        self.deadlines.guard = Time::MAX;
        if let State::ShutdownSent { end } = self.state {
            // The peer can't go on before the application has read.
            if now < end && is_held_up(&self.inbound) {
                self.deadlines.guard = end.min(now + self.config.shutdown_guard().max(GUARD_AGAIN_MIN));
                return;
            }
            if let Some(log) = log_of(self) {
                log.control_timer(ControlTimer::ShutdownGuard, self.errors.shutdown);
            }
            self.give_up(cx, now, "the shutdown took too long");
        } else {
            self.end_linger(cx, now);
        }
    }

    fn on_idle_timer(&mut self, cx: &mut EndpointContext, now: Time) {
        self.deadlines.idle = Time::MAX;
        if self.outbound.is_empty() && !self.inbound.readable() {
            self.outbound.release_idle();
            self.inbound.release_idle();
            self.paths.release_idle();
            sack_size::forget(self, |_| true);
            self.extras.take_if(|extras| extras.is_unused());
            cx.arena.release_idle();
        } else {
            self.touch_idle(now);
        }
    }

    /// True if T3-rtx of a path has expired, or counts as expired because the path is silent.
    fn rtx_expires(&self, now: Time, index: PathIndex) -> bool {
        let silent = self.paths.has_several() && self.paths.silence_deadline(index, &self.config) <= now;
        !self.state.is_closed() && (silent || self.paths.get(index).rtx_expired(now))
    }

    /// Handles the other timers of a path. `expired` is true if its T3-rtx has expired.
    fn on_path_timers(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        index: PathIndex,
        expired: bool,
        heartbeats: &mut u8,
    ) {
        if !expired && self.state.sends_data() && self.paths.get(index).probe_due(now) {
            self.on_probe_timer(now, index);
        }
        if !self.state.is_closed() && !self.state.in_setup() {
            self.on_heartbeat_timer(cx, now, index, heartbeats);
        }
    }

    /// Handles an expiry of T3-rtx (section 6.3.3), or a silent path if there is another one.
    fn on_t3(&mut self, cx: &mut EndpointContext, now: Time, index: PathIndex) {
        let config = Arc::clone(&self.config);
        self.stats.timeouts += 1;
        self.judge_ecn(now, index, None, true);
        // A peer that answers with a closed window is alive (section 6.1 rule A).
        if self.outbound.zero_window_probing(index) {
            return probe_closed_window(self, cx, now, index);
        }
        let was_ambiguous = self.paths.get(index).state == PathState::Ambiguous;
        let stays = self.paths.alternate(index).is_none();
        let path = self.paths.get(index);
        // A FORWARD TSN is not in flight, and may be too long like any packet.
        let bytes = path.flight.saturating_add(forward_len(&self.outbound, index));
        let (again, lost, mtu) = (path.timed_out, auth::lost_len(self, bytes), path.pmtu.mtu());
        let path = self.paths.get_mut(index);
        let outcome = path.on_rtx_timeout(now, lost, &config);
        if outcome.mtu_fell {
            cx.known.forget_mtu(path.remote.ip());
        }
        // Before chunks are marked: path and size of the retransmission depend on it.
        self.on_path_error(cx, index, outcome.change);
        // Without another path only the first packet is retransmitted, to find out about the others (RFC 5682). The
        // time-out has ended the ambiguous state, so that data which was kept on this path takes another confirmed one.
        let stays = if was_ambiguous { self.paths.alternate(index).is_none() } else { stays };
        let marked_before = marked_chunks(&self.outbound);
        let bytes = match stays {
            true => self.outbound.on_first_timeout(index, again, room_after_timeout(self, index)),
            false => self.outbound.on_timeout(index, again),
        };
        let chunks = marked_chunks(&self.outbound).saturating_sub(marked_before);
        let path = self.paths.get_mut(index);
        path.on_lost(bytes);
        if path.flight > 0 || self.outbound.has_overdue(index) {
            path.start_rtx(now);
        }
        forward_again(&mut self.outbound);
        update_t3_rtx(self, now);
        log_rtx_expiry(self, index, RtxExpiry { chunks, bytes, probing: false }, mtu);
        self.on_window_shrunk(index, false);
        self.assert_flights();
        let rto = self.paths.get(index).rto.rto();
        self.errors.on_standstill(now, rto, rto);
        self.count_error(cx, now);
    }

    /// Sends a tail-loss probe: nothing came back for a while, and the last packets may be lost.
    fn on_probe_timer(&mut self, now: Time, index: PathIndex) {
        if self.flags.held {
            return defer_probe(self.paths.get_mut(index), now);
        }
        let new_allowed = takes_new_data(self, index) && self.paths.get(index).may_probe_with_new();
        let marked = self.outbound.on_probe(now, index, new_allowed);
        let path = self.paths.get_mut(index);
        path.on_probe(now);
        path.on_lost(marked);
        if let Some(log) = trace_of(self) {
            log.tail_probe(index);
        }
        self.assert_flights();
    }

    /// Returns when a path counts as silent, if there are several.
    pub(super) fn silence_deadline(&self) -> Time {
        if !self.paths.has_several() {
            return Time::MAX;
        }
        let of = |index| self.paths.silence_deadline(index, &self.config);
        self.paths.indices().map(of).min().unwrap_or(Time::MAX)
    }

    /// Counts an error of the association as a whole (section 8.1). As in that section, answered HEARTBEATs reset the
    /// count. Time-outs of DATA without an acknowledgement in between have a second count with the same limit, so
    /// that DATA which never arrives does not wait for ever while HEARTBEATs are answered.
    pub(super) fn count_error(&mut self, cx: &mut EndpointContext, now: Time) {
        self.errors.total = self.errors.total.saturating_add(1);
        if self.errors.total.max(self.errors.data_timeouts) > self.config.association_retrans_max {
            self.give_up(cx, now, UNANSWERED);
        }
    }

    /// Handles heartbeats: an unanswered one is an error, and the next one is sent when it is due (section 8.3).
    fn on_heartbeat_timer(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        index: PathIndex,
        heartbeats: &mut u8,
    ) {
        let config = Arc::clone(&self.config);
        let random = cx.rng_word();
        let in_use = self.paths.data_path() == Some(index);
        let path = self.paths.get_mut(index);
        if let Some(loss) = path.on_probe_timers(now, random, &config) {
            if let Some(log) = log_of(self) {
                log.heartbeat_loss(index);
            }
            self.on_path_error(cx, index, loss.change);
            // Probes of unconfirmed addresses and of unused paths do not count for the association.
            if loss.confirmed && in_use {
                self.count_error(cx, now);
            } else if is_lost(self) {
                self.give_up(cx, now, UNANSWERED);
            }
        }
        if !self.state.heartbeats() || !self.paths.get_mut(index).heartbeat_due(now, random, &config) {
            return;
        }
        if *heartbeats == 0 {
            let path = self.paths.get_mut(index);
            let at = now + path.rto.rto();
            return path.heartbeat.defer(at);
        }
        if !self.is_confirmed(index) && !self.may_verify(cx, now, index) {
            return self.verify_later(cx, now, index);
        }
        *heartbeats -= 1;
        self.send_heartbeat(cx, now, index);
    }

    /// Stops heartbeats because SHUTDOWN or SHUTDOWN ACK was sent (section 8.3).
    pub(super) fn stop_heartbeats(&mut self) {
        for index in self.paths.indices() {
            self.paths.get_mut(index).heartbeat.stop();
        }
    }

    /// Starts the heartbeats of every path.
    pub(super) fn start_heartbeats(&mut self, cx: &mut EndpointContext, now: Time) {
        let config = Arc::clone(&self.config);
        for index in self.paths.indices() {
            let random = cx.rng_word();
            self.paths.get_mut(index).start_heartbeats(now, random, &config);
        }
    }
}

/// Counts an RTO in which chunks were acknowledged and the earliest outstanding one was not. T3-rtx does not
/// expire while that one is found lost and retransmitted in each round trip, such as one that is too long for
/// the path.
pub(super) fn count_standstill(association: &mut Association, cx: &mut EndpointContext, now: Time) {
    let rto = association.paths.iter().map(|(_, path)| path.rto.rto()).max().unwrap_or_default();
    if association.errors.stands_still(now, rto) {
        association.errors.on_standstill(now, rto, association.config.rto_max);
        if association.errors.data_timeouts > association.config.association_retrans_max {
            association.give_up(cx, now, UNANSWERED);
        }
    }
}

/// Returns the room in bytes for chunks with user data in the packet that is sent after a time-out of the path.
pub(super) fn room_after_timeout(association: &Association, index: PathIndex) -> u32 {
    association.paths.room_after_timeout(index).saturating_sub(auth::reserve(association) as u32)
}

/// Handles an expiry of T3-rtx while the peer answers that its window is closed: the lowest chunks probe it.
fn probe_closed_window(association: &mut Association, cx: &mut EndpointContext, now: Time, index: PathIndex) {
    let path = association.paths.get(index);
    let bytes = path.flight.saturating_add(forward_len(&association.outbound, index));
    let (lost, before) = (auth::lost_len(association, bytes), path.pmtu.mtu());
    let path = association.paths.get_mut(index);
    if on_window_probes_lost(path, lost, &association.config) {
        cx.known.forget_mtu(path.remote.ip());
        log_mtu_change(association, index, before);
    }
    let room = room_after_timeout(association, index);
    let Association { outbound, paths, config, .. } = association;
    let marked_before = marked_chunks(outbound);
    let bytes = outbound.on_window_probe_timeout(index, room);
    let chunks = marked_chunks(outbound).saturating_sub(marked_before);
    let path = paths.get_mut(index);
    path.on_lost(bytes);
    path.on_window_probe_timeout(now, config);
    if outbound.has_overdue(index) {
        path.start_rtx(now);
    }
    let mtu = path.pmtu.mtu();
    // What the peer holds behind data that was abandoned may be what closes its window.
    forward_again(outbound);
    update_t3_rtx(association, now);
    log_rtx_expiry(association, index, RtxExpiry { chunks, bytes, probing: true }, mtu);
    association.assert_flights();
}
