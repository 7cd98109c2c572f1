//! Measures the processor time of receiving a datagram and of handling a request while the server runs, for
//! the gate. Time in which the processor was taken away is not part of it. No I/O, no clock.

use std::time::Duration;

/// The share of receiving before both costs are known: between those of an INVITE, 1/20, and a REGISTER, 1/4.
const UNKNOWN: f64 = 1.0 / 10.0;
/// Number of datagrams and of requests from which their cost is known.
const KNOWN: f64 = 16.0;
/// Beyond this processor time earlier measurements lose half of their weight.
const RECENT: Duration = Duration::from_millis(20);

/// The costs of recent datagrams and requests.
#[derive(Debug, Default)]
pub(super) struct Costs {
    receiving: Mean,
    handling: Mean,
}

impl Costs {
    /// Records the processor time of receiving datagrams, and of rejecting those of them that were.
    pub(super) fn on_received(&mut self, count: usize, time: Duration) {
        self.receiving.add(count, time);
    }

    /// Records the processor time of handling messages.
    pub(super) fn on_handled(&mut self, count: usize, time: Duration) {
        self.handling.add(count, time);
    }

    /// The share that receiving has in the cost of a request that is received and handled, from 0 to 1.
    pub(super) fn receiving_share(&self) -> f64 {
        let (Some(receiving), Some(handling)) = (self.receiving.each(), self.handling.each()) else {
            return UNKNOWN;
        };
        let both = receiving + handling;
        if both > 0.0 { receiving / both } else { UNKNOWN }
    }
}

/// A mean of recent values.
#[derive(Debug, Default)]
struct Mean {
    count: f64,
    secs: f64,
}

impl Mean {
    fn add(&mut self, count: usize, time: Duration) {
        if self.secs > RECENT.as_secs_f64() {
            (self.count, self.secs) = (self.count / 2.0, self.secs / 2.0);
        }
        self.count += count as f64;
        self.secs += time.as_secs_f64();
    }

    /// The mean in seconds, if enough values are known.
    fn each(&self) -> Option<f64> {
        (self.count >= KNOWN).then(|| self.secs / self.count)
    }
}

#[cfg(test)]
mod tests;
