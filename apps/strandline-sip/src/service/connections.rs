//! The connections and associations of a shard, and what is known of their peers.

use core::time::Duration;
use std::collections::HashSet;

use crate::registrar::FLOW_TIMER_SECS;
use crate::transaction::Numbers;

use super::workers::Workers;

/// Open connections and associations by their numbers.
#[derive(Debug, Default)]
pub struct ConnectionBook {
    open: HashSet<u64, Numbers>,
    /// Their peers have proved to be neighbours.
    trusted: HashSet<u64>,
    /// Their peers have shown certificates.
    certified: HashSet<u64, Numbers>,
    /// Their phones were told a Flow-Timer.
    with_flow_timer: HashSet<u64, Numbers>,
    /// Phones have registered elsewhere over them.
    edges: HashSet<u64, Numbers>,
}

impl ConnectionBook {
    /// Adds a connection or an association that has opened.
    pub fn open(&mut self, connection: u64) {
        self.open.insert(connection);
    }

    /// Notes that the peer of a connection has proved to be a neighbour: its requests may go to other hosts.
    pub fn trust(&mut self, connection: u64) {
        self.trusted.insert(connection);
    }

    /// Notes that the peer of a TLS connection has shown a certificate for some domain: requests may go to it over the same
    /// connection, if it asks for that (RFC 5923 section 9.2).
    pub fn certify(&mut self, connection: u64) {
        self.certified.insert(connection);
    }

    /// Removes a connection.
    pub(super) fn close(&mut self, connection: u64) {
        self.open.remove(&connection);
        self.trusted.remove(&connection);
        self.certified.remove(&connection);
        self.with_flow_timer.remove(&connection);
        self.edges.remove(&connection);
    }

    /// Regards a connection as closed that the service is about to close. Returns false if it isn't open.
    pub(super) fn abandon(&mut self, connection: u64) -> bool {
        self.open.remove(&connection)
    }

    pub(super) fn is_open(&self, connection: u64) -> bool {
        self.open.contains(&connection)
    }

    /// Tells whether a connection is open, as far as is known: connections of other workers count as open while these live.
    pub(super) fn is_open_anywhere(&self, workers: Option<&Workers>, connection: u64) -> bool {
        match workers.filter(|workers| workers.is_other(connection)) {
            Some(workers) => workers.lives_with(connection),
            None => self.is_open(connection),
        }
    }

    pub(super) fn is_trusted(&self, connection: u64) -> bool {
        self.trusted.contains(&connection)
    }

    pub(super) fn is_certified(&self, connection: u64) -> bool {
        self.certified.contains(&connection)
    }

    /// Notes that the phone of a connection was told a Flow-Timer (RFC 5626 section 4.4.1).
    pub(super) fn set_flow_timer(&mut self, connection: u64) {
        self.with_flow_timer.insert(connection);
    }

    /// Notes that a phone has registered elsewhere over a connection, if that is open.
    pub(super) fn set_edge(&mut self, connection: u64) {
        if self.is_open(connection) {
            self.edges.insert(connection);
        }
    }

    /// Tells whether anything but bindings here depends on a connection.
    pub(super) fn is_needed(&self, connection: u64) -> bool {
        self.edges.contains(&connection) || self.is_trusted(connection) || self.is_certified(connection)
    }

    /// How long nothing may arrive on a connection until it counts as dead: a quarter longer than its phone's Flow-Timer; `idle` if no
    /// phone is reached over it; otherwise no limit. `has_bindings`: whether phones are bound to it.
    pub(super) fn silence_max(
        &self,
        connection: u64,
        idle: Option<Duration>,
        has_bindings: impl FnOnce() -> bool,
    ) -> Option<Duration> {
        if self.with_flow_timer.contains(&connection) {
            return Some(Duration::from_secs(u64::from(FLOW_TIMER_SECS + FLOW_TIMER_SECS / 4)));
        }
        idle.filter(|_| !self.edges.contains(&connection) && !has_bindings())
    }
}
