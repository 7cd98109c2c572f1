//! The local addresses that associations to come list to their peers.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::VecDeque;

use super::Endpoint;
use crate::association::addresses::{keep_local, set_local};
use crate::association::context::is_unicast;
use crate::association::cookie::Cookie;
use crate::association::{Association, PRESERVATIVE_MAX};
use crate::config::PATHS_MAX;
use crate::error::LocalAddressError;
use crate::time::Time;
use crate::zone::{arrived_at, is_same};

/// Maximum number of earlier lists that are kept for set-ups that are under way.
const EARLIER_MAX: usize = 32;

/// The local addresses that new associations list in INIT and INIT ACK: those of the endpoint, or those that
/// a listener is bound to. Existing associations, and those being set up, keep the ones that they have
/// listed; [`Addresses::request`](super::Addresses::request) changes these.
///
/// ```
/// use core::net::IpAddr;
/// use strandline_proto::config::EndpointConfig;
/// use strandline_proto::endpoint::{Endpoint, LocalAddresses};
/// use strandline_proto::time::Time;
///
/// let mut endpoint = Endpoint::new(EndpointConfig::default(), [1; 32], Time::ZERO)?;
/// let (first, second): (IpAddr, IpAddr) = ("192.0.2.1".parse()?, "198.51.100.1".parse()?);
/// let mut addresses = LocalAddresses::of(&mut endpoint);
/// addresses.add(Time::ZERO, first)?;
/// addresses.add(Time::ZERO, second)?;
/// addresses.remove(Time::ZERO, first)?;
/// assert_eq!(addresses.list(), [second]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LocalAddresses<'a> {
    endpoint: &'a mut Endpoint,
    /// The port of a listener that is bound to addresses; `None` for those of the endpoint.
    port: Option<u16>,
}

/// Returns the local addresses for an association whose peer has lost its state and has set up again at an address that
/// the association has deleted (RFC 5061): those of its listener that the INIT ACK listed. The list is empty if the
/// association still has that address.
pub(super) fn regained_at_restart(
    endpoint: &Endpoint,
    association: &Association,
    cookie: &Cookie,
) -> Vec<IpAddr> {
    let to = cookie.destination.map(|to| arrived_at(to, cookie.source.ip()));
    if association.paths.is_at(to) {
        return Vec::new();
    }
    let listens = |own: &IpAddr| endpoint.ports.listens_at(association.local_port, Some(*own));
    let all = endpoint.context.local_addresses(&[]);
    let still = |own: &IpAddr| all.is_empty() || all.iter().any(|known| is_same(*known, *own));
    cookie.named.iter().copied().filter(|own| listens(own) && still(own)).collect()
}

/// Gives an association that has restarted the addresses of [`regained_at_restart`], if there are any.
pub(super) fn regain(association: &mut Association, regained: &[IpAddr]) {
    if !regained.is_empty() {
        let set = set_local(association, regained);
        debug_assert!(set.is_ok(), "the INIT ACK named them");
    }
}

/// Lists that were in use before. A set-up that is under way has listed one of them.
#[derive(Debug, Default)]
pub(super) struct EarlierLists(VecDeque<Earlier>);

#[derive(Debug)]
struct Earlier {
    port: Option<u16>,
    until: Time,
    list: Vec<IpAddr>,
}

impl EarlierLists {
    fn push(&mut self, now: Time, earlier: Earlier, lifetime: Duration) {
        self.0.retain(|known| now.since(known.until) <= lifetime);
        if self.0.len() >= EARLIER_MAX {
            self.0.pop_front();
        }
        self.0.push_back(earlier);
    }

    /// Returns the list that an INIT ACK of this time had, if it was another one than now.
    fn at(&self, port: Option<u16>, time: Time) -> Option<&[IpAddr]> {
        let later = |earlier: &&Earlier| earlier.port == port && earlier.until > time;
        self.0.iter().find(later).map(|earlier| &earlier.list[..])
    }
}

impl<'a> LocalAddresses<'a> {
    /// Returns those of the endpoint
    /// ([`EndpointConfig::local_addresses`](crate::config::EndpointConfig::local_addresses)).
    pub fn of(endpoint: &'a mut Endpoint) -> Self {
        Self { endpoint, port: None }
    }

