//! External events of a path: ICMP and configuration.

use std::sync::Arc;

use super::Association;
use super::buffers::{Pressure, send_buffer};
use super::context::EndpointContext;
use super::diagnostics::{log_mtu_change, log_of};
use crate::config::AssociationConfig;
use crate::congestion::Algorithm;
use crate::event::{Event, PathChange};
use crate::outbound::scheduling::set_scheduler;
use crate::outbound::stream_credit::unparked_messages;
use crate::path::PathState;
use crate::path_index::PathIndex;
use crate::time::Time;

impl Association {
    /// Handles a report that a router cannot carry packets of this size (RFC 9260 section 10 rule ICMP7). The flight
    /// was too large and is retransmitted, in IP fragments if a chunk was made for the larger size.
    pub(crate) fn on_packet_too_big(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        index: PathIndex,
        mtu: u32,
    ) {
        let path = self.paths.get_mut(index);
        let before = path.pmtu.mtu();
        if !path.on_packet_too_big(now, mtu) {
            return;
        }
        cx.known.forget_mtu(path.remote.ip());
        log_mtu_change(self, index, before);
        self.send_again(index);
    }

    /// Retransmits the flight of a path at once, without a sign that it was lost.
    pub(super) fn send_again(&mut self, index: PathIndex) {
        if self.paths.get(index).flight > 0 || self.outbound.has_overdue(index) {
            let marked = self.outbound.send_again(index);
            let path = self.paths.get_mut(index);
            path.stop_rtx();
            path.on_lost(marked);
            self.flags.burst_open = true;
        }
    }

    /// Leaves path properties of an ended association to the next one with this peer (RFC 9040).
    pub(crate) fn leave_behind(&self, cx: &mut EndpointContext, now: Time) {
        for (_, path) in self.paths.iter().filter(|(_, path)| path.state == PathState::Active) {
            if let (Some(srtt), Some(rttvar)) = (path.rto.srtt(), path.rto.rttvar()) {
                cx.known.learn_rtt(now, path.remote.ip(), srtt, rttvar);
            }
        }
    }

    /// Notifies the application of a change of a path.
    pub(crate) fn on_path_change(&self, cx: &mut EndpointContext, index: PathIndex, change: PathChange) {
        if let Some(log) = log_of(self) {
            log.path_change(index, change);
        }
        let address = self.paths.get(index).remote;
        cx.event(self.id, Event::PathChanged { address, change });
    }

    /// Handles the effects of a path error that was counted. If it is the primary path and had too many, the path in
    /// use becomes primary (RFC 7829 section 5).
    pub(super) fn on_path_error(
        &mut self,
        cx: &mut EndpointContext,
        index: PathIndex,
        change: Option<PathChange>,
    ) {
        let change = if self.paths.has_several() && change.is_none() {
            self.paths.get_mut(index).on_repeated_errors(&self.config)
        } else {
            change
        };
        if let Some(change) = change {
            self.on_path_change(cx, index, change);
        }
        let errors = self.paths.get(index).error_count;
        let switches = self.config.primary_switchover_retrans_max.is_some_and(|max| errors > max);
        if switches
            && index == self.paths.primary()
            && let Some(other) = self.paths.active_other_than(index)
            && self.paths.set_primary(other)
        {
            self.on_path_change(cx, other, PathChange::Primary);
        }
    }

    /// Adopts a changed `recovery` if nothing is outstanding, for the chunks and all paths at the same time.
    pub(super) fn adopt_recovery(&mut self) {
        let recovery = self.config.recovery;
        self.flags.recovery_due = !self.outbound.set_recovery(recovery);
        if !self.flags.recovery_due {
            for index in self.paths.indices() {
                self.paths.get_mut(index).set_recovery(recovery);
            }
        }
    }

    /// True if the association may use the controller: DCTCP needs marks, which both sides negotiate at set-up. An
    /// association that already uses it may keep it.
    pub(crate) fn may_have(&self, congestion: Algorithm) -> bool {
        let agreed = self.ecn.as_ref().is_some_and(|ecn| ecn.agreed || self.state.in_setup());
        congestion != Algorithm::Dctcp || congestion == self.config.congestion || agreed
    }

    /// SET PROTOCOL PARAMETERS (section 11.1.13).
    pub(crate) fn reconfigure(
        &mut self,
        cx: &mut EndpointContext,
        now: Time,
        config: Arc<AssociationConfig>,
    ) {
        if config.congestion != self.config.congestion {
            self.keep_ecne();
        }
        self.config = Arc::clone(&config);
        if let Some(bytes) = config.receive_buffer {
            self.inbound.set_receive_buffer(bytes);
        }
        self.outbound.set_send_buffer(config.send_buffer_start());
        set_scheduler(&mut self.outbound, config.stream_scheduler, config.stream_scheduler);
        self.flags.burst_open = true;
        for index in self.paths.indices() {
            let path = self.paths.get_mut(index);
            path.on_configure(&config, cx.link_to(path.remote.ip()));
        }
        self.adopt_recovery();
        if self.state.heartbeats() {
            self.start_heartbeats(cx, now);
        }
    }

    /// Returns the number of bytes that `send` would accept.
    pub(crate) fn send_space(&self, pressure: Pressure) -> usize {
        let waiting = unparked_messages(&self.outbound);
        let crowded = waiting >= self.config.send_messages_max as usize;
        if crowded || !self.state.takes_messages() {
            return 0;
        }
        (send_buffer(&self.config, &self.paths, self.outbound.peer_rwnd(), pressure) as usize)
            .saturating_sub(self.outbound.buffered_bytes())
    }
}
