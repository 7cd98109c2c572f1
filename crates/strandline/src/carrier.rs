//! The carrier of packets, with one interface for the in-memory network, UDP encapsulation and raw IP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use strandline_io::{Carrier as _, IcmpKind as IoKind, Outgoing, RawCarrier, RecvBatch, UdpCarrier};
use strandline_proto::event::{Datagram, IcmpError, IcmpKind, Transmit};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::address::Address;
use crate::bursts::Bursts;
use crate::memory;

/// Number of 64 KiB buffers filled by one system call.
const RECV_BUFFERS: usize = 16;

/// A carrier of any kind. Sending doesn't block and can be done by any task; only the driver may receive.
#[derive(Debug)]
pub(crate) enum Carrier {
    Memory(memory::Socket),
    Udp(Registered<UdpCarrier>),
    Raw(Registered<RawCarrier>),
    /// An in-memory network with limited room for packets.
    #[cfg(test)]
    Narrow(std::sync::Arc<narrow::Narrow>),
}

/// A socket registered with the runtime for readiness.
#[derive(Debug)]
pub(crate) struct Registered<C: strandline_io::Carrier> {
    readable: AsyncFd<Socket<C>>,
    /// The socket by another descriptor, watched only while it is full: otherwise each packet that leaves its
    /// buffer would wake the runtime.
    writable: Mutex<Option<AsyncFd<OwnedFd>>>,
}

/// Wraps a descriptor as the runtime needs it.
#[derive(Debug)]
struct Socket<C>(C);

impl<C: AsFd> AsRawFd for Socket<C> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// The datagrams received by one call.
#[derive(Debug)]
pub(crate) enum Batch {
    Memory(Vec<memory::Arrival>),
    Socket(RecvBatch),
}

impl Carrier {
    /// Creates the receive buffers for this kind of carrier.
    pub(crate) fn batch(&self) -> Batch {
        match self {
            Self::Memory(_) => Batch::Memory(Vec::new()),
            Self::Udp(_) | Self::Raw(_) => Batch::Socket(RecvBatch::new(RECV_BUFFERS)),
            #[cfg(test)]
            Self::Narrow(_) => Batch::Memory(Vec::new()),
        }
    }

    /// Receives at least one datagram.
    pub(crate) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<io::Result<()>> {
        match (self, batch) {
            (Self::Memory(socket), Batch::Memory(arrivals)) => socket.poll_recv(cx, arrivals),
            (Self::Udp(socket), Batch::Socket(batch)) => socket.poll_recv(cx, batch),
            (Self::Raw(socket), Batch::Socket(batch)) => socket.poll_recv(cx, batch),
            #[cfg(test)]
            (Self::Narrow(narrow), Batch::Memory(arrivals)) => narrow.socket.poll_recv(cx, arrivals),
            // Unreachable: batches are created by the carrier that receives into them.
            _ => Poll::Pending,
        }
    }

    /// Sends bursts and removes what was sent: everything unless the carrier is full. In that case
    /// [`poll_send`](Self::poll_send) waits until there is room.
    pub(crate) fn try_send(&self, bursts: &mut Bursts) -> io::Result<()> {
        match self {
            Self::Memory(socket) => {
                for (transmit, bytes) in bursts.iter() {
                    for packet in bytes.chunks(transmit.segment_size.max(1)) {
                        socket.send(transmit.destination, transmit.source, packet);
                    }
                }
                bursts.clear();
                Ok(())
            }
            Self::Udp(socket) => socket.try_send(bursts),
            Self::Raw(socket) => socket.try_send(bursts),
            #[cfg(test)]
            Self::Narrow(narrow) => {
                narrow.send(bursts);
                Ok(())
            }
        }
    }

    /// Sends as [`try_send`](Self::try_send) does, as soon as the carrier has room, possibly only in part. For
    /// the driver only.
    pub(crate) fn poll_send(&self, cx: &mut Context<'_>, bursts: &mut Bursts) -> Poll<io::Result<()>> {
        match self {
            Self::Memory(_) => Poll::Ready(self.try_send(bursts)),
            Self::Udp(socket) => socket.poll_send(cx, bursts),
            Self::Raw(socket) => socket.poll_send(cx, bursts),
            #[cfg(test)]
            Self::Narrow(narrow) => narrow.poll_send(cx, bursts),
        }
    }

