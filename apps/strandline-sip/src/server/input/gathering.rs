//! When datagrams are gathered. Some thousands a second that come one by one wake the server for each of them, which takes longer than
//! to handle them. A busy server looks for them every few milliseconds instead, and takes several at a time; one that is idle most of
//! the time takes each as it comes. No I/O, no clock.

use std::time::Duration;

/// Datagrams a second for which gathering pays: of fewer only some would be taken together, and of more many come at a time anyway.
const PER_SEC: core::ops::Range<f64> = 1000.0..4000.0;
/// The share of the time that the thread must be busy before gathering begins, and below which it ends. Gathering halves it.
const BUSY: f64 = 0.5;
const BUSY_STILL: f64 = 0.15;
/// How long is counted.
const LOOK: Duration = Duration::from_millis(100);
/// If so many looks in a row say that it pays.
const LOOKS: u32 = 2;
/// How long it is done until it is looked how many come by themselves.
const TURN: Duration = Duration::from_secs(2);
/// So many times fewer than before come of who waits for each answer before he goes on.
const FEWER: f64 = 1.5;
/// How long it isn't done then.
const LEFT_ALONE: Duration = Duration::from_secs(10);

/// Counts what comes.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    began: Duration,
    /// How long the thread had waited for something to do by then.
    idle: Duration,
    came: usize,
    looks: u32,
    /// Datagrams are gathered until then; how many came each second before.
    turn: Option<(Duration, f64)>,
    /// They aren't until then.
    not_until: Duration,
}

impl Gathering {
    /// Datagrams are gathered now.
    pub(super) fn is_on(&self) -> bool {
        self.turn.is_some()
    }

    /// So many were taken. `idle` is how long the thread has waited for something to do, in all.
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
            // One look at what comes by itself.
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
