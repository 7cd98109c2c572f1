//! Scheduled changes of a link's parameters.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::config::{LinkConfig, Reordering};
use crate::loss::Loss;

/// A change of one parameter, or of all.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Replaces all parameters. A cut link stays cut.
    Config(LinkConfig),
    /// Sets [`LinkConfig::delay`].
    Delay(Duration),
    /// Sets [`LinkConfig::jitter`].
    Jitter(Duration),
    /// Sets [`LinkConfig::rate_bps`].
    Rate(u64),
    /// Sets [`LinkConfig::queue_bytes_max`].
    Queue(usize),
    /// Sets [`LinkConfig::mark_bytes`].
    Mark(usize),
    /// Sets [`LinkConfig::size_max`].
    SizeMax(usize),
    /// Sets [`LinkConfig::loss`].
    Loss(Loss),
    /// Sets [`LinkConfig::reordering`].
    Reordering(Reordering),
    /// Sets [`LinkConfig::duplication`].
    Duplication(f64),
    /// Sets [`LinkConfig::corruption`].
    Corruption(f64),
    /// Cuts the link: new packets are dropped, packets in transit still arrive.
    Cut,
    /// Ends a cut.
    Heal,
}

/// Pending changes in order of time; changes for the same time take effect in the order in which they were
/// scheduled.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    changes: BTreeMap<u64, Vec<Change>>,
    /// Time of the first change, so that a packet needs only one comparison.
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

    /// Removes and returns the next changes that are due.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Vec<Change>> {
        if self.first_ns? > now_ns {
            return None;
        }
        let (_, changes) = self.changes.pop_first()?;
        self.first_ns = self.changes.keys().next().copied();
        Some(changes)
    }
}