    /// Returns those of the listener on a port; `None` if it is not bound to addresses, or there is no listener.
    pub fn of_listener(endpoint: &'a mut Endpoint, port: u16) -> Option<Self> {
        let is_bound = !endpoint.ports.bound(port).is_empty();
        is_bound.then_some(Self { endpoint, port: Some(port) })
    }

    /// Returns the addresses.
    #[must_use]
    pub fn list(&self) -> &[IpAddr] {
        match self.port {
            None => &self.endpoint.context.config.local_addresses,
            Some(port) => self.endpoint.ports.bound(port),
        }
    }

    /// Adds an address. Packets to it must arrive at the endpoint.
    ///
    /// # Errors
    /// Fails without a change if the address is not unicast, is listed already, or there are 8.
    pub fn add(&mut self, now: Time, address: IpAddr) -> Result<(), LocalAddressError> {
        let mut list = self.list().to_vec();
        if list.iter().any(|known| is_same(*known, address)) {
            return Err(LocalAddressError::AlreadyLocal { address });
        }
        list.push(address);
        self.set(now, list)
    }

    /// Removes an address. Without any, peers use the address that packets come from.
    ///
    /// # Errors
    /// Fails without a change if the address is not listed, or is the last one of a listener.
    pub fn remove(&mut self, now: Time, address: IpAddr) -> Result<(), LocalAddressError> {
        let mut list = self.list().to_vec();
        list.retain(|known| !is_same(*known, address));
        if list.len() == self.list().len() {
            return Err(LocalAddressError::NotLocal { address });
        }
        if list.is_empty() && self.port.is_some() {
            return Err(LocalAddressError::LastAddress { address });
        }
        self.set(now, list)
    }

    /// Sets all addresses. Visits all associations if any of them may need the earlier ones.
    ///
    /// # Errors
    /// Fails without a change for more than 8 addresses, one that is not unicast, or none for a listener.
    pub fn set(&mut self, now: Time, list: Vec<IpAddr>) -> Result<(), LocalAddressError> {
        if let Some(address) = list.iter().copied().find(|address| !is_unicast(*address)) {
            return Err(LocalAddressError::NotUnicast { address });
        }
        if list.len() > PATHS_MAX {
            return Err(LocalAddressError::TooMany);
        }
        let before = self.list().to_vec();
        if let (Some(_), true, Some(last)) = (self.port, list.is_empty(), before.first()) {
            return Err(LocalAddressError::LastAddress { address: *last });
        }
        if before == list {
            return Ok(());
        }
        let Endpoint { context, ports, table, earlier_lists, .. } = &mut *self.endpoint;
        list.iter().for_each(|address| context.host_addresses.insert(*address));
        match self.port {
            Some(port) => ports.rebind(port, list),
            None => {
                context.config.local_addresses = list;
                table.all_mut().for_each(|association| keep_local(association, &before));
            }
        }
        let lifetime = context.config.association.cookie_lifetime + PRESERVATIVE_MAX;
        earlier_lists.push(now, Earlier { port: self.port, until: now, list: before }, lifetime);
        Ok(())
    }

    /// Sets the addresses that this host has now, in place of those that were set before: the `own` ones, at which
    /// packets for the endpoint arrive, and others of the `host`. They add to
    /// [`own_addresses`](crate::config::EndpointConfig::own_addresses) and
    /// [`host_addresses`](crate::config::EndpointConfig::host_addresses), and change no list. A peer may have an
    /// address that is left out from now on. Existing associations keep the addresses of their peers.
    pub fn set_of_host(endpoint: &mut Endpoint, own: &[IpAddr], host: &[IpAddr]) {
        let context = &mut endpoint.context;
        context.host_addresses.set(&context.config, own, host);
    }

    /// Lets a new association whose INIT ACK was made at `created` have the addresses that it listed.
    pub(super) fn adopt(endpoint: &Endpoint, association: &mut Association, created: Time) {
        let port = association.local_port;
        let bound = endpoint.ports.bound(port);
        if !bound.is_empty() {
            let listed = endpoint.earlier_lists.at(Some(port), created).unwrap_or(bound);
            // They were checked when the listener was bound to them.
            let _ = set_local(association, listed);
        } else if let Some(listed) = endpoint.earlier_lists.at(None, created) {
            keep_local(association, listed);
        }
    }
}
