//! User data: `send`, `recv`, received DATA and SACK chunks (RFC 9260 section 6).

use bytes::Bytes;

use strandline_wire::cause::Cause;
use strandline_wire::chunk::{Data, IData, NrSack, Sack};

use super::abandon::update_t3_rtx;
use super::buffers::{Pressure, send_buffer};
use super::context::EndpointContext;
use super::diagnostics::{log_losses, log_mtu_change, log_recovery_end, watches_recovery};
use super::dry::report_dry;
use super::offer::encode_cause;
use super::seen::Seen;
use super::teardown::restart_guard;
use super::timeout::{count_standstill, room_after_timeout};
use super::{Association, State, auth, multipath, reconfig};
use crate::error::SendError;
use crate::event::{CloseReason, Event, Message, PathChange, SendInfo};
use crate::inbound::i_data::{charged_bytes, on_i_data};
use crate::inbound::{DataOutcome, Inbound};
use crate::number::{StreamId, Tsn};
use crate::outbound::stream_credit::check_buffer;
use crate::outbound::{
    FRTO_PACKETS, Outbound, PathAck, SackOutcome, is_blocked, on_nr_sack, waits_for_credit,
};
use crate::path::{FrtoPackets, PathLoss, PathSack};
use crate::path_index::{PathIndex, PerPath};
use crate::time::Time;

