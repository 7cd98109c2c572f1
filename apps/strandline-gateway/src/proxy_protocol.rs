//! The PROXY protocol, version 2: the address of the client for the server behind the far gateway. No I/O.

use std::net::{IpAddr, SocketAddr};

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY.
const PROXY: u8 = 0x21;
/// Version 2, command LOCAL, and no addresses: the connection is the gateway's own.
const LOCAL: [u8; 4] = [0x20, 0, 0, 0];

/// Returns the header for a TCP connection of a client to a server. If one address is IPv6, both are written
/// so. A server that expects a header gets one also if the client is not known.
pub(crate) fn header(client: Option<SocketAddr>, server: SocketAddr) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    let Some(client) = client else {
        bytes.extend_from_slice(&LOCAL);
        return bytes;
    };
    bytes.push(PROXY);
    match (client.ip().to_canonical(), server.ip().to_canonical()) {
        (IpAddr::V4(client), IpAddr::V4(server)) => {
            bytes.extend_from_slice(&[0x11, 0, 12]);
            bytes.extend_from_slice(&client.octets());
            bytes.extend_from_slice(&server.octets());
        }
        (client, server) => {
            let mapped = |ip| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            bytes.extend_from_slice(&[0x21, 0, 36]);
            bytes.extend_from_slice(&mapped(client));
            bytes.extend_from_slice(&mapped(server));
        }
    }
    bytes.extend_from_slice(&client.port().to_be_bytes());
    bytes.extend_from_slice(&server.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests;
