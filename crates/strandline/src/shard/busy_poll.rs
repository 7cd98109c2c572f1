//! Bounded polling of the socket around set-ups, in place of a sleep that lasts less than the wake-up after it.

#[cfg(test)]
mod tests;

use std::time::Duration;

use strandline_proto::time::Time;

use crate::engine::Engine;

/// How long after the last step of a set-up, of whichever association, packets are expected soon.
const SET_UP_RECENT: Duration = Duration::from_micros(250);

/// Time between two looks at the socket beyond which something else had the core: a process that shares it, perhaps
/// the peer, which could not answer earlier because of the polling.
const STEP_MAX: Duration = Duration::from_micros(10);

/// Maximum number of looks at the socket in a period, for clocks that stand still while there is something to
/// do, as that of a runtime with virtual time. A look takes half a microsecond or more, so it is above what
/// the largest limit allows.
const LOOKS_MAX: u32 = 4096;

/// Limit of the doubling of pauses: at most one of so many waits is spent polling in vain.
const DOUBLINGS_MAX: u32 = 10;

/// Decides whether the driver polls or sleeps when it has nothing to do.
///
/// A set-up with a first request takes six packets, and each of them wakes a sleeping core, which takes longer
/// than all of the work. Polling avoids that if the answer comes within `limit`. It costs processor time if it
/// does not, as with a distant peer or one that shares the core: each period in vain doubles the number of waits
/// that sleep at once. Without set-ups there is no polling.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// Longest period of polling; zero: never.
    limit: Duration,
    /// When the current period ends, and when the socket was last looked at in it.
    until: Option<Time>,
    polled_at: Time,
    /// Number of looks in the current period.
    looks: u32,
    /// Steps of set-ups so far, and the time of the last one that was noticed.
    steps: u64,
    stepped_at: Option<Time>,
    /// Periods in vain: one more for each, one less for each that ended with a packet.
    in_vain: u32,
    /// Number of the next waits that sleep at once.
    pause: u32,
}

impl BusyPoll {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit,
            until: None,
            polled_at: Time::ZERO,
            looks: 0,
            steps: 0,
            stepped_at: None,
            in_vain: 0,
            pause: 0,
        }
    }

    /// Returns whether to poll once more: the driver has nothing to do, and associations have taken `steps` steps
    /// of their set-ups or ends in total.
    pub(super) fn goes_on(&mut self, now: Time, steps: u64) -> bool {
        if self.limit.is_zero() {
            return false;
        }
        if steps != self.steps {
            self.steps = steps;
            self.stepped_at = Some(now);
        }
        let since = now.since(std::mem::replace(&mut self.polled_at, now));
        match self.until {
            None => self.begins(now),
            Some(until) if now < until && since <= STEP_MAX && self.looks < LOOKS_MAX => {
                self.looks += 1;
                true
            }
            Some(_) => {
                self.end_in_vain();
                false
            }
        }
    }

    fn end_in_vain(&mut self) {
        self.until = None;
        self.in_vain = (self.in_vain + 1).min(DOUBLINGS_MAX);
        self.pause = 1 << self.in_vain;
    }

    fn begins(&mut self, now: Time) -> bool {
        if self.stepped_at.is_none_or(|at| now.since(at) > SET_UP_RECENT) {
            return false;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        self.until = Some(now + self.limit);
        self.looks = 0;
        true
    }

    /// Notes that packets arrived.
    pub(super) fn on_received(&mut self, now: Time) {
        if self.until.is_none() {
            return;
        }
        if now.since(self.polled_at) > STEP_MAX {
            return self.end_in_vain();
        }
        self.until = None;
        self.in_vain = self.in_vain.saturating_sub(1);
    }
}

/// Returns a number that changes with each step that one of so many associations takes in its set-up, or at its end.
pub(super) fn set_up_steps(engine: &Engine, associations: usize) -> u64 {
    let stats = engine.stats();
    let steps = stats.inits + stats.established + stats.shut_down + stats.aborted + stats.timed_out;
    // In the upper half, so that an association that goes does not hide a step of another one.
    steps.wrapping_add((associations as u64) << 32)
}
