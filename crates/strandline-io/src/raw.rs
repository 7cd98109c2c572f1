//! SCTP packets as IP protocol 132.

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

/// How a [`RawCarrier`] is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawOptions {
    /// SCTP destination ports of the packets that are received, as for [`RawCarrier::set_ports`]. Default: all.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Opens the socket although the kernel has an SCTP of its own. It answers packets that it doesn't know with ABORT,
    /// so something else must keep those from leaving, for example
    /// `iptables -A OUTPUT -p sctp --chunk-types any ABORT -j DROP`. Default: false.
    pub allow_kernel_sctp: bool,
    /// The zone of a link-local IPv6 address that the carrier is opened at: the index of its interface. Default: 0, none.
    pub zone: u32,
    /// Bytes of the socket's receive buffer. Default: 4 MiB.
    pub receive_buffer_bytes: usize,
    /// Bytes of the socket's send buffer. Default: 2 MiB.
    pub send_buffer_bytes: usize,
    /// Sends IPv4 by a packet socket, which is faster and goes round the host's firewall: see
    /// [there](RawCarrier#sending-by-a-packet-socket). Default: false.
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
/// The kernel gives a copy of each packet of protocol 132 to every raw socket of that protocol. So that processes get
/// only their own, each tells [`set_ports`](Self::set_ports) which SCTP ports it has, and the kernel discards the copies
/// of others without waking the process. The filter may let more pass than it was told (it joins ports when there are
/// very many ranges): an endpoint on a raw carrier must not take a packet that it doesn't know for one that nobody
/// knows, and must not answer it with ABORT. That a port is used by one process only is seen to by
/// [`PortLock`](crate::PortLock).
///
/// While a raw socket of the protocol is open, the kernel sends no ICMP protocol unreachable for it, unless the socket's
/// receive buffer is full (seen with Linux 6.18): and that message is an ABORT for the peer (RFC 9260 section 10, ICMP8).
/// So each carrier has a second socket, whose filter takes nothing: its buffer is never full.
///
/// # Sending by a packet socket
///
/// With [`RawOptions::packet_socket`] IPv4 packets leave by a packet socket (`AF_PACKET`) that goes round most of the
/// kernel's IP, which takes two thirds of the time. Netfilter's chain OUTPUT, IPsec and socket cgroups don't see such
/// packets: so it is for who asks for it. Routes, neighbours and their changes are the kernel's, as it tells them; where
/// it knows no Ethernet station for a destination (the first packets, tunnels, the host itself), where a packet is larger
/// than the interface's MTU, and on IPv6, the raw socket sends, as it does without.
///
/// # Destinations
///
/// They have port 0, as sources have. To a destination with an encapsulation port nothing is sent; it is reported as
/// unreachable.
#[derive(Debug)]
pub struct RawCarrier {
    socket: Socket,
    local_addr: SocketAddr,
    start: Start,
    /// The rule and this socket's place, if several share the work.
    place: Option<(Steering, u16)>,
    sender: Sender,
    errors: Errors,
    links: Option<Links>,
    /// Keeps the kernel from answering packets that find the socket's buffer full.
    _guard: Socket,
}

impl RawCarrier {
    /// Opens a raw socket that receives what is sent to `address`, which may be `0.0.0.0` or `::` for every address of
    /// its family. IPv4 and IPv6 need a carrier each.
    ///
    /// # Errors
    ///
    /// The privilege is missing, the kernel has an SCTP of its own, the address is none of this host's, IPv6 is off, or
    /// the system refuses otherwise.
    pub fn open(address: IpAddr, options: &RawOptions) -> Result<Self, OpenError> {
        Self::open_at(address, options, None)
    }

    /// Opens a raw socket that receives only what is for one place of several, each of which has a socket like this.
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
        // First of all, for packets arrive from the moment when the socket exists.
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

    /// Receives only packets to these SCTP ports from now on (what was queued before stays). No range: none at all;
    /// `0..=65535`: all.
    ///
    /// With more than some 250 ranges, ranges that are close to each other are joined.
    ///
    /// # Errors
    ///
    /// What the system says; the filter is then as it was before.
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
    // IPv4 packets come with their header, which tells the rest.
    if is_v6 {
        option::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
        option::set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    }
    option::set_fragmentation(fd, is_v6, false)?;
    option::enable_error_queue(fd, is_v6)
}

/// By what a kernel SCTP shows, if there is one. `root` is `/` except in tests.
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
        // There is no port to send to, and IPv6 would take it for a protocol number.
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
