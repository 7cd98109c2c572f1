//! Other workers of this server. All serve the same addresses, and each can send over the connections of the
//! others.
//!
//! The number of a connection and the branch of a request name the worker that they belong to. So a request
//! needs no extra SIP hop between the worker that received it and the phone: it is passed unchanged to the
//! worker with the connection. A response that arrives at another worker is passed to the worker that waits
//! for it.

use crate::codec::Message;
use crate::transaction::{Flow, ViaBranch, WORKERS_MAX, worker_of};

/// A message that arrived here and belongs to another worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misdirected {
    /// The worker that it belongs to, or the next one to check.
    pub worker: u8,
    /// The flow that it arrived over.
    pub flow: Flow,
    /// The worker that received it.
    pub first: u8,
    /// The message.
    pub bytes: Vec<u8>,
}

/// The workers of this server.
#[derive(Debug)]
pub(super) struct Workers {
    own: u8,
    /// A bit for each running worker.
    pub(super) alive: u64,
    /// Their numbers among the nodes.
    nodes: Vec<u16>,
}

impl Workers {
    /// `own` is this worker; `nodes` are the numbers of the others among the nodes.
    pub(super) const fn new(own: u8, nodes: Vec<u16>) -> Self {
        Self { own, alive: 0, nodes }
    }

    /// Whether this is the number of a node that is another worker.
    pub(super) fn has_node(&self, number: u16) -> bool {
        self.nodes.contains(&number)
    }

    /// Whether a connection belongs to another worker.
    pub(super) fn is_other(&self, connection: u64) -> bool {
        connection != 0 && worker_of(connection) != self.own
    }

    /// Whether the worker of a connection runs.
    pub(super) fn lives_with(&self, connection: u64) -> bool {
        self.lives(worker_of(connection))
    }

    fn lives(&self, worker: u8) -> bool {
        self.alive >> (worker % WORKERS_MAX) & 1 == 1
    }

    /// The other worker that waits for a response, from the branch of its Via.
    pub(super) fn waiting_for(&self, response: &Message<'_>) -> Option<u8> {
        let essentials = response.essentials().ok()?;
        let client = essentials.via.branch_id().and_then(ViaBranch::read)?.client?;
        Some(client.worker()).filter(|worker| *worker != self.own)
    }

    /// Wraps a message for another worker. `first` is the worker that received it, if that isn't this one.
    pub(super) fn misdirected(
        &self,
        worker: u8,
        flow: Flow,
        first: Option<u8>,
        message: &Message<'_>,
    ) -> Misdirected {
        let bytes = message.as_bytes().to_vec();
        Misdirected { worker, flow, first: first.unwrap_or(self.own), bytes }
    }

    /// The running worker that searches next for the INVITE of a CANCEL: the workers search in turn,
    /// beginning with `first`. `None` if this is the last one.
    pub(super) fn next(&self, first: Option<u8>) -> Option<u8> {
        let first = first.unwrap_or(self.own);
        let after = (1..WORKERS_MAX).map(|step| (self.own + step) % WORKERS_MAX);
        after.take_while(|worker| *worker != first).find(|worker| self.lives(*worker))
    }
}
