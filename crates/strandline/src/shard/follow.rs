//! The addresses that this host's interfaces gain and lose, and what associations that agreed on dynamic
//! addresses (RFC 5061) ask for therefore. [`follower`](super::follower) makes them ask.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use strandline_io::{LocalAddress, Scope, addresses_towards};
use strandline_proto::config::PATHS_MAX;
use strandline_proto::dynamic_addresses::{AddressOutcome, AddressRequest};
use strandline_proto::event::AssociationId;
use strandline_proto::time::Time;

/// Pause before an association that could not ask for changes tries again, how often it does, and the number of
/// associations that may wait for it.
pub(super) const RETRY_PAUSE: Duration = Duration::from_secs(1);
const RETRIES_MAX: u8 = 10;
const WAITING_MAX: usize = 4096;
/// Maximum number of requests in a call: they share a packet.
const REQUESTS_MAX: usize = 8;
/// Maximum number of addresses that are remembered of those gained or lost.
const REMEMBERED_MAX: usize = 64;

/// The host's addresses, and how they differ from those it had when the stack was built.
#[derive(Debug, Default)]
pub(crate) struct HostAddresses {
    current: Vec<LocalAddress>,
    /// Current ones that it did not always have.
    gained: Vec<LocalAddress>,
    /// Those that it no longer has.
    lost: Vec<IpAddr>,
}

/// Addresses that the host has gained and lost.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) gained: Vec<IpAddr>,
    pub(super) lost: Vec<IpAddr>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }

    /// Applies the changes to the addresses that new associations list. Without any they list none, and the
    /// last one stays until another one takes its place.
    pub(super) fn apply_to(&self, listed: &[IpAddr]) -> Vec<IpAddr> {
        if listed.is_empty() {
            return Vec::new();
        }
        let mut kept: Vec<_> =
            listed.iter().copied().filter(|address| !self.lost.contains(address)).collect();
        for address in &self.gained {
            if kept.len() < PATHS_MAX && !kept.contains(address) {
                kept.push(*address);
            }
        }
        if kept.is_empty() { listed.to_vec() } else { kept }
    }
}

impl HostAddresses {
    fn new(current: Vec<LocalAddress>) -> Self {
        Self { current, ..Self::default() }
    }

    /// Takes over a new list. Returns the addresses that were gained or lost. Those that only one link has
    /// are left alone: another host may have the same.
    pub(super) fn update(&mut self, list: Vec<LocalAddress>) -> Changes {
        let has = |list: &[LocalAddress], address| list.iter().any(|local| local.address == address);
        let on_a_link = |local: &&LocalAddress| local.scope == Scope::LinkLocal;
        let new: Vec<_> =
            list.iter().filter(|local| !on_a_link(local) && !has(&self.current, local.address)).collect();
        let gone = self.current.iter().filter(|local| !on_a_link(local) && !has(&list, local.address));
        let gone: Vec<IpAddr> = gone.map(|local| local.address).collect();
        let gained = new.iter().map(|local| local.address).collect();
        let changes = Changes { gained, lost: gone.clone() };
        self.gained.retain(|local| !gone.contains(&local.address));
        self.lost.retain(|address| !has(&list, *address));
        self.gained.extend(new.into_iter().cloned());
        self.lost.extend(gone);
        self.gained.truncate(REMEMBERED_MAX);
        let excess = self.lost.len().saturating_sub(REMEMBERED_MAX);
        self.lost.drain(..excess);
        self.current = list;
        changes
    }

    pub(super) fn is_unchanged(&self) -> bool {
        self.gained.is_empty() && self.lost.is_empty()
    }

    /// Returns whether a request is about an address that the host has gained or lost.
    fn asks(&self, request: AddressRequest) -> bool {
        match request {
            AddressRequest::Add(own) => self.gained.iter().any(|local| local.address == own),
            AddressRequest::Delete(own) => self.lost.contains(&own),
            AddressRequest::SetPrimary(_) => false,
        }
    }

