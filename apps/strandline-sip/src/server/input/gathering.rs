//! Decides when to gather datagrams. A few thousand datagrams per second that arrive one by one wake the
//! server for each of them, which costs more than handling them. A busy server therefore polls for them every
//! few milliseconds and takes several at a time. A mostly idle server takes each one as it arrives. No I/O,
//! no clock.

use std::time::Duration;

/// The rates, in datagrams per second, at which gathering pays. Below, few would be gathered at a time;
/// above, many arrive at a time anyway.
const PER_SEC: core::ops::Range<f64> = 1000.0..4000.0;
/// Share of the time for which the thread must be busy before gathering begins. Gathering halves that share.
const BUSY: f64 = 0.5;
/// Share of the time below which gathering ends.
const BUSY_STILL: f64 = 0.15;
/// The interval over which datagrams are counted.
const LOOK: Duration = Duration::from_millis(100);
/// Number of intervals in a row that must favour gathering before it begins.
const LOOKS: u32 = 2;
/// How long gathering lasts before the rate without it is measured again.
const TURN: Duration = Duration::from_secs(2);
/// Gathering is stopped if the rate falls by more than this factor: the senders then wait for each response
/// before they send again.
const FEWER: f64 = 1.5;
/// How long gathering is then avoided.
const LEFT_ALONE: Duration = Duration::from_secs(10);

/// Measures the rate and decides.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    began: Duration,
    /// The total idle time of the thread at that point.
    idle: Duration,
    came: usize,
    looks: u32,
    /// While gathering: when to measure again, and the rate before gathering began.
    turn: Option<(Duration, f64)>,
    /// The time until which gathering is avoided.
    not_until: Duration,
}

impl Gathering {
    /// Returns true if datagrams are being gathered.
    pub(super) fn is_on(&self) -> bool {
        self.turn.is_some()
    }

    /// Records that `count` datagrams were taken. `idle` is the total idle time of the thread.
    pub(super) fn on_taken(&mut self, now: Duration, idle: Duration, count: usize) {
        self.came += count;
        let elapsed = now.saturating_sub(self.began);
        if elapsed < LOOK {
            return;
        }
        let rate = self.came as f64 / elapsed.as_secs_f64();
        let busy = 1.0 - idle.saturating_sub(self.idle).as_secs_f64() / elapsed.as_secs_f64();
        (self.began, self.idle, self.came) = (now, idle, 0);
        match self.turn {
            None => self.look_alone(now, rate, busy),
            Some((_, before)) if busy < BUSY_STILL || !PER_SEC.contains(&rate) || rate * FEWER < before => {
                (self.turn, self.looks, self.not_until) = (None, 0, now + LEFT_ALONE);
            }
            // Measure one interval without gathering.
            Some((end, _)) if now >= end => (self.turn, self.looks) = (None, LOOKS - 1),
            Some(_) => {}
        }
    }

    fn look_alone(&mut self, now: Duration, rate: f64, busy: f64) {
        let pays = now >= self.not_until && busy >= BUSY && PER_SEC.contains(&rate);
        self.looks = if pays { self.looks + 1 } else { 0 };
        if self.looks >= LOOKS {
            self.turn = Some((now + TURN, rate));
        }
    }
}

#[cfg(test)]
mod tests;
