//! What every carrier does.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use crate::{IcmpReport, RecvBatch};

/// A burst of SCTP packets to one destination: `bytes`, cut every `segment_size` bytes.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// IP address and encapsulation port; port 0 for raw IP.
    pub destination: SocketAddr,
    /// The local address to send from; `None` lets the routing table choose.
    pub source: Option<IpAddr>,
    /// The packets. The carrier takes off the front what it handed to the kernel.
    pub bytes: &'a [u8],
    /// Size in bytes of each packet; the last may be shorter. 0 stands for a single packet.
    pub segment_size: usize,
    /// Sends each of these packets in IP packets of at most so many bytes, for the rare packet that is longer than the path
    /// MTU and can't be made smaller (RFC 9260 sections 6.9 and 7.3). It costs extra system calls. IPv4 is cut where the
    /// process has CAP_NET_RAW; without it the don't-fragment bit stays off, so that routers may cut. IPv6 is cut by the
    /// kernel if the packet is longer than the interface's MTU, to no less than 1,280 bytes. `None`: never cut.
    pub fragment: Option<u16>,
    /// Sets ECT(0) in the IP header (RFC 3168): routers may mark these packets instead of dropping them.
    pub ecn_capable: bool,
}

impl<'a> Outgoing<'a> {
    /// A single packet, from whichever local address the routing table says.
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

    /// A burst of packets of `segment_size` bytes each, the last perhaps shorter.
    #[must_use]
    pub fn burst(destination: SocketAddr, bytes: &'a [u8], segment_size: usize) -> Self {
        Self { destination, source: None, bytes, segment_size, fragment: None, ecn_capable: false }
    }
}

/// What a carrier has sent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendStats {
    /// SCTP packets that the kernel took.
    pub packets: u64,
    /// SCTP packets that the kernel refused for another reason than a full socket buffer: they are lost.
    pub dropped: u64,
    /// System calls that sent something.
    pub calls: u64,
}

/// A socket that carries SCTP packets. All methods can be called from several threads, and none of them blocks.
pub trait Carrier: AsFd + Debug + Send + Sync {
    /// Receives what has arrived, as many datagrams as `batch` has buffers and one system call brings. Returns the
    /// number of buffers that were filled, at least 1.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing has arrived; `batch` is empty then. Errors that only say that an earlier packet was
    /// not delivered are not returned: [`poll_errors`](Self::poll_errors) tells them. Anything else means that the
    /// socket can't be used any more.
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize>;

    /// Sends the packets of each burst, in order. What was handed to the kernel is taken off the front of
    /// [`Outgoing::bytes`], also when an error is returned, so that the rest can be sent later with the same value.
    ///
    /// A packet that the kernel refuses for good (no route, larger than the interface's MTU, a source address that is
    /// gone, a firewall, a full queue of the network device) is lost like one lost in the network: it is taken off as
    /// well and counted, and where SCTP can make use of the reason [`poll_errors`](Self::poll_errors) tells it.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when the socket's buffer is full: go on when it can be written. Anything else means that the
    /// socket can't be used any more.
    fn send_batch(&self, batch: &mut [Outgoing<'_>]) -> io::Result<()>;

    /// Sends one burst of packets, as [`send_batch`](Self::send_batch) does.
    ///
    /// # Errors
    ///
    /// Those of [`send_batch`](Self::send_batch).
    fn send(&self, outgoing: &mut Outgoing<'_>) -> io::Result<()> {
        self.send_batch(std::slice::from_mut(outgoing))
    }

    /// Calls `report` for each ICMP message about a packet that was sent here, and for packets that the kernel itself
    /// refused because of their size or for want of a route. Returns the number of reports.
    ///
    /// Over raw IP every process gets the messages about all protocol 132 packets of the host: check the quoted
    /// verification tag, as must be done anyway.
    fn poll_errors(&self, report: &mut dyn FnMut(IcmpReport<'_>)) -> usize;

    /// True if [`poll_errors`](Self::poll_errors) probably has something to report. Cheap: makes no system call.
    fn errors_pending(&self) -> bool;

    /// How many packets one burst is best made of. It may fall to 1 when it turns out that the network device can't do
    /// GSO; larger bursts can still be sent.
    fn segments_max(&self) -> usize;

    /// The address the socket is bound to: with the encapsulation port, or port 0 for raw IP.
    fn local_addr(&self) -> SocketAddr;

    /// True for raw IP (protocol 132), false for UDP encapsulation.
    fn is_raw(&self) -> bool;

    /// Bytes that this carrier and IP add to each SCTP packet sent to `destination`: the path MTU less this is the size
    /// of the largest SCTP packet (RFC 6951 section 5.6). IP options and extension headers are not counted, for none
    /// are sent.
    fn overhead(&self, destination: IpAddr) -> usize {
        let ip = if destination.to_canonical().is_ipv4() { 20 } else { 40 };
        if self.is_raw() { ip } else { ip + 8 }
    }

    /// What has been sent so far.
    fn send_stats(&self) -> SendStats;
}
