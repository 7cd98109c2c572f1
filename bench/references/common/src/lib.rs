//! Shared parts of the reference programs: the report, processor time, and batches of datagrams.

pub mod batch;
mod report;

pub use report::{Report, Stopwatch};

use std::net::SocketAddr;

use anyhow::Context;
use socket2::{Domain, Socket, Type};

/// Size of the socket buffers in bytes, as of strandline's UDP sockets.
const BUFFER_BYTES: usize = 4 << 20;

/// Opens a UDP socket with large buffers.
pub fn udp(address: SocketAddr) -> anyhow::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    enlarge(&socket)?;
    socket.bind(&address.into()).with_context(|| format!("binding UDP {address}"))?;
    Ok(socket)
}

/// Enlarges the socket buffers: as root beyond the system's limit, otherwise up to it.
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

/// Returns the content of a message. It doesn't matter, but zeros may be treated specially.
pub fn content(size: usize) -> Vec<u8> {
    (0..size).map(|i| i as u8).collect()
}
