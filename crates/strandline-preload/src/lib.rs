//! The library that `strandline run` loads into an unmodified program (LD_PRELOAD): its TCP connections go
//! through a gateway.
//!
//! It takes the place of `connect`, `getpeername` and, for SO_ERROR, `getsockopt`. It keeps no table of
//! descriptors, allocates nothing and takes no lock after it was loaded, so that `fork`, `exec`, `dup`,
//! threads and signal handlers need no thought: what must be remembered of a socket is in the socket, or at
//! the gateway, by a number made of the socket's cookie and a secret.
//!
//! # How a program learns of success
//!
//! A program polls for POLLOUT, or waits in `connect`. So its socket, which is connected to the gateway at
//! once, must not become writable before the gateway has a connection to the destination. Behind the request
//! go some kilobytes of padding, which the gateway's tiny receive window has no room for, and
//! TCP_NOTSENT_LOWAT is so low that a socket with unsent bytes is not writable. When the destination has
//! answered, the gateway opens the window and reads the padding, and the kernel reports POLLOUT. A failure is
//! a reset, and the gateway is asked for the cause.
//!
//! A blocking `connect` waits by sending one byte of urgent data, which waits as `connect` does, for signals
//! (SA_RESTART), SO_SNDTIMEO and cancellation, and which is not part of the data, whatever interrupts it.
//!
//! docs/decisions/0148-connect-by-preload.md has the reasons.
#![allow(unsafe_code)]

mod connecting;
mod request;
mod settings;
mod socket;
mod system;

use std::net::SocketAddr;

use libc::{c_int, c_void, sockaddr, socklen_t};

use connecting::Outcome;
use settings::settings;
use socket::{Phase, Socket};
use system::{errno, set_errno};

/// Takes the place of connect(2).
///
/// # Safety
/// As of connect(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let before = errno();
    let destination = system::read_address(address, len);
    let outcome = match (settings(), destination) {
        (Some(settings), Some(destination)) => connecting::connect(Socket(fd), destination, settings),
        (None, Some(destination)) => connecting::refuse_unknown(Socket(fd), destination),
        _ => {
            connecting::forget(Socket(fd), address, len);
            Outcome::NotMine
        }
    };
    match outcome {
        // SAFETY: the caller's promise.
        Outcome::NotMine => unsafe { system::real_connect(fd, address, len) },
        Outcome::Done => {
            set_errno(before);
            0
        }
        Outcome::Failed(error) => {
            set_errno(error);
            -1
        }
    }
}

/// Takes the place of getpeername(2).
///
/// # Safety
/// As of getpeername(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let before = errno();
    let socket = Socket(fd);
    let settings = settings().filter(|settings| socket.peer().map(canonical) == Some(settings.gateway));
    let is_pending = settings.is_some() && socket.phase() == Phase::Pending;
    let room = if settings.is_some() { system::room_at(len) } else { None };
    set_errno(before);
    if is_pending {
        set_errno(libc::ENOTCONN);
        return -1;
    }
    // Wrong pointers are found by the kernel.
    // SAFETY: the caller's promise.
    let result = unsafe { system::real_getpeername(fd, address, len) };
    let (0, Some(settings), Some(room)) = (result, settings, room) else { return result };
    let found = request::send(settings.gateway, settings.key_of(socket));
    if let Some(destination) = found.and_then(|answer| answer.destination) {
        // SAFETY: the call has succeeded with both pointers.
        unsafe { system::write_address(destination, socket.is_ipv6(), (address, room), len) };
    }
    set_errno(before);
    result
}

/// Takes the place of getsockopt(2).
///
/// # Safety
/// As of getsockopt(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let before = errno();
    // SAFETY: the caller's promise.
    let result = unsafe { system::real_getsockopt(fd, level, name, value, len) };
    if result != 0 || (level, name) != (libc::SOL_SOCKET, libc::SO_ERROR) {
        return result;
    }
    // SAFETY: the call has succeeded, so both point to what they should.
    let room = unsafe { *len } as usize;
    if let Some(settings) = settings().filter(|_| room == size_of::<c_int>()) {
        // SAFETY: the kernel has just written this many bytes there.
        let found = unsafe { value.cast::<c_int>().read_unaligned() };
        let error = connecting::error(Socket(fd), found, settings);
        // SAFETY: as above.
        unsafe { value.cast::<c_int>().write_unaligned(error) };
        set_errno(before);
    }
    0
}

/// Returns an address as that of IPv4, if it is one that is mapped.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
