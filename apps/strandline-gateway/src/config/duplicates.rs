//! Addresses that are given twice: the second socket could not be opened, or two associations would be one.

use std::net::SocketAddr;

use strandline_ops::{ConfigErrors, overlap};

use super::file::{File, Protocol};
use super::{local, wrong};
use crate::protocol::Destination;

/// An address, and the key that has it.
struct Place {
    key: String,
    address: SocketAddr,
    /// A socket of `[::]` has no address of IPv4.
    is_only_v6: bool,
}

impl Place {
    /// Returns whether the sockets of both places can't be there together.
    fn excludes(&self, other: &Self) -> bool {
        let lacks = |one: &Self, other: &Self| one.is_only_v6 && other.address.ip().to_canonical().is_ipv4();
        overlap(self.address, other.address) && !lacks(self, other) && !lacks(other, self)
    }
}

/// Refuses a listener of this gateway whose address another one has, and peers with an address in common. Addresses
/// that can't be parsed are left to others.
pub(super) fn check(file: &File, listen: Option<SocketAddr>, errors: &mut ConfigErrors) {
    let (mut tcp, mut udp) = (Vec::new(), Vec::new());
    let mut add = |list: &mut Vec<Place>, key: String, text: &str, of_one_version: bool| {
        let Ok(address) = local(&key, text) else { return };
        let is_only_v6 = of_one_version && address.ip().to_canonical().is_ipv6();
        let place = Place { key, address, is_only_v6 };
        match list.iter().find(|other| other.excludes(&place)) {
            Some(other) => {
                let message = format!("{address} is in use already, by {}", other.key);
                errors.add(wrong(place.key, message));
            }
            None => list.push(place),
        }
    };
    if let Some(address) = listen {
        udp.push(Place { key: "listen".to_owned(), address, is_only_v6: false });
    }
    if let Some(admin) = &file.admin {
        add(&mut tcp, "admin".to_owned(), admin, false);
    }
    for (table, proxies) in
        [("socks", &file.socks), ("http_connect", &file.http_connect), ("preload", &file.preload)]
    {
        for (at, proxy) in proxies.iter().enumerate() {
            add(&mut tcp, format!("{table}[{at}].listen"), &proxy.listen, false);
        }
    }
    for (at, forward) in file.forward.iter().enumerate() {
        let list = if forward.protocol == Protocol::Udp { &mut udp } else { &mut tcp };
        add(list, format!("forward[{at}].listen"), &forward.listen, false);
    }
    for (table, entries, of_one_version) in
        [("redirect", &file.redirect, false), ("tproxy", &file.tproxy, true)]
    {
        for (at, entry) in entries.iter().enumerate() {
            add(&mut tcp, format!("{table}[{at}].listen"), &entry.listen, of_one_version);
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
