//! Commands that change the addresses of an association: a seam for RFC 5061, whose chunks are not implemented.

use core::net::IpAddr;

use super::Endpoint;
use crate::association::context::Shared;
use crate::association::{Association, addresses};
use crate::error::PathError;
use crate::event::AssociationId;
use crate::time::Time;

/// The addresses of an association, to be changed while it is established. Nothing of this is announced to the peer,
/// which has to make the same changes.
#[derive(Debug)]
pub struct Addresses<'a> {
    endpoint: &'a mut Endpoint,
    id: AssociationId,
}

impl Endpoint {
    /// Returns the addresses of an association, to change them.
    pub fn addresses(&mut self, id: AssociationId) -> Addresses<'_> {
        Addresses { endpoint: self, id }
    }
}

impl Addresses<'_> {
    /// Adds an address of the peer. Data is sent to it once it has answered a HEARTBEAT, which
    /// `Event::PathChanged` reports. Without effect if the peer has the address.
    ///
    /// # Errors
    /// Fails if the association is not established or has 8 paths, or if the address is not unicast.
    pub fn add_peer(&mut self, now: Time, address: IpAddr) -> Result<(), PathError> {
        self.change(now, |association, shared| addresses::add_path(association, shared, now, address))
    }

    /// Removes an address of the peer. What was in flight to it is retransmitted to another one.
    ///
    /// # Errors
    /// Fails if the association is not established, if the address is not one of the peer's, or if no other one is
    /// confirmed.
    pub fn remove_peer(&mut self, now: Time, address: IpAddr) -> Result<(), PathError> {
        let path = self.endpoint.path_of(self.id, address)?;
        self.change(now, |association, shared| addresses::remove_path(association, shared, now, path))
    }

    /// Sets the local addresses of the association, in place of those of its endpoint. Packets to other addresses are
    /// dropped. With an empty slice the association has those of its endpoint again, and accepts packets to any.
    ///
    /// # Errors
    /// Fails if the association has ended, or for more than 8 addresses or one that is not unicast.
    pub fn set_local(&mut self, now: Time, local: &[IpAddr]) -> Result<(), PathError> {
        self.change(now, |association, _| addresses::set_local(association, local))
    }

    /// Returns the local addresses of the association: its own, or those of its endpoint. `None` if it has ended.
    #[must_use]
    pub fn local(&self) -> Option<&[IpAddr]> {
        let association = self.endpoint.table.by_id(self.id)?;
        Some(self.endpoint.shared.local_addresses(association.paths.local()))
    }

    fn change(
        &mut self,
        now: Time,
        change: impl FnOnce(&mut Association, &mut Shared) -> Result<(), PathError>,
    ) -> Result<(), PathError> {
        let live = self.endpoint.live(self.id).is_ok();
        let result = live.then(|| self.endpoint.with_reindex(now, self.id.slot, change)).flatten();
        result.unwrap_or(Err(PathError::UnknownAssociation))
    }
}
