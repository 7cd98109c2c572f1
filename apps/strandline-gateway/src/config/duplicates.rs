//! Addresses that are given twice: the second socket could not be opened, or two associations would be one.

use std::net::SocketAddr;

use super::file::{File, Protocol};
use super::{ConfigError, local, wrong};
use crate::protocol::Destination;

/// An address, and the key that has it.
type Place = (String, SocketAddr);

/// Refuses a listener of this gateway whose address another one has, and peers with an address in common.
pub(super) fn check(file: &File, listen: Option<SocketAddr>) -> Result<(), ConfigError> {
    let (mut tcp, mut udp) = (Vec::new(), Vec::new());
    let add = |list: &mut Vec<Place>, key: String, text: &str| {
        let address = local(&key, text)?;
        match list.iter().find(|(_, other)| collide(*other, address)) {
            Some((other, _)) => Err(wrong(key, format!("{address} is in use already, by {other}"))),
            None => {
                list.push((key, address));
                Ok(())
            }
        }
    };
    if let Some(listen) = listen {
        udp.push(("listen".to_owned(), listen));
    }
    if let Some(admin) = &file.admin {
        add(&mut tcp, "admin".to_owned(), admin)?;
    }
    for (table, proxies) in
        [("socks", &file.socks), ("http_connect", &file.http_connect), ("preload", &file.preload)]
    {
        for (at, proxy) in proxies.iter().enumerate() {
            add(&mut tcp, format!("{table}[{at}].listen"), &proxy.listen)?;
        }
    }
    for (at, forward) in file.forward.iter().enumerate() {
        let list = if forward.protocol == Protocol::Udp { &mut udp } else { &mut tcp };
        add(list, format!("forward[{at}].listen"), &forward.listen)?;
    }
    for (table, entries) in [("redirect", &file.redirect), ("tproxy", &file.tproxy)] {
        for (at, entry) in entries.iter().enumerate() {
            add(&mut tcp, format!("{table}[{at}].listen"), &entry.listen)?;
        }
    }
    check_peers(file)
}

fn check_peers(file: &File) -> Result<(), ConfigError> {
    let mut known: Vec<(Destination, &str)> = Vec::new();
    for (at, peer) in file.peer.iter().enumerate() {
        for address in peer.addresses.iter().filter_map(|text| text.parse::<Destination>().ok()) {
            if let Some((_, other)) = known.iter().find(|(known, _)| *known == address) {
                let message = format!("{address} is an address of `{other}` already");
                return Err(wrong(format!("peer[{at}].addresses"), message));
            }
            known.push((address, &peer.name));
        }
    }
    Ok(())
}

/// Returns whether only one of two sockets can be opened.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    let is_any = (a.is_unspecified() || b.is_unspecified()) && a.is_ipv4() == b.is_ipv4();
    one.port() == other.port() && one.port() != 0 && (a == b || is_any)
}
