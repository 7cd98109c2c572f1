//! The connections and associations of a shard, and properties of their peers.

use core::time::Duration;
use std::collections::HashSet;

use crate::bindings::Binding;
use crate::registrar::FLOW_TIMER_SECS;
use crate::transaction::Numbers;

use super::nodes::OtherNodes;
use super::workers::Workers;

/// Open connections and associations by their numbers.
#[derive(Debug, Default)]
pub struct ConnectionBook {
    open: HashSet<u64, Numbers>,
    /// Connections whose peers have proved to be neighbours.
    trusted: HashSet<u64>,
    /// Connections whose peers have presented certificates.
    certified: HashSet<u64, Numbers>,
    /// Connections whose phones were given a Flow-Timer.
    with_flow_timer: HashSet<u64, Numbers>,
    /// Connections over which phones have registered at other registrars.
    edges: HashSet<u64, Numbers>,
    /// Connections over which a phone has registered here, a request was authenticated, or a call or a
    /// subscription was set up.
    identified: HashSet<u64, Numbers>,
}

impl ConnectionBook {
    /// Adds a connection or an association that has opened.
    pub fn open(&mut self, connection: u64) {
        self.open.insert(connection);
    }

    /// Records that the peer of a connection has proved to be a neighbour: its requests may be relayed to
    /// other hosts.
    pub fn trust(&mut self, connection: u64) {
        self.trusted.insert(connection);
    }

    /// Records that the peer of a TLS connection has presented a certificate for some domain: if it asks for
    /// connection reuse, requests to it may use this connection (RFC 5923 section 9.2).
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
        self.identified.remove(&connection);
    }

    /// Marks a connection as closed that the service is about to close. Returns false if it isn't open.
    pub(super) fn abandon(&mut self, connection: u64) -> bool {
        self.open.remove(&connection)
    }

    pub(super) fn is_open(&self, connection: u64) -> bool {
        self.open.contains(&connection)
    }

    /// Whether a connection is open. Connections of another worker count as open while that worker runs.
    pub(super) fn is_open_anywhere(&self, workers: Option<&Workers>, connection: u64) -> bool {
        match workers.filter(|workers| workers.is_other(connection)) {
            Some(workers) => workers.lives_with(connection),
            None => self.is_open(connection),
        }
    }

    /// Whether the connection of a binding is open, as far as this server knows. Connections of workers and
    /// nodes that don't run are closed.
    pub(super) fn stands(
        &self,
        workers: Option<&Workers>,
        nodes: Option<&OtherNodes>,
        binding: &Binding,
    ) -> bool {
        let (node, connection) = (binding.node(), binding.flow.connection);
        if node == 0 {
            return self.is_open_anywhere(workers, connection);
        }
        let runs = match workers.filter(|workers| workers.has_node(node)) {
            Some(workers) => workers.lives_with(connection),
            None => nodes.is_none_or(|nodes| nodes.is_running(node)),
        };
        runs && !binding.has_ended
    }

    pub(super) fn is_trusted(&self, connection: u64) -> bool {
        self.trusted.contains(&connection)
    }

    pub(super) fn is_certified(&self, connection: u64) -> bool {
        self.certified.contains(&connection)
    }

    /// Records that the phone of a connection was given a Flow-Timer (RFC 5626 section 4.4.1).
    pub(super) fn set_flow_timer(&mut self, connection: u64) {
        self.with_flow_timer.insert(connection);
    }

    /// Records that a phone has registered at another registrar over a connection, if that is open.
    pub(super) fn set_edge(&mut self, connection: u64) {
        if self.is_open(connection) {
            self.edges.insert(connection);
        }
    }

    /// Records that the peer of a connection is a phone or a neighbour that is served, if the connection is
    /// open.
    pub(super) fn identify(&mut self, connection: u64) {
        if self.is_open(connection) {
            self.identified.insert(connection);
        }
    }

    /// Whether the peer of a connection is served: it isn't closed to make room.
    pub(super) fn is_identified(&self, connection: u64) -> bool {
        self.identified.contains(&connection) || self.is_needed(connection)
    }

    /// Whether a connection is needed for anything but bindings of this registrar.
    pub(super) fn is_needed(&self, connection: u64) -> bool {
        self.edges.contains(&connection) || self.is_trusted(connection) || self.is_certified(connection)
    }

    /// Maximum time without input before a connection counts as dead: 1.25 times its phone's Flow-Timer;
    /// `idle` if no phone is reached over it; otherwise no limit. `has_bindings`: whether bindings use it.
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
