//! How many may wait to begin something, once there is more than can be done: as many as can be served within half of the
//! time that anybody may wait. Who comes when so many wait is refused where it is read, which costs next to nothing.
//! No I/O, no clock.

use std::time::Duration;

use crate::transaction::Time;

/// How long is counted before the load is looked at again.
const WINDOW: Duration = Duration::from_millis(100);
/// Windows in which nobody was refused, after which the overload is over.
const QUIET: u32 = 10;
/// So many may always wait.
const ROOM_MIN: f64 = 32.0;
/// How fast more is let in while there was time left.
const GROWTH: f64 = 1.25;
/// So many times what was done is believed to be possible, at most.
const AHEAD: f64 = 1.5;

/// What is known of the load.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// Requests each millisecond that can be handled; none while there is no overload.
    per_ms: Option<f64>,
    began: Time,
    handled: u32,
    refused: u32,
    /// There was nothing to do at some time: more could have been handled.
    dry: bool,
    quiet: u32,
}

impl Admission {
    /// A request that begins something was given to be handled.
    pub(super) fn on_handled(&mut self) {
        self.handled += 1;
    }

    /// One was refused.
    pub(super) fn on_refused(&mut self) {
        self.refused += 1;
    }

    /// Nothing is left to be done.
    pub(super) fn on_dry(&mut self) {
        self.dry = true;
    }

    /// There is more than can be done.
    pub(super) fn is_overloaded(&self) -> bool {
        self.per_ms.is_some()
    }

    /// How many may wait, so that they are served within half of `patience`.
    pub(super) fn room(&self, patience: Duration) -> usize {
        match self.per_ms {
            Some(per_ms) => (per_ms * patience.as_millis() as f64 / 2.0).max(ROOM_MIN) as usize,
            None => usize::MAX,
        }
    }

    /// Looks at what was counted, now and then.
    pub(super) fn look(&mut self, now: Time) {
        let elapsed = now - self.began;
        if elapsed < WINDOW {
            return;
        }
        let measured = f64::from(self.handled) / elapsed.as_millis().max(1) as f64;
        let windows = (elapsed.as_millis() / WINDOW.as_millis()) as u32;
        self.quiet = if self.refused > 0 { 0 } else { self.quiet.saturating_add(windows) };
        self.per_ms = match self.per_ms {
            None if self.refused > 0 => Some(measured),
            None => None,
            Some(_) if self.quiet >= QUIET => None,
            // Less was done than could be: how much that is shows when more is let in, step by step.
            Some(per_ms) if self.dry => {
                Some((per_ms.max(measured) * GROWTH).min(measured * AHEAD).max(per_ms))
            }
            Some(per_ms) => Some((per_ms + measured) / 2.0),
        };
        (self.began, self.handled, self.refused, self.dry) = (now, 0, 0, false);
    }
}

#[cfg(test)]
mod tests;
