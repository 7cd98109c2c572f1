//! Carries SCTP packets in UDP datagrams (RFC 6951).

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

use crate::batch::{RECV_MAX, Received};
use crate::errors::Errors;
use crate::filter;
use crate::fragment::Fragmenter;
use crate::send::{GSO_SEGMENTS_MAX, Sender};
use crate::sys::option;
use crate::{Carrier, IcmpReport, OpenError, Outgoing, RecvBatch, SendStats, Steering};

/// Port registered for SCTP over UDP (`sctp-tunneling`, RFC 6951 section 7).
pub const UDP_PORT: u16 = 9899;

/// Maximum number of consecutive receive errors that are treated as errors about earlier packets; after that
/// the socket is given up.
const PENDING_ERRORS_MAX: usize = 64;

/// Options of a [`UdpCarrier`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpOptions {
    /// Lets several sockets, of processes of the same user, bind to the same address and port and share the
    /// received datagrams (`SO_REUSEPORT`). Default: false.
    pub reuse_port: bool,
    /// Makes a socket bound to `::` accept only IPv6. Default: false.
    pub only_v6: bool,
    /// Sends bursts as one large buffer that is segmented late (GSO). Default: true.
    pub segmentation: bool,
    /// Receives batches of datagrams as one large buffer (GRO). Default: true.
    pub coalescing: bool,
    /// Size of the socket's receive buffer in bytes. Default: 4 MiB; without privilege `net.core.rmem_max`
    /// limits it.
    pub receive_buffer_bytes: usize,
    /// Size of the socket's send buffer in bytes. Default: 2 MiB; without privilege `net.core.wmem_max`
    /// limits it.
    pub send_buffer_bytes: usize,
}

impl Default for UdpOptions {
    fn default() -> Self {
        Self {
            reuse_port: false,
            only_v6: false,
            segmentation: true,
            coalescing: true,
            receive_buffer_bytes: 4 << 20,
            send_buffer_bytes: 2 << 20,
        }
    }
}

/// A UDP socket that carries SCTP packets, one in each datagram (RFC 6951 section 5).
///
/// Bound to `[::]`, it carries IPv4 as well, unless [`UdpOptions::only_v6`] is set. IPv4 addresses are always
/// reported as such.
#[derive(Debug)]
pub struct UdpCarrier {
    socket: Socket,
    local_addr: SocketAddr,
    // Receives (recvmmsg, GRO, packet info) and sets up the socket. Sending is implemented here, because
    // quinn-udp disables GSO permanently at the first EINVAL, and a source address that was removed from the
    // host is enough for one.
    state: UdpSocketState,
    sender: Sender,
    errors: Errors,
}

impl UdpCarrier {
    /// Opens a socket at `address`. The registered port is [`UDP_PORT`]; port 0 takes any free port.
    ///
    /// # Errors
    ///
    /// If the address is in use or isn't one of this host's, IPv6 is disabled, or the system refuses for
    /// another reason.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> Result<Self, OpenError> {
        let is_v6 = address.is_ipv6();
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))
            .map_err(|error| OpenError::of_socket(error, false))?;
        if is_v6 {
            socket.set_only_v6(options.only_v6).map_err(OpenError::of_option)?;
        }
        let fd = socket.as_fd();
        if options.reuse_port {
            share_port(&socket)?;
        }
        option::enlarge_buffers(fd, options.receive_buffer_bytes, options.send_buffer_bytes);
        let state = set_up(&socket, options).map_err(OpenError::of_option)?;
        socket.bind(&address.into()).map_err(|error| OpenError::of_bind(error, address))?;
        let local_addr = socket.local_addr().ok().and_then(|address| address.as_socket()).unwrap_or(address);
        Ok(Self::new(socket, local_addr, state, options))
    }

    /// Takes a socket that is bound to `local_addr`.
    pub(crate) fn of_socket(
        socket: Socket,
        local_addr: SocketAddr,
        options: &UdpOptions,
    ) -> Result<Self, OpenError> {
        let state = set_up(&socket, options).map_err(OpenError::of_option)?;
        Ok(Self::new(socket, local_addr, state, options))
    }

    fn new(socket: Socket, local_addr: SocketAddr, state: UdpSocketState, options: &UdpOptions) -> Self {
        let is_v6 = local_addr.is_ipv6();
        let gso = options.segmentation && state.max_gso_segments() > 1;
        let sender = Sender::new(is_v6, is_v6, gso, Fragmenter::new(is_v6, is_v6, false, local_addr));
        Self { socket, local_addr, state, sender, errors: Errors::new(true) }
    }

    pub(crate) fn share_port(&self) -> Result<(), OpenError> {
        share_port(&self.socket)
    }

    /// Returns the address and the socket.
    pub(crate) fn into_parts(self) -> (SocketAddr, Socket) {
        (self.local_addr, self.socket)
    }

    /// Opens a socket for each place of `steering`, all at the same address. The kernel gives each datagram
    /// to the socket of its place. The group doesn't join other sockets at the address, though processes of
    /// the same user could join the group later.
    ///
    /// A coalesced batch of datagrams (GRO) is steered as a whole by its first datagram, so if a peer has
    /// associations in several places, a batch can hold packets of others. While sockets of the group are
    /// closed one by one, the places of the remaining ones change. The receiver must therefore check each
    /// packet and hand over those of another place.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_group(
        address: SocketAddr,
        options: &UdpOptions,
        steering: &Steering,
    ) -> Result<Vec<Self>, OpenError> {
        // The first socket is bound without sharing: an address that other sockets share is in use, too.
        let first = Self::bind(address, &UdpOptions { reuse_port: false, ..options.clone() })?;
        share_port(&first.socket)?;
        let (address, shared) = (first.local_addr, UdpOptions { reuse_port: true, ..options.clone() });
        let mut group = vec![first];
        while group.len() < usize::from(steering.places()) {
            group.push(Self::bind(address, &shared)?);
        }
        if let Some(any) = group.first() {
            filter::attach_steering(any.as_fd(), steering).map_err(OpenError::of_option)?;
        }
        Ok(group)
    }
}

