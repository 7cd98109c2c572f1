//! One side of a pair.

use core::net::IpAddr;
use std::collections::VecDeque;

use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::Endpoint;
use strandline_proto::event::{AssociationId, Event, Transmit};
use strandline_proto::time::Time;

use super::CARRIER_PORT;
use crate::random::Random;

/// One side of a [`Pair`](super::Pair).
#[derive(Debug)]
pub struct Peer {
    /// The endpoint. Commands can be given to it directly. Their effects appear with the pair's next step.
    pub endpoint: Endpoint,
    pub(super) config: EndpointConfig,
    pub(super) addresses: Vec<IpAddr>,
    /// The UDP port that its packets come from and that it receives packets on.
    pub(super) port: u16,
    pub(super) events: VecDeque<(AssociationId, Event)>,
}

impl Peer {
    pub(super) fn new(config: EndpointConfig, default: IpAddr, random: &mut Random) -> Self {
        let addresses =
            if config.local_addresses.is_empty() { vec![default] } else { config.local_addresses.clone() };
        let endpoint =
            Endpoint::new(config.clone(), random.seed(), Time::ZERO).expect("the configuration is valid");
        Self { endpoint, config, addresses, port: CARRIER_PORT, events: VecDeque::new() }
    }

    /// Returns the source address of a packet: the one that the endpoint sets, or else the one nearest to its
    /// destination, as on a host with an interface in each network.
    pub(super) fn source_of(&self, transmit: &Transmit) -> IpAddr {
        let near = |address: &IpAddr| match (address, transmit.destination.ip()) {
            (IpAddr::V4(here), IpAddr::V4(there)) => (here.to_bits() ^ there.to_bits()).leading_zeros(),
            (IpAddr::V6(here), IpAddr::V6(there)) => (here.to_bits() ^ there.to_bits()).leading_zeros(),
            _ => 0,
        };
        let nearest = self.addresses.iter().rev().max_by_key(|address| near(address)).copied();
        transmit.source.or(nearest).unwrap_or(self.addresses[0])
    }
}
