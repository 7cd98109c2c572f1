//! Flows that phones have replaced: the same instance registers with the same reg-id over another flow (RFC 5626 section 6), or the
//! same contact is refreshed from elsewhere. A request within a dialog names the flow over which the dialog began; it follows the phone
//! to the flow that it has now.
//!
//! Each worker and each node compares the bindings of a user before and after a change, its own or another's. So all of them know the
//! new flow, and the one that has the old connection closes it.

use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};

use crate::bindings::{Binding, FlowUse, is_same_instance};
use crate::transaction::{Flow, Protocol};

use super::Service;
use super::incoming::Incoming;

/// Replaced flows that are remembered. The oldest one is forgotten first.
const REPLACED_MAX: usize = 65_536;
/// Replacements that are followed from one flow on.
const STEPS_MAX: usize = 16;

/// What identifies a flow here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// The number of a connection or an association, which is given once.
    Connection(u64),
    /// The source of datagrams, which other phones may have later.
    Datagrams(SocketAddr),
}

fn key(flow: &Flow) -> Option<Key> {
    match flow.protocol {
        _ if flow.connection != 0 => Some(Key::Connection(flow.connection)),
        Protocol::Udp => Some(Key::Datagrams(flow.peer)),
        _ => None,
    }
}

/// Where a phone is reached now.
#[derive(Debug, Clone)]
pub(super) enum Moved {
    /// Over this flow.
    Flow(Flow),
    /// Over another node, by its number and the name that it gives the flow.
    Node(u16, Box<[u8]>),
}

/// Flows, and what has taken their place.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    by: HashMap<Key, (u64, Moved)>,
    /// In the order in which they were noted, each with the number of the note.
    order: VecDeque<(Key, u64)>,
    notes: u64,
    /// Connections to be closed.
    closing: Vec<Flow>,
}

impl Replaced {
    fn note(&mut self, old: Key, new: Moved) {
        self.notes += 1;
        self.by.insert(old, (self.notes, new));
        self.order.push_back((old, self.notes));
        if self.order.len() > REPLACED_MAX
            && let Some((oldest, number)) = self.order.pop_front()
            && self.by.get(&oldest).is_some_and(|(last, _)| *last == number)
        {
            self.by.remove(&oldest);
        }
    }

    /// Datagrams come from this source again, from the same phone or from another one that has it now.
    pub(super) fn is_used_again(&mut self, flow: &Flow) {
        if !self.by.is_empty() && flow.connection == 0 && flow.protocol == Protocol::Udp {
            self.by.remove(&Key::Datagrams(flow.peer));
        }
    }

    /// A transaction begins. A dialog that begins with it has this source for an end.
    pub(super) fn on_begun(&mut self, incoming: &Incoming<'_>) {
        if incoming.essentials.to.tag.is_none() {
            self.is_used_again(&incoming.flow);
        }
    }

    fn after(&self, flow: &Flow) -> Option<&Moved> {
        self.by.get(&key(flow)?).map(|(_, moved)| moved)
    }
}

/// A binding before a change.
#[derive(Debug)]
pub(super) struct Before {
    instance: Box<[u8]>,
    reg_id: u32,
    contact: Box<[u8]>,
    call_id: Box<[u8]>,
    flow: Flow,
}

impl Before {
    /// Is this binding the later state of the one before? The same contact counts if the same user agent has registered it, which
    /// keeps its Call-ID (RFC 3261 section 10.2.4): two phones in different networks may have the same private address.
    fn is(&self, binding: &Binding) -> bool {
        match self.reg_id {
            0 => {
                binding.reg_id == 0 && *self.contact == *binding.contact && *self.call_id == *binding.call_id
            }
            reg_id => binding.reg_id == reg_id && is_same_instance(&binding.instance, &self.instance),
        }
    }
}

impl Service {
    /// The bindings of a user that a change may move to another flow than `flow`, or to any other if there is none.
    pub(super) fn before_change(&self, aor: &[u8], flow: Option<&Flow>) -> Vec<Before> {
        let lives_by_its_flow = |binding: &&Binding| {
            matches!(binding.flow_use, FlowUse::First | FlowUse::Only)
                && binding.path.is_empty()
                && flow != Some(&binding.flow)
                && self.is_here(binding)
        };
        let before = self.locations.bindings(aor).iter().filter(lives_by_its_flow).map(|binding| Before {
            instance: binding.instance.clone(),
            reg_id: binding.reg_id,
            contact: Box::from(&*binding.contact),
            call_id: Box::from(&*binding.call_id),
            flow: binding.flow,
        });
        before.collect()
    }

    /// The bindings of a user have changed: notes which flows were replaced. Nothing is noted of a flow over which others are reached.
    /// A connection of ours that the same instance and reg-id have replaced is closed.
    pub(super) fn after_change(&mut self, aor: &[u8], before: &[Before]) {
        for old in before {
            let bindings = self.locations.bindings(aor);
            let still = |binding: &Binding| self.is_here(binding) && binding.flow == old.flow;
            let Some(new) = bindings.iter().find(|binding| old.is(binding)) else { continue };
            if bindings.iter().any(still) || self.is_needed(old.flow.connection) {
                continue;
            }
            let moved = match &new.origin {
                Some(origin) if !self.is_siblings(new) => Moved::Node(origin.node, origin.token.clone()),
                _ => Moved::Flow(new.flow),
            };
            if let Some(key) = key(&old.flow) {
                self.replaced.note(key, moved);
            }
            if old.reg_id > 0 && self.connections.remove(&old.flow.connection) {
                self.replaced.closing.push(old.flow);
            }
        }
    }

    /// Does anybody else need this connection?
    fn is_needed(&self, connection: u64) -> bool {
        connection != 0
            && (self.edges.contains(&connection)
                || self.trusted.contains(&connection)
                || self.proved.contains(&connection)
                || self.locations.reaches_over(connection))
    }

    /// Where the phone is now that this flow led to; `None` if it is still there, or nothing is known of another way.
    pub(super) fn moved(&self, flow: &Flow) -> Option<Moved> {
        let (mut now, mut found) = (*flow, None);
        for _ in 0..STEPS_MAX {
            // A connection of another worker is taken to stand, whether it does or not.
            if now.connection != 0 && !self.is_of_sibling(&now) && self.connections.contains(&now.connection)
            {
                break;
            }
            match self.replaced.after(&now) {
                Some(Moved::Flow(next)) => now = *next,
                Some(Moved::Node(node, token)) => return Some(Moved::Node(*node, token.clone())),
                None => break,
            }
            found = Some(Moved::Flow(now));
        }
        found
    }

    /// Connections that their phones have replaced, to be closed; once.
    pub fn take_replaced(&mut self) -> Vec<Flow> {
        core::mem::take(&mut self.replaced.closing)
    }
}

#[cfg(test)]
mod tests;
