//! Queries of routes and neighbours (rtnetlink), and notifications of their changes.

use std::io;
use std::mem::size_of;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

const HEADER_BYTES: usize = size_of::<libc::nlmsghdr>();
/// Length of an `rtmsg` and of an `ndmsg`.
const BODY_BYTES: usize = 12;
const ANSWER_BYTES: usize = 4_096;
/// Multicast groups of linux/rtnetlink.h: links, neighbours, IPv4 addresses, routes and rules.
const GROUPS: i32 = libc::RTMGRP_LINK
    | libc::RTMGRP_NEIGH
    | libc::RTMGRP_IPV4_IFADDR
    | libc::RTMGRP_IPV4_ROUTE
    | libc::RTMGRP_IPV4_RULE;
/// The groups that report addresses of interfaces, and interfaces that go up or down.
pub(crate) const ADDRESS_GROUPS: i32 =
    libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
/// Attributes from linux/rtnetlink.h and linux/neighbour.h: next hops of another family, encapsulation, and
/// the values of a neighbour.
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// Maximum number of change notifications that are discarded at once.
const CHANGES_MAX: usize = 64;

/// The route of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) interface: u32,
    /// The gateway, or the destination itself.
    pub(crate) next_hop: Ipv4Addr,
    /// Source address, if the route has one.
    pub(crate) source: Option<Ipv4Addr>,
}

/// A neighbour entry of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbour {
    pub(crate) station: [u8; 6],
    /// Whether the entry is stale: a packet sent by the raw socket makes the kernel check it.
    pub(crate) is_stale: bool,
}

/// Two netlink sockets: one for queries, one for change notifications.
#[derive(Debug)]
pub(crate) struct Netlink {
    requests: OwnedFd,
    changes: Changes,
}

/// A netlink socket for change notifications.
#[derive(Debug)]
pub(crate) struct Changes(OwnedFd);

impl Changes {
    /// Opens a socket that receives the notifications of these multicast groups.
    pub(crate) fn open(groups: i32) -> io::Result<Self> {
        socket(groups).map(Self)
    }

    /// Returns whether something has changed since the last call, or may have.
    pub(crate) fn has_changed(&self) -> bool {
        let mut byte = [0_u8];
        for seen in 0..CHANGES_MAX {
            // The rest of the message is discarded.
            if let Err(error) = recv(&self.0, &mut byte, RecvFlags::DONTWAIT) {
                // Other errors mean that there were more notifications than the socket could hold.
                return seen > 0 || io::Error::from(error).kind() != io::ErrorKind::WouldBlock;
            }
        }
        true
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { requests: socket(0)?, changes: Changes::open(GROUPS)? })
    }

    /// Returns whether something has changed since the last call, or may have.
    pub(crate) fn has_changed(&self) -> bool {
        self.changes.has_changed()
    }

    /// Returns the route of a packet; `None` if there is none, it stays on this host, or it needs more than
    /// an interface and a next hop.
    pub(crate) fn route(&self, destination: Ipv4Addr, source: Option<Ipv4Addr>) -> io::Result<Option<Route>> {
        let source_bits = if source.is_some() { 32 } else { 0 };
        let mut body = [0; BODY_BYTES];
        (body[0], body[1], body[2]) = (libc::AF_INET as u8, 32, source_bits);
        let mut request = request(libc::RTM_GETROUTE, body);
        put(&mut request, libc::RTA_DST, &destination.octets());
        if let Some(source) = source {
            put(&mut request, libc::RTA_SRC, &source.octets());
        }
        let mut answer = [0; ANSWER_BYTES];
        let Some((body, attributes)) = self.request(request, libc::RTM_NEWROUTE, &mut answer)? else {
            return Ok(None);
        };
        Ok(route_in(body, attributes, destination, source))
    }

    /// Returns the neighbour that has an address; `None` if it is unknown or has no six-byte address as in
    /// Ethernet.
    pub(crate) fn neighbour(&self, interface: u32, address: Ipv4Addr) -> io::Result<Option<Neighbour>> {
        let mut body = [0; BODY_BYTES];
        body[0] = libc::AF_INET as u8;
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        let mut request = request(libc::RTM_GETNEIGH, body);
        put(&mut request, NDA_DST, &address.octets());
        let mut answer = [0; ANSWER_BYTES];
        let Some((body, attributes)) = self.request(request, libc::RTM_NEWNEIGH, &mut answer)? else {
            return Ok(None);
        };
        Ok(neighbour_in(body, attributes))
    }

    /// Sends a request, and returns the body and the attributes of the answer; `None` if the answer is an
    /// error, as for something that doesn't exist.
    fn request<'a>(
        &self,
        mut request: Vec<u8>,
        expected: u16,
        answer: &'a mut [u8; ANSWER_BYTES],
    ) -> io::Result<Option<(&'a [u8], &'a [u8])>> {
        let len = (request.len() as u32).to_ne_bytes();
        request[..4].copy_from_slice(&len);
        // An unconnected netlink socket sends to the kernel, which answers within `send`.
        send(&self.requests, &request, SendFlags::empty())?;
        let (len, _) = recv(&self.requests, &mut answer[..], RecvFlags::DONTWAIT)?;
        Ok(parse(answer.get(..len).unwrap_or_default(), expected))
    }
}