/// Lets other sockets bind to the same address and port.
fn share_port(socket: &Socket) -> Result<(), OpenError> {
    option::set_int(socket.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).map_err(OpenError::of_option)
}

/// Sets up the socket for GRO, packet info, path MTU discovery and the error queue. This happens before it is
/// bound: datagrams that arrive earlier would lack their destination.
fn set_up(socket: &Socket, options: &UdpOptions) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    let fd = socket.as_fd();
    // The arrival time, which quinn-udp requests, would cost a clock reading for each packet of the host.
    option::set_int(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 0)?;
    if !options.coalescing && state.gro_segments() > 1 {
        option::set_int(fd, libc::SOL_UDP, libc::UDP_GRO, 0)?;
    }
    option::enable_error_queue(fd, socket.domain()? == Domain::IPV6)?;
    Ok(state)
}

impl AsFd for UdpCarrier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Carrier for UdpCarrier {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.clear();
        let mut metas = [RecvMeta::default(); RECV_MAX];
        let received = {
            let (mut buffers, slots) = batch.parts();
            let count = slots.len();
            let mut slices: [IoSliceMut<'_>; RECV_MAX] =
                std::array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
            let slices = slices.get_mut(..count).unwrap_or_default();
            self.recv_past_errors(slices, &mut metas)?
        };
        for (slot, meta) in batch.slots().iter_mut().zip(&metas).take(received) {
            slot.start = 0;
            slot.meta = Received {
                source: SocketAddr::new(meta.addr.ip().to_canonical(), meta.addr.port()),
                destination: meta.dst_ip.map(|ip| ip.to_canonical()),
                len: meta.len,
                stride: meta.stride,
                ecn: Some(meta.ecn.map_or(0, |ecn| ecn as u8)),
            };
            if let (SocketAddr::V6(source), SocketAddr::V6(from)) = (&mut slot.meta.source, meta.addr) {
                source.set_scope_id(from.scope_id());
            }
        }
        batch.set_filled(received);
        Ok(received)
    }

    fn send_batch(&self, batch: &mut [Outgoing<'_>]) -> io::Result<()> {
        self.sender.send_batch(self.as_fd(), &self.errors, batch)
    }

    fn poll_errors(&self, report: &mut dyn FnMut(IcmpReport<'_>)) -> usize {
        self.errors.poll(self.as_fd(), report)
    }

    fn errors_pending(&self) -> bool {
        self.errors.pending()
    }

    fn segments_max(&self) -> usize {
        if self.sender.gso() { GSO_SEGMENTS_MAX } else { 1 }
    }

    fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    fn is_raw(&self) -> bool {
        false
    }

    fn send_stats(&self) -> SendStats {
        self.sender.stats()
    }
}

impl UdpCarrier {
    /// Receives, and skips the socket's pending errors, which are about packets that were sent.
    fn recv_past_errors(&self, slices: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]) -> io::Result<usize> {
        let mut passed = 0;
        loop {
            match self.state.recv(UdpSockRef::from(&self.socket), slices, metas) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock && passed < PENDING_ERRORS_MAX => {
                    if is_fatal(&error) {
                        return Err(error);
                    }
                    self.errors.note_pending();
                    passed += 1;
                }
                result => return result,
            }
        }
    }
}

/// Returns whether a receiving socket can't be used any more.
pub(crate) fn is_fatal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::EINVAL))
}
