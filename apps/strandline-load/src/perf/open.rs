//! Opens the stacks and sockets of either side according to the arguments.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustix::net::sockopt::set_tcp_congestion;
use strandline::{Address, Association, OutgoingPorts, PacketObserver, RawOptions, Stack, StackBuilder};
use strandline_ops::socket_for;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;

use super::args::Common;
use super::trace::Trace;
use super::tuning::Congestion;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// The configuration of a side's stacks, whatever carries their packets.
#[derive(Debug, Clone)]
pub(crate) struct Opening<'a> {
    pub(crate) common: &'a Common,
    /// The runtime of each shard.
    pub(crate) runtimes: &'a [Handle],
    pub(crate) nodelay: bool,
    /// Observer of every packet.
    pub(crate) trace: Option<Arc<Trace>>,
}

fn builder(opening: &Opening<'_>) -> Result<StackBuilder> {
    let Opening { common, runtimes, nodelay, trace } = opening;
    let builder = Stack::builder()
        .association(common.association(*nodelay))
        .local_addresses(common.address.iter().copied())
        .shards(runtimes.len())
        .runtimes(runtimes.iter().cloned());
    let builder = match trace {
        Some(trace) => builder.observer(Arc::clone(trace) as Arc<dyn PacketObserver>),
        None => builder,
    };
    Ok(match common.encryption()? {
        Some(encryption) => builder.encryption(encryption),
        None => builder,
    })
}

/// A stack on raw IP at an address, with a shard for each runtime.
pub(crate) fn raw(opening: &Opening<'_>, address: impl Into<Address>) -> Result<Stack> {
    let options = RawOptions { packet_socket: opening.common.packet_socket, ..RawOptions::default() };
    builder(opening)?.raw_with(address, options, OutgoingPorts::default()).context("opening a raw IP socket")
}

/// Opens a stack on a UDP port, with one shard for each runtime.
pub(crate) fn udp(opening: &Opening<'_>, address: SocketAddr, remote_port: u16) -> Result<Stack> {
    builder(opening)?
        .remote_encapsulation_port(remote_port)
        .udp(address)
        .with_context(|| format!("opening a UDP socket at {address}"))
}

/// Returns the runtime that drives an association.
pub(crate) fn runtime_of(runtimes: &[Handle], association: &Association) -> Handle {
    runtimes.get(association.id().shard()).cloned().unwrap_or_else(Handle::current)
}

/// Returns the kernel's congestion controls, for error messages.
fn controllers() -> String {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    std::fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |names| names.trim().to_owned())
}

/// Opens a TCP socket. With `may_lack`, a congestion control that the kernel lacks is not an error.
fn tcp_socket(common: &Common, address: SocketAddr, may_lack: bool) -> Result<TcpSocket> {
    let socket = TcpSocket::from_std_stream(socket_for(address, socket2::Type::STREAM)?.into());
    // Set before connecting or listening, because the window scale depends on it.
    if let Some(bytes) = common.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = common.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(name) = common.tuning.congestion.and_then(Congestion::of_tcp)
        && let Err(error) = set_tcp_congestion(&socket, name)
    {
        // A server may be used for SCTP only, which has this congestion control.
        ensure!(may_lack, "TCP's congestion control {name:?}: {error}; the kernel has: {}", controllers());
        tracing::warn!(name, %error, "setting TCP's congestion control failed; the system's default is used");
    }
    Ok(socket)
}

pub(crate) async fn tcp_connect(common: &Common, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = tcp_socket(common, address, false).map_err(std::io::Error::other)?;
    socket.connect(address).await
}

pub(crate) fn tcp_listen(common: &Common, address: SocketAddr) -> Result<TcpListener> {
    let listen = || {
        // Accepted connections inherit the settings of the listening socket.
        let socket = tcp_socket(common, address, true)?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        anyhow::Ok(socket.listen(BACKLOG)?)
    };
    listen().with_context(|| format!("listening on TCP {address}: is the port in use? (--port)"))
}
