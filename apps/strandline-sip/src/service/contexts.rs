//! The response contexts of forwarded requests (RFC 3261 section 16), and what their branches wait for: the
//! next hop of a trunk, or the end of a connection.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use crate::transaction::{ClientId, Numbers, ServerId, Slots, Time};

use super::context::{Branch, BranchId, Context};

/// Maximum number of branches that wait for the end of one connection.
const WAITING_MAX: usize = 1024;
/// From this number on, branches that no longer depend on the connection are removed.
const WAITING_SOME: usize = 64;
/// From this number on, watched connections on which no branch depends are removed.
const WATCHED_SOME: usize = 1024;

/// A hop of a trunk that is to respond until a deadline.
#[derive(Debug, Clone, Copy)]
struct TriedHop {
    deadline: Time,
    client: ClientId,
    branch: BranchId,
}

/// Response contexts by their slots.
#[derive(Debug)]
pub struct Contexts {
    slots: Slots<Context>,
    /// By their deadlines.
    tried_hops: VecDeque<TriedHop>,
    watched: WatchedConnections,
}

impl Contexts {
    pub(super) fn new(max: usize) -> Self {
        Self { slots: Slots::new(max), tried_hops: VecDeque::new(), watched: WatchedConnections::default() }
    }

    /// The slot of the next context.
    pub(super) fn next_free(&self) -> u32 {
        self.slots.next_free()
    }

    /// Adds a context; `None` if there are too many.
    pub(super) fn insert(&mut self, context: Context) -> Option<u32> {
        self.slots.insert(context)
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Context> {
        self.slots.remove(slot)
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Context> {
        self.slots.get(slot)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Context> {
        self.slots.get_mut(slot)
    }

    /// The context of a server transaction; `None` if another context uses its slot now.
    pub(super) fn of_server(&self, slot: u32, server: ServerId) -> Option<&Context> {
        self.get(slot).filter(|context| context.server == server)
    }

    pub(super) fn branch(&self, id: BranchId) -> Option<&Branch> {
        self.get(id.slot).and_then(|context| context.branches.get(id.number))
    }

    pub(super) fn branch_mut(&mut self, id: BranchId) -> Option<&mut Branch> {
        self.get_mut(id.slot).and_then(|context| context.branches.get_mut(id.number))
    }

    /// Whether every forwarded request has been answered.
    #[must_use]
    pub fn are_answered(&self) -> bool {
        self.slots.iter().all(|context| context.answered)
    }

    /// Whether another client transaction has replaced this one, or another hop was tried because this one
    /// did not respond.
    pub(super) fn is_superseded(&self, id: BranchId, client: ClientId) -> bool {
        self.branch(id).is_some_and(|branch| branch.superseded || branch.client() != Some(client))
    }

    /// Removes a context that is complete.
    pub(super) fn tidy(&mut self, slot: u32) {
        if self.get(slot).is_some_and(|context| context.live == 0 && context.answered) {
            self.slots.remove(slot);
        }
    }

    /// Records that a client transaction of a context has ended.
    pub(super) fn on_client_over(&mut self, slot: u32) {
        if let Some(context) = self.get_mut(slot) {
            context.live = context.live.saturating_sub(1);
        }
        self.tidy(slot);
    }

    /// Drops the stored request of a context that no longer needs it, because a phone may ring for long.
    pub(super) fn drop_request(&mut self, slot: u32) {
        let context = self.get_mut(slot).filter(|context| context.request.is_some());
        if let Some(context) = context.filter(|context| !context.needs_request()) {
            context.request = None;
        }
    }

    /// Sets the time after which the next hop is tried if this branch gets no response.
    pub(super) fn try_hop(&mut self, now: Time, time: Duration, client: ClientId, branch: BranchId) {
        self.tried_hops.push_back(TriedHop { deadline: now + time, client, branch });
    }

    /// Returns a branch whose hop has not responded in time, if there is another one to try; `None` if there
    /// are no more.
    pub(super) fn next_silent_hop(&mut self, now: Time) -> Option<BranchId> {
        while let Some(hop) = self.tried_hops.front().copied().filter(|hop| hop.deadline <= now) {
            self.tried_hops.pop_front();
            let branch = self.branch(hop.branch);
            let is_silent =
                |branch: &Branch| branch.client() == Some(hop.client) && !branch.done && !branch.responded;
            let has_more = branch.is_some_and(Branch::has_more)
                || self
                    .get(hop.branch.slot)
                    .is_some_and(|context| !context.responded && !context.later.is_empty());
            if branch.is_some_and(is_silent) && has_more {
                return Some(hop.branch);
            }
        }
        None
    }

    /// The deadline for a hop's response, or for handling a closed connection.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        match self.watched.ended.is_empty() {
            true => self.tried_hops.front().map(|hop| hop.deadline),
            false => Some(Time::ZERO),
        }
    }

    /// Watches a connection: when it ends, a branch over it goes elsewhere, unless it got a response.
    pub(super) fn watch(&mut self, connection: u64, branch: BranchId) {
        let slots = &self.slots;
        let depends = |connection: u64, id: BranchId| {
            let branch = slots.get(id.slot).and_then(|context| context.branches.get(id.number));
            branch.is_some_and(|branch| branch.waits_over(connection))
        };
        self.watched.insert(connection, branch, depends);
    }

    /// Records that a connection of this or another worker has ended.
    pub(super) fn on_connection_ended(&mut self, connection: u64) {
        self.watched.on_ended(connection);
    }

    /// Returns a connection that has ended and the branches that may have waited over it; `None` if there are
    /// no more.
    pub(super) fn next_ended(&mut self) -> Option<(u64, Vec<BranchId>)> {
        let connection = self.watched.ended.pop_front()?;
        Some((connection, self.watched.branches.remove(&connection).unwrap_or_default()))
    }

    /// Number of connections that are watched.
    #[must_use]
    pub fn watched_connections(&self) -> usize {
        self.watched.branches.len()
    }
}

/// Connections whose end affects branches.
#[derive(Debug, Default)]
struct WatchedConnections {
    branches: HashMap<u64, Vec<BranchId>, Numbers>,
    /// Connections that have ended.
    ended: VecDeque<u64>,
    /// Number of connections at which those are removed that nothing depends on.
    cleaned_at: usize,
}

impl WatchedConnections {
    fn insert(&mut self, connection: u64, branch: BranchId, depends: impl Fn(u64, BranchId) -> bool) {
        // No event reports connections that had ended before, or connections of a worker that died.
        if self.branches.len() >= self.cleaned_at {
            self.branches.retain(|connection, branches| {
                branches.retain(|branch| depends(*connection, *branch));
                !branches.is_empty()
            });
            self.cleaned_at = self.branches.len() * 2 + WATCHED_SOME;
        }
        let waiting = self.branches.entry(connection).or_default();
        if waiting.len() >= WAITING_SOME {
            waiting.retain(|branch| depends(connection, *branch));
        }
        if waiting.len() < WAITING_MAX {
            waiting.push(branch);
        }
    }

    fn on_ended(&mut self, connection: u64) {
        if self.branches.contains_key(&connection) {
            self.ended.push_back(connection);
        }
    }
}
