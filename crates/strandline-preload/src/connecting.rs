//! `connect` for TCP sockets whose destination is the gateway's to reach.

use std::net::SocketAddr;

use libc::{c_int, sockaddr, socklen_t};

use crate::request::{self, PADDING, REQUEST};
use crate::settings::{self, Settings};
use crate::socket::{Phase, Socket};
use crate::system::{self, Raw};

/// Time for the gateway's kernel to accept a connection, in milliseconds.
const LOCAL_MS: i64 = 3000;
/// A send buffer that takes the padding, with what the kernel counts for each packet.
const BUFFER_MIN: c_int = 64 << 10;
/// TCP_FASTOPEN_CONNECT of linux/tcp.h.
const TCP_FASTOPEN_CONNECT: c_int = 30;

static ZEROS: [u8; PADDING] = [0; PADDING];

/// What is to be reported to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The system's function is to be called, with the program's arguments.
    NotMine,
    Done,
    /// It failed with this errno.
    Failed(c_int),
}

/// Connects a socket by the gateway, or reports how far that is.
pub(crate) fn connect(socket: Socket, to: SocketAddr, settings: &Settings) -> Outcome {
    if settings.is_direct(to) || !socket.is_tcp(to.is_ipv6()) {
        return Outcome::NotMine;
    }
    if socket.peer().map(crate::canonical) == Some(settings.gateway) {
        return again(socket, settings);
    }
    // One that connects directly, or has: a second call reports how far it is, whatever address it is given.
    if socket.phase() != Phase::Closed || socket.has_interface() {
        return Outcome::NotMine;
    }
    let found = socket.number(libc::SOL_SOCKET, libc::SO_ERROR).unwrap_or(0);
    if found != 0 {
        return failed(socket, found, settings);
    }
    socket.unmark();
    match begin(socket, to, settings) {
        Ok(()) if socket.is_nonblocking() => Outcome::Failed(libc::EINPROGRESS),
        Ok(()) => wait(socket, libc::EINPROGRESS, settings),
        Err(Refusal::Reported(error)) => Outcome::Failed(error),
        Err(Refusal::NoGateway(_)) if settings.has_fallback => Outcome::NotMine,
        Err(Refusal::NoGateway(error)) => Outcome::Failed(error),
    }
}

/// Refuses a connection that may be the gateway's to reach, if there are settings that are not understood.
pub(crate) fn refuse_unknown(socket: Socket, to: SocketAddr) -> Outcome {
    let Some(takes_loopback) = settings::unknown() else { return Outcome::NotMine };
    let is_direct = settings::is_always_direct(to, takes_loopback);
    if is_direct || !socket.is_tcp(to.is_ipv6()) || socket.phase() != Phase::Closed {
        return Outcome::NotMine;
    }
    Outcome::Failed(libc::ECONNREFUSED)
}

/// Why a connection was not begun.
enum Refusal {
    /// The gateway can't be reached from this socket. The socket is as it was.
    NoGateway(c_int),
    /// Connecting would have failed without the gateway, too.
    Reported(c_int),
}

/// Connects to the gateway, and sends the request and the padding.
fn begin(socket: Socket, to: SocketAddr, settings: &Settings) -> Result<(), Refusal> {
    let is_ipv6 = to.is_ipv6();
    prepare(socket, is_ipv6, settings).map_err(Refusal::NoGateway)?;
    let gateway = Raw::of(settings.gateway, is_ipv6);
    // SAFETY: the address is whole.
    let result = unsafe { system::real_connect(socket.0, gateway.as_ptr(), gateway.len) };
    let error = if result == 0 { 0 } else { system::errno() };
    let result = match error {
        0 => Ok(()),
        libc::EINPROGRESS | libc::EINTR => established(socket),
        libc::ECONNREFUSED | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ETIMEDOUT | libc::EACCES => {
            Err(error)
        }
        other => return Err(Refusal::Reported(other)),
    };
    result.and_then(|()| say(socket, to, settings)).map_err(|error| {
        if error == libc::EISCONN {
            return Refusal::Reported(error);
        }
        dissolve(socket);
        Refusal::NoGateway(error)
    })
}

/// Makes a socket fit for a connection to the gateway.
fn prepare(socket: Socket, is_ipv6: bool, settings: &Settings) -> Result<(), c_int> {
    if settings.gateway.is_ipv6() && !is_ipv6 {
        return Err(libc::ENETUNREACH);
    }
    if settings.gateway.is_ipv4() && is_ipv6 {
        let is_only = socket.number(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) == Some(1);
        if is_only && socket.set_number(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0).is_err() {
            return Err(libc::ENETUNREACH);
        }
        // An address of IPv6 has no way to one of IPv4.
        let is_bound =
            |local: SocketAddr| local.ip().to_canonical().is_ipv6() && !local.ip().is_unspecified();
        if socket.local().is_some_and(is_bound) {
            return Err(libc::ENETUNREACH);
        }
    }
    // The request is the first data, and it is said here.
    if socket.number(libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT) == Some(1) {
        socket.set_number(libc::IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0)?;
    }
    Ok(())
}

