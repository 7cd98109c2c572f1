//! Registrations: users and their bindings, the flows over which phones have registered, and replaced flows.

use crate::auth::{Standing, is_same_origin};
use crate::bindings::{Binding, Journal, Locations};
use crate::codec::SipUri;
use crate::registrar::{Registered, Registrar, Request};
use crate::transaction::{Flow, Protocol, Time};

use super::ended_flows::EndedFlows;
use super::incoming::Incoming;
use super::registered_flows::RegisteredFlows;
use super::replaced_flows::{Before, ReplacedFlows, before_change};
use super::setup::Setup;

/// Users, their bindings and their flows.
#[derive(Debug)]
pub struct Registrations {
    pub(super) locations: Locations,
    pub(super) registrar: Registrar,
    flows: RegisteredFlows,
    pub(super) replaced: ReplacedFlows,
    ended: EndedFlows,
}

impl Registrations {
    /// `key` must be random.
    pub(super) fn new(locations: Locations, registrar: Registrar, key: [u8; 16]) -> Self {
        let (replaced, ended) = Default::default();
        Self { locations, registrar, flows: RegisteredFlows::new(key), replaced, ended }
    }

    /// Users and their bindings.
    #[must_use]
    pub const fn locations(&self) -> &Locations {
        &self.locations
    }

    /// Whether a phone has registered over a flow recently.
    #[must_use]
    pub fn is_registered(&self, flow: &Flow) -> bool {
        self.flows.contains(flow)
    }

    /// Records that a phone has registered over a flow, here or at another registrar.
    pub(super) fn on_registered(&mut self, now: Time, flow: &Flow) {
        self.flows.insert(now, flow);
    }

    /// Applies a REGISTER for `aor`, completely or not at all.
    pub(super) fn register(
        &mut self,
        request: &Request<'_>,
        aor: &[u8],
        journal: &mut Journal,
    ) -> Registered {
        self.registrar.register(request, aor, &mut self.locations, journal)
    }

    /// Records that a user is reached over a flow again, if a binding uses it.
    pub(super) fn on_flow_used(&mut self, aor: &[u8], flow: &Flow) {
        if self.locations.bindings(aor).iter().any(|binding| binding.flow == *flow) {
            self.replaced.on_flow_used(flow);
        }
    }

    /// Loads a user's bindings from the store. Returns the number of unreadable lines.
    pub(super) fn load(&mut self, aor: &[u8], state: &[u8]) -> usize {
        let unreadable = self.locations.load(aor, state);
        for binding in self.locations.bindings(aor) {
            self.flows.insert(Time::ZERO, &binding.flow);
        }
        count(unreadable)
    }

    /// Merges a user's bindings at a node with those known here. Returns the number of lines that can't be
    /// read, and the flows that were replaced. `is_open`: whether a connection is open. `is_needed`: whether
    /// anything but bindings depends on it.
    pub(super) fn merge(
        &mut self,
        setup: &Setup,
        node: u16,
        (aor, state): (&[u8], &[u8]),
        journal: &mut Journal,
        (is_open, is_needed): (impl Fn(u64) -> bool, impl Fn(u64) -> bool),
    ) -> (usize, Vec<Flow>) {
        let before = self.before_change(setup, aor, None);
        let unreadable = self.locations.merge(node, aor, state, journal);
        if node == 0 {
            self.locations.loaded(aor, is_open);
        }
        for binding in self.locations.bindings(aor) {
            self.flows.insert(Time::ZERO, &binding.flow);
            if binding.node() == 0 || setup.is_worker_node(binding.node()) {
                self.replaced.on_flow_used(&binding.flow);
            }
        }
        let replaced = self.on_change(setup, aor, &before, is_needed);
        if setup.is_worker_node(node) {
            self.note_vanished(node, aor, before);
        }
        (count(unreadable), replaced)
    }

