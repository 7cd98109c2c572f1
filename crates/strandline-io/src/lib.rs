//! Carriers of SCTP packets: sockets of the operating system (Linux) that send and receive whole SCTP packets.
//!
//! A carrier knows nothing about the content of a packet or about async runtimes. It is a non-blocking file descriptor
//! with three operations, which the [`Carrier`] trait describes:
//!
//! - [`Carrier::recv`] fills a [`RecvBatch`] with received datagrams, many in one system call;
//! - [`Carrier::send`] and [`Carrier::send_batch`] give the kernel bursts of packets, many in one system call;
//! - [`Carrier::poll_errors`] reports ICMP messages about sent packets.
//!
//! There are two carriers. [`UdpCarrier`] puts SCTP packets into UDP datagrams (RFC 6951) and needs no privilege; a
//! burst goes to the kernel as one large buffer that is segmented late (GSO), and arrives as one large buffer (GRO).
//! [`RawCarrier`] sends them as IP protocol 132, which needs CAP_NET_RAW, and shares the protocol with the other
//! processes of the host by [port filters](RawCarrier::set_ports) and [`PortLock`].
//!
//! ```
//! use strandline_io::{Carrier, Outgoing, RecvBatch, UdpCarrier, UdpOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let one = UdpCarrier::bind("127.0.0.1:0".parse()?, &UdpOptions::default())?;
//! let other = UdpCarrier::bind("127.0.0.1:0".parse()?, &UdpOptions::default())?;
//! one.send(&mut Outgoing::packet(other.local_addr(), b"an SCTP packet"))?;
//!
//! let mut batch = RecvBatch::new(4);
//! other.recv(&mut batch)?; // the loopback interface delivers at once; elsewhere wait until it can be read
//! let (received, packet) = batch.packets().next().ok_or("nothing arrived")?;
//! assert_eq!((received.source, packet), (one.local_addr(), &b"an SCTP packet"[..]));
//! # Ok(()) }
//! ```
//!
//! # Waiting
//!
//! Register the descriptor ([`std::os::fd::AsFd`]) with an event loop for reading, writing and errors.
//! `EPOLLERR` (`Interest::ERROR` in tokio) means that [`Carrier::poll_errors`] has something to report. With
//! tokio, wrap a duplicate of the descriptor in a `tokio::net::UdpSocket`, whatever kind of socket it is, and
//! call the carrier within `UdpSocket::try_io`, with one interest at a time, to keep track of readiness: see
//! `examples/receive.rs`.
//!
//! # Checksums
//!
//! Carriers neither compute nor check SCTP's CRC32c, and use no offload of it: packets must be complete when they are
//! sent, and are returned as they arrived. The UDP checksum is always computed (RFC 6951 section 5.3).
//!
//! Over raw IP, a *kernel* SCTP leaves the CRC32c to the network device, and virtual devices (loopback, veth) claim to
//! compute it but never do. Its packets then arrive over such a device without a valid checksum. To avoid this, run
//! `ethtool -K DEVICE tx-checksum-sctp off` on the sending side.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "strandline-io is written for Linux: GSO, GRO, error queues and packet filters are used as Linux has them"
);

mod batch;
mod bpf;
mod carrier;
mod errors;
mod filter;
mod fragment;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod group;
mod icmp;
mod ipv4;
mod links;
mod local;
mod open;
mod ports;
mod raw;
mod send;
mod steering;
mod sys;
mod timer;
mod udp;

pub use batch::{Received, RecvBatch};
pub use carrier::{Carrier, Outgoing, SendStats};
pub use group::{Owner, UdpGroup};
pub use icmp::{IcmpKind, IcmpReport};
pub use local::{AddressChanges, LocalAddress, Scope, addresses_towards, local_addresses};
pub use open::OpenError;
pub use ports::{EPHEMERAL_PORTS, LockError, PortLock};
pub use raw::{RawCarrier, RawOptions};
pub use steering::{PLACES_MAX, Steering};
pub use sys::interfaces::{InterfaceMtu, interfaces, mtus};
pub use timer::Timer;
pub use udp::{UDP_PORT, UdpCarrier, UdpOptions};