    /// Returns what an association with these local addresses asks its peer for next. Once the peer has
    /// answered, there may be more. An address must reach one of the peer's. The last address stays until
    /// another one takes its place.
    pub(super) fn requests(&self, local: &[IpAddr], peers: &[SocketAddr]) -> Vec<AddressRequest> {
        let room = PATHS_MAX.saturating_sub(local.len());
        let is_v4 = |address: IpAddr| address.to_canonical().is_ipv4();
        let mut reachable = Vec::new();
        for peer in peers {
            let towards = addresses_towards(*peer, &self.gained).into_iter();
            for own in towards.filter(|own| is_v4(*own) == is_v4(peer.ip())) {
                if !local.contains(&own) && !reachable.contains(&own) {
                    reachable.push(own);
                }
            }
        }
        let adds = reachable.into_iter().take(room);
        let mut requests: Vec<_> = adds.map(AddressRequest::Add).take(REQUESTS_MAX / 2).collect();
        let mut left = local.len() + requests.len();
        for address in local.iter().filter(|own| self.lost.contains(own)) {
            if left > 1 && requests.len() < REQUESTS_MAX {
                requests.push(AddressRequest::Delete(*address));
                left -= 1;
            }
        }
        requests
    }
}

/// The state of a shard that follows addresses.
#[derive(Debug, Default)]
pub(crate) struct Following {
    pub(super) host: HostAddresses,
    /// The next slot to visit because of a change.
    pub(super) next_slot: Option<u32>,
    /// Associations to be visited at a time, with the number of attempts so far.
    pub(super) waiting: VecDeque<(Time, AssociationId, u8)>,
    /// Number of requests since the last change that the peers of associations have refused.
    refused: HashMap<AssociationId, u8>,
}

impl Following {
    /// Creates the state of a shard whose host has these addresses.
    pub(crate) fn of(current: Vec<LocalAddress>) -> Box<Self> {
        Box::new(Self { host: HostAddresses::new(current), ..Self::default() })
    }

    /// Lets a new association have the addresses that the host has now, at the next step.
    #[cold]
    pub(super) fn welcome(&mut self, now: Time, id: AssociationId) {
        if !self.host.is_unchanged() {
            self.wait_for(now, id, 0);
        }
    }

    /// Lets an association ask for what is left once its peer has answered a request: at the next step, or
    /// after a pause if the answer was a refusal.
    #[cold]
    pub(super) fn on_outcome(
        &mut self,
        now: Time,
        id: AssociationId,
        request: AddressRequest,
        outcome: AddressOutcome,
    ) {
        match outcome {
            // The application's own, or a peer that takes no more.
            _ if !self.host.asks(request) => {}
            AddressOutcome::NotSupported => {}
            AddressOutcome::Performed => self.wait_for(now, id, 0),
            _ => {
                let room = self.refused.len() < WAITING_MAX || self.refused.contains_key(&id);
                if room {
                    let refused = self.refused.entry(id).or_default();
                    *refused = refused.saturating_add(1);
                    let refused = *refused;
                    self.wait_for(now + RETRY_PAUSE, id, refused);
                }
            }
        }
    }

    /// Begins to visit all associations, because the host's addresses have changed.
    pub(super) fn begin(&mut self) {
        self.next_slot = Some(0);
        self.refused.clear();
    }

    pub(super) fn forget(&mut self, id: AssociationId) {
        self.refused.remove(&id);
    }

    /// Lets an association be visited at a time. The outcomes of several requests cause one visit. If too
    /// many wait, all associations are visited.
    pub(super) fn wait_for(&mut self, at: Time, id: AssociationId, attempts: u8) {
        if attempts >= RETRIES_MAX || self.waiting.back().is_some_and(|(_, last, _)| *last == id) {
            return;
        }
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back((at, id, attempts));
        } else if attempts == 0 {
            self.next_slot = Some(0);
        }
    }
}

#[cfg(test)]
mod tests;
