//! How much of the window may go at once, and at which rate the rest (RFC 9260 section 6.1 rule D; decisions 9 and 114).

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::destination::Path;
use super::pacer::Pacer;
use crate::config::{AssociationConfig, Recovery};
use crate::congestion::{Algorithm, Controller, initial_window_of_ten};
use crate::time::Time;

/// The largest piece of a window that may go at once whatever Max.Burst says: a carrier's burst. The window must be
/// this many times as large.
const PIECE_BYTES: u32 = 65_000;
const PIECES_MIN: u32 = 8;

/// Paths with a shorter round-trip time are not paced by their window.
const PACED_RTT_MIN: Duration = Duration::from_millis(5);

impl Path {
    /// Its round-trip time is that of a local network, as far as it is known.
    pub(crate) fn is_short(&self) -> bool {
        self.rto.srtt().is_some_and(|srtt| srtt < PACED_RTT_MIN)
    }

    /// An opportunity to send begins: allows one burst of new data (section 6.1, rule D). On top of it, what the latest
    /// SACKs acknowledged may be replaced: the rule is against bursts that no acknowledgement clocks, and SACKs handled
    /// together, or one SACK for many packets, would otherwise shrink the flight to Max.Burst.
    ///
    /// Where the path is paced its rate takes the place of the limit, and elsewhere a piece of a window may go that is
    /// many times as large and known to fit: Max.Burst is of the days of windows of a few packets. To the letter of the rule
    /// none of this holds.
    pub(crate) fn allow_burst(&mut self, now: Time, config: &AssociationConfig) {
        let acked = self.arrivals.take_packets();
        let pmdcs = self.data_chunk_len_max();
        let starts = self.starts();
        let acked = match () {
            () if config.to_the_letter => 0,
            // Slow start puts two in the place of each.
            () if starts => acked.saturating_mul(2),
            () => acked,
        };
        // If the packet that came is what is seen first after a pause, the timer has not run yet.
        self.on_pace_timer(now);
        // A window sent a fifth faster than once in each round trip makes up for a late timer by itself.
        let late = Duration::from_millis(core::mem::take(&mut self.late_ms).into());
        let late = if self.congestion.pacing_rate().is_some() { late } else { Duration::ZERO };
        self.pacer.refill(now, self.pacing_rate(), pmdcs, late);
        let clocked = match config.burst_max {
            0 => u32::MAX,
            burst => (u32::from(burst) + u32::from(acked)).saturating_mul(pmdcs),
        };
        // The first window has nothing to be clocked by, and goes in one piece (RFC 6928 section 2).
        let unclocked = match self.recovery() {
            Recovery::Rfc9260 => 0,
            Recovery::Rack if self.is_fresh() && self.congestion.algorithm() != Algorithm::Rfc9260 => {
                self.window()
            }
            // What could go at once on a new path can after a pause, too.
            Recovery::Rack if starts || self.is_resting() => initial_window_of_ten(pmdcs).max(self.piece()),
            Recovery::Rack => self.piece(),
        };
        self.burst_allowance = clocked.max(self.pacer.allowance().unwrap_or(unclocked));
    }

    /// What may go at once of a window that is many times as large.
    fn piece(&self) -> u32 {
        (self.window() / PIECES_MIN).min(PIECE_BYTES)
    }

    /// Nothing is in flight: no acknowledgement will come to clock what follows. RFC 9260's controller keeps to Max.Burst.
    fn is_resting(&self) -> bool {
        self.flight == 0 && self.congestion.algorithm() != Algorithm::Rfc9260
    }

    /// The window may go in one piece (RFC 6928 section 2): what goes along with the set-up has nothing to be clocked by.
    pub(crate) fn allow_first_window(&mut self, now: Time) {
        self.pacer.refill(now, None, self.data_chunk_len_max(), Duration::ZERO);
        self.burst_allowance = self.window();
    }

    /// Bytes a second at which data goes; `None`: it is not paced. Not where a window comes and goes in less than what is
    /// sent in one piece.
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

    /// Slow start with a window that is no more than a carrier's burst: acknowledgements clock it. Paced, the last of what is sent
    /// in three or four round trips would come a quarter of one later, and whole transfers are no longer than that.
    fn starts(&self) -> bool {
        let window = self.congestion.window();
        self.recovery() == Recovery::Rack
            && self.congestion.algorithm() != Algorithm::Rfc9260
            && self.congestion.pacing_rate().is_none()
            && window <= PIECE_BYTES
            && window < self.congestion.slow_start_threshold()
    }

    /// Nothing more goes now though data waits: if that is for pacing alone, the timer for the next batch is set.
    pub(crate) fn wait_for_pace(&mut self) {
        if self.pacer.may_send() || self.flight >= self.window() {
            return self.pacer.clear();
        }
        let rate = self.pacing_rate();
        self.pacer.wait(rate, self.data_chunk_len_max());
    }

    /// Something was held back, or would have been if the timer had not been late.
    #[inline]
    pub(crate) fn was_paced(&self) -> bool {
        self.late_ms > 0 || self.pacer.holds()
    }

    /// There is nothing that pacing could hold back: how late the timer comes for a batch that doesn't wait any more is not to be
    /// made good.
    pub(crate) fn forget_pace(&mut self) {
        self.pacer.clear();
        self.late_ms = 0;
    }

    /// If the next batch is due, the timer has done its work.
    pub(crate) fn on_pace_timer(&mut self, now: Time) {
        let late_ms = self.pacer.on_timer(now).as_millis();
        self.late_ms = self.late_ms.max(u8::try_from(late_ms).unwrap_or(u8::MAX));
    }
}
