//! Lines of the access log about refused connections: a flood of them must neither fill the disk nor take the room of
//! other lines. Those beyond a rate become one line for each source and second. No I/O.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use strandline_ops::Network;
use tokio::time::Instant;

/// Time in which lines are counted.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of lines of one reason and source in that time.
const OF_SOURCE_MAX: u32 = 10;
/// Maximum number of lines of one reason in that time.
const OF_REASON_MAX: u32 = 100;

/// Whose connections are refused.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// Clients of a listener here.
    Client(Network),
    /// A peer, by its name.
    Peer(Arc<str>),
    /// Sources without a line of their own.
    Others,
}

/// A reason, and a source.
type Key = (&'static str, Source);

/// What was refused lately.
#[derive(Debug, Default)]
pub(crate) struct RefusedLines {
    /// When the period has begun; `None` if nothing was refused since the last one.
    begun: Option<Instant>,
    reasons: HashMap<&'static str, u32>,
    sources: HashMap<Key, Lines>,
    /// Whether a line is held back.
    holds: bool,
}

/// The lines of one reason and source.
#[derive(Debug, Default)]
struct Lines {
    written: u32,
    /// The first line that was held back, and the number of those after it.
    held: Option<(Value, u64)>,
}

impl RefusedLines {
    /// Counts a refused connection. Returns its line, or `None` if it is held back: then it is in the sum that
    /// [`finish`](Self::finish) returns. Call that first.
    pub(crate) fn admit(
        &mut self,
        now: Instant,
        (reason, source): (&'static str, Source),
        line: impl FnOnce() -> Value,
    ) -> Option<Value> {
        self.begun.get_or_insert(now);
        let of_reason = self.reasons.entry(reason).or_default();
        let mut key = (reason, source);
        if *of_reason >= OF_REASON_MAX && !self.sources.contains_key(&key) {
            key.1 = Source::Others;
        }
        let is_other = key.1 == Source::Others;
        let lines = self.sources.entry(key).or_default();
        if !is_other && *of_reason < OF_REASON_MAX && lines.written < OF_SOURCE_MAX {
            *of_reason += 1;
            lines.written += 1;
            return Some(line());
        }
        match &mut lines.held {
            Some((_, more)) => *more += 1,
            held => *held = Some((line(), 0)),
        }
        self.holds = true;
        None
    }

    /// Returns when the period ends; `None` if no line is held back.
    pub(crate) fn ends(&self) -> Option<Instant> {
        self.begun.filter(|_| self.holds).map(|begun| begun + PERIOD)
    }

    /// Returns one line for each reason and source of which lines were held back, if the period is over.
    pub(crate) fn finish(&mut self, now: Instant) -> Vec<Value> {
        match self.begun {
            Some(begun) if now.saturating_duration_since(begun) >= PERIOD => self.finish_now(),
            _ => Vec::new(),
        }
    }

    /// As [`finish`](Self::finish), before the period is over.
    pub(crate) fn finish_now(&mut self) -> Vec<Value> {
        (self.begun, self.holds) = (None, false);
        self.reasons.clear();
        let held = std::mem::take(&mut self.sources).into_values().filter_map(|lines| lines.held);
        let summed = held.map(|(mut line, more)| {
            line["more"] = more.into();
            line
        });
        summed.collect()
    }
}

#[cfg(test)]
mod tests;
