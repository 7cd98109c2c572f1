//! Changes of a link's parameters at given times.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::config::{LinkConfig, Reordering};
use crate::loss::Loss;

/// A change of one parameter, or of all.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// All parameters; the link stays cut if it is.
    Config(LinkConfig),
    /// [`LinkConfig::delay`].
    Delay(Duration),
    /// [`LinkConfig::jitter`].
    Jitter(Duration),
    /// [`LinkConfig::rate_bps`].
    Rate(u64),
    /// [`LinkConfig::queue_bytes_max`].
    Queue(usize),
    /// [`LinkConfig::mark_bytes`].
    Mark(usize),
    /// [`LinkConfig::size_max`].
    SizeMax(usize),
    /// [`LinkConfig::loss`].
    Loss(Loss),
    /// [`LinkConfig::reordering`].
    Reordering(Reordering),
    /// [`LinkConfig::duplication`].
    Duplication(f64),
    /// [`LinkConfig::corruption`].
    Corruption(f64),
    /// Nothing passes any more. What is on its way still arrives.
    Cut,
    /// The link works again.
    Heal,
}

/// Changes to come, in order of time; those for one moment happen in the order they were given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    changes: BTreeMap<u64, Vec<Change>>,
    /// Time of the first one, so that a packet's way asks only one number.
    first_ns: Option<u64>,
}

impl Schedule {
    pub(crate) fn add(&mut self, at_ns: u64, change: Change) {
        self.changes.entry(at_ns).or_default().push(change);
        self.first_ns = self.changes.keys().next().copied();
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.first_ns
    }

    /// The next changes that are due.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Vec<Change>> {
        if self.first_ns? > now_ns {
            return None;
        }
        let (_, changes) = self.changes.pop_first()?;
        self.first_ns = self.changes.keys().next().copied();
        Some(changes)
    }
}
