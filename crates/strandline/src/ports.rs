//! SCTP ports on raw IP, where the processes of a host share the protocol: each port is reserved among the
//! processes, and the kernel's socket filter drops packets to other ports.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use strandline_io::{PortLock, RawCarrier};

use crate::error::BindError;

/// The ports reserved by a stack on raw IP. A port stays reserved after its listener was closed, until the
/// stack is dropped, because the port's associations continue.
#[derive(Debug)]
pub(crate) struct ReservedPorts {
    /// The address to reserve ports on; `None` for all addresses.
    address: Option<IpAddr>,
    ephemeral: PortLock,
    listening: HashMap<u16, PortLock>,
}

impl ReservedPorts {
    /// Starts with the ports for outgoing associations.
    pub(crate) fn new(address: IpAddr, ephemeral: PortLock) -> Self {
        let address = (!address.is_unspecified()).then_some(address);
        Self { address, ephemeral, listening: HashMap::new() }
    }

    /// Reserves a port and opens the socket filters for it.
    pub(crate) fn reserve<'a>(
        &mut self,
        carriers: impl Iterator<Item = &'a RawCarrier> + Clone,
        port: u16,
    ) -> Result<(), BindError> {
        if self.ephemeral.ports().contains(&port) || self.listening.contains_key(&port) {
            return Ok(());
        }
        let lock = PortLock::port(port, self.address).map_err(|error| BindError::Lock(Arc::new(error)))?;
        self.listening.insert(port, lock);
        let (before, ranges) = (carriers.clone(), self.ranges());
        for (number, carrier) in carriers.enumerate() {
            if let Err(source) = carrier.set_ports(&ranges) {
                self.listening.remove(&port);
                let ranges = self.ranges();
                before.take(number).for_each(|carrier| drop(carrier.set_ports(&ranges)));
                return Err(BindError::Filter { port, cause: Arc::new(source) });
            }
        }
        Ok(())
    }

    /// Returns all ports that packets may arrive on.
    pub(crate) fn ranges(&self) -> Vec<RangeInclusive<u16>> {
        let single = self.listening.keys().map(|port| *port..=*port);
        std::iter::once(self.ephemeral.ports()).chain(single).collect()
    }
}
