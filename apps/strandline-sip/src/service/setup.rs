//! The setup of a service: settings, keys, other nodes and workers.

use core::net::IpAddr;

use siphasher::sip::SipHasher13;

use crate::bindings::Binding;
use crate::codec::Limits;
use crate::registrar::Gruus;
use crate::transaction::{Flow, Time};

use super::Seeds;
use super::directory::Directory;
use super::nodes::{OtherNodes, Peer};
use super::offers::Offers;
use super::request_hashes::Hashes;
use super::settings::{Advertised, Settings};
use super::token::Tokens;
use super::workers::Workers;

/// The setup of a service. The operator and the I/O layer change it; messages don't.
#[derive(Debug)]
pub struct Setup {
    pub(super) settings: Settings,
    /// Seals and opens the tokens in Record-Route, Path and the names of flows.
    pub(super) tokens: Tokens,
    pub(super) gruus: Gruus,
    /// Makes hashes and tags.
    pub(super) hashes: Hashes,
    /// The overload control that downstream neighbours are offered.
    pub(super) offers: Offers,
    /// Seconds since 1970 at `Time::ZERO`.
    epoch_unix_secs: u64,
    /// Other nodes that share the store; `None` without nodes.
    pub(super) nodes: Option<OtherNodes>,
    /// Other workers of this server, if there are any.
    pub(super) workers: Option<Workers>,
    /// Whether the service is draining.
    pub(super) draining: bool,
}

impl Setup {
    pub(super) fn new(settings: Settings, seeds: &Seeds, hasher: SipHasher13, epoch_unix_secs: u64) -> Self {
        let tokens = Tokens::new(seeds.tokens);
        Self {
            offers: Offers::new(&settings.directory, &tokens),
            tokens,
            gruus: Gruus::new(&seeds.tokens, &seeds.gruus),
            hashes: Hashes::new(hasher),
            epoch_unix_secs,
            nodes: None,
            workers: None,
            draining: false,
            settings,
        }
    }

    /// Applies new settings. Its addresses, timers, limits of users and transactions, and whether bindings
    /// are durable stay as they are.
    pub(super) fn configure(&mut self, new: &Settings) {
        let Settings { advertised, users_max, timings, limits, durable, directory, .. } = &self.settings;
        let directory = Directory { failover: directory.failover, ..new.directory.clone() };
        let settings = Settings {
            advertised: advertised.clone(),
            users_max: *users_max,
            timings: *timings,
            limits: *limits,
            durable: *durable,
            directory,
            ..new.clone()
        };
        self.offers = Offers::new(&settings.directory, &self.tokens);
        self.settings = settings;
    }

    /// Adds addresses, once the service listens.
    pub fn add_addresses(&mut self, advertised: &[Advertised]) {
        self.settings.advertised.splice(0..0, advertised.iter().cloned());
    }

    /// Starts or stops draining: meanwhile registrations and requests outside of dialogs are refused with
    /// 503.
    pub const fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    /// Whether the service drains.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.draining
    }

    /// Sets which workers run: a bit for each.
    pub const fn set_workers_alive(&mut self, alive: u64) {
        if let Some(workers) = &mut self.workers {
            workers.alive = alive;
        }
    }

    /// Seals and opens the tokens in Record-Routes.
    #[must_use]
    pub const fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// The domains of the users, without the addresses.
    #[must_use]
    pub fn domains(&self) -> &[String] {
        &self.settings.domains
    }

    /// Limits of a message.
    #[must_use]
    pub const fn message_limits(&self) -> Limits {
        self.settings.message
    }

    /// The name of this node, if there may be others.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.nodes.as_ref().map(OtherNodes::own_name)
    }

    /// The other nodes, without other workers of this server.
    pub fn other_nodes(&self) -> impl Iterator<Item = &Peer> {
        let nodes = self.nodes.iter().flat_map(OtherNodes::iter);
        nodes.filter(|(number, _)| !self.is_worker_node(*number)).map(|(_, peer)| peer)
    }

    /// Number of other nodes that run.
    #[must_use]
    pub fn nodes_alive(&self) -> usize {
        self.nodes.as_ref().map_or(0, OtherNodes::alive)
    }

    /// The local address for connections to a node; `None` for any other peer.
    #[must_use]
    pub fn local_address_for(&self, peer: IpAddr) -> Option<IpAddr> {
        self.nodes.as_ref()?.local_address_for(peer)
    }

    /// Milliseconds since 1970.
    pub(super) fn unix_ms(&self, now: Time) -> u64 {
        self.epoch_unix_secs * 1000 + now.as_millis()
    }

    /// Seconds since 1970.
    pub(super) fn unix_secs(&self, now: Time) -> u64 {
        self.epoch_unix_secs + now.as_millis() / 1000
    }

    /// Whether a binding was made at this server, by any of its workers.
    #[must_use]
    pub fn is_here(&self, binding: &Binding) -> bool {
        binding.origin.is_none() || self.is_of_worker(binding)
    }

    /// Whether a binding was made at another worker of this server.
    pub(super) fn is_of_worker(&self, binding: &Binding) -> bool {
        let node = binding.node();
        node != 0 && self.is_worker_node(node)
    }

    /// Whether a node is another worker of this server.
    pub(super) fn is_worker_node(&self, number: u16) -> bool {
        self.workers.as_ref().is_some_and(|workers| workers.has_node(number))
    }

    /// Whether a flow's connection belongs to another worker.
    pub(super) fn is_at_worker(&self, flow: &Flow) -> bool {
        self.workers.as_ref().is_some_and(|workers| workers.is_other(flow.connection))
    }

    /// Whether a flow's peer is another node.
    pub(super) fn is_from_node(&self, flow: &Flow) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.is_node(flow.peer.ip()))
    }
}
