//! User data: `send`, `recv`, DATA in, SACK in (RFC 9260 section 6).

use bytes::Bytes;
use std::sync::Arc;

use strandline_wire::cause::{Cause, InvalidStreamIdentifier};
use strandline_wire::chunk::{Data, Sack};

use super::context::Shared;
use super::offer::encode_cause;
use super::{Association, State};
use crate::config::PATHS_MAX;
use crate::congestion::Ack;
use crate::error::SendError;
use crate::event::{CloseReason, Event, Message, SendInfo};
use crate::inbound::DataOutcome;
use crate::outbound::{PathAck, SackOutcome};
use crate::time::Time;

impl Association {
    /// SEND (section 11.1.5).
    pub(crate) fn send(&mut self, now: Time, info: SendInfo, data: Bytes) -> Result<(), SendError> {
        if !self.state.takes_messages() || self.flags.shutdown_wanted {
            return Err(SendError::Closed);
        }
        let config = Arc::clone(&self.config);
        self.outbound.push(info, data, &config)?;
        self.flags.burst_open = true;
        self.touch_idle(now);
        Ok(())
    }

    /// RECEIVE (section 11.1.7).
    pub(crate) fn recv(&mut self, cx: &mut Shared, now: Time) -> Option<Message> {
        let before = self.inbound.buffered_bytes();
        let message = self.inbound.recv();
        let freed = before.saturating_sub(self.inbound.buffered_bytes());
        cx.received_bytes = cx.received_bytes.saturating_sub(u64::from(freed));
        if message.is_none() {
            self.flags.readable_given = false;
        } else if self.state.receives_data() {
            self.inbound.on_read(now);
        }
        message
    }

    /// A DATA chunk in a state that accepts it; false ends the packet.
    pub(super) fn on_data(&mut self, cx: &mut Shared, now: Time, data: &Data<'_>, report: &mut Vec<u8>) -> bool {
        self.stats.data_received += 1;
        if data.payload.is_empty() {
            let causes = encode_cause(&Cause::NoUserData(data.tsn));
            self.send_abort(cx, &causes);
            self.end(cx, now, CloseReason::ProtocolViolation("a DATA chunk without user data"));
            return false;
        }
        let before = self.inbound.buffered_bytes();
        let room = cx.config.receive_bytes_max.saturating_sub(cx.received_bytes) > 0;
        let config = Arc::clone(&self.config);
        let outcome = self.inbound.on_data(data, &mut cx.arena, &config, room);
        let after = self.inbound.buffered_bytes();
        cx.received_bytes = (cx.received_bytes + u64::from(after)).saturating_sub(u64::from(before));
        match outcome {
            DataOutcome::Accepted | DataOutcome::Dropped => true,
            DataOutcome::Duplicate => {
                // The acknowledgement may have been lost on its way: let it try another one (section 6.4).
                if let Some(other) = self.paths.alternate(self.sack_path) {
                    self.sack_path = other;
                }
                true
            }
            DataOutcome::InvalidStream => {
                let cause = Cause::InvalidStreamIdentifier(InvalidStreamIdentifier { stream: data.stream });
                Self::report(report, &cause);
                true
            }
            DataOutcome::Violation(what) => {
                self.violate(cx, now, what);
                false
            }
        }
    }

    /// SACK (section 6.2.1): allowed from COOKIE-ECHOED on, where data may have gone with the COOKIE ECHO.
    pub(super) fn on_sack_chunk(&mut self, cx: &mut Shared, now: Time, sack: &Sack<'_>) {
        if !(self.state.sends_data() || matches!(self.state, State::CookieEchoed(_))) {
            return;
        }
        let mut acks = [PathAck::default(); PATHS_MAX];
        let flights = self.flights();
        let outcome = self.outbound.on_sack(now, sack, &mut acks);
        let applied = match outcome {
            SackOutcome::Ignored => return,
            SackOutcome::Violation(what) => return self.violate(cx, now, what),
            SackOutcome::Applied(applied) => applied,
        };
        if self.outbound.zero_window_probing() {
            self.flags.window_probed = true;
        }
        if applied.acked_bytes > 0 {
            self.error_count = 0; // section 8.1
        }
        if applied.entered_fast_recovery {
            self.stats.fast_recoveries += 1;
        }
        self.apply_acks(cx, now, &acks, &flights, &applied);
        if applied.writable {
            cx.event(self.id, Event::Writable);
        }
    }

    /// Bytes in flight on each path, before an acknowledgement.
    pub(super) fn flights(&self) -> [u32; PATHS_MAX] {
        let mut flights = [0; PATHS_MAX];
        for (index, path) in self.paths.iter() {
            if let Some(slot) = flights.get_mut(usize::from(index.0)) {
                *slot = path.flight;
            }
        }
        flights
    }

    /// Tells each path what an acknowledgement means for it: flight, RTT, congestion window, T3-rtx, errors.
    pub(super) fn apply_acks(
        &mut self,
        cx: &mut Shared,
        now: Time,
        acks: &[PathAck; PATHS_MAX],
        flights: &[u32; PATHS_MAX],
        applied: &crate::outbound::Applied,
    ) {
        let config = Arc::clone(&self.config);
        for index in self.paths.indices() {
            let at = usize::from(index.0);
            let (Some(ack), Some(flight_before)) = (acks.get(at), flights.get(at)) else { continue };
            if !ack.touched {
                continue;
            }
            let path = self.paths.get_mut(index);
            path.flight = path.flight.saturating_sub(ack.flight_drop).saturating_add(ack.flight_gain);
            let mut rtt = None;
            if let Some(sent) = ack.rtt_sample_sent_at {
                rtt = path.on_rtt(now, sent, &config);
            }
            if ack.fast_retransmit_loss {
                path.congestion.on_fast_retransmit(now);
            }
            if ack.acked_bytes > 0 {
                path.congestion.on_ack(&Ack {
                    now,
                    acked_bytes: ack.acked_bytes,
                    flight_before: *flight_before,
                    cumulative_advanced: applied.cumulative_advanced,
                    in_fast_recovery: applied.in_fast_recovery,
                    all_acked: path.flight == 0,
                    rtt,
                });
                path.burst_credit = path.burst_credit.saturating_add(ack.acked_bytes);
            }
            // Section 6.3.2: R2 stop when all is acknowledged, R3 restart when the earliest was.
            if path.flight == 0 {
                path.stop_rtx();
            } else if ack.lowest_acked {
                path.restart_rtx(now);
            } else {
                path.start_rtx(now);
            }
            if ack.acked_bytes > 0
                && let Some(change) = path.on_answer()
            {
                let address = path.remote;
                cx.event(self.id, Event::PathChanged { address, change });
            }
        }
    }

    /// Data was exchanged: buffers may stay for a while.
    pub(super) fn touch_idle(&mut self, now: Time) {
        self.idle_deadline = now + self.config.idle_release;
    }
}