impl Association {
    /// SEND (section 11.1.5): takes the message out of `data`.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: Time,
        info: SendInfo,
        data: &mut Bytes,
        pressure: Pressure,
    ) -> Result<(), SendError> {
        let idle = self.begin_send(pressure)?;
        let (config, paths) = (&self.config, &self.paths);
        let room = |rwnd| send_buffer(config, paths, rwnd, pressure);
        self.outbound.push(now, info, data, config, room)?;
        self.end_send(now, idle);
        Ok(())
    }

    /// SEND: copies the message.
    #[inline]
    pub(crate) fn send_slice(
        &mut self,
        now: Time,
        info: SendInfo,
        data: &[u8],
        pressure: Pressure,
    ) -> Result<(), SendError> {
        let idle = self.begin_send(pressure)?;
        let (config, paths) = (&self.config, &self.paths);
        let room = |rwnd| send_buffer(config, paths, rwnd, pressure);
        self.outbound.push_slice(now, info, data, config, room)?;
        self.end_send(now, idle);
        Ok(())
    }

    /// Shrinks the send buffer to what memory pressure allows.
    #[cold]
    fn shrink_send_buffer(&mut self, pressure: Pressure) {
        let rwnd = self.outbound.peer_rwnd();
        self.outbound.set_send_buffer(send_buffer(&self.config, &self.paths, rwnd, pressure));
    }

    /// Checks whether messages are accepted now. Returns true if nothing is queued or outstanding.
    #[inline]
    fn begin_send(&mut self, pressure: Pressure) -> Result<bool, SendError> {
        if !self.state.takes_messages() || self.flags.shutdown_wanted {
            return Err(SendError::Closed);
        }
        if pressure != Pressure::Low {
            self.shrink_send_buffer(pressure);
        }
        Ok(self.outbound.is_empty())
    }

    #[inline]
    fn end_send(&mut self, now: Time, idle: bool) {
        if idle {
            // Acknowledgements of data sent before the pause do not clock what comes after it (section 6.1 rule D).
            for index in self.paths.indices() {
                self.paths.get_mut(index).forget_acked();
            }
        }
        self.flags.burst_open = true;
        self.touch_idle(now);
    }

    /// RECEIVE (section 11.1.7).
    #[inline]
    pub(crate) fn recv(&mut self, cx: &mut EndpointContext, now: Time) -> Option<Message> {
        let before = self.inbound.buffered_bytes();
        let message = self.inbound.recv();
        let freed = before.saturating_sub(self.inbound.buffered_bytes());
        cx.memory.on_read(freed);
        if message.is_none() {
            self.flags.readable_given = false;
        } else {
            self.touch_idle(now);
            restart_guard(self, now);
        }
        message
    }

    /// RECEIVE, up to `max` messages at a time.
    pub(crate) fn recv_many(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        messages: &mut Vec<Message>,
        max: usize,
    ) -> usize {
        let before = self.inbound.buffered_bytes();
        let count = self.inbound.recv_many(messages, max);
        let freed = before.saturating_sub(self.inbound.buffered_bytes());
        cx.memory.on_read(freed);
        if count < max {
            self.flags.readable_given = false;
        }
        if count > 0 {
            self.touch_idle(now);
            restart_guard(self, now);
        }
        count
    }

    /// Processes a DATA chunk in a state that accepts it. Returns false to discard the rest of the packet.
    #[inline]
    pub(super) fn on_data(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        data: &Data<'_>,
        seen: &mut Seen,
    ) -> bool {
        self.stats.data_received += 1;
        let before = self.inbound.buffered_bytes();
        if !has_room_for(&self.inbound, cx, data.tsn) {
            // The next SACK advertises a closed window.
            self.inbound.refuse(data.tsn);
            return true;
        }
        let outcome = self.inbound.on_data(data, &mut cx.arena, self.config.partial_delivery_point);
        let after = self.inbound.buffered_bytes();
        cx.memory.on_received(before, after);
        match outcome {
            DataOutcome::Accepted { .. } | DataOutcome::Dropped(_) => true,
            other => self.on_refused_data(cx, now, (data.stream, data.tsn), other, seen),
        }
    }

    /// As [`on_data`](Self::on_data), for an I-DATA chunk.
    pub(super) fn on_i_data(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        data: &IData<'_>,
        seen: &mut Seen,
    ) -> bool {
        self.stats.data_received += 1;
        let before = charged_bytes(&self.inbound);
        if !has_room_for(&self.inbound, cx, data.tsn) {
            self.inbound.refuse(data.tsn);
            return true;
        }
        let point = self.config.partial_delivery_point;
        let outcome = on_i_data(&mut self.inbound, data, &mut cx.arena, point);
        cx.memory.on_received(before, charged_bytes(&self.inbound));
        self.on_refused_data(cx, now, (data.stream, data.tsn), outcome, seen)
    }

    /// Processes a DATA chunk that yields nothing to read. Returns false to discard the rest of the packet.
    #[cold]
    fn on_refused_data(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        (stream, tsn): (StreamId, Tsn),
        outcome: DataOutcome,
        seen: &mut Seen,
    ) -> bool {
        match outcome {
            DataOutcome::Accepted { .. } | DataOutcome::Dropped(_) => true,
            DataOutcome::Duplicate => {
                seen.duplicate = true;
                true
            }
            DataOutcome::InvalidStream => {
                let cause = Cause::InvalidStream { stream };
                Self::report(&mut seen.report, &cause);
                true
            }
            DataOutcome::NoUserData => {
                if !auth::may_be_ended(self) {
                    return false; // Anybody may have sent this.
                }
                let causes = encode_cause(&Cause::NoUserData { tsn });
                self.send_abort(cx, &causes);
                self.end(cx, now, CloseReason::ProtocolViolation("a DATA chunk without user data"));
                false
            }
            DataOutcome::Violation(what) => {
                self.abort_for_violation(cx, now, what);
                false
            }
        }
    }

    /// Processes a SACK (section 6.2.1).
    pub(super) fn on_sack_chunk(&mut self, cx: &mut EndpointContext, now: Time, sack: &Sack<'_>) {
        handle_selective_ack(self, cx, now, sack.cumulative_tsn(), |outbound, acks| {
            outbound.on_sack(now, sack, acks)
        });
    }

    /// Applies the outcome of an acknowledgement to the association.
    pub(super) fn apply_outcome(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        outcome: SackOutcome,
        acks: &PerPath<PathAck>,
    ) {
        let SackOutcome::Applied {
            cumulative_advanced,
            newly_acked,
            entered_fast_recovery,
            in_fast_recovery,
            all_acked,
            writable,
            window_opened,
            delivered,
        } = outcome
        else {
            if let SackOutcome::Violation(what) = outcome {
                self.abort_for_violation(cx, now, what);
            }
            return;
        };
        let recovery_due = all_acked && self.flags.recovery_due;
        cx.on_send_bytes_gone(delivered);
        if newly_acked {
            self.errors.total = 0; // Section 8.1.
            self.restart_linger(now);
        }
        if cumulative_advanced {
            self.errors.on_progress();
        }
        let recovers = entered_fast_recovery || acks.iter().any(PathAck::begins_recovery);
        self.stats.fast_recoveries += u32::from(recovers);
        if writable {
            cx.event(self.id, Event::Writable);
        }
        self.apply_acks(cx, now, acks, cumulative_advanced, in_fast_recovery);
        update_t3_rtx(self, now);
        if window_opened {
            self.probe_opened_window(now);
        }
        self.assert_flights();
        if recovery_due {
            self.adopt_recovery();
        }
        if cumulative_advanced && self.flags.reports_dry {
            report_dry(self, cx);
        }
        if cumulative_advanced && self.deadlines.idle != Time::MAX && self.outbound.is_empty() {
            // The peer has everything: an exchange may be over.
            self.deadlines.idle = self.deadlines.idle.min(now + cx.idle_release(self.config.idle_release));
        }
        if newly_acked && !cumulative_advanced {
            count_standstill(self, cx, now);
        }
    }

    /// Probes the peer's window after it has opened: retransmits the data that had no room, if the probe budget allows.
    fn probe_opened_window(&mut self, now: Time) {
        let Some(index) = self.outbound.path_to_probe_opened_window(now) else { return };
        if self.paths.get(index).may_probe_opened_window(now) {
            let bytes = self.outbound.probe_opened_window(index, room_after_timeout(self, index));
            self.paths.get_mut(index).on_window_opened(now, bytes);
        }
    }

    /// Handles the reordering timer of `Recovery::Rack`: overdue chunks are lost now.
    pub(super) fn on_loss_timer(&mut self, cx: &mut EndpointContext, now: Time) {
        let mut acks = PerPath::default();
        self.outbound.on_loss_timer(now, &mut acks);
        self.stats.fast_recoveries += u32::from(acks.iter().any(PathAck::begins_recovery));
        self.apply_acks(cx, now, &acks, false, false);
        self.assert_flights();
    }

    /// Asserts that the paths' flights agree with the chunks'.
    pub(super) fn assert_flights(&self) {
        for (index, path) in self.paths.iter() {
            debug_assert_eq!(
                path.flight,
                self.outbound.flight_of(index),
                "flight of path {}",
                index.number()
            );
        }
    }

    /// Applies an acknowledgement to each path: flight, RTT, congestion window, T3-rtx, errors.
    fn apply_acks(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        acks: &PerPath<PathAck>,
        cumulative_advanced: bool,
        in_fast_recovery: bool,
    ) {
        self.forget_past_reductions();
        let shares = multipath::shares(self);
        let gap_seen = self.outbound.has_gaps();
        let shut = self.outbound.window_is_shut();
        for index in self.paths.indices() {
            self.paths.get_mut(index).set_gap_seen(gap_seen);
            self.paths.get_mut(index).set_window_shut(shut);
            let ack = &acks[index];
            if ack.is_nothing() && !self.paths.get(index).is_recovering() {
                continue;
            }
            self.stats.undone += u32::from(ack.undo);
            if self.ecn.is_some() {
                self.judge_ecn(now, index, ack.rtt.sent_at, ack.lost.bytes > 0);
            }
            let share = shares.map(|shares| shares[index]);
            let change =
                apply_ack_to_path(self, now, index, ack, (cumulative_advanced, in_fast_recovery), share);
            let loss = path_loss(ack, cumulative_advanced);
            let path = self.paths.get_mut(index);
            if ack.probe_spurious {
                path.on_needless_probe();
            }
            path.on_loss(now, &loss);
            path.frto_packets =
                if ack.probes_timeout { FrtoPackets::packets(FRTO_PACKETS) } else { FrtoPackets::NO };
            if ack.undo {
                path.forget_back_off(now, &self.config);
                self.outbound.retry_blocked();
            }
            if self.ecn.is_some() && (ack.begins_congestion_event || ack.undo) {
                self.on_window_changed(now, index, ack);
            }
            apply_lost_len(self, cx, index, loss.lost_bytes);
            log_losses(self, index, ack);
            if let Some(change) = change {
                self.on_path_change(cx, index, change);
            }
        }
    }

    /// Restarts the idle time after which buffers are released, because data was exchanged.
    pub(super) fn touch_idle(&mut self, now: Time) {
        self.deadlines.idle = now + self.config.idle_release;
    }
}

