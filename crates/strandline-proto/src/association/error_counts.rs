//! Error counts of an association as a whole; those of its paths are in `path`. A restart of the peer resets them.

use core::time::Duration;

use crate::time::Time;

/// Why an association ends after too many consecutive errors (section 8.1).
pub(super) const UNANSWERED: &str = "Association.Max.Retrans exceeded: no answer";

/// Number of doublings after which RTO.Max certainly applies.
const DOUBLINGS_MAX: u16 = 16;

/// Counts that end the association when they exceed their limits.
#[derive(Debug, Default)]
pub(super) struct ErrorCounts {
    /// Number of consecutive errors over all paths (section 8.1).
    pub(super) total: u16,
    /// Number of T3-rtx time-outs, and of equal times in which only later chunks were acknowledged, since the earliest
    /// outstanding chunk was sent. Neither an answered HEARTBEAT nor a gap block resets this count, because they say
    /// nothing about longer packets.
    pub(super) data_timeouts: u16,
    /// When later chunks that are acknowledged count next.
    standstill: Standstill,
    /// Number of retransmissions of SHUTDOWN or SHUTDOWN ACK.
    pub(super) shutdown: u16,
}

impl ErrorCounts {
    /// Records that the earliest outstanding chunk was acknowledged.
    pub(super) const fn on_progress(&mut self) {
        self.data_timeouts = 0;
        self.standstill = Standstill(0);
    }

    /// Counts a time without progress. The next one is twice as long, as after T3-rtx (section 6.3.3 E2):
    /// `rto`, doubled for each that was counted, but at most `rto_max`.
    pub(super) fn on_standstill(&mut self, now: Time, rto: Duration, rto_max: Duration) {
        self.data_timeouts = self.data_timeouts.saturating_add(1);
        let backed_off = rto.saturating_mul(1 << self.data_timeouts.min(DOUBLINGS_MAX));
        self.standstill = Standstill::at(now + backed_off.min(rto_max.max(rto)));
    }

    /// True if later chunks were acknowledged for the whole time that was set. The first call sets it, to `rto`.
    pub(super) fn stands_still(&mut self, now: Time, rto: Duration) -> bool {
        if self.standstill == Standstill(0) {
            self.standstill = Standstill::at(now + rto);
            return false;
        }
        self.standstill.is_due(now)
    }
}

/// A moment in milliseconds, modulo 2^32; 0 if there is none. Four bytes, because there may be millions of
/// associations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Standstill(u32);

impl Standstill {
    fn at(time: Time) -> Self {
        Self(Self::millis(time).wrapping_add(1).max(1))
    }

    /// True from that moment on, for 24 days: no chunk is outstanding for longer.
    fn is_due(self, now: Time) -> bool {
        Self::millis(now).wrapping_sub(self.0) < 1 << 31
    }

    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    fn millis(time: Time) -> u32 {
        (time.as_nanos() / 1_000_000) as u32
    }
}
