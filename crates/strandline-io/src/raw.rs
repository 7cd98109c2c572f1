//! Carries SCTP packets as IP protocol 132.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::slice;

use socket2::{Domain, Protocol, Socket, Type};

use crate::batch::Slot;
use crate::bpf::Start;
use crate::errors::Errors;
use crate::filter;
use crate::fragment::Fragmenter;
use crate::ipv4::PROTOCOL;
use crate::links::Links;
use crate::send::Sender;
use crate::sys::{message, option};
use crate::udp::is_fatal;
use crate::{Carrier, IcmpReport, OpenError, Outgoing, Received, RecvBatch, SendStats, Steering};

const PENDING_ERRORS_MAX: usize = 64;

/// Options of a [`RawCarrier`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawOptions {
    /// SCTP destination ports to receive, as for [`RawCarrier::set_ports`]. Default: all.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Opens the socket although the kernel has its own SCTP. The kernel then answers packets of unknown
    /// associations with ABORT, so these must be kept from leaving by other means, for example `iptables -A
    /// OUTPUT -p sctp --chunk-types any ABORT -j DROP`. Default: false.
    pub allow_kernel_sctp: bool,
    /// The zone of a link-local IPv6 address that the carrier is opened at: the index of its interface.
    /// Default: 0, none.
    pub zone: u32,
    /// Bytes of the socket's receive buffer. Default: 4 MiB.
    pub receive_buffer_bytes: usize,
    /// Size of the socket's send buffer in bytes. Default: 2 MiB.
    pub send_buffer_bytes: usize,
    /// Sends IPv4 by a packet socket, which is faster and bypasses the host's firewall: see [Sending by a
    /// packet socket](RawCarrier#sending-by-a-packet-socket). Default: false.
    pub packet_socket: bool,
}

impl Default for RawOptions {
    fn default() -> Self {
        Self {
            ports: vec![0..=u16::MAX],
            allow_kernel_sctp: false,
            zone: 0,
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 2 << 20,
            packet_socket: false,
        }
    }
}

/// A raw socket that carries SCTP packets in IPv4 or IPv6 datagrams of protocol 132. It needs CAP_NET_RAW.
///
/// # Several processes on a host
///
/// The kernel gives a copy of each packet of protocol 132 to every raw socket of that protocol. Each process
/// therefore declares its SCTP ports with [`set_ports`](Self::set_ports), and the kernel discards the copies
/// of other packets without waking the process. The filter may accept more than the declared ports (it joins
/// ranges when there are very many). An endpoint on a raw carrier must therefore not assume that a packet it
/// doesn't know belongs to nobody, and must not answer it with ABORT. [`PortLock`](crate::PortLock) ensures
/// that only one process uses a port.
///
/// While a raw socket of the protocol is open, the kernel sends no ICMP protocol unreachable for it, unless
/// the socket's receive buffer is full (observed with Linux 6.18). The peer treats that message as an ABORT
/// (RFC 9260 section 10, ICMP8). So each carrier has a second socket, whose filter accepts nothing: its
/// buffer is never full.
///
/// # Sending by a packet socket
///
/// With [`RawOptions::packet_socket`] IPv4 packets leave by a packet socket (`AF_PACKET`) that bypasses most
/// of the kernel's IP, which takes two thirds of the time. Netfilter's chain OUTPUT, IPsec and socket cgroups
/// don't see such packets, so the option is off by default. Routes and neighbours are the kernel's; the
/// carrier follows their changes. The raw socket still sends if the kernel knows no Ethernet neighbour for a
/// destination (the first packets, tunnels, the host itself), if a packet is longer than the interface's MTU,
/// and on IPv6.
///
/// # Destinations
///
/// Destinations and sources have port 0. Packets to a destination with an encapsulation port are not sent;
/// they are reported as [`IcmpKind::NoRoute`](crate::IcmpKind::NoRoute).
#[derive(Debug)]
pub struct RawCarrier {
    socket: Socket,
    local_addr: SocketAddr,
    start: Start,
    /// The steering rule and this socket's shard, if several sockets share the work.
    place: Option<(Steering, u16)>,
    sender: Sender,
    errors: Errors,
    links: Option<Links>,
    /// Keeps the kernel from answering packets when the carrier's socket buffer is full.
    _guard: Socket,
}

impl RawCarrier {
    /// Opens a raw socket that receives packets sent to `address`, which may be `0.0.0.0` or `::` for every
    /// address of its family. IPv4 and IPv6 need one carrier each.
    ///
    /// # Errors
    ///
    /// If the privilege is missing, the kernel has its own SCTP, the address isn't one of this host's, IPv6
    /// is disabled, or the system refuses for another reason.
    pub fn open(address: IpAddr, options: &RawOptions) -> Result<Self, OpenError> {
        Self::open_at(address, options, None)
    }

