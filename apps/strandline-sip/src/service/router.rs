//! Determining request targets (RFC 3261 section 16.5): a view of users, flows, nodes and names.

use crate::bindings::Locations;
use crate::transaction::{Flow, Time};

use super::connections::ConnectionBook;
use super::replaced_flows::ReplacedFlows;
use super::servers::Servers;
use super::setup::Setup;

/// Determines the targets of a request. It changes nothing.
///
/// A file for each kind of request: `targets` for our users, `routing` for what an operator has configured,
/// `next_hop` for dialogs, Routes and other hosts.
#[derive(Clone, Copy)]
pub(super) struct Router<'a> {
    pub(super) now: Time,
    pub(super) setup: &'a Setup,
    pub(super) connections: &'a ConnectionBook,
    pub(super) locations: &'a Locations,
    pub(super) replaced: &'a ReplacedFlows,
    pub(super) servers: &'a Servers,
}

impl Router<'_> {
    /// Whether requests that come over a flow may go to other hosts.
    pub(super) fn may_relay(&self, flow: &Flow) -> bool {
        self.setup.settings.relay.allows(&flow.peer) || self.connections.is_trusted(flow.connection)
    }

    /// Whether a connection is open, here or at another worker.
    pub(super) fn is_open(&self, connection: u64) -> bool {
        self.connections.is_open_anywhere(self.setup.workers.as_ref(), connection)
    }

    /// Seconds since 1970.
    pub(super) fn unix_secs(&self) -> u64 {
        self.setup.unix_secs(self.now)
    }
}
