//! Which overload control each downstream neighbour is offered.

use core::net::{IpAddr, SocketAddr};
use std::collections::HashMap;

use crate::codec::{Host, Uri};
use crate::transaction::{Flow, Protocol};

use super::directory::Directory;
use super::offer::Offer;
use super::token::Tokens;

/// The offers of routes, by the neighbours that their hops name. A neighbour of several routes is offered the
/// least.
#[derive(Debug, Default)]
pub(super) struct Offers {
    default: Offer,
    places: HashMap<SocketAddr, Offer>,
    addresses: HashMap<IpAddr, Offer>,
    /// By the hashes of names.
    names: HashMap<u32, Offer>,
}

impl Offers {
    pub(super) fn new(directory: &Directory, tokens: &Tokens) -> Self {
        let mut offers = Self { default: directory.offer, ..Self::default() };
        for route in &directory.routes {
            let Some(offer) = route.offer else { continue };
            for hop in &route.hops {
                let Ok(Uri::Sip(uri)) = Uri::parse(hop.uri.as_bytes()) else { continue };
                let protocol = match uri.transport() {
                    _ if uri.secure => Protocol::Tls,
                    name => name.and_then(Protocol::from_name).unwrap_or(Protocol::Udp),
                };
                let port = uri.port.unwrap_or(protocol.default_port());
                let maddr = uri.maddr().and_then(|maddr| Host::parse(maddr).ok());
                let host = maddr.unwrap_or(uri.host);
                match (host.ip(), host) {
                    (Some(ip), _) => {
                        let ip = ip.to_canonical();
                        least(&mut offers.places, SocketAddr::new(ip, port), offer);
                        least(&mut offers.addresses, ip, offer);
                    }
                    (None, Host::Name(name)) => least(&mut offers.names, tokens.host_hash(name), offer),
                    (None, _) => {}
                }
            }
        }
        offers
    }

    /// The offer for the neighbour at the other end of this flow. The hash is that of the name that led to
    /// it; 0 for no name.
    pub(super) fn of(&self, flow: &Flow, host: u32) -> Offer {
        if self.places.is_empty() && self.names.is_empty() {
            return self.default;
        }
        let ip = flow.peer.ip().to_canonical();
        let named = || self.names.get(&host);
        let at_port = || self.places.get(&SocketAddr::new(ip, flow.peer.port()));
        // A connection that the neighbour has opened has another source port than its listening port.
        let at_address = || self.addresses.get(&ip);
        named().or_else(at_port).or_else(at_address).copied().unwrap_or(self.default)
    }
}

fn least<K: core::hash::Hash + Eq>(offers: &mut HashMap<K, Offer>, key: K, offer: Offer) {
    let known = offers.entry(key).or_insert(offer);
    *known = offer.min(*known);
}
