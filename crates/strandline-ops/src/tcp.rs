//! The kernel's figures of a TCP connection (`TCP_INFO`, tcp(7)).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Figures of a TCP connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpFigures {
    /// Smoothed round-trip time; `None` before the first measurement.
    pub rtt: Option<Duration>,
    /// Segments that were retransmitted since the start.
    pub retransmitted: u32,
    /// The latest rate at which data was delivered to the peer, in bytes per second; 0 if it is unknown.
    pub delivery_rate: u64,
    /// Whether the peer has not acknowledged all that was written, an end included.
    pub is_sending: bool,
    /// Bytes that the peer has acknowledged, and bytes received in order, since the start.
    pub bytes_acked: u64,
    /// See `bytes_acked`.
    pub bytes_received: u64,
    /// The time since data was received, or since the connection was established if none was.
    pub silent: Duration,
}

/// Returns the figures of a connection.
///
/// # Errors
/// If the socket is not one of TCP.
pub fn tcp_figures(connection: &impl AsFd) -> io::Result<TcpFigures> {
    let mut info = [0_u8; 256];
    let mut len = info.len() as libc::socklen_t;
    let fd = connection.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while it is borrowed, and the kernel writes at most `len` bytes of the buffer.
    let result = unsafe {
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // Older kernels have fewer fields.
    let info = info.get(..len as usize).unwrap_or_default();
    Ok(TcpFigures {
        rtt: Some(u32_at(info, 68)).filter(|rtt| *rtt > 0).map(|rtt| Duration::from_micros(rtt.into())),
        retransmitted: u32_at(info, 100),
        delivery_rate: u64_at(info, 160),
        // Segments without an acknowledgement, and bytes that were never sent.
        is_sending: u32_at(info, 24) > 0 || u32_at(info, 144) > 0,
        bytes_acked: u64_at(info, 120),
        bytes_received: u64_at(info, 128),
        silent: Duration::from_millis(u32_at(info, 52).into()),
    })
}

/// Returns whether nothing has been received on a connection, which was established so long ago. It may have waited to
/// be accepted meanwhile.
#[must_use]
pub fn is_silent_since(connection: &impl AsFd, age: Duration) -> bool {
    tcp_figures(connection).is_ok_and(|figures| figures.bytes_received == 0 && figures.silent >= age)
}

fn u32_at(info: &[u8], offset: usize) -> u32 {
    info.get(offset..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn u64_at(info: &[u8], offset: usize) -> u64 {
    info.get(offset..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests;
