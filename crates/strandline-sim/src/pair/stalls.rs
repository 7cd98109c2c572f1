//! Hosts that get the processor only now and then.

use core::time::Duration;

use strandline_proto::time::Time;

use super::Side;
use crate::network::Carried;

/// The stalls of the two sides, and what arrived during the present ones.
#[derive(Default)]
pub(super) struct Stalls {
    sides: [Stall; 2],
}

#[derive(Default)]
struct Stall {
    /// The side runs only at multiples of this time, in nanoseconds; 0 if it always does.
    each_ns: u64,
    kept: Vec<Carried>,
}

impl Stall {
    /// Returns the next time at which the side runs, from `at` on.
    fn round_up(&self, at: Time) -> Time {
        match self.each_ns {
            0 => at,
            each => Time::from_nanos(at.as_nanos().next_multiple_of(each)),
        }
    }
}

impl Stalls {
    pub(super) fn set(&mut self, side: Side, each: Duration) {
        self.sides[side as usize].each_ns = u64::try_from(each.as_nanos()).unwrap_or(u64::MAX);
    }

    /// True if the side ever waits.
    pub(super) fn stalls(&self, side: Side) -> bool {
        self.sides[side as usize].each_ns > 0
    }

    /// Returns the sides that run now.
    pub(super) fn running(&self, now: Time) -> impl Iterator<Item = Side> + use<> {
        let runs = [Side::A, Side::B].map(|side| self.sides[side as usize].round_up(now) == now);
        [Side::A, Side::B].into_iter().zip(runs).filter_map(|(side, runs)| runs.then_some(side))
    }

    /// Returns when the side runs next, with this timer.
    pub(super) fn next(&self, side: Side, timer: Option<Time>, now: Time) -> Option<Time> {
        let stall = &self.sides[side as usize];
        let kept = (!stall.kept.is_empty()).then_some(now);
        let next = timer.into_iter().chain(kept).min()?;
        Some(if stall.each_ns == 0 { next } else { stall.round_up(next.max(now)) })
    }

    /// Keeps a datagram until the side runs.
    pub(super) fn keep(&mut self, side: Side, datagram: Carried) {
        self.sides[side as usize].kept.push(datagram);
    }

    /// Returns what was kept, in the order of arrival.
    pub(super) fn take(&mut self, side: Side) -> Vec<Carried> {
        core::mem::take(&mut self.sides[side as usize].kept)
    }
}
