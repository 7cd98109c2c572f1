//! Sends IPv4 packets by a packet socket to destinations whose route and link-layer address are known.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use crate::Outgoing;
use crate::send::Sender;
use crate::sys::message::SEND_MAX;
use crate::sys::netlink::{Neighbour, Netlink};
use crate::sys::packet::{self, HEADER_BYTES};

/// Maximum number of destinations whose link is cached.
const LINKS_MAX: usize = 64;
const HOP_LIMIT_DEFAULT: u8 = 64;

/// The sending half of a carrier's packet sockets.
#[derive(Debug)]
pub(crate) struct Links {
    fd: OwnedFd,
    netlink: Netlink,
    /// The carrier's own address, if it is bound to one.
    bound: Option<Ipv4Addr>,
    hop_limit: u8,
    known: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    destination: Ipv4Addr,
    source: Option<Ipv4Addr>,
    /// `None` if the raw socket must send to this destination.
    link: Option<Link>,
}

#[derive(Clone, Copy)]
struct Link {
    source: Ipv4Addr,
    to: libc::sockaddr_ll,
    /// Whether the next packets go by the raw socket, so that the kernel checks that the neighbour is still
    /// reachable.
    confirm: bool,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, to, confirm } = self;
        write!(f, "{source} interface {} station {:02x?}", to.sll_ifindex, &to.sll_addr[..6])?;
        f.write_str(if *confirm { " to be confirmed" } else { "" })
    }
}

impl Links {
    pub(crate) fn open(address: Ipv4Addr) -> io::Result<Self> {
        let hop_limit = std::fs::read_to_string("/proc/sys/net/ipv4/ip_default_ttl").ok();
        let hop_limit = hop_limit.and_then(|text| text.trim().parse().ok()).unwrap_or(HOP_LIMIT_DEFAULT);
        Ok(Self {
            fd: packet::socket()?,
            netlink: Netlink::open()?,
            bound: (!address.is_unspecified()).then_some(address),
            hop_limit,
            known: Mutex::default(),
        })
    }

    /// Clears the cache if routes or neighbours have changed. Call it before each batch.
    pub(crate) fn refresh(&self) {
        if self.netlink.has_changed() {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// Sends as much of a burst as possible and removes it from the front. The rest is left to the raw
    /// socket, which also reports errors of packets that are not sent here.
    pub(crate) fn send(&self, sender: &Sender, outgoing: &mut Outgoing<'_>) {
        let IpAddr::V4(destination) = outgoing.destination.ip() else { return };
        let source = match outgoing.source {
            Some(IpAddr::V4(source)) => Some(source),
            Some(IpAddr::V6(_)) => return,
            None => self.bound,
        };
        if outgoing.fragment.is_some() || outgoing.destination.port() != 0 {
            return;
        }
        let Some(link) = self.find(destination, source) else { return };
        // ECT(0)
        let outgoing_tos = if outgoing.ecn_capable { 0b10 } else { 0 };
        let size = if outgoing.segment_size == 0 { outgoing.bytes.len() } else { outgoing.segment_size };
        while !outgoing.bytes.is_empty() {
            let packets = outgoing.bytes.chunks(size).take(SEND_MAX);
            let packets = packets.filter_map(|packet| {
                Some((header(link.source, destination, self.hop_limit, outgoing_tos, packet.len())?, packet))
            });
            let Ok(sent @ 1..) = packet::send(self.fd.as_fd(), &link.to, packets) else { return };
            sender.note_sent(sent as u64);
            let rest = outgoing.bytes.get(sent * size..);
            outgoing.bytes = rest.unwrap_or_default();
        }
    }

    fn find(&self, destination: Ipv4Addr, source: Option<Ipv4Addr>) -> Option<Link> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |entry: &&mut Entry| entry.destination == destination && entry.source == source;
        if let Some(entry) = known.iter_mut().find(same) {
            let link = entry.link.as_mut()?;
            return (!std::mem::take(&mut link.confirm)).then_some(*link);
        }
        if known.len() >= LINKS_MAX {
            known.remove(0);
        }
        let link = self.look_up(destination, source).unwrap_or_else(|error| {
            tracing::debug!(%error, %destination, "looking up a route failed");
            None
        });
        tracing::trace!(%destination, ?link, "link chosen");
        let usable = link.filter(|link| !link.confirm);
        known.push(Entry { destination, source, link: link.map(|link| Link { confirm: false, ..link }) });
        usable
    }

    fn look_up(&self, destination: Ipv4Addr, source: Option<Ipv4Addr>) -> io::Result<Option<Link>> {
        let Some(route) = self.netlink.route(destination, source)? else { return Ok(None) };
        let Some(source) = route.source else { return Ok(None) };
        let Some(Neighbour { station, is_stale }) =
            self.netlink.neighbour(route.interface, route.next_hop)?
        else {
            return Ok(None);
        };
        Ok(Some(Link { source, to: packet::link_address(route.interface, station), confirm: is_stale }))
    }
}

/// Returns an IPv4 header without options and with the don't-fragment bit set, so that the identification has
/// no meaning (RFC 6864). Returns `None` if an IPv4 packet can't hold the payload.
fn header(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    hop_limit: u8,
    tos: u8,
    payload_len: usize,
) -> Option<[u8; HEADER_BYTES]> {
    let [total_high, total_low] = u16::try_from(HEADER_BYTES + payload_len).ok()?.to_be_bytes();
    let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = (source.octets(), destination.octets());
    let mut header = [
        0x45,
        tos,
        total_high,
        total_low,
        0,
        0,
        0x40,
        0,
        hop_limit,
        crate::ipv4::PROTOCOL,
        0,
        0,
        s0,
        s1,
        s2,
        s3,
        d0,
        d1,
        d2,
        d3,
    ];
    let sum = crate::ipv4::sum(&header);
    [header[10], header[11]] = (!sum).to_be_bytes();
    Some(header)
}

#[cfg(test)]
mod tests;
