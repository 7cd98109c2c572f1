//! Addresses that are given twice: the second socket could not be opened, or two associations would be one.

use std::net::SocketAddr;

use strandline_ops::{ConfigErrors, overlap};

use super::file::{File, Protocol};
use super::{local, wrong};
use crate::protocol::Destination;

/// An address, and the key that has it.
type Place = (String, SocketAddr);

/// Refuses a listener of this gateway whose address another one has, and peers with an address in common. Addresses
/// that can't be parsed are left to others.
pub(super) fn check(file: &File, listen: Option<SocketAddr>, errors: &mut ConfigErrors) {
    let (mut tcp, mut udp) = (Vec::new(), Vec::new());
    let mut add = |list: &mut Vec<Place>, key: String, text: &str| {
        let Ok(address) = local(&key, text) else { return };
        match list.iter().find(|(_, other)| overlap(*other, address)) {
            Some((other, _)) => errors.add(wrong(key, format!("{address} is in use already, by {other}"))),
            None => list.push((key, address)),
        }
    };
    if let Some(listen) = listen {
        udp.push(("listen".to_owned(), listen));
    }
    if let Some(admin) = &file.admin {
        add(&mut tcp, "admin".to_owned(), admin);
    }
    for (table, proxies) in
        [("socks", &file.socks), ("http_connect", &file.http_connect), ("preload", &file.preload)]
    {
        for (at, proxy) in proxies.iter().enumerate() {
            add(&mut tcp, format!("{table}[{at}].listen"), &proxy.listen);
        }
    }
    for (at, forward) in file.forward.iter().enumerate() {
        let list = if forward.protocol == Protocol::Udp { &mut udp } else { &mut tcp };
        add(list, format!("forward[{at}].listen"), &forward.listen);
    }
    for (table, entries) in [("redirect", &file.redirect), ("tproxy", &file.tproxy)] {
        for (at, entry) in entries.iter().enumerate() {
            add(&mut tcp, format!("{table}[{at}].listen"), &entry.listen);
        }
    }
    check_peers(file, errors);
}

fn check_peers(file: &File, errors: &mut ConfigErrors) {
    let mut known: Vec<(Destination, &str)> = Vec::new();
    for (at, peer) in file.peer.iter().enumerate() {
        for address in peer.addresses.iter().filter_map(|text| text.parse::<Destination>().ok()) {
            if let Some((_, other)) = known.iter().find(|(known, _)| *known == address) {
                let message = format!("{address} is an address of `{other}` already");
                errors.add(wrong(format!("peer[{at}].addresses"), message));
                continue;
            }
            known.push((address, &peer.name));
        }
    }
}
