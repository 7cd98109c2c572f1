//! Connections opened by neighbours that may carry requests in the other direction (RFC 5923). This requires
//! TLS and a certificate of the neighbour, and applies only to domains of that certificate.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

use strandline_tls::is_domain;

use crate::transaction::Numbers;

/// The peer of a connection.
#[derive(Debug)]
struct Neighbour {
    /// The domains that its certificate proves.
    domains: Rc<[String]>,
    /// The address on which it claims to listen.
    listens_at: Option<SocketAddr>,
}

/// The alias table of RFC 5923 section 5. A connection has at most one alias.
#[derive(Debug, Default)]
pub(in crate::server) struct Aliases {
    neighbours: HashMap<u64, Neighbour, Numbers>,
    by_address: HashMap<SocketAddr, Vec<u64>>,
}

impl Aliases {
    /// Records the domains that the peer of a connection has proved.
    pub(in crate::server) fn prove(&mut self, connection: u64, domains: Vec<String>) {
        self.neighbours.insert(connection, Neighbour { domains: domains.into(), listens_at: None });
    }

    /// Adds an alias: requests for this address may use the connection. It has no effect if the peer has not
    /// proved its identity.
    pub(in crate::server) fn alias(&mut self, connection: u64, address: SocketAddr) {
        let Some(neighbour) = self.neighbours.get_mut(&connection) else { return };
        let last = neighbour.listens_at.replace(address);
        if last == Some(address) {
            return;
        }
        if let Some(last) = last {
            self.forget_address(connection, last);
        }
        self.by_address.entry(address).or_default().push(connection);
    }

    /// The connection for a request to an address that was found for a domain: the latest one with a matching
    /// alias.
    pub(in crate::server) fn find(&self, address: SocketAddr, domain: &str) -> Option<u64> {
        let all = self.by_address.get(&address)?;
        let proves = |connection: &&u64| {
            let neighbour = self.neighbours.get(connection);
            neighbour.is_some_and(|one| one.domains.iter().any(|proved| is_domain(proved, domain)))
        };
        all.iter().rev().find(proves).copied()
    }

    /// Returns true if there are no aliases.
    pub(in crate::server) fn is_empty(&self) -> bool {
        self.by_address.is_empty()
    }

    /// Removes a connection that has ended or will end.
    pub(in crate::server) fn remove(&mut self, connection: u64) {
        if let Some(address) = self.neighbours.remove(&connection).and_then(|neighbour| neighbour.listens_at)
        {
            self.forget_address(connection, address);
        }
    }

    fn forget_address(&mut self, connection: u64, address: SocketAddr) {
        let Some(all) = self.by_address.get_mut(&address) else { return };
        all.retain(|one| *one != connection);
        if all.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests;