/// True if a chunk may be buffered. The reserve is for the chunk that reassembly waits for.
#[inline]
fn has_room_for(inbound: &Inbound, cx: &EndpointContext, tsn: Tsn) -> bool {
    cx.has_room(inbound.buffered_bytes()) || (cx.has_reserve() && inbound.waits_for(tsn))
}

/// Applies new and revoked acknowledgements to a path: flight, RTT, cwnd, T3-rtx, reachability.
#[inline]
fn apply_ack_to_path(
    association: &mut Association,
    now: Time,
    index: PathIndex,
    ack: &PathAck,
    (cumulative_advanced, in_fast_recovery): (bool, bool),
    share: Option<f32>,
) -> Option<PathChange> {
    let path = association.paths.get_mut(index);
    path.flight = path.flight.saturating_add(ack.lost.reported_bytes).saturating_sub(ack.lost.overdue_bytes);
    if ack.lost.reneged {
        path.flight = path.flight.saturating_add(ack.lost.reneged_bytes);
        path.start_rtx(now);
    }
    let mut change = None;
    if ack.acked.bytes > 0 || ack.acked.flight_drop > 0 {
        let ecn_echoed = association.ecn.as_ref().is_some_and(|ecn| ecn.is_echoed(index));
        let overdue = association.outbound.has_overdue(index);
        let sack = path_sack(ack, cumulative_advanced, in_fast_recovery, ecn_echoed);
        let sack = PathSack { overdue, share, ..sack };
        change = path.on_sack(now, &sack, &association.config);
    }
    if ack.acked.skipped && ack.acked.bytes == 0 {
        change = path.on_skipped();
    }
    change
}

