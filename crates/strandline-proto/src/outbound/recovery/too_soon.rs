//! How soon the answer to a retransmission can arrive (RFC 8985 section 6.2 step 2). A sooner one is for an earlier
//! transmission.
//!
//! There are two limits, because the errors differ. Below [`PathRack::spurious_below_ns`], the lower one, the
//! answer proves that the retransmission was spurious, and the window is restored. Below
//! [`Rack::rack_ignores_below_ns`] it is only not taken for the answer of the retransmission, which would
//! make everything sent before it lost.

use core::time::Duration;

use super::rack::{PathRack, Rack};
use crate::path_index::PathIndex;

/// Quarters of the minimum round-trip time within which an acknowledgement is too soon for a retransmission.
const TOO_SOON_QUARTERS: u64 = 3;
/// Eighths of the minimum round-trip time that an answer to a retransmission takes at least.
const ANSWER_EIGHTHS: u64 = 7;
/// A path without a measurement may be this many times as fast as the fastest other one.
const FASTER: u64 = 2;
/// As [`FASTER`], after a time-out.
const FASTER_AFTER_TIMEOUT: u64 = 8;
/// After a time-out an answer is believed from this part of the minimum round-trip time on.
const ANSWER_DIVISOR_AFTER_TIMEOUT: u64 = 2;

impl PathRack {
    /// Returns the minimum round-trip time of this busy period, or else of the previous one.
    fn any_min_rtt_ns(&self) -> Option<u64> {
        [self.min_rtt_ns(), self.earlier_min_rtt_ns].into_iter().find(|ns| *ns > 0)
    }

    /// Returns the minimum time for an answer to a chunk of `len` bytes, with packets of `packet` bytes: three
    /// quarters of the minimum round-trip time, and proportionally less for a shorter chunk, in case the transmission
    /// time dominates. The minimum of the previous busy period counts too, because all later samples may include a
    /// queue.
    pub(crate) fn spurious_below_ns(&self, len: u32, packet: u32) -> u64 {
        let min_ns = self.min_rtt_ns();
        let least_ns =
            if self.earlier_min_rtt_ns == 0 { min_ns } else { min_ns.min(self.earlier_min_rtt_ns) };
        let whole_ns = u128::from(least_ns / 4 * TOO_SOON_QUARTERS);
        (whole_ns * u128::from(len.min(packet)) / u128::from(packet.max(1))) as u64
    }
}

impl Rack {
    /// Uses the minimum round-trip time of the removed path `from`, or else `round_trip`, as the estimate of
    /// path `to` if that has none: chunks in flight on `from` are retransmitted on `to`, and late answers to
    /// the first copies must not count as answers.
    pub(crate) fn pass_on_min_rtt(&mut self, from: PathIndex, to: PathIndex, round_trip: Option<Duration>) {
        let smoothed_ns = round_trip.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let earlier_min_rtt_ns = self.path(from).any_min_rtt_ns().unwrap_or(smoothed_ns);
        let successor = self.path(to);
        if successor.any_min_rtt_ns().is_none() {
            successor.earlier_min_rtt_ns = earlier_min_rtt_ns;
        }
    }

    /// Returns the minimum time in nanoseconds after which an answer to a retransmission on a path is believed. A path
    /// without a measurement may be somewhat faster than the fastest other one. If it were believed at once, the
    /// answer to a first transmission elsewhere would make everything lost that was retransmitted there.
    pub(crate) fn rack_ignores_below_ns(&self, index: PathIndex) -> u64 {
        let path = self.paths.get(index);
        match path.map_or(0, PathRack::min_rtt_ns) {
            0 => {
                let least_ns = self.paths.iter().filter_map(PathRack::any_min_rtt_ns).min().unwrap_or(0);
                let timed_out = self.paths.iter().any(|path| path.timed_out.is_some());
                least_ns / if timed_out { FASTER_AFTER_TIMEOUT } else { FASTER }
            }
            min_ns if path.is_some_and(|path| path.timed_out.is_some()) => {
                min_ns / ANSWER_DIVISOR_AFTER_TIMEOUT
            }
            min_ns => min_ns / 8 * ANSWER_EIGHTHS,
        }
    }
}
