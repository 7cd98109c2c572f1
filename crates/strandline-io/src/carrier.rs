//! The interface of all carriers.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use crate::sys::option;
use crate::{IcmpReport, RecvBatch};

/// A burst of SCTP packets to one destination: `bytes`, split every `segment_size` bytes.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// IP address and encapsulation port; port 0 for raw IP.
    pub destination: SocketAddr,
    /// Local address to send from; `None` lets the routing table choose.
    pub source: Option<IpAddr>,
    /// The packets. The carrier removes those that it has handed to the kernel from the front.
    pub bytes: &'a [u8],
    /// Length in bytes of each packet; the last may be shorter. 0 means a single packet.
    pub segment_size: usize,
    /// Sends each packet in IP packets of at most this many bytes, for the rare packet that is longer than
    /// the path MTU and can't be made shorter (RFC 9260 sections 6.9 and 7.3). It costs extra system calls.
    /// `None` never fragments.
    ///
    /// An IPv4 packet is fragmented here if the process has CAP_NET_RAW; otherwise the don't-fragment bit is
    /// cleared, so that routers may fragment it. An IPv6 packet longer than the interface's MTU is fragmented
    /// by the kernel, to no less than 1,280 bytes.
    pub fragment: Option<u16>,
    /// Sets ECT(0) in the IP header (RFC 3168): routers may mark these packets instead of dropping them.
    pub ecn_capable: bool,
}

impl<'a> Outgoing<'a> {
    /// Creates a burst of a single packet. The routing table chooses the local address.
    #[must_use]
    pub fn packet(destination: SocketAddr, bytes: &'a [u8]) -> Self {
        Self {
            destination,
            source: None,
            bytes,
            segment_size: bytes.len(),
            fragment: None,
            ecn_capable: false,
        }
    }

    /// Creates a burst of packets of `segment_size` bytes each; the last may be shorter.
    #[must_use]
    pub fn burst(destination: SocketAddr, bytes: &'a [u8], segment_size: usize) -> Self {
        Self { destination, source: None, bytes, segment_size, fragment: None, ecn_capable: false }
    }
}

/// Counters of a carrier's sending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendStats {
    /// SCTP packets that the kernel accepted.
    pub packets: u64,
    /// SCTP packets that the kernel refused for a reason other than a full socket buffer. They are lost.
    pub dropped: u64,
    /// System calls that sent something.
    pub calls: u64,
}

/// A socket that carries SCTP packets. All methods can be called from several threads, and none of them
/// blocks.
pub trait Carrier: AsFd + Debug + Send + Sync {
    /// Receives as many datagrams as `batch` has buffers and one system call returns. Returns the number of
    /// buffers filled, at least 1.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing has arrived; `batch` is empty then. Errors about earlier packets that were
    /// not delivered are not returned: [`poll_errors`](Self::poll_errors) reports them. Any other error means
    /// that the socket can't be used any more.
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize>;

    /// Sends the packets of each burst, in order. Packets handed to the kernel are removed from the front of
    /// [`Outgoing::bytes`], also when an error is returned, so that the rest can be sent later with the same
    /// value.
    ///
    /// A packet that the kernel refuses permanently (no route, longer than the interface's MTU, a source
    /// address that is gone, a firewall, a full queue of the network device) is lost like one lost in the
    /// network: it is removed and counted. If the reason is of use to SCTP,
    /// [`poll_errors`](Self::poll_errors) reports it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when the socket's buffer is full: continue when the socket is writable. Any other error
    /// means that the socket can't be used any more.
    fn send_batch(&self, batch: &mut [Outgoing<'_>]) -> io::Result<()>;

    /// Sends one burst of packets, as [`send_batch`](Self::send_batch) does.
    ///
    /// # Errors
    ///
    /// As [`send_batch`](Self::send_batch).
    fn send(&self, outgoing: &mut Outgoing<'_>) -> io::Result<()> {
        self.send_batch(std::slice::from_mut(outgoing))
    }

    /// Calls `report` for each ICMP message about a packet sent by this carrier, and for packets that the
    /// kernel itself refused: because of their length, or for the reasons of
    /// [`IcmpKind::NoRoute`](crate::IcmpKind::NoRoute). Returns the number of reports.
    ///
    /// Over raw IP every process receives the messages about all protocol 132 packets of the host. Check the
    /// quoted verification tag, as is necessary in any case.
    fn poll_errors(&self, report: &mut dyn FnMut(IcmpReport<'_>)) -> usize;

    /// Returns whether [`poll_errors`](Self::poll_errors) probably has something to report. Makes no system
    /// call.
    fn errors_pending(&self) -> bool;

    /// Returns the best number of packets in one burst. It may fall to 1 when the network device turns out
    /// not to support GSO; larger bursts can still be sent.
    fn segments_max(&self) -> usize;

    /// Returns the address that the socket is bound to, with the encapsulation port, or port 0 for raw IP.
    fn local_addr(&self) -> SocketAddr;

    /// Returns true for raw IP (protocol 132), false for UDP encapsulation.
    fn is_raw(&self) -> bool;

    /// Returns the bytes of packets that the socket holds until they are received, or `None` if the kernel doesn't
    /// tell. It is half of what the kernel reports: the other half is for its own records of each packet.
    fn receive_queue_bytes(&self) -> Option<u32> {
        let bytes = option::int(self.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF).ok()?;
        u32::try_from(bytes / 2).ok()
    }

    /// Returns the number of datagrams, or of coalesced batches, that found the socket's receive queue full since the
    /// socket was opened, modulo 2^32; `None` if the kernel doesn't tell. Makes a system call.
    fn receive_drops(&self) -> Option<u32> {
        option::drops(self.as_fd()).ok()
    }

    /// Returns the bytes that this carrier and IP add to each SCTP packet sent to `destination`. The path MTU
    /// less this is the length of the largest SCTP packet (RFC 6951 section 5.6). IP options and extension
    /// headers are not counted, since none are sent.
    fn overhead(&self, destination: IpAddr) -> usize {
        let ip = if destination.to_canonical().is_ipv4() { 20 } else { 40 };
        if self.is_raw() { ip } else { ip + 8 }
    }

    /// Returns the counters of what has been sent so far.
    fn send_stats(&self) -> SendStats;
}
