//! Flows that phones have replaced: the same instance registers with the same reg-id over another flow (RFC
//! 5626 section 6), or the same contact is refreshed from elsewhere. A request within a dialog names the flow
//! over which the dialog began; it follows the phone to the flow that it has now.
//!
//! Each worker and each node compares the bindings of a user before and after a change, its own or another's.
//! So all of them know the new flow, and the worker or node with the old connection closes it.

use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};

use crate::bindings::{Binding, FlowUse, is_same_instance};
use crate::transaction::{Flow, Protocol};

use super::setup::Setup;

/// Maximum number of replaced flows that are remembered. The oldest one is forgotten first.
const REPLACED_MAX: usize = 65_536;
/// Maximum number of replacements that are followed from one flow on.
const STEPS_MAX: usize = 16;

/// The key of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    /// The number of a connection or an association, which is never reused.
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

/// The flow over which a phone is now reached.
#[derive(Debug, Clone)]
pub(super) enum Moved {
    /// Over this flow.
    Flow(Flow),
    /// Over another node, by its number and the name that it gives the flow.
    Node(u16, Box<[u8]>),
}

/// Flows, and the flows that have replaced them.
#[derive(Debug, Default)]
pub(super) struct ReplacedFlows {
    by: HashMap<Key, (u64, Moved)>,
    /// In the order in which they were noted, each with the number of the note.
    order: VecDeque<(Key, u64)>,
    notes: u64,
}

impl ReplacedFlows {
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

    /// Records that datagrams arrive from this source again, from the same phone or from a new one.
    pub(super) fn on_flow_used(&mut self, flow: &Flow) {
        if !self.by.is_empty() && flow.connection == 0 && flow.protocol == Protocol::Udp {
            self.by.remove(&Key::Datagrams(flow.peer));
        }
    }

    fn successor(&self, flow: &Flow) -> Option<&Moved> {
        self.by.get(&key(flow)?).map(|(_, moved)| moved)
    }

    /// The present location of the phone that a flow led to. `None` if it hasn't moved, or no other flow is
    /// known. `is_open`: whether a connection of this worker is open; connections of other workers always
    /// count as open.
    pub(super) fn moved(&self, flow: &Flow, is_open: impl Fn(&Flow) -> bool) -> Option<Moved> {
        let (mut now, mut found) = (*flow, None);
        for _ in 0..STEPS_MAX {
            if now.connection != 0 && is_open(&now) {
                break;
            }
            match self.successor(&now) {
                Some(Moved::Flow(next)) => now = *next,
                Some(Moved::Node(node, token)) => return Some(Moved::Node(*node, token.clone())),
                None => break,
            }
            found = Some(Moved::Flow(now));
        }
        found
    }

    /// Records which flows were replaced when a user's bindings changed from `before`. A flow that others
    /// depend on is kept. Returns the flows that the same instance has replaced with the same reg-id: their
    /// connections are to be closed.
    pub(super) fn on_change(
        &mut self,
        setup: &Setup,
        before: &[Before],
        bindings: &[Binding],
        is_needed: impl Fn(&Flow) -> bool,
    ) -> Vec<Flow> {
        let mut replaced = Vec::new();
        for old in before {
            let still = |binding: &Binding| setup.is_here(binding) && binding.flow == old.flow;
            let Some(new) = bindings.iter().find(|binding| old.is(binding)) else { continue };
            if bindings.iter().any(still) || is_needed(&old.flow) {
                continue;
            }
            let moved = match &new.origin {
                Some(origin) if !setup.is_of_worker(new) => Moved::Node(origin.node, origin.token.clone()),
                _ => Moved::Flow(new.flow),
            };
            if let Some(key) = key(&old.flow) {
                self.note(key, moved);
            }
            if old.reg_id > 0 {
                replaced.push(old.flow);
            }
        }
        replaced
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
    /// The number of the node that created it.
    node: u16,
}

impl Before {
    pub(super) fn of(binding: &Binding) -> Self {
        Self {
            instance: binding.instance.clone(),
            reg_id: binding.reg_id,
            contact: Box::from(&*binding.contact),
            call_id: Box::from(&*binding.call_id),
            flow: binding.flow,
            node: binding.node(),
        }
    }

    /// Whether a phone registered it with a reg-id over a connection of a node.
    pub(super) const fn is_of_connection_at(&self, node: u16) -> bool {
        self.node == node && self.reg_id > 0 && self.flow.connection != 0
    }

    /// Whether a binding is the later state of the one before. The same contact counts if the same user agent
    /// has registered it, which keeps its Call-ID (RFC 3261 section 10.2.4): two phones in different networks
    /// may have the same private address.
    pub(super) fn is(&self, binding: &Binding) -> bool {
        match self.reg_id {
            0 => {
                binding.reg_id == 0 && *self.contact == *binding.contact && *self.call_id == *binding.call_id
            }
            reg_id => binding.reg_id == reg_id && is_same_instance(&binding.instance, &self.instance),
        }
    }
}

/// The bindings of a user that a change may move to another flow than `flow`, or to any other if there is
/// none.
pub(super) fn before_change(setup: &Setup, bindings: &[Binding], flow: Option<&Flow>) -> Vec<Before> {
    let lives_by_its_flow = |binding: &&Binding| {
        matches!(binding.flow_use, FlowUse::First | FlowUse::Only)
            && binding.path.is_empty()
            && flow != Some(&binding.flow)
            && setup.is_here(binding)
    };
    bindings.iter().filter(lives_by_its_flow).map(Before::of).collect()
}

#[cfg(test)]
mod tests;
