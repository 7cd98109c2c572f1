//! The receive window of TCP connections: nearly shut at first, so that a client's bytes wait at the client,
//! and opened when it pleases.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Receive buffer of a connection from the moment when its window opens, in bytes; the kernel enlarges it as
/// it does any other.
const OPENED: libc::c_int = 64 << 10;
/// TCP_WINDOW_CLAMP beyond any window.
const UNCLAMPED: libc::c_int = 1 << 30;
/// Lets the kernel choose the buffers again (linux/sock.h; Linux 5.14).
const BUF_UNLOCKED: libc::c_int = 0;

/// Makes the windows of the connections that a socket will accept as small as they can be: under 1 KiB. Call
/// it before the socket listens.
///
/// # Errors
/// If the socket is not one of TCP.
pub fn narrow_window(listener: &impl AsFd) -> io::Result<()> {
    set(listener, libc::SOL_SOCKET, libc::SO_RCVBUF, 1)?;
    unlock(listener)
}

/// Opens the window of a connection that was accepted with a [narrow](narrow_window) one.
///
/// # Errors
/// If the socket is not one of TCP.
pub fn open_window(connection: &impl AsFd) -> io::Result<()> {
    set(connection, libc::SOL_SOCKET, libc::SO_RCVBUF, OPENED)?;
    unlock(connection)?;
    set(connection, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, UNCLAMPED)
}

/// Lets the kernel choose the receive buffer. A kernel that can't keeps windows below 64 KiB.
fn unlock(socket: &impl AsFd) -> io::Result<()> {
    match set(socket, libc::SOL_SOCKET, libc::SO_BUF_LOCK, BUF_UNLOCKED) {
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        other => other,
    }
}

fn set(socket: &impl AsFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and the kernel reads `len` bytes of the number.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
