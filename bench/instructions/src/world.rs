//! Two endpoints and the network between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use strandline_proto::config::{AssociationConfig, EndpointConfig, ExtensionsConfig};
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::event::{AssociationId, Datagram};
use strandline_proto::time::Time;

pub(crate) const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 9899);
pub(crate) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)), 9899);
pub(crate) const PORT: u16 = 7;
/// Number of packets of a burst, as with GSO on a link of MTU 1500.
pub(crate) const SEGMENTS: usize = 44;
const BUFFER_BYTES: usize = 1 << 16;
/// Time that a burst takes.
const STEP: Duration = Duration::from_micros(20);

pub(crate) struct World {
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) now: Time,
    pub(crate) buffer: Vec<u8>,
}

impl World {
    pub(crate) fn new(extensions: ExtensionsConfig) -> Result<Self> {
        let now = Time::ZERO;
        let association = Arc::new(AssociationConfig { extensions, ..AssociationConfig::default() });
        let config = EndpointConfig { association, ..EndpointConfig::default() };
        let client = Endpoint::new(config.clone(), [1; 32], now)?;
        let mut server = Endpoint::new(config, [2; 32], now)?;
        server.listen(PORT)?;
        Ok(Self { client, server, now, buffer: vec![0; BUFFER_BYTES] })
    }

    pub(crate) fn connect(&mut self) -> Result<AssociationId> {
        Ok(self.client.connect(self.now, Connect::to(SERVER, PORT))?)
    }

    /// Passes each side's packets to the other. Returns whether there were any.
    pub(crate) fn exchange(&mut self) -> bool {
        let Self { client, server, now, buffer } = self;
        let there = carry(client, server, CLIENT, *now, buffer);
        let back = carry(server, client, SERVER, *now, buffer);
        there || back
    }

    /// Advances time and runs the timers that are due.
    pub(crate) fn step(&mut self) {
        self.now += STEP;
        for side in [&mut self.client, &mut self.server] {
            if side.poll_timeout().is_some_and(|due| due <= self.now) {
                side.handle_timeout(self.now);
            }
        }
    }
}

fn carry(from: &mut Endpoint, to: &mut Endpoint, source: SocketAddr, now: Time, buffer: &mut [u8]) -> bool {
    let mut went = false;
    while let Some(transmit) = from.poll_transmit(now, buffer, SEGMENTS) {
        for bytes in buffer[..transmit.len].chunks(transmit.segment_size) {
            to.handle_datagram(now, Datagram { source, destination: None, bytes, ecn: 0 });
        }
        went = true;
    }
    went
}