    /// Waits until ICMP messages may have arrived; never completes for carriers without ICMP.
    pub(crate) async fn errors(&self) -> io::Result<()> {
        match self {
            Self::Memory(_) => std::future::pending().await,
            Self::Udp(socket) => socket.errors().await,
            Self::Raw(socket) => socket.errors().await,
            #[cfg(test)]
            Self::Narrow(_) => std::future::pending().await,
        }
    }

    /// Calls `each` for every ICMP message that arrived.
    pub(crate) fn take_errors(&self, mut each: impl FnMut(IcmpError<'_>)) {
        let mut report = |report: strandline_io::IcmpReport<'_>| {
            let kind = match report.kind {
                IoKind::PacketTooBig { mtu } => IcmpKind::PacketTooBig { mtu },
                IoKind::ProtocolUnreachable => IcmpKind::ProtocolUnreachable,
                IoKind::HostUnreachable => IcmpKind::HostUnreachable,
                IoKind::NoRoute => IcmpKind::NoRoute,
            };
            each(IcmpError { destination: report.destination, kind, quoted: report.quoted });
        };
        match self {
            Self::Memory(_) => 0,
            Self::Udp(socket) => socket.carrier().poll_errors(&mut report),
            Self::Raw(socket) => socket.carrier().poll_errors(&mut report),
            #[cfg(test)]
            Self::Narrow(_) => 0,
        };
    }

    /// Returns whether there probably are ICMP messages or packets that the kernel refused. The check is cheap.
    pub(crate) fn errors_pending(&self) -> bool {
        match self {
            Self::Memory(_) => false,
            Self::Udp(socket) => socket.carrier().errors_pending(),
            Self::Raw(socket) => socket.carrier().errors_pending(),
            #[cfg(test)]
            Self::Narrow(_) => false,
        }
    }

    /// Returns whether the carrier is a kernel socket, so that time is real; time in an in-memory network may
    /// be virtual.
    pub(crate) fn is_of_the_kernel(&self) -> bool {
        matches!(self, Self::Udp(_) | Self::Raw(_))
    }

    /// Returns the bytes of packets that the socket holds until they are received; `None` if there is no limit.
    pub(crate) fn receive_queue_bytes(&self) -> Option<u32> {
        match self {
            Self::Udp(socket) => socket.carrier().receive_queue_bytes(),
            Self::Raw(socket) => socket.carrier().receive_queue_bytes(),
            _ => None,
        }
    }

    /// Returns the number of datagrams that found the socket's receive queue full, modulo 2^32.
    pub(crate) fn receive_drops(&self) -> Option<u32> {
        match self {
            Self::Udp(socket) => socket.carrier().receive_drops(),
            Self::Raw(socket) => socket.carrier().receive_drops(),
            _ => None,
        }
    }

    /// Returns the largest number of packets in a burst.
    pub(crate) fn segments_max(&self) -> usize {
        match self {
            Self::Memory(_) => 16,
            Self::Udp(socket) => socket.carrier().segments_max(),
            Self::Raw(socket) => socket.carrier().segments_max(),
            #[cfg(test)]
            Self::Narrow(_) => 16,
        }
    }

    /// Returns the local address: IP address and encapsulation port.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Memory(socket) => socket.local_address(),
            Self::Udp(socket) => Some(socket.carrier().local_addr()),
            Self::Raw(socket) => Some(socket.carrier().local_addr()),
            #[cfg(test)]
            Self::Narrow(narrow) => narrow.socket.local_address(),
        }
    }

    /// Where link-local addresses belong that are given without a zone: to the zone of the address that the
    /// socket is bound to, or nowhere (0). `None` if the carrier knows no zones.
    pub(crate) fn own_zone(&self) -> Option<u32> {
        match self {
            Self::Udp(_) | Self::Raw(_) => {
                Some(self.local_address().map_or(0, |own| Address::of(own).zone()))
            }
            _ => None,
        }
    }

    /// The raw IP carrier, if it is one.
    pub(crate) fn raw(&self) -> Option<&RawCarrier> {
        match self {
            Self::Raw(socket) => Some(socket.carrier()),
            _ => None,
        }
    }
}

