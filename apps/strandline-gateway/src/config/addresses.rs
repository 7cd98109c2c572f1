//! Where associations are accepted: at one UDP address, or at several of this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{ConfigError, socket, wrong};

/// Limit of addresses, that of an association.
const ADDRESSES_MAX: usize = 8;

/// Where associations are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listen {
    /// What the UDP socket is bound to: all addresses, if there are several.
    pub(crate) socket: SocketAddr,
    /// The addresses that peers are told; empty if there is one, or all are meant.
    pub(crate) addresses: Vec<IpAddr>,
}

/// Parses `ADDRESS:PORT[,ADDRESS:PORT...]`, all with one port.
pub(super) fn listen(text: &str) -> Result<Listen, ConfigError> {
    let sockets = text.split(',').map(|text| socket("listen", text.trim())).collect::<Result<Vec<_>, _>>()?;
    let [first, rest @ ..] = sockets.as_slice() else { return Err(wrong("listen", "an ADDRESS:PORT")) };
    if rest.is_empty() {
        return Ok(Listen { socket: *first, addresses: Vec::new() });
    }
    let addresses: Vec<IpAddr> = sockets.iter().map(|socket| socket.ip()).collect();
    if addresses.len() > ADDRESSES_MAX {
        return Err(wrong("listen", format!("at most {ADDRESSES_MAX} addresses")));
    }
    if let Some(other) = rest.iter().find(|other| other.port() != first.port()) {
        let message = format!("{first} and {other}: several addresses of a gateway must have the same port");
        return Err(wrong("listen", message));
    }
    for (at, address) in addresses.iter().enumerate() {
        if address.is_unspecified() {
            let message = format!("{address} stands for all addresses: give it alone, or list the addresses");
            return Err(wrong("listen", message));
        }
        if addresses.iter().take(at).any(|other| other == address) {
            return Err(wrong("listen", format!("{address} is listed twice")));
        }
    }
    let all: IpAddr = match addresses.iter().all(IpAddr::is_ipv4) {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    };
    Ok(Listen { socket: SocketAddr::new(all, first.port()), addresses })
}

#[cfg(test)]
mod tests;
