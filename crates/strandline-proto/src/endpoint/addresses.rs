//! Commands that change the addresses of an association.

use core::net::IpAddr;

use super::Endpoint;
use super::demux::PeerKey;
use super::look_up::find_held;
use crate::association::context::EndpointContext;
use crate::association::{Association, addresses, asconf};
use crate::dynamic_addresses::AddressRequest;
use crate::error::{AddressError, PathError};
use crate::event::AssociationId;
use crate::time::Time;

/// The addresses of an association, to be changed while it is established.
///
/// [`request`](Self::request) announces changes of this side's addresses to the peer (RFC 5061). The other operations
/// announce nothing: the peer has to make the same changes by itself.
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
    /// Asks the peer for changes of this side's addresses, in this order, in one ASCONF chunk if none is outstanding
    /// and at most 8 are asked for (RFC 5061). `Event::AddressRequest` reports the outcome of each.
    ///
    /// The endpoint must receive packets to an address from the moment that it asks to add it, until the peer has
    /// deleted it. An association whose only address is replaced asks for both in one call: packets wait meanwhile.
    ///
    /// ```
    /// use strandline_proto::config::{AssociationConfig, EndpointConfig, ExtensionsConfig};
    /// use strandline_proto::dynamic_addresses::{AddressOutcome, AddressRequest};
    /// use strandline_proto::endpoint::{Connect, Endpoint};
    /// use strandline_proto::event::{Datagram, Event};
    /// use strandline_proto::time::Time;
    ///
    /// let now = Time::ZERO;
    /// let extensions = ExtensionsConfig { dynamic_addresses: true, ..ExtensionsConfig::default() };
    /// let association = std::sync::Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
    /// let config = EndpointConfig { association, ..EndpointConfig::default() };
    /// let mut client = Endpoint::new(config.clone(), [1; 32], now)?;
    /// let mut server = Endpoint::new(config, [2; 32], now)?;
    /// server.listen(7)?;
    /// let (here, there) = ("192.0.2.1:9899".parse()?, "192.0.2.2:9899".parse()?);
    /// let id = client.connect(now, Connect::to(there, 7))?;
    /// # let mut buffer = vec![0; 2048];
    /// # let mut exchange = |client: &mut Endpoint, server: &mut Endpoint| {
    /// #     for _ in 0..8 {
    /// #         while let Some(t) = client.poll_transmit(now, &mut buffer, 1) {
    /// #             let destination = Some("192.0.2.2".parse().unwrap_or(there.ip()));
    /// #             let bytes = &buffer[..t.len];
    /// #             server.handle_datagram(now, Datagram { source: here, destination, bytes, ecn: 0 });
    /// #         }
    /// #         while let Some(t) = server.poll_transmit(now, &mut buffer, 1) {
    /// #             let (destination, bytes) = (Some(t.destination.ip()), &buffer[..t.len]);
    /// #             client.handle_datagram(now, Datagram { source: there, destination, bytes, ecn: 0 });
    /// #         }
    /// #     }
    /// # };
    /// # let here: core::net::SocketAddr = here;
    /// # let there: core::net::SocketAddr = there;
    /// # exchange(&mut client, &mut server);
    /// // ... once the association is established:
    /// let request = AddressRequest::Add("192.0.2.17".parse()?);
    /// client.addresses(id).request(now, &[request])?;
    /// # exchange(&mut client, &mut server);
    /// // ... once the peer has answered:
    /// let performed = Event::AddressRequest { request, outcome: AddressOutcome::Performed };
    /// assert!(core::iter::from_fn(|| client.poll_event()).any(|(_, event)| event == performed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails without a change if the association is not established, dynamic addresses were not negotiated, too many
    /// requests wait, an address to add is a local one already or is not unicast, or an address to delete or prefer is
    /// no local one or the last one.
    pub fn request(&mut self, now: Time, requests: &[AddressRequest]) -> Result<(), AddressError> {
        let (association, cx) = self.endpoint.live(self.id)?;
        asconf::request(association, cx, now, requests)?;
        self.endpoint.update_after_change(now, self.id.slot);
        Ok(())
    }

    /// Adds an address of the peer. Data is sent to it once it has answered a HEARTBEAT, which
    /// `Event::PathChanged` reports. Without effect if the peer has the address.
    ///
    /// # Errors
    /// Fails if the association is not established or has 8 paths, if the address is not unicast, or if it belongs to
    /// another association with the same ports.
    pub fn add_peer(&mut self, now: Time, address: IpAddr) -> Result<(), PathError> {
        if let Ok((association, _)) = self.endpoint.live(self.id) {
            let (peer_port, local_port) = (association.peer_port, association.local_port);
            let found = find_held(self.endpoint, &PeerKey { address, peer_port, local_port });
            if found.is_some_and(|slot| slot != self.id.slot) {
                return Err(PathError::InUse);
            }
        }
        self.change(now, |association, cx| addresses::add_path(association, cx, now, address))
    }

    /// Removes an address of the peer. What was in flight to it is retransmitted to another one.
    ///
    /// # Errors
    /// Fails if the association is not established, if the address is not one of the peer's, or if no other one is
    /// confirmed.
    pub fn remove_peer(&mut self, now: Time, address: IpAddr) -> Result<(), PathError> {
        let path = self.endpoint.path_of(self.id, address)?;
        self.change(now, |association, cx| addresses::remove_path(association, cx, now, path))
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
        Some(self.endpoint.context.local_addresses(association.paths.local()))
    }

    /// Returns the local addresses of the association as far as they are known, without those that the peer
    /// is asked to delete: the listed ones, or those at which packets arrived. Empty if dynamic addresses
    /// were not negotiated or the association is not established.
    #[must_use]
    pub fn lasting(&self) -> Vec<IpAddr> {
        let association = self.endpoint.table.by_id(self.id);
        association
            .map(|association| asconf::lasting(association, &self.endpoint.context))
            .unwrap_or_default()
    }

    /// True while everything but HEARTBEATs and what concerns addresses waits: the peer has not accepted the only local
    /// address yet, or has not answered at its only address.
    #[must_use]
    pub fn hold_packets(&self) -> bool {
        self.endpoint.table.by_id(self.id).is_some_and(|association| association.flags().held)
    }

    /// True if packets to the address are the association's: always if it has no local addresses of its own.
    #[must_use]
    pub fn accepts(&self, address: IpAddr) -> bool {
        self.endpoint.table.by_id(self.id).is_some_and(|association| association.paths.is_at(Some(address)))
    }

    fn change(
        &mut self,
        now: Time,
        change: impl FnOnce(&mut Association, &mut EndpointContext) -> Result<(), PathError>,
    ) -> Result<(), PathError> {
        let live = self.endpoint.live(self.id).is_ok();
        let result = live.then(|| self.endpoint.with_reindex(now, self.id.slot, change)).flatten();
        result.unwrap_or(Err(PathError::UnknownAssociation))
    }
}