impl<C: strandline_io::Carrier> Registered<C> {
    /// Registers a carrier's descriptor with the runtime.
    #[allow(
        deprecated,
        reason = "the successor is unsafe, for types whose descriptor changes; a carrier owns one socket for its life"
    )]
    pub(crate) fn new(carrier: C) -> io::Result<Self> {
        let interest = Interest::READABLE | Interest::ERROR;
        Ok(Self { readable: AsyncFd::with_interest(Socket(carrier), interest)?, writable: Mutex::new(None) })
    }

    fn carrier(&self) -> &C {
        &self.readable.get_ref().0
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.readable.poll_read_ready(cx))?;
            match guard.try_io(|fd| fd.get_ref().0.recv(batch)) {
                Ok(Ok(buffers)) => {
                    if buffers < RECV_BUFFERS {
                        // Everything was read: wait for the runtime to report readiness again.
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }

    fn try_send(&self, bursts: &mut Bursts) -> io::Result<()> {
        let outgoing = |(transmit, bytes): (&Transmit, _)| Outgoing {
            destination: transmit.destination,
            source: transmit.source,
            bytes,
            segment_size: transmit.segment_size,
            fragment: transmit.fragment,
            ecn_capable: transmit.ecn_capable,
        };
        let mut batch: Vec<Outgoing<'_>> = bursts.iter().map(outgoing).collect();
        let result = self.carrier().send_batch(&mut batch);
        let left: Vec<usize> = batch.iter().map(|outgoing| outgoing.bytes.len()).collect();
        bursts.keep(left);
        match result {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    fn poll_send(&self, cx: &mut Context<'_>, bursts: &mut Bursts) -> Poll<io::Result<()>> {
        let mut place = self.writable.lock().unwrap_or_else(PoisonError::into_inner);
        let writable = match &mut *place {
            Some(writable) => writable,
            none => none.insert(self.watch_writable()?),
        };
        loop {
            let mut guard = ready!(writable.poll_write_ready(cx))?;
            let before = bursts.bytes();
            let sent = self.try_send(bursts);
            if sent.is_ok() && bursts.bytes() == before {
                guard.clear_ready();
                continue;
            }
            *place = None;
            return Poll::Ready(sent);
        }
    }

    #[allow(deprecated, reason = "as in `new`")]
    fn watch_writable(&self) -> io::Result<AsyncFd<OwnedFd>> {
        AsyncFd::with_interest(self.carrier().as_fd().try_clone_to_owned()?, Interest::WRITABLE)
    }

    async fn errors(&self) -> io::Result<()> {
        self.readable.ready(Interest::ERROR).await?.clear_ready();
        Ok(())
    }
}

impl Batch {
    /// Returns the total bytes of the datagrams.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Memory(arrivals) => arrivals.iter().map(|arrival| arrival.bytes.len()).sum(),
            Self::Socket(batch) => batch.iter().map(|(_, bytes)| bytes.len()).sum(),
        }
    }

    /// Calls `each` for every train of packets in order of arrival, with the size of its packets; the last
    /// packet may be shorter.
    pub(crate) fn for_each_train(&self, mut each: impl FnMut(Datagram<'_>, usize)) {
        match self {
            Self::Memory(arrivals) => {
                for arrival in arrivals {
                    let destination = Some(arrival.destination);
                    let bytes = &arrival.bytes;
                    each(Datagram { source: arrival.source, destination, bytes, ecn: 0 }, bytes.len());
                }
            }
            Self::Socket(batch) => {
                for (meta, bytes) in batch.iter() {
                    let train = Datagram {
                        source: meta.source,
                        destination: meta.destination,
                        bytes,
                        ecn: meta.ecn.unwrap_or(0),
                    };
                    each(train, meta.stride);
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod narrow;
