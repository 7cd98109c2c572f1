//! Other nodes that share the store: their addresses, and how their phones are reached over them.

use core::net::{IpAddr, SocketAddr};
use std::collections::HashSet;

use crate::bindings::{Binding, FlowUse};
use crate::transaction::{Flow, Protocol};

use super::context::{Destination, Detour, Target};

/// The address at which other nodes reach a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAddress {
    /// The protocol that it listens for.
    pub protocol: Protocol,
    /// Its IP address and port.
    pub address: SocketAddr,
}

impl NodeAddress {
    /// Parses `tcp:192.0.2.1:5060`. Returns `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (protocol, address) = text.split_once(':')?;
        Some(Self { protocol: Protocol::from_name(protocol.as_bytes())?, address: address.parse().ok()? })
    }

    /// The address as seen by a host on whose link to the node has this zone. Only link-local addresses have
    /// a zone, and each host has its own number for a link.
    #[must_use]
    pub fn on_link(mut self, zone: u32) -> Self {
        if let SocketAddr::V6(v6) = &mut self.address
            && v6.ip().is_unicast_link_local()
        {
            v6.set_scope_id(zone);
        }
        self
    }
}

impl core::fmt::Display for NodeAddress {
    /// Without the zone, which only this host knows.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { protocol, address } = self;
        write!(f, "{}:{}", protocol.name(), SocketAddr::new(address.ip(), address.port()))
    }
}

/// Another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Its address, if it can be reached.
    pub address: Option<NodeAddress>,
    /// Whether it runs.
    pub is_alive: bool,
}

/// Other nodes by their numbers.
#[derive(Debug, Default)]
pub struct OtherNodes {
    /// The name of this node.
    name: String,
    peers: Vec<Option<Peer>>,
    /// Addresses whose requests may name flows of this node.
    addresses: HashSet<IpAddr>,
    /// The address of this node.
    own: Option<IpAddr>,
}

/// How to reach a phone that has registered at another node.
pub(super) enum Over {
    /// Over its node.
    Node(Target),
    /// At its contact's address, or by its Path.
    Contact,
    /// Unreachable: only its node could reach it, and the node is gone.
    Gone,
}

impl OtherNodes {
    /// Without other nodes.
    pub(super) fn new(name: &str, address: Option<NodeAddress>) -> Self {
        let own = address.map(|address| address.address.ip());
        Self { name: name.to_owned(), own, ..Self::default() }
    }

    /// Replaces all nodes. `number` returns the number of a node's name.
    pub(super) fn set(&mut self, peers: Vec<Peer>, mut number: impl FnMut(&str) -> u16) {
        self.peers.clear();
        self.addresses.clear();
        for peer in peers {
            let number = usize::from(number(&peer.name));
            self.addresses.extend(peer.address.map(|address| address.address.ip().to_canonical()));
            if self.peers.len() <= number {
                self.peers.resize(number + 1, None);
            }
            if let Some(place) = self.peers.get_mut(number) {
                *place = Some(peer);
            }
        }
    }

    /// The name of this node.
    #[must_use]
    pub fn own_name(&self) -> &str {
        &self.name
    }

    /// Other nodes with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Peer)> {
        (0u16..).zip(&self.peers).filter_map(|(number, peer)| Some((number, peer.as_ref()?)))
    }

    /// Number of other nodes that run.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.iter().filter(|(_, peer)| peer.is_alive).count()
    }

    /// Whether a node runs. An unknown one is taken to.
    pub(super) fn is_running(&self, node: u16) -> bool {
        self.peers.get(usize::from(node)).and_then(Option::as_ref).is_none_or(|peer| peer.is_alive)
    }

    /// Whether this is the address of a node.
    #[must_use]
    pub fn is_node(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address.to_canonical())
    }

    /// The flow to the node with this address.
    pub(super) fn flow_to(&self, address: IpAddr) -> Option<Flow> {
        let mut addresses = self.iter().filter_map(|(_, peer)| peer.address);
        let found = addresses.find(|one| one.address.ip().to_canonical() == address)?;
        Some(Flow::to(found.protocol, found.address))
    }

    /// The local address for connections to a node: nodes know one another by their addresses. `None` for any
    /// other peer.
    #[must_use]
    pub fn local_address_for(&self, peer: IpAddr) -> Option<IpAddr> {
        let own = self.own.filter(|own| own.is_ipv4() == peer.is_ipv4())?;
        self.is_node(peer).then_some(own)
    }

    /// The detour through another node over the flow with this token. `None` if the node is gone or gave no
    /// token.
    pub(super) fn through(&self, node: u16, token: &[u8]) -> Option<Detour> {
        use std::io::Write;
        let peer = self.peers.get(usize::from(node)).and_then(Option::as_ref);
        let address = peer.filter(|peer| peer.is_alive && !token.is_empty()).and_then(|peer| peer.address);
        let NodeAddress { protocol, address } = address?;
        let mut path = b"<sip:".to_vec();
        path.extend_from_slice(token);
        // URIs have no zones.
        let at = SocketAddr::new(address.ip(), address.port());
        // Writing to a buffer that grows does not fail.
        let _ = match protocol {
            Protocol::Udp => write!(path, "@{at};lr>"),
            _ => write!(path, "@{at};transport={};lr>", protocol.in_uri()),
        };
        Some(Detour { flow: Flow::to(protocol, address), path: path.into() })
    }
}

/// How to reach a phone that has registered at another node; `None` if it has registered here.
pub(super) fn over(nodes: Option<&OtherNodes>, binding: &Binding) -> Option<Over> {
    let origin = binding.origin.as_ref()?;
    if !binding.path.is_empty() || matches!(binding.flow_use, FlowUse::None | FlowUse::Last) {
        return Some(Over::Contact);
    }
    let detour = nodes.and_then(|nodes| nodes.through(origin.node, &origin.token));
    let Some(Detour { flow, path }) = detour else {
        return Some(if binding.flow_use == FlowUse::Only { Over::Gone } else { Over::Contact });
    };
    Some(Over::Node(Target {
        uri: Some(Box::from(&*binding.contact)),
        path,
        over_node: true,
        ..Target::new(None, Destination::Flow(flow), binding.q)
    }))
}