/// The route that an answer names.
fn route_in(
    body: &[u8],
    attributes: &[u8],
    destination: Ipv4Addr,
    source: Option<Ipv4Addr>,
) -> Option<Route> {
    if body.get(7) != Some(&libc::RTN_UNICAST) {
        return None;
    }
    let mut route = Route { interface: 0, next_hop: destination, source };
    for (kind, value) in Attributes(attributes) {
        match (kind, value) {
            (libc::RTA_OIF, &[a, b, c, d]) => route.interface = u32::from_ne_bytes([a, b, c, d]),
            (libc::RTA_GATEWAY, &[a, b, c, d]) => route.next_hop = Ipv4Addr::new(a, b, c, d),
            (libc::RTA_PREFSRC, &[a, b, c, d]) => route.source = source.or(Some(Ipv4Addr::new(a, b, c, d))),
            (RTA_VIA | RTA_ENCAP, _) => return None,
            _ => {}
        }
    }
    (route.interface != 0).then_some(route)
}

/// The station that an answer names.
fn neighbour_in(body: &[u8], attributes: &[u8]) -> Option<Neighbour> {
    let state = match body {
        [_, _, _, _, _, _, _, _, low, high, ..] => u16::from_ne_bytes([*low, *high]),
        _ => 0,
    };
    // While the kernel asks once more, it still sends to the station that it knows.
    let known =
        libc::NUD_REACHABLE | libc::NUD_PERMANENT | libc::NUD_DELAY | libc::NUD_PROBE | libc::NUD_STALE;
    if state & known == 0 {
        return None;
    }
    let station = Attributes(attributes).find(|(kind, _)| *kind == NDA_LLADDR);
    let station = station.and_then(|(_, value)| <[u8; 6]>::try_from(value).ok());
    station.map(|station| Neighbour { station, is_stale: state & libc::NUD_STALE != 0 })
}

/// The body and the attributes of a message of the expected type.
fn parse(message: &[u8], expected: u16) -> Option<(&[u8], &[u8])> {
    let (header, rest) = message.split_at_checked(HEADER_BYTES)?;
    let [l0, l1, l2, l3, t0, t1, ..] = *header else { return None };
    let len = usize::try_from(u32::from_ne_bytes([l0, l1, l2, l3])).ok()?;
    if u16::from_ne_bytes([t0, t1]) != expected {
        return None;
    }
    rest.get(..len.checked_sub(HEADER_BYTES)?)?.split_at_checked(BODY_BYTES)
}

/// Iterator over the type and value of each attribute.
struct Attributes<'a>(&'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let [l0, l1, k0, k1, ..] = *self.0 else { return None };
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]), value))
    }
}

/// Returns a request without attributes; its length is filled in later.
fn request(kind: u16, body: [u8; BODY_BYTES]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes.extend(body);
    bytes
}

fn put(request: &mut Vec<u8>, kind: u16, value: &[u8; 4]) {
    request.extend(8_u16.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(value);
}

fn socket(groups: i32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    // Protocol 0 of AF_NETLINK is NETLINK_ROUTE.
    let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&fd, &SocketAddrNetlink::new(0, groups.cast_unsigned()))?;
    Ok(fd)
}

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
#[cfg(test)]
mod tests;