    /// Removes the bindings of a user, or only the binding of `contact`, and returns them. This includes
    /// bindings of other nodes, which are informed as of any change.
    pub(super) fn unbind(
        &mut self,
        unix_ms: u64,
        aor: &[u8],
        contact: Option<&[u8]>,
        journal: &mut Journal,
    ) -> Vec<Binding> {
        let is_meant = |binding: &Binding| contact.is_none_or(|contact| *binding.contact == *contact);
        if !self.locations.bindings(aor).iter().any(is_meant) {
            return Vec::new();
        }
        // The removal is recorded with its time, so that an older state can't restore the binding.
        let change = |bindings: &mut Vec<Binding>| bindings.extract_if(.., |one| is_meant(one)).collect();
        self.locations.change(aor, unix_ms, journal, change).unwrap_or_default()
    }

    /// Whether the user of a URI is registered from the source of a request.
    pub(super) fn standing(
        &self,
        now: Time,
        setup: &Setup,
        incoming: &Incoming<'_>,
        uri: &SipUri<'_>,
    ) -> Standing {
        let mut aor = Vec::new();
        setup.write_aor(uri, &mut aor);
        let (peer, unix_secs) = (incoming.flow.peer, setup.unix_secs(now));
        let live = || self.locations.bindings(&aor).iter().filter(|binding| !binding.has_expired(unix_secs));
        if live().any(|binding| binding.flow.peer == peer) {
            Standing::Port
        } else if live().any(|binding| {
            *binding.call_id == *incoming.essentials.call_id
                && is_same_origin(binding.flow.peer.ip(), peer.ip())
        }) {
            Standing::Call
        } else if live().any(|binding| is_same_origin(binding.flow.peer.ip(), peer.ip())) {
            Standing::Address
        } else {
            Standing::Unknown
        }
    }

    /// The bindings of a user that a change may move to another flow than `flow`, or to any other if there is
    /// none.
    pub(super) fn before_change(&self, setup: &Setup, aor: &[u8], flow: Option<&Flow>) -> Vec<Before> {
        before_change(setup, self.locations.bindings(aor), flow)
    }

    /// Records which flows were replaced when a user's bindings changed from `before`. Returns the flows
    /// whose connections are to be closed. `is_needed`: whether anything but bindings depends on a
    /// connection.
    pub(super) fn on_change(
        &mut self,
        setup: &Setup,
        aor: &[u8],
        before: &[Before],
        is_needed: impl Fn(u64) -> bool,
    ) -> Vec<Flow> {
        let locations = &self.locations;
        let is_needed = |flow: &Flow| match flow.connection {
            0 => flow.protocol == Protocol::Udp && locations.reaches_at(flow.peer),
            connection => is_needed(connection) || locations.reaches_over(connection),
        };
        let bindings = locations.bindings(aor);
        let replaced = self.replaced.on_change(setup, before, bindings, is_needed);
        let is_back = |ended: &Before| bindings.iter().any(|binding| ended.is(binding));
        let back = self.ended.take(aor, is_back);
        // Their connections have ended: there is none to be closed.
        let _ = self.replaced.on_change(setup, &back, bindings, |_| false);
        replaced
    }

    /// Remembers the flows of bindings that another worker no longer has: their connections have ended, or the phone
    /// has removed them. It may come back over another flow.
    fn note_vanished(&mut self, node: u16, aor: &[u8], before: Vec<Before>) {
        for old in before {
            let is_left = |binding: &Binding| old.is(binding);
            if old.is_of_connection_at(node) && !self.locations.bindings(aor).iter().any(is_left) {
                self.ended.note(aor, old);
            }
        }
    }

    /// Handles a connection that has closed: bindings that depend on it go too.
    pub(super) fn connection_closed(&mut self, connection: u64, journal: &mut Journal) {
        for (aor, binding) in self.locations.reached_over(connection) {
            if binding.reg_id > 0 && binding.path.is_empty() {
                self.ended.note(aor, Before::of(binding));
            }
        }
        self.locations.connection_closed(connection, journal);
    }
}

/// The number of unreadable lines; a warning if there was no room for the user.
fn count(unreadable: Option<usize>) -> usize {
    if unreadable.is_none() {
        tracing::warn!("there are more users than limits.users_max allows");
    }
    unreadable.unwrap_or(0)
}
