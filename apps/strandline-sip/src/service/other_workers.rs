//! Other workers of this server: they serve the same addresses, and one sends over the connections of another.
//!
//! The number of a connection, and the branch of a request, say whose they are. So a request needs no hop of its own to get
//! from the worker that took it to the phone: what is to be sent goes to the worker with the connection as it is, and a response
//! that comes to another worker goes back to the one that waits for it.

use std::collections::HashSet;

use crate::bindings::Binding;
use crate::transaction::{Flow, Numbers, ViaBranch, WORKERS_MAX, worker_of};

use super::Service;
use super::incoming::Incoming;
use crate::codec::Message;

/// A message that came here and is another worker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Astray {
    /// Whose it is, or who is to look next.
    pub worker: u8,
    /// Where it came from.
    pub flow: Flow,
    /// The worker that it came to first.
    pub first: u8,
    /// The message.
    pub bytes: Vec<u8>,
}

/// The workers of this server.
#[derive(Debug)]
pub(super) struct Siblings {
    own: u8,
    /// A bit for each that lives.
    alive: u64,
    /// Their numbers among the nodes that are known here.
    nodes: Vec<u16>,
    /// The message that is looked at came to this one first.
    first: Option<u8>,
    astray: Vec<Astray>,
    /// Connections that have ended.
    closed: Vec<u64>,
}

impl Siblings {
    /// Does this connection stand? Those of other workers are taken to stand while the workers live.
    pub(super) fn stands(&self, connection: u64, own: &HashSet<u64, Numbers>) -> bool {
        match worker_of(connection) {
            worker if connection != 0 && worker != self.own => self.lives(worker),
            _ => own.contains(&connection),
        }
    }

    fn lives(&self, worker: u8) -> bool {
        self.alive >> (worker % WORKERS_MAX) & 1 == 1
    }
}

impl Service {
    /// This is one of several workers, who are the nodes with these names; to be called after [`join`](Self::join).
    pub fn set_siblings(&mut self, own: u8, names: &[String]) {
        self.transactions.set_worker(own);
        let nodes = names.iter().map(|name| self.locations.node(name)).filter(|node| *node != 0).collect();
        self.siblings =
            Some(Siblings { own, alive: 0, nodes, first: None, astray: Vec::new(), closed: Vec::new() });
    }

    /// Is this the number of a node that is another worker of this server?
    pub(super) fn is_sibling_node(&self, number: u16) -> bool {
        self.siblings.as_ref().is_some_and(|siblings| siblings.nodes.contains(&number))
    }

    /// Which workers live: a bit for each.
    pub fn set_siblings_alive(&mut self, alive: u64) {
        if let Some(siblings) = &mut self.siblings {
            siblings.alive = alive;
        }
    }

    /// A connection of another worker has ended, over which a request went from here.
    pub fn sibling_closed(&mut self, connection: u64) {
        if self.falling_back.contains_key(&connection) {
            self.ended.push(connection);
        }
    }

    /// A connection of this worker has ended.
    pub(super) fn tell_closed(&mut self, connection: u64) {
        if let Some(siblings) = &mut self.siblings {
            siblings.closed.push(connection);
        }
    }

    /// Connections of this worker that have ended, once.
    pub fn take_closed(&mut self) -> Vec<u64> {
        self.siblings.as_mut().map(|siblings| core::mem::take(&mut siblings.closed)).unwrap_or_default()
    }

    /// What came here and is for other workers, once.
    pub fn take_astray(&mut self) -> Vec<Astray> {
        self.siblings.as_mut().map(|siblings| core::mem::take(&mut siblings.astray)).unwrap_or_default()
    }

    /// A message came to another worker, and is this one's.
    pub fn handle_astray(&mut self, now: crate::transaction::Time, flow: Flow, first: u8, bytes: &[u8]) {
        if let Some(siblings) = &mut self.siblings {
            siblings.first = Some(first);
        }
        // What came counts where it came first.
        self.handle(now, flow, bytes, false);
        if let Some(siblings) = &mut self.siblings {
            siblings.first = None;
        }
    }

    /// Is this binding that of another worker?
    pub(super) fn is_siblings(&self, binding: &Binding) -> bool {
        let node = binding.node();
        node != 0 && self.siblings.as_ref().is_some_and(|siblings| siblings.nodes.contains(&node))
    }

    /// Is this the connection of another worker?
    pub(super) fn is_of_sibling(&self, flow: &Flow) -> bool {
        let is = |siblings: &Siblings| worker_of(flow.connection) != siblings.own;
        flow.connection != 0 && self.siblings.as_ref().is_some_and(is)
    }

    /// Does this connection stand, as far as is known? Those of other workers are taken to stand while the workers live.
    pub(super) fn stands_anywhere(&self, connection: u64) -> bool {
        match &self.siblings {
            Some(siblings) => siblings.stands(connection, &self.connections),
            None => self.connections.contains(&connection),
        }
    }

    /// A response for a transaction of another worker goes there.
    pub(super) fn is_anothers(&mut self, flow: Flow, message: &Message<'_>) -> bool {
        let Some(siblings) = &mut self.siblings else { return false };
        let Ok(essentials) = message.essentials() else { return false };
        let branch = essentials.via.branch_id().and_then(ViaBranch::read);
        let Some(worker) = branch.and_then(|branch| branch.client).map(|client| client.worker()) else {
            return false;
        };
        if worker == siblings.own {
            return false;
        }
        // What another has sent here was this one's, or is nobody's.
        if siblings.first.is_none() {
            let first = siblings.own;
            siblings.astray.push(Astray { worker, flow, first, bytes: message.as_bytes().to_vec() });
        }
        true
    }

    /// A CANCEL that belongs to nothing here may belong to something elsewhere, if it came from another port or on another
    /// connection than its INVITE. Each worker looks, one after the other; false if this is the last one.
    pub(super) fn asks_siblings(&mut self, incoming: &Incoming<'_>) -> bool {
        let Some(siblings) = &mut self.siblings else { return false };
        let first = siblings.first.unwrap_or(siblings.own);
        let after = (1..WORKERS_MAX).map(|step| (siblings.own + step) % WORKERS_MAX);
        let next = after.take_while(|worker| *worker != first).find(|worker| siblings.lives(*worker));
        let Some(worker) = next else { return false };
        let (flow, bytes) = (incoming.flow, incoming.message.as_bytes().to_vec());
        siblings.astray.push(Astray { worker, flow, first, bytes });
        true
    }
}
