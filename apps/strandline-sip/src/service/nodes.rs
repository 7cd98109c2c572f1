//! Other nodes that share the store: who they are, and how their phones are reached over them.

use core::net::{IpAddr, SocketAddr};
use std::collections::HashSet;

use crate::bindings::{Binding, FlowUse, Nodes};
use crate::transaction::{Flow, Protocol, Time};

use super::context::{Detour, Place, Target};
use super::{Advertised, Service};

/// Where a node is reached by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAddress {
    /// How.
    pub protocol: Protocol,
    /// Where.
    pub address: SocketAddr,
}

impl NodeAddress {
    /// Reads `tcp:192.0.2.1:5060`; `None` if it is anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (protocol, address) = text.split_once(':')?;
        Some(Self { protocol: Protocol::from_name(protocol.as_bytes())?, address: address.parse().ok()? })
    }
}

impl core::fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}:{}", self.protocol.name(), self.address)
    }
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Where it is reached, if it can be.
    pub address: Option<NodeAddress>,
    /// It is there.
    pub is_alive: bool,
}

/// Other nodes by their numbers.
#[derive(Debug, Default)]
pub(super) struct Peers {
    /// What this one is called.
    name: String,
    peers: Vec<Option<Peer>>,
    /// Requests from here may ask for flows.
    addresses: HashSet<IpAddr>,
    /// This node's own.
    own: Option<IpAddr>,
}

/// How a phone is reached that has registered elsewhere.
pub(super) enum Over {
    /// Over its node.
    Node(Target),
    /// At its contact's address, or by its Path.
    Contact,
    /// Not at all: it could be reached over its node only, and that is gone.
    Gone,
}

impl Service {
    /// There may be other nodes from now on. This one has a name and perhaps an address for them.
    pub fn join(&mut self, name: &str, address: Option<NodeAddress>) {
        self.locations.share(Nodes::new(name, Box::new(self.tokens.clone())));
        let own = address.map(|address| address.address.ip());
        self.nodes = Some(Peers { name: name.to_owned(), own, ..Peers::default() });
        if let Some(NodeAddress { protocol, address }) = address {
            let host = address.ip().to_string();
            self.settings.advertised.push(Advertised::new(protocol, host, address.port()));
        }
    }

    /// Who else there is.
    pub fn set_nodes(&mut self, peers: Vec<Peer>) {
        let Peers { name, own, .. } = self.nodes.take().unwrap_or_default();
        let mut known = Peers { name, own, ..Peers::default() };
        for peer in peers {
            let number = usize::from(self.locations.node(&peer.name));
            known.addresses.extend(peer.address.map(|address| address.address.ip().to_canonical()));
            if known.peers.len() <= number {
                known.peers.resize(number + 1, None);
            }
            if let Some(place) = known.peers.get_mut(number) {
                *place = Some(peer);
            }
        }
        self.nodes = Some(known);
    }

    /// What this node is called, if there may be others.
    #[must_use]
    pub fn node_name(&self) -> Option<&str> {
        self.nodes.as_ref().map(|nodes| nodes.name.as_str())
    }

    /// The nodes that are known, but for this one and other workers of its server.
    pub fn other_nodes(&self) -> impl Iterator<Item = &Peer> {
        let peers = self.nodes.iter().flat_map(|nodes| (0u16..).zip(&nodes.peers));
        let others = peers.filter(move |(number, _)| !self.is_sibling_node(*number));
        others.filter_map(|(_, peer)| peer.as_ref())
    }

    /// How many other nodes are there.
    #[must_use]
    pub fn nodes_alive(&self) -> usize {
        let peers = self.nodes.iter().flat_map(|nodes| nodes.peers.iter().flatten());
        peers.filter(|peer| peer.is_alive).count()
    }

    /// Takes what a user has at a node now. Returns how many lines can't be read and are left out.
    pub fn merge(&mut self, node: &str, aor: &[u8], state: &[u8]) -> usize {
        let number = if node.is_empty() { 0 } else { self.locations.node(node) };
        let before = self.before_change(aor, None);
        let unreadable = self.locations.merge(number, aor, state, &mut self.journal);
        if unreadable.is_none() {
            tracing::warn!("there are more users than limits.users_max");
        }
        for binding in self.locations.bindings(aor) {
            self.known.insert(Time::ZERO, &binding.flow);
            if binding.node() == 0 || self.is_sibling_node(binding.node()) {
                self.replaced.is_used_again(&binding.flow);
            }
        }
        self.after_change(aor, &before);
        unreadable.unwrap_or(0)
    }

    /// Forgets what a node has told of, before it tells all again.
    pub fn forget_node(&mut self, node: &str) {
        let number = self.locations.node(node);
        if number != 0 {
            self.locations.forget_node(number);
        }
    }

    /// Is this the address of a node?
    #[must_use]
    pub fn is_node(&self, address: IpAddr) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.addresses.contains(&address.to_canonical()))
    }

    /// The way to the node that has this address.
    pub(super) fn node_at(&self, address: IpAddr) -> Option<Flow> {
        let peers = self.nodes.as_ref()?.peers.iter().flatten();
        let mut addresses = peers.filter_map(|peer| peer.address);
        let found = addresses.find(|one| one.address.ip().to_canonical() == address)?;
        Some(Flow::to(found.protocol, found.address))
    }

    /// Where connections to this address are to come from: nodes know one another by their addresses.
    #[must_use]
    pub fn address_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let own = self.nodes.as_ref()?.own.filter(|own| own.is_ipv4() == peer.is_ipv4())?;
        self.is_node(peer).then_some(own)
    }

    pub(super) fn is_from_node(&self, flow: &Flow) -> bool {
        self.is_node(flow.peer.ip())
    }

    /// How a phone is reached that has registered at another node; `None` if it has registered here.
    pub(super) fn over_node(&self, binding: &Binding) -> Option<Over> {
        let origin = binding.origin.as_ref()?;
        if !binding.path.is_empty() || matches!(binding.flow_use, FlowUse::None | FlowUse::Last) {
            return Some(Over::Contact);
        }
        let Some(Detour { flow, path }) = self.through_node(origin.node, &origin.token) else {
            return Some(if binding.flow_use == FlowUse::Only { Over::Gone } else { Over::Contact });
        };
        Some(Over::Node(Target {
            uri: Some(Box::from(&*binding.contact)),
            path,
            over_node: true,
            ..Target::new(None, Place::Flow(flow), binding.q)
        }))
    }

    /// The way over another node to the flow that it calls by this name; `None` if the node is gone or gave it no name.
    pub(super) fn through_node(&self, node: u16, token: &[u8]) -> Option<Detour> {
        use std::io::Write;
        let peer = self.nodes.as_ref()?.peers.get(usize::from(node)).and_then(Option::as_ref);
        let address = peer.filter(|peer| peer.is_alive && !token.is_empty()).and_then(|peer| peer.address);
        let NodeAddress { protocol, address } = address?;
        let mut path = b"<sip:".to_vec();
        path.extend_from_slice(token);
        // Writing to a buffer that grows does not fail.
        let _ = match protocol {
            Protocol::Udp => write!(path, "@{address};lr>"),
            _ => write!(path, "@{address};transport={};lr>", protocol.in_uri()),
        };
        Some(Detour { flow: Flow::to(protocol, address), path: path.into() })
    }
}
