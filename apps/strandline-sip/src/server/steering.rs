//! Looks at how much comes, and moves the gate. No I/O, no clock.

use std::time::Duration;

use super::arrivals::{Arrivals, Counts};
use super::socket::Gate;

/// How often, at most: it takes a system call while not all are let through.
const EVERY: Duration = Duration::from_millis(10);

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Steering {
    gate: Gate,
    arrivals: Arrivals,
    next: Duration,
}

/// What is let through from now on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steered {
    /// The share that the kernel is to let through, if that changes.
    pub(super) share: Option<f64>,
    /// The share that isn't on trial.
    pub(super) admitted: f64,
}

impl Steering {
    pub(super) fn new() -> Self {
        Self { gate: Gate::new(), arrivals: Arrivals::default(), next: Duration::ZERO }
    }

    /// Is it time for a look?
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + EVERY;
        }
        due
    }

    /// Returns what is to be done, if it was time for that.
    pub(super) fn look(&mut self, now: Duration, counts: Counts, overloaded: bool) -> Option<Steered> {
        let came = self.arrivals.look(now, counts)?;
        let share = self.gate.look(now, came, overloaded);
        Some(Steered { share, admitted: self.gate.admitted() })
    }
}
