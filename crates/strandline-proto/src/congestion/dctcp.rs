//! DCTCP (RFC 8257). The window shrinks in proportion to the share of marked packets, so that queues stay at the
//! switches' threshold and links stay full. It is for networks of one operator whose switches mark at a low
//! threshold. Both ends must use it, since the receiver reports which packets were marked.

#[cfg(test)]
mod tests;

use super::additive::Additive;
use super::controller::{Ack, Controller, threshold_after_idle};
use super::rfc9260::initial_window_of_ten;
use super::undo::Undo;
use crate::time::Time;

/// Fixed-point unit of DCTCP.Alpha.
const ONE: u32 = 1 << 20;
/// g of section 3.3 as a right shift: 1/16.
const G_SHIFT: u32 = 4;

/// The controller of RFC 8257. Without marks it grows as in RFC 5681.
#[derive(Debug, Clone)]
pub struct Dctcp {
    cwnd: u32,
    ssthresh: u32,
    pmdcs: u32,
    additive: Additive,
    /// DCTCP.Alpha in units of 1 / `ONE`.
    alpha: u32,
    /// Bytes left to acknowledge in the observation window, bytes acknowledged in it, and marked bytes among these.
    round_left: u32,
    acked: u32,
    bytes_marked: u32,
    /// cwnd and ssthresh before the latest loss.
    before: Undo,
}

impl Dctcp {
    /// Creates a controller with the initial window of RFC 6928. `pmdcs` is in bytes.
    #[must_use]
    pub fn new(pmdcs: u32) -> Self {
        let pmdcs = pmdcs.max(1);
        Self {
            cwnd: initial_window_of_ten(pmdcs),
            ssthresh: u32::MAX,
            pmdcs,
            additive: Additive::default(),
            alpha: ONE,
            round_left: 0,
            acked: 0,
            bytes_marked: 0,
            before: Undo::default(),
        }
    }

    fn window_min(&self) -> u32 {
        self.pmdcs.saturating_mul(2)
    }

    fn grow(&mut self, ack: &Ack) {
        if ack.in_fast_recovery {
            return;
        }
        if self.cwnd < self.ssthresh {
            let growth = if ack.validates(self.cwnd) { ack.acked_bytes } else { 0 };
            self.cwnd = self.cwnd.saturating_add(growth);
            return;
        }
        if !ack.window_full {
            return;
        }
        self.cwnd = self.additive.grown(self.cwnd, ack.growing_bytes(), self.pmdcs);
    }

    /// Ends an observation window, which lasts one round trip (section 3.3, steps 5 to 9).
    fn end_round(&mut self) {
        let share = u64::from(self.bytes_marked) * u64::from(ONE) / u64::from(self.acked.max(1));
        let share = u32::try_from(share).unwrap_or(ONE).min(ONE);
        self.alpha = self.alpha - (self.alpha >> G_SHIFT) + (share >> G_SHIFT);
        if self.bytes_marked > 0 {
            let off = u64::from(self.cwnd) * u64::from(self.alpha) / u64::from(ONE) / 2;
            self.cwnd =
                self.cwnd.saturating_sub(u32::try_from(off).unwrap_or(u32::MAX)).max(self.window_min());
            self.ssthresh = self.cwnd;
            self.additive = Additive::default();
        }
        self.acked = 0;
        self.bytes_marked = 0;
    }

    fn on_loss(&mut self) {
        // Of several losses in a row the largest window counts.
        self.before.remember(self.cwnd, self.ssthresh);
        self.ssthresh = (self.cwnd / 2).max(self.window_min());
        self.additive = Additive::default();
    }
}

impl Controller for Dctcp {
    fn window(&self) -> u32 {
        self.cwnd
    }

    fn slow_start_threshold(&self) -> u32 {
        self.ssthresh
    }

    fn counts_marks(&self) -> bool {
        true
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.round_left == 0 {
            self.round_left = ack.flight_before.max(self.pmdcs);
        }
        self.acked = self.acked.saturating_add(ack.acked_bytes);
        if ack.ecn_echoed {
            self.bytes_marked = self.bytes_marked.saturating_add(ack.acked_bytes);
            // The first mark ends slow start.
            self.ssthresh = self.ssthresh.min(self.cwnd);
        } else {
            self.grow(ack);
        }
        self.round_left = self.round_left.saturating_sub(ack.acked_bytes);
        if self.round_left == 0 {
            self.end_round();
        }
    }

    /// Reacts to losses as TCP does (section 3.5).
    fn on_fast_retransmit(&mut self, _now: Time) {
        self.on_loss();
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    fn on_timeout(&mut self, _now: Time) {
        if self.cwnd > self.pmdcs {
            self.on_loss();
            self.cwnd = self.pmdcs;
        }
    }

    fn on_certain(&mut self) {
        self.before.forget();
    }

    fn on_undo(&mut self) {
        (self.cwnd, self.ssthresh) = self.before.restored(self.cwnd, self.ssthresh);
    }

    /// Does nothing: [`Ack::ecn_echoed`] reports the marks.
    fn on_ecn(&mut self, _now: Time) {}

    fn on_idle(&mut self, rto_periods: u32) {
        let floor = initial_window_of_ten(self.pmdcs);
        if rto_periods > 0 && self.cwnd > floor {
            self.ssthresh = threshold_after_idle(self.cwnd, self.ssthresh);
            self.cwnd = self.cwnd.checked_shr(rto_periods).unwrap_or(0).max(floor);
        }
    }

    fn on_mtu(&mut self, pmdcs: u32) {
        self.pmdcs = pmdcs.max(1);
        self.cwnd = self.cwnd.max(self.pmdcs);
    }
}
