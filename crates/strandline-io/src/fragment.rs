//! Sends datagrams longer than the path MTU as fragments of a size that the caller knows and the kernel doesn't, for a
//! path that drops longer packets without an ICMP message.
//!
//! | family | method | requires |
//! |---|---|---|
//! | IPv4 | fragments made here, sent by a raw socket that is opened with the carrier | CAP_NET_RAW at that time |
//! | IPv4 | don't-fragment bit cleared, so that routers may fragment | nothing |
//! | IPv6 | `IPV6_MTU` set around the call: the kernel fragments packets longer than the interface's MTU | nothing |
//!
//! On IPv6 the caller makes the packet that long: RFC 4820 has a chunk for it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::ipv4::PROTOCOL;
use crate::sys::message::{self, Piece};
use crate::sys::option;

/// Minimum MTU of IPv6 (RFC 8200 section 5), and minimum value of `IPV6_MTU`.
const IPV6_MTU_MIN: u16 = 1280;
const HEADER_LEN: usize = 20;
const UDP_HEADER_LEN: usize = 8;
/// Unit of fragment offsets in bytes.
const UNIT: usize = 8;
const MORE_FRAGMENTS: u16 = 0x2000;
const HOP_LIMIT: u8 = 64;

/// The part of a carrier's sending half that fragments packets.
#[derive(Debug)]
pub(crate) struct Fragmenter {
    is_v6: bool,
    mapped: bool,
    /// Address that the carrier's socket is bound to; `None` for raw IP, which has no ports.
    udp: Option<SocketAddr>,
    /// Address that a raw carrier's socket is bound to.
    bound: IpAddr,
    /// The raw socket for IPv4; `None` if the process may not open one.
    raw: Option<Socket>,
    identification: AtomicU16,
}

impl Fragmenter {
    /// Creates the fragmenter of a carrier whose socket is bound to `local`.
    pub(crate) fn new(is_v6: bool, mapped: bool, is_raw: bool, local: SocketAddr) -> Self {
        Self {
            is_v6,
            mapped,
            udp: (!is_raw).then_some(local),
            bound: local.ip(),
            raw: if is_v6 && !mapped { None } else { open_raw().ok() },
            // The identification starts at an arbitrary value, so that fragments of different datagrams
            // aren't joined (RFC 6864 section 5.2).
            identification: AtomicU16::new(std::process::id() as u16),
        }
    }

