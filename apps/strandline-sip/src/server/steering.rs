//! Measures the request rates and adjusts the packet filter. No I/O, no clock.

use std::time::Duration;

use super::arrivals::{Arrivals, Counts};
use super::socket::{Came, Gate};

/// Minimum interval between measurements. Each one costs a system call while the filter is attached.
const EVERY: Duration = Duration::from_millis(10);

/// The state of measuring and adjusting.
#[derive(Debug)]
pub(super) struct Steering {
    gate: Gate,
    arrivals: Arrivals,
    next: Duration,
}

/// An adjustment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Steered {
    /// The share that the kernel passes from now on, if it changes.
    pub(super) share: Option<f64>,
    /// The share that is not on trial.
    pub(super) admitted: f64,
}

impl Steering {
    pub(super) fn new() -> Self {
        Self { gate: Gate::new(), arrivals: Arrivals::default(), next: Duration::ZERO }
    }

    /// Returns true if a measurement is due.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + EVERY;
        }
        due
    }

    /// Returns the adjustment, if a measurement interval has ended.
    pub(super) fn look(
        &mut self,
        now: Duration,
        counts: Counts,
        receiving_share: f64,
        overloaded: bool,
    ) -> Option<Steered> {
        let came = Came { receiving_share, ..self.arrivals.look(now, counts)? };
        let share = self.gate.look(now, came, overloaded);
        if overloaded {
            tracing::trace!(gate = ?self.gate, ?came, "overload filter");
        }
        Some(Steered { share, admitted: self.gate.admitted() })
    }
}
