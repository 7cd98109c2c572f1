//! What the reference programs share: the report, processor time, and datagrams in batches.

pub mod batch;
mod report;

pub use report::{Report, Stopwatch};

use std::net::SocketAddr;

use anyhow::Context;
use socket2::{Domain, Socket, Type};

/// Bytes of the socket buffers: what strandline's UDP sockets have.
const BUFFER_BYTES: usize = 4 << 20;

/// A UDP socket with large buffers.
pub fn udp(address: SocketAddr) -> anyhow::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    enlarge(&socket)?;
    socket.bind(&address.into()).with_context(|| format!("binding UDP {address}"))?;
    Ok(socket)
}

/// As root beyond the system's limit, else up to it.
pub fn enlarge(socket: &Socket) -> anyhow::Result<()> {
    use nix::sys::socket::{setsockopt, sockopt};
    if setsockopt(socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
        socket.set_recv_buffer_size(BUFFER_BYTES)?;
    }
    if setsockopt(socket, sockopt::SndBufForce, &BUFFER_BYTES).is_err() {
        socket.set_send_buffer_size(BUFFER_BYTES)?;
    }
    Ok(())
}

/// The content of a message: it doesn't matter, but zeros may be treated in ways of their own.
pub fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| i as u8).collect()
}
