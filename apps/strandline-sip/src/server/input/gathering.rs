//! When datagrams are gathered: a few thousand a second that come one by one wake a server with little to do for each of them, which
//! takes longer than to handle them. Then it looks for them every few milliseconds instead. No I/O, no clock.

use std::time::Duration;

/// It is done for no fewer a second, of which each would wake it anyway, and for no more, of which many come at a time anyway.
const PER_SEC: core::ops::Range<f64> = 400.0..4000.0;
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

    /// So many were taken.
    pub(super) fn on_taken(&mut self, now: Duration, count: usize) {
        self.came += count;
        let elapsed = now.saturating_sub(self.began);
        if elapsed < LOOK {
            return;
        }
        let rate = self.came as f64 / elapsed.as_secs_f64();
        (self.began, self.came) = (now, 0);
        match self.turn {
            None => self.look_alone(now, rate),
            Some((_, before)) if !PER_SEC.contains(&rate) || rate * FEWER < before => {
                (self.turn, self.looks, self.not_until) = (None, 0, now + LEFT_ALONE);
            }
            // One look at what comes by itself.
            Some((end, _)) if now >= end => (self.turn, self.looks) = (None, LOOKS - 1),
            Some(_) => {}
        }
    }

    fn look_alone(&mut self, now: Duration, rate: f64) {
        let pays = now >= self.not_until && PER_SEC.contains(&rate);
        self.looks = if pays { self.looks + 1 } else { 0 };
        if self.looks >= LOOKS {
            self.turn = Some((now + TURN, rate));
        }
    }
}

#[cfg(test)]
mod tests;