    /// Opens a raw socket that receives only the packets of one shard; each of the other shards has such a
    /// socket too.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_place(
        address: IpAddr,
        options: &RawOptions,
        steering: &Steering,
        place: u16,
    ) -> Result<Self, OpenError> {
        Self::open_at(address, options, Some((steering.clone(), place)))
    }

    fn open_at(
        address: IpAddr,
        options: &RawOptions,
        place: Option<(Steering, u16)>,
    ) -> Result<Self, OpenError> {
        if let Some(evidence) = kernel_sctp(Path::new("/")).filter(|_| !options.allow_kernel_sctp) {
            return Err(OpenError::KernelSctp { evidence });
        }
        let is_v6 = address.is_ipv6();
        let (domain, start) =
            if is_v6 { (Domain::IPV6, Start::CommonHeader) } else { (Domain::IPV4, Start::Ipv4Header) };
        let protocol = Protocol::from(i32::from(PROTOCOL));
        let socket = Socket::new(domain, Type::RAW.nonblocking(), Some(protocol))
            .map_err(|error| OpenError::of_socket(error, true))?;
        let guard = Socket::new(domain, Type::RAW.nonblocking(), Some(protocol))
            .map_err(|error| OpenError::of_socket(error, true))?;
        filter::attach_ports(guard.as_fd(), start, &[], None).map_err(OpenError::of_option)?;
        let fd = socket.as_fd();
        // The filter comes first, because packets arrive as soon as the socket exists.
        let steered = place.as_ref().map(|(steering, place)| (steering, *place));
        filter::attach_ports(fd, start, &options.ports, steered).map_err(OpenError::of_option)?;
        set_up(fd, is_v6).map_err(OpenError::of_option)?;
        option::enlarge_buffers(fd, options.receive_buffer_bytes, options.send_buffer_bytes);
        let local_addr = match address {
            IpAddr::V4(_) => SocketAddr::new(address, 0),
            IpAddr::V6(v6) => SocketAddrV6::new(v6, 0, 0, options.zone).into(),
        };
        for socket in [&socket, &guard] {
            socket.bind(&local_addr.into()).map_err(|error| OpenError::of_bind(error, local_addr))?;
        }
        let links = match address {
            IpAddr::V4(v4) if options.packet_socket => {
                Some(Links::open(v4).map_err(OpenError::of_packet_socket)?)
            }
            _ => None,
        };
        let sender = Sender::new(is_v6, false, false, Fragmenter::new(is_v6, false, true, local_addr));
        Ok(Self {
            socket,
            local_addr,
            start,
            place,
            sender,
            errors: Errors::new(false),
            links,
            _guard: guard,
        })
    }

    /// Receives only packets to these SCTP ports from now on; packets already queued stay. An empty list
    /// accepts no packets, `0..=65535` all.
    ///
    /// With more than some 250 ranges, ranges that are close to each other are joined.
    ///
    /// # Errors
    ///
    /// If the system refuses the filter; the previous filter then stays in place.
    pub fn set_ports(&self, ports: &[RangeInclusive<u16>]) -> io::Result<()> {
        let place = self.place.as_ref().map(|(steering, place)| (steering, *place));
        filter::attach_ports(self.as_fd(), self.start, ports, place)
    }

    fn receive(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let (buffers, slots) = batch.parts();
        message::receive(self.as_fd(), buffers, |index, arrival| {
            let Some(slot) = slots.get_mut(index) else { return };
            *slot = Slot { meta: Received::EMPTY, start: 0 };
            let Some(source) = arrival.source.filter(|_| arrival.whole) else { return };
            slot.meta.source = SocketAddr::new(source.ip(), 0);
            if let (SocketAddr::V6(to), SocketAddr::V6(from)) = (&mut slot.meta.source, source) {
                to.set_scope_id(from.scope_id());
            }
            slot.meta.destination = arrival.ancillary.destination;
            slot.meta.ecn = arrival.ancillary.ecn;
            slot.meta.len = arrival.len;
            slot.meta.stride = arrival.len;
        })
    }
}

fn set_up(fd: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    // IPv4 packets include their header, which holds the rest.
    if is_v6 {
        option::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        option::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    }
    option::set_fragmentation(fd, is_v6, false)?;
    option::enable_error_queue(fd, is_v6)
}

/// Returns the evidence for a kernel SCTP, if there is one. `root` is `/` except in tests.
fn kernel_sctp(root: &Path) -> Option<&'static str> {
    let exists = |path: &str| root.join(path).exists();
    if exists("proc/net/sctp") {
        return Some("/proc/net/sctp exists");
    }
    if exists("sys/module/sctp") {
        return Some("the module sctp is loaded");
    }
    let protocols = std::fs::read_to_string(root.join("proc/net/protocols")).unwrap_or_default();
    protocols.lines().any(|line| line.starts_with("SCTP")).then_some("/proc/net/protocols lists SCTP")
}

impl AsFd for RawCarrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Carrier for RawCarrier {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.clear();
        let mut passed = 0;
        let received = loop {
            match self.receive(batch) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock && passed < PENDING_ERRORS_MAX => {
                    if is_fatal(&error) {
                        return Err(error);
                    }
                    self.errors.note_pending();
                    passed += 1;
                }
                result => break result?,
            }
        };
        if self.start == Start::Ipv4Header {
            for index in 0..received {
                batch.strip_ipv4(index);
            }
        }
        batch.set_filled(received);
        Ok(received)
    }

    fn send_batch(&self, batch: &mut [Outgoing<'_>]) -> io::Result<()> {
        // Raw IP has no port to send to, and IPv6 would take the port for a protocol number.
        for outgoing in batch.iter_mut().filter(|outgoing| outgoing.destination.port() != 0) {
            self.sender.discard(self.as_fd(), &self.errors, outgoing);
        }
        let Some(links) = &self.links else {
            return self.sender.send_batch(self.as_fd(), &self.errors, batch);
        };
        links.refresh();
        for outgoing in batch {
            links.send(&self.sender, outgoing);
            self.sender.send_batch(self.as_fd(), &self.errors, slice::from_mut(outgoing))?;
        }
        Ok(())
    }

    fn poll_errors(&self, report: &mut dyn FnMut(IcmpReport<'_>)) -> usize {
        self.errors.poll(self.as_fd(), report)
    }

    fn errors_pending(&self) -> bool {
        self.errors.pending()
    }

    fn segments_max(&self) -> usize {
        message::SEND_MAX
    }

    fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    fn is_raw(&self) -> bool {
        true
    }

    fn send_stats(&self) -> SendStats {
        self.sender.stats()
    }
}

#[cfg(test)]
mod tests;
