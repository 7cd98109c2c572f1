//! SCTP packets as IP protocol 132.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use socket2::{Domain, Protocol, Socket, Type};

use crate::batch::Slot;
use crate::bpf::Start;
use crate::errors::Errors;
use crate::filter;
use crate::send::Sender;
use crate::sys::{message, option};
use crate::udp::is_fatal;
use crate::{Carrier, IcmpReport, OpenError, Outgoing, Received, RecvBatch, SendStats, Steering};

/// SCTP's protocol number (RFC 9260 section 3).
const PROTOCOL: u8 = 132;
const PENDING_ERRORS_MAX: usize = 64;
const IPV4_HEADER_LEN: usize = 20;

/// How a [`RawCarrier`] is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawOptions {
    /// SCTP destination ports of the packets that are received, as for [`RawCarrier::set_ports`]. Default: all.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Opens the socket although the kernel has an SCTP of its own. It answers packets that it doesn't know with ABORT,
    /// so something else must keep those from leaving, for example
    /// `iptables -A OUTPUT -p sctp --chunk-types any ABORT -j DROP`. Default: false.
    pub allow_kernel_sctp: bool,
    /// Bytes of the socket's receive buffer. Default: 4 MiB.
    pub receive_buffer_bytes: usize,
    /// Bytes of the socket's send buffer. Default: 2 MiB.
    pub send_buffer_bytes: usize,
}

impl Default for RawOptions {
    fn default() -> Self {
        Self {
            ports: vec![0..=u16::MAX],
            allow_kernel_sctp: false,
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 2 << 20,
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
        let local_addr = SocketAddr::new(address, 0);
        for socket in [&socket, &guard] {
            socket.bind(&local_addr.into()).map_err(|error| OpenError::of_bind(error, local_addr))?;
        }
        let sender = Sender::new(is_v6, false, false);
        Ok(Self { socket, local_addr, start, place, sender, errors: Errors::new(false), _guard: guard })
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

/// What an IPv4 header tells: where the packet starts and ends behind it, the destination and the ECN bits. `None` if it
/// is none, or of another protocol.
fn ipv4_header(datagram: &[u8]) -> Option<(usize, usize, Ipv4Addr, u8)> {
    let header: &[u8; IPV4_HEADER_LEN] = datagram.first_chunk()?;
    let [version, tos, total_high, total_low, .., d0, d1, d2, d3] = *header;
    let start = usize::from(version & 0xf) * 4;
    // The kernel has made sure of all this; but what is no header must not be taken for one.
    let end = usize::from(u16::from_be_bytes([total_high, total_low])).min(datagram.len());
    let protocol = header[9];
    let sound = version >> 4 == 4 && start >= IPV4_HEADER_LEN && start <= end && protocol == PROTOCOL;
    sound.then_some((start, end, Ipv4Addr::new(d0, d1, d2, d3), tos & 0b11))
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
                batch.strip(index, ipv4_header);
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
        self.sender.send_batch(self.as_fd(), &self.errors, batch)
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
mod tests {
    use super::*;

    fn datagram(words: u8, total: u16, protocol: u8) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[0] = 0x40 | words;
        bytes[1] = 0b0000_0011;
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        bytes[9] = protocol;
        bytes[16..20].copy_from_slice(&[192, 0, 2, 9]);
        bytes
    }

    #[test]
    fn ipv4_headers_are_stripped_with_their_options() {
        let destination = Ipv4Addr::new(192, 0, 2, 9);
        assert_eq!(ipv4_header(&datagram(5, 64, PROTOCOL)), Some((20, 64, destination, 3)));
        assert_eq!(ipv4_header(&datagram(8, 50, PROTOCOL)), Some((32, 50, destination, 3)));
        assert_eq!(ipv4_header(&datagram(5, 9_999, PROTOCOL)), Some((20, 64, destination, 3)));
    }

    #[test]
    fn what_is_no_header_is_none() {
        assert_eq!(ipv4_header(&datagram(4, 64, PROTOCOL)), None);
        assert_eq!(ipv4_header(&datagram(15, 40, PROTOCOL)), None);
        assert_eq!(ipv4_header(&datagram(5, 64, 17)), None);
        assert_eq!(ipv4_header(&[0x60; 64]), None);
        for len in 0..IPV4_HEADER_LEN {
            assert_eq!(ipv4_header(&datagram(5, 64, PROTOCOL)[..len]), None);
        }
    }

    #[test]
    fn a_kernel_sctp_is_noticed() {
        let root = std::env::temp_dir().join(format!("strandline-io-{}", std::process::id()));
        assert_eq!(kernel_sctp(&root), None);
        std::fs::create_dir_all(root.join("proc/net")).unwrap();
        std::fs::write(root.join("proc/net/protocols"), "protocol size\nUDP 1\nTCP 1\n").unwrap();
        assert_eq!(kernel_sctp(&root), None);
        std::fs::write(root.join("proc/net/protocols"), "protocol size\nSCTPv6 1\nSCTP 1\n").unwrap();
        assert_eq!(kernel_sctp(&root), Some("/proc/net/protocols lists SCTP"));
        std::fs::create_dir_all(root.join("sys/module/sctp")).unwrap();
        assert_eq!(kernel_sctp(&root), Some("the module sctp is loaded"));
        std::fs::create_dir(root.join("proc/net/sctp")).unwrap();
        assert_eq!(kernel_sctp(&root), Some("/proc/net/sctp exists"));
        std::fs::remove_dir_all(&root).unwrap();
        let message = OpenError::KernelSctp { evidence: "/proc/net/sctp exists" }.to_string();
        assert!(message.contains("modprobe -r sctp"), "{message}");
    }
}