/// Waits until the kernel of the gateway has accepted, which it does on the same host at once.
fn established(socket: Socket) -> Result<(), c_int> {
    if system::wait_for(socket.0, libc::POLLOUT, LOCAL_MS) == 0 {
        return Err(libc::ETIMEDOUT);
    }
    match socket.number(libc::SOL_SOCKET, libc::SO_ERROR) {
        Some(0) => Ok(()),
        other => Err(other.unwrap_or(libc::EBADF)),
    }
}

/// Sends the request and the padding, and marks the socket.
fn say(socket: Socket, to: SocketAddr, settings: &Settings) -> Result<(), c_int> {
    // Another thread may have connected it elsewhere.
    if socket.peer().map(crate::canonical) != Some(settings.gateway) {
        return Err(libc::EISCONN);
    }
    let request = request::connect(to, settings.key_of(socket).ok_or(libc::ENOPROTOOPT)?);
    let buffer = socket.number(libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap_or(BUFFER_MIN);
    // Only a program's own setting is so low once there is a connection.
    let is_small = buffer < BUFFER_MIN;
    if is_small {
        socket.set_number(libc::SOL_SOCKET, libc::SO_SNDBUF, BUFFER_MIN)?;
    }
    // MSG_EOR: nothing is added to the last packet of it, so that what follows waits until it can be sent.
    let sent = system::send_at_once(socket.0, &[&request, &ZEROS], libc::MSG_EOR);
    let marked = socket.mark();
    if is_small {
        // The kernel doubles what it is given.
        socket.set_number(libc::SOL_SOCKET, libc::SO_SNDBUF, buffer / 2)?;
    }
    match sent? {
        sent if sent == REQUEST + PADDING => marked,
        _ => Err(libc::ENOBUFS),
    }
}

/// Waits for the outcome. `late` is the error if SO_SNDTIMEO passes before.
fn wait(socket: Socket, late: c_int, settings: &Settings) -> Outcome {
    match system::send_urgent(socket.0) {
        Ok(()) => {
            socket.unmark();
            Outcome::Done
        }
        Err(libc::EAGAIN) => Outcome::Failed(late),
        Err(libc::EINTR) => Outcome::Failed(libc::EINTR),
        Err(error) => failed(socket, error, settings),
    }
}

/// Reports how far a connection is that has begun.
fn again(socket: Socket, settings: &Settings) -> Outcome {
    if socket.is_marked() && socket.phase() == Phase::Pending {
        return match socket.is_nonblocking() {
            true => Outcome::Failed(libc::EALREADY),
            false => wait(socket, libc::EALREADY, settings),
        };
    }
    socket.unmark();
    let gateway = Raw::of(settings.gateway, socket.is_ipv6());
    // The first call after a connection was established succeeds, the next ones find that there is one.
    // SAFETY: the address is whole.
    match unsafe { system::real_connect(socket.0, gateway.as_ptr(), gateway.len) } {
        0 => Outcome::Done,
        _ => Outcome::Failed(system::errno()),
    }
}

/// Makes a socket whose connection failed as new, and finds the cause.
fn failed(socket: Socket, found: c_int, settings: &Settings) -> Outcome {
    let error = if socket.is_marked() { cause(socket, found, settings) } else { found };
    dissolve(socket);
    Outcome::Failed(error)
}

/// Returns the cause of a failure that the kernel reports as a reset.
fn cause(socket: Socket, found: c_int, settings: &Settings) -> c_int {
    if !matches!(found, libc::ECONNRESET | libc::EPIPE) {
        return found;
    }
    request::send(settings.gateway, settings.key_of(socket)).and_then(|answer| answer.error).unwrap_or(found)
}

fn dissolve(socket: Socket) {
    socket.unmark();
    // What can't be dissolved is reported by the next call for the socket.
    let _ = system::connect_at_kernel(socket.0, &Raw::unspecified());
}

/// Returns what SO_ERROR is, where the kernel has said `found`.
pub(crate) fn error(socket: Socket, found: c_int, settings: &Settings) -> c_int {
    if !socket.is_marked() || (found == 0 && socket.phase() == Phase::Pending) {
        return found;
    }
    let error = cause(socket, found, settings);
    socket.unmark();
    error
}

/// Removes the mark of a socket whose connection the program dissolves.
pub(crate) fn forget(socket: Socket, address: *const sockaddr, len: socklen_t) {
    if system::family_of(address, len) == Some(libc::AF_UNSPEC as libc::sa_family_t) {
        socket.unmark();
    }
}
