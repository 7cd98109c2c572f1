//! Burst limit and pacing rate of a path (RFC 9260 section 6.1 rule D; decisions 9 and 114).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::destination::Path;
use super::pacer::Pacer;
use crate::config::{AssociationConfig, Recovery};
use crate::congestion::{Algorithm, Controller, initial_window_of_ten};
use crate::time::Time;

/// Largest burst in bytes that may be sent despite Max.Burst: the size of a carrier's burst. The window must be at
/// least `PIECES_MIN` times as large.
const PIECE_BYTES: u32 = 65_000;
const PIECES_MIN: u32 = 8;

/// Paths with a shorter round-trip time are not paced by their window.
const PACED_RTT_MIN: Duration = Duration::from_millis(5);

impl Path {
    /// True if the round-trip time is known and is that of a local network.
    pub(crate) fn is_short(&self) -> bool {
        self.rto.srtt().is_some_and(|srtt| srtt < PACED_RTT_MIN)
    }

    /// Begins an opportunity to send and allows one burst of new data (section 6.1 rule D). The data that the latest
    /// SACKs acknowledged may be replaced on top of it: the rule limits bursts that no acknowledgement clocks, and
    /// SACKs that are handled together, or one SACK for many packets, would otherwise shrink the flight to Max.Burst.
    ///
    /// On a paced path the pacing rate replaces the limit. On other paths a fraction of a large window may be sent at
    /// once, since Max.Burst dates from windows of a few packets. In strict RFC 9260 mode none of this applies.
    pub(crate) fn allow_burst(&mut self, now: Time, config: &AssociationConfig) {
        let acked = self.arrivals.take_packets();
        let pmdcs = self.data_chunk_len_max();
        let starts = self.starts();
        let acked = match () {
            () if config.to_the_letter => 0,
            // Slow start sends two packets for each acknowledged one.
            () if starts => acked.saturating_mul(2),
            () => acked,
        };
        // If this packet is the first event after a pause, the pace timer has not fired yet.
        self.on_pace_timer(now);
        // A window paced a fifth faster than once per round trip makes up for a late timer by itself.
        let late = Duration::from_millis(core::mem::take(&mut self.late_ms).into());
        let late = if self.congestion.pacing_rate().is_some() { late } else { Duration::ZERO };
        self.pacer.refill(now, self.pacing_rate(), pmdcs, late);
        let clocked = match config.burst_max {
            0 => u32::MAX,
            burst => (u32::from(burst) + u32::from(acked)).saturating_mul(pmdcs),
        };
        // No acknowledgement can clock the first window, so it is sent at once (RFC 6928 section 2).
        let unclocked = match self.recovery() {
            Recovery::Rfc9260 => 0,
            Recovery::Rack if self.is_fresh() && self.congestion.algorithm() != Algorithm::Rfc9260 => {
                self.window()
            }
            // Acknowledgements of the last round trip clock what an application adds now: the answer to a request
            // that came with them.
            Recovery::Rack if starts && now.since(self.last_sent) < self.rto.rto() => self.window(),
            // After a pause as much may be sent at once as on a new path.
            Recovery::Rack if starts || self.is_resting() => initial_window_of_ten(pmdcs).max(self.piece()),
            Recovery::Rack => self.piece(),
        };
        self.burst_allowance = clocked.max(self.pacer.allowance().unwrap_or(unclocked));
    }

    /// Returns the number of bytes that may be sent at once: an eighth of the window, at most `PIECE_BYTES`.
    fn piece(&self) -> u32 {
        (self.window() / PIECES_MIN).min(PIECE_BYTES)
    }

    /// True if nothing is in flight, so that no acknowledgement will clock what follows. The controller of RFC 9260
    /// keeps to Max.Burst.
    fn is_resting(&self) -> bool {
        self.flight == 0 && self.congestion.algorithm() != Algorithm::Rfc9260
    }

    /// Allows the whole initial window at once (RFC 6928 section 2), because no acknowledgement can clock data that
    /// is sent during the set-up.
    pub(crate) fn allow_first_window(&mut self, now: Time) {
        self.pacer.refill(now, None, self.data_chunk_len_max(), Duration::ZERO);
        self.burst_allowance = self.window();
    }

    /// Returns the pacing rate in bytes per second, or `None` if the path is not paced: its round-trip time is
    /// shorter than what pacing can spread out.
    pub(crate) fn pacing_rate(&self) -> Option<u64> {
        if self.congestion.pacing_rate().is_some() {
            return self.congestion.pacing_rate();
        }
        let srtt =
            self.rto.srtt().filter(|srtt| *srtt >= PACED_RTT_MIN && self.recovery() == Recovery::Rack)?;
        if self.is_fresh() || self.starts() {
            return None;
        }
        let slow_start = self.congestion.window() < self.congestion.slow_start_threshold();
        Some(Pacer::rate_of(self.congestion.window(), slow_start, srtt))
    }

    /// True in slow start while the window fits in one carrier burst. Acknowledgements then clock the sender. With
    /// pacing, the last packet of three or four round trips would be sent a quarter of a round trip later, and many
    /// transfers are no longer than that.
    fn starts(&self) -> bool {
        let window = self.congestion.window();
        self.recovery() == Recovery::Rack
            && self.congestion.algorithm() != Algorithm::Rfc9260
            && self.congestion.pacing_rate().is_none()
            && window <= PIECE_BYTES
            && window < self.congestion.slow_start_threshold()
    }

    /// Sets the pace timer if data `waits` that pacing alone holds back. A stream without credit waits for something
    /// else, which may be known only now.
    pub(crate) fn update_pace(&mut self, waits: bool) {
        if !waits {
            return self.forget_pace();
        }
        if self.pacer.may_send() || self.flight >= self.window() {
            return self.pacer.clear();
        }
        let rate = self.pacing_rate();
        self.pacer.wait(rate, self.data_chunk_len_max());
    }

    /// True if pacing held data back, or would have done so if the timer had not been late.
    #[inline]
    pub(crate) fn was_paced(&self) -> bool {
        self.late_ms > 0 || self.pacer.holds()
    }

    /// Clears the pacing state when there is nothing to hold back. A late timer then needs no compensation.
    pub(crate) fn forget_pace(&mut self) {
        self.pacer.clear();
        self.late_ms = 0;
    }

    /// Clears the pace timer if it is due, and records its lateness.
    pub(crate) fn on_pace_timer(&mut self, now: Time) {
        let late_ms = self.pacer.on_timer(now).as_millis();
        self.late_ms = self.late_ms.max(u8::try_from(late_ms).unwrap_or(u8::MAX));
    }
}

/// Allows a burst of at least `bytes`.
pub(crate) fn allow_train(path: &mut Path, bytes: u32) {
    path.burst_allowance = path.burst_allowance.max(bytes);
}