    /// Sends one packet in IP packets of at most `size` bytes, as far as the system allows it. No other
    /// packet may be sent meanwhile, because the socket's options change for it.
    pub(crate) fn send(&self, fd: BorrowedFd<'_>, piece: Piece<'_>, size: u16) -> io::Result<()> {
        if let IpAddr::V4(destination) = piece.destination.ip().to_canonical()
            && self.headers_len() + piece.bytes.len() > usize::from(size)
            && let Some(raw) = &self.raw
        {
            return self.send_cut(raw, &piece, destination, size);
        }
        option::set_fragmentation(fd, self.is_v6, true)?;
        let limited = self.is_v6 && piece.destination.is_ipv6();
        if limited {
            option::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU, i32::from(size.max(IPV6_MTU_MIN)))?;
        }
        let result = message::send(fd, std::iter::once(piece), self.mapped);
        if limited {
            option::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU, 0)?;
        }
        option::set_fragmentation(fd, self.is_v6, false)?;
        result.map(drop)
    }

    fn headers_len(&self) -> usize {
        HEADER_LEN + if self.udp.is_some() { UDP_HEADER_LEN } else { 0 }
    }

    fn send_cut(&self, raw: &Socket, piece: &Piece<'_>, to: Ipv4Addr, size: u16) -> io::Result<()> {
        let name = SockAddr::from(SocketAddrV4::new(to, 0));
        let source = match piece.source.map(|source| source.to_canonical()).or(Some(self.bound)) {
            Some(IpAddr::V4(source)) if !source.is_unspecified() => source,
            _ => source_for(raw, &name)?,
        };
        let payload = match self.udp {
            Some(local) => udp_datagram((source, local.port()), (to, piece.destination.port()), piece.bytes)?,
            None => piece.bytes.to_vec(),
        };
        let header = Header {
            source,
            destination: to,
            protocol: if self.udp.is_some() { libc::IPPROTO_UDP as u8 } else { PROTOCOL },
            identification: self.identification.fetch_add(1, Ordering::Relaxed),
            // ECT(0)
            tos: if piece.ecn_capable { 0b10 } else { 0 },
        };
        for (number, packet) in fragments(&header, &payload, size).enumerate() {
            match raw.send_to(&packet, &name) {
                Err(error) if number == 0 => return Err(error),
                // The remaining fragments would be useless: the datagram is lost, as if the network had lost
                // a fragment.
                Err(error) => {
                    tracing::debug!(%error, destination = %to, "sending a fragment failed");
                    return Ok(());
                }
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// Opens a socket that sends whole IPv4 packets and receives none.
fn open_raw() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW.nonblocking(), Some(Protocol::from(libc::IPPROTO_RAW)))?;
    // Without this, connection tracking would reassemble the fragments and send them as one packet.
    option::set_int(socket.as_fd(), libc::IPPROTO_IP, libc::IP_NODEFRAG, 1)?;
    Ok(socket)
}

/// Returns the source address that the routing table chooses.
fn source_for(raw: &Socket, destination: &SockAddr) -> io::Result<Ipv4Addr> {
    raw.connect(destination)?;
    let local = raw.local_addr()?.as_socket_ipv4();
    // Otherwise the address would stay for other destinations.
    option::disconnect(raw.as_fd())?;
    local.map(|local| *local.ip()).ok_or_else(|| io::Error::from_raw_os_error(libc::EADDRNOTAVAIL))
}

/// Returns a UDP datagram with its checksum (RFC 768).
fn udp_datagram(
    (source, source_port): (Ipv4Addr, u16),
    (destination, destination_port): (Ipv4Addr, u16),
    bytes: &[u8],
) -> io::Result<Vec<u8>> {
    let len = u16::try_from(UDP_HEADER_LEN + bytes.len())
        .map_err(|_| io::Error::from_raw_os_error(libc::EMSGSIZE))?;
    let mut datagram = Vec::with_capacity(usize::from(len));
    for field in [source_port, destination_port, len, 0] {
        datagram.extend_from_slice(&field.to_be_bytes());
    }
    datagram.extend_from_slice(bytes);
    let words = |bytes: &[u8]| -> u64 {
        let word = |pair: &[u8]| match pair {
            [high, low] => u64::from(u16::from_be_bytes([*high, *low])),
            [high] => u64::from(*high) << 8,
            _ => 0,
        };
        bytes.chunks(2).map(word).sum()
    };
    let mut sum = words(&source.octets()) + words(&destination.octets()) + u64::from(len);
    sum += libc::IPPROTO_UDP as u64 + words(&datagram);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // A checksum of 0 means that there is none.
    let checksum = match !(sum as u16) {
        0 => 0xffff,
        checksum => checksum,
    };
    if let Some(field) = datagram.get_mut(6..8) {
        field.copy_from_slice(&checksum.to_be_bytes());
    }
    Ok(datagram)
}

/// The header fields that the fragments of a datagram share.
struct Header {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: u8,
    identification: u16,
    tos: u8,
}

impl Header {
    /// Returns a header without options. The kernel fills in the checksum.
    fn encode(&self, total_len: usize, fragment: u16) -> [u8; HEADER_LEN] {
        let [l0, l1] = u16::try_from(total_len).unwrap_or(u16::MAX).to_be_bytes();
        let [i0, i1] = self.identification.to_be_bytes();
        let [f0, f1] = fragment.to_be_bytes();
        let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = (self.source.octets(), self.destination.octets());
        let (tos, protocol) = (self.tos, self.protocol);
        [0x45, tos, l0, l1, i0, i1, f0, f1, HOP_LIMIT, protocol, 0, 0, s0, s1, s2, s3, d0, d1, d2, d3]
    }
}

/// Returns the payload of a datagram as IPv4 packets of at most `size` bytes (RFC 791 section 3.2), in order.
fn fragments(header: &Header, payload: &[u8], size: u16) -> impl Iterator<Item = Vec<u8>> {
    let room = (usize::from(size).saturating_sub(HEADER_LEN) / UNIT).max(1) * UNIT;
    let count = payload.len().div_ceil(room);
    payload.chunks(room).enumerate().map(move |(number, part)| {
        let offset = u16::try_from(number * room / UNIT).unwrap_or(u16::MAX);
        let more = if number + 1 < count { MORE_FRAGMENTS } else { 0 };
        let mut packet = header.encode(HEADER_LEN + part.len(), offset | more).to_vec();
        packet.extend_from_slice(part);
        packet
    })
}

#[cfg(test)]
mod tests;
