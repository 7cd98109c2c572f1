//! The retransmission time-out of one path (RFC 9260 sections 6.3.1 and 6.3.3).

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::config::AssociationConfig;
use crate::time::Time;

/// Clock granularity G in microseconds: the resolution of the timing wheel.
const GRANULARITY_US: u32 = 1_000;

/// RTO = SRTT + `DEVIATIONS` * RTTVAR (section 6.3.1 rules C2 and C3).
const DEVIATIONS: u32 = 4;

/// Minimum RTO of a set-up on a known path, in microseconds.
const SETUP_RTO_MIN_US: u32 = 200_000;

/// SRTT, RTTVAR and RTO of a path, in microseconds. 32 bits hold 71 minutes, more than the largest RTO.Max.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RtoEstimator {
    /// 0 before the first measurement.
    srtt_us: u32,
    rttvar_us: u32,
    rto_us: u32,
}

impl RtoEstimator {
    /// Starts with RTO.Initial until there is a measurement (rule C1).
    pub(crate) fn new(config: &AssociationConfig) -> Self {
        Self { srtt_us: 0, rttvar_us: 0, rto_us: micros(config.rto_initial) }
    }

    /// Adds a measurement (rules C2, C3, C6, C7 and G1). Undoes any back-off (section 6.3.3). The caller ensures C4
    /// and C5.
    pub(crate) fn on_sample(&mut self, rtt: Duration, config: &AssociationConfig) {
        let rtt_us = micros(rtt).max(1);
        if self.srtt_us == 0 {
            self.srtt_us = rtt_us;
            self.rttvar_us = rtt_us / 2;
        } else {
            let deviation = self.srtt_us.abs_diff(rtt_us);
            self.rttvar_us = smoothed(self.rttvar_us, deviation, config.rto_beta_shift);
            self.srtt_us = smoothed(self.srtt_us, rtt_us, config.rto_alpha_shift).max(1);
        }
        // G1 assumes a clock that counts in units of G and shows 0 below G.
        self.rttvar_us = self.rttvar_us.max(GRANULARITY_US);
        self.rto_us = self.srtt_us.saturating_add(self.rttvar_us.saturating_mul(DEVIATIONS));
        self.clamp(config);
    }

    /// Derives the RTO of the set-up from the round-trip time of an earlier association (RFC 9040 section 5), between
    /// 200 ms and RTO.Initial. RTO.Min does not apply: it allows for delayed acknowledgements, and INIT and COOKIE
    /// ECHO are answered at once. The value holds until [`clamp`](Self::clamp).
    pub(crate) fn begin_from(&mut self, srtt: Duration, rttvar: Duration) {
        let expected = micros(srtt).saturating_add(micros(rttvar).saturating_mul(DEVIATIONS));
        self.rto_us = self.rto_us.min(expected.max(SETUP_RTO_MIN_US));
    }

    /// Doubles the RTO, up to RTO.Max (section 6.3.3 rule E2).
    pub(crate) fn back_off(&mut self, config: &AssociationConfig) {
        self.rto_us = self.rto_us.saturating_mul(2);
        self.clamp(config);
    }

    /// Restores the RTO that follows from the measurements, if there are any.
    pub(crate) fn forget_back_off(&mut self, config: &AssociationConfig) {
        if self.srtt_us != 0 {
            self.rto_us = self.srtt_us.saturating_add(self.rttvar_us.saturating_mul(DEVIATIONS));
            self.clamp(config);
        }
    }

    /// Applies RTO.Min and RTO.Max (rules C6 and C7), also after a change of configuration.
    pub(crate) fn clamp(&mut self, config: &AssociationConfig) {
        self.rto_us = self.rto_us.min(micros(config.rto_max)).max(micros(config.rto_min)).max(1);
    }

    /// Returns the time of one RTO after `now`.
    #[inline]
    pub(crate) fn after(&self, now: Time) -> Time {
        Time::from_nanos(now.as_nanos().saturating_add(u64::from(self.rto_us) * 1_000))
    }

    #[inline]
    pub(crate) fn rto(&self) -> Duration {
        Duration::from_micros(u64::from(self.rto_us))
    }

    /// Returns the RTO in microseconds.
    #[inline]
    pub(crate) fn rto_us(&self) -> u32 {
        self.rto_us
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        (self.srtt_us != 0).then(|| Duration::from_micros(u64::from(self.srtt_us)))
    }

    pub(crate) fn rttvar(&self) -> Option<Duration> {
        (self.srtt_us != 0).then(|| Duration::from_micros(u64::from(self.rttvar_us)))
    }
}

/// Returns (1 - 2^-shift) * old + 2^-shift * new, without overflow.
fn smoothed(old: u32, new: u32, shift: u8) -> u32 {
    let shift = shift.min(31);
    let (old, new) = (u64::from(old), u64::from(new));
    u32::try_from(((old << shift) - old + new) >> shift).unwrap_or(u32::MAX)
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