/// Lowers the path MTU if lost packets were as long as it allows.
#[inline]
fn apply_lost_len(
    association: &mut Association,
    cx: &mut EndpointContext,
    index: PathIndex,
    lost_bytes: u32,
) {
    let mtu = association.paths.get(index).pmtu.mtu();
    if lost_bytes > 0 {
        let len = auth::lost_len(association, lost_bytes);
        let path = association.paths.get_mut(index);
        if path.on_long_lost(len, &association.config) {
            cx.known.forget_mtu(path.remote.ip());
        }
    }
    log_mtu_change(association, index, mtu);
}

/// Processes an NR-SACK.
#[cold]
pub(super) fn on_nr_sack_chunk(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    sack: &NrSack<'_>,
) {
    let apply = |outbound: &mut Outbound, acks: &mut PerPath<PathAck>| on_nr_sack(outbound, now, sack, acks);
    handle_selective_ack(association, cx, now, sack.cumulative_tsn(), apply);
}

/// Processes a SACK or NR-SACK, which `apply` passes to the sending half. It is accepted from COOKIE-ECHOED
/// on, where data may have gone with the COOKIE ECHO.
#[inline]
fn handle_selective_ack(
    association: &mut Association,
    cx: &mut EndpointContext,
    now: Time,
    cumulative: Tsn,
    apply: impl FnOnce(&mut Outbound, &mut PerPath<PathAck>) -> SackOutcome,
) {
    if !(association.state.sends_data() || matches!(association.state, State::CookieEchoed(_))) {
        return;
    }
    if association.reconfig.is_some() && reconfig::is_foreign_ack(association, cumulative) {
        return;
    }
    let recovering = watches_recovery(association);
    let mut acks = PerPath::default();
    let outcome = apply(&mut association.outbound, &mut acks);
    association.apply_outcome(cx, now, outcome, &acks);
    log_recovery_end(association, recovering);
    if matches!(association.state, State::CookieEchoed(_)) {
        // Until the COOKIE ACK arrives nothing is sent without the COOKIE ECHO, and T1-cookie replaces T3-rtx.
        for index in association.paths.indices() {
            association.paths.get_mut(index).stop_rtx();
        }
    }
}

/// Returns `Ok` if [`Association::send`] would accept a message of one byte, or the message that it refused last.
/// Otherwise `Writable` follows when there is room.
pub(crate) fn check_writable(association: &mut Association, pressure: Pressure) -> Result<(), SendError> {
    if association.begin_send(pressure)? {
        return Ok(()); // Nothing is buffered.
    }
    if is_blocked(&association.outbound) {
        return Err(SendError::WouldBlock);
    }
    let (config, paths) = (&association.config, &association.paths);
    let room = |rwnd| send_buffer(config, paths, rwnd, pressure);
    if waits_for_credit(&association.outbound) {
        return check_buffer(&mut association.outbound, config, room);
    }
    association.outbound.room_for(SendInfo::default(), 1, config, room).map(drop)
}

/// Converts an acknowledgement for a path of which it acknowledges something.
#[inline]
fn path_sack(ack: &PathAck, cumulative_advanced: bool, in_fast_recovery: bool, ecn_echoed: bool) -> PathSack {
    PathSack {
        acked_bytes: ack.acked.bytes,
        answered: ack.acked.answered,
        answered_in_time: ack.acked.answered_in_time,
        flight_drop: ack.acked.flight_drop,
        rtt_sent_at: ack.rtt.sent_at,
        rtt_late: ack.rtt.late | ack.rtt.after_lost_sack,
        lowest_acked: ack.acked.lowest,
        overdue: false,
        cumulative_advanced,
        ecn_echoed,
        share: None,
        in_fast_recovery: in_fast_recovery || (ack.in_recovery && !ack.begins_congestion_event),
    }
}

/// Converts what an acknowledgement, or the time that passed, shows about losses on a path.
#[inline]
fn path_loss(ack: &PathAck, cumulative_advanced: bool) -> PathLoss {
    PathLoss {
        lost_bytes: ack.lost.bytes,
        shrink: ack.begins_congestion_event,
        undo_continues: ack.undo_continues,
        repairs: ack.repairs,
        in_recovery: ack.in_recovery,
        undo: ack.undo,
        flight_drop: ack.acked.flight_drop,
        overdue_bytes: ack.lost.overdue_bytes,
        delivered: ack.acked.flight_drop.min(ack.acked.bytes),
        cumulative_advanced,
    }
}
