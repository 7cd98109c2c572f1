//! What the subjects of the benchmark have in common.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Result;
use strandline::{AssociationConfig, Stack};

/// UDP port of the servers.
pub(crate) const ENCAPSULATION_PORT: u16 = 9899;

/// Returns a stack on a UDP port, 0 for any free one, that sends small messages at once.
pub(crate) fn stack(port: u16) -> Result<Stack> {
    let association = AssociationConfig { nodelay: true, ..AssociationConfig::default() };
    let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let builder = Stack::builder().association(association).remote_encapsulation_port(ENCAPSULATION_PORT);
    Ok(builder.udp(address)?)
}
