//! The time between the packets of a set-up and its first transaction (the paper's Table 6).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strandline::{Direction, ObservedPacket, PacketObserver};
use strandline_measure::Times;
use tokio::time::Instant;

/// Time from each step to the next, by the name of the later one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Steps(BTreeMap<String, Times>);

impl Steps {
    pub(crate) fn record(&mut self, step: &str, since_last: Duration) {
        if let Some(times) = self.0.get_mut(step) {
            times.record(since_last);
        } else {
            self.0.entry(step.to_owned()).or_default().record(since_last);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (step, times) in &other.0 {
            self.0.entry(step.clone()).or_default().merge(times);
        }
    }

    /// Returns the median of each step in milliseconds.
    pub(crate) fn medians_ms(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().filter_map(|(step, times)| Some((step.as_str(), times.quantile_ms(0.5)?)))
    }

    /// The medians in milliseconds as a table.
    pub(crate) fn by_name(&self) -> BTreeMap<String, f64> {
        self.medians_ms().map(|(step, median)| (step.to_owned(), median)).collect()
    }

    /// Returns the median of one step in milliseconds.
    pub(crate) fn median_ms(&self, step: &str) -> Option<f64> {
        self.0.get(step)?.quantile_ms(0.5)
    }
}

/// Chunk types of RFC 9260 section 3.2 that make a step.
const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;

/// Returns the step that a packet stands for, if any. DATA counts only if it is not bundled with the
/// handshake's chunks. A later packet of the same message (one of 1,550 bytes takes two) is no step either.
fn step(direction: Direction, chunk: u8) -> Option<&'static str> {
    Some(match (direction, chunk) {
        (Direction::Sent, INIT) => "s:INIT",
        (Direction::Received, INIT_ACK) => "r:INIT-ACK",
        (Direction::Sent, COOKIE_ECHO) => "s:COOKIE-ECHO",
        (Direction::Received, COOKIE_ACK) => "r:COOKIE-ACK",
        (Direction::Sent, DATA) => "s:DATA",
        (Direction::Received, DATA) => "r:DATA",
        _ => return None,
    })
}

/// The last step that an association has reached.
#[derive(Debug, Clone, Copy)]
struct Reached {
    at: Instant,
    step: &'static str,
}

/// Observes the packets of a client, by its SCTP ports.
#[derive(Debug, Default)]
pub(crate) struct StepObserver {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    reached: HashMap<u16, Reached>,
    steps: Steps,
}

impl StepObserver {
    pub(crate) fn take(&self) -> Steps {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.steps)
    }
}

impl PacketObserver for StepObserver {
    fn packet(&self, packet: &ObservedPacket<'_>) {
        let Some((source, destination)) = packet.ports() else { return };
        let port = if packet.direction == Direction::Sent { source } else { destination };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for chunk in packet.chunk_types() {
            let Some(step) = step(packet.direction, chunk) else { continue };
            state.reach(port, step, packet.at);
        }
    }
}

impl State {
    fn reach(&mut self, port: u16, step: &'static str, at: Instant) {
        const ORDER: [&str; 6] =
            ["s:INIT", "r:INIT-ACK", "s:COOKIE-ECHO", "r:COOKIE-ACK", "s:DATA", "r:DATA"];
        let place = |step: &str| ORDER.iter().position(|name| *name == step);
        let last = self.reached.get(&port).copied();
        match last {
            // A message sent along with the COOKIE ECHO is no step of its own.
            Some(last) if last.step == "s:COOKIE-ECHO" && step == "s:DATA" => {}
            // Retransmissions, and packets after the first echo, are no steps.
            Some(last) if place(step) <= place(last.step) => {}
            Some(last) => {
                self.steps.record(step, at.saturating_duration_since(last.at));
                self.reached.insert(port, Reached { at, step });
            }
            None if step == "s:INIT" => {
                self.reached.insert(port, Reached { at, step });
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
