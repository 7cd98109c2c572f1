//! Sockets of servers: of both IP versions at `[::]`, whatever net.ipv6.bindv6only says, and errors with advice.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

use socket2::{Domain, Socket, Type};

/// Connections that wait to be accepted: the kernel's default limit (net.core.somaxconn).
const BACKLOG: i32 = 4096;

/// Returns a socket for an address, which is not bound yet and does not block: of both IP versions if the address is
/// `[::]`, whatever net.ipv6.bindv6only says.
///
/// # Errors
/// If the system refuses.
pub fn socket_for(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    Ok(socket)
}

/// Listens on TCP at an address: of both IP versions if it is `[::]`. With `shares_port`, other sockets of this
/// user may listen there, too. The socket does not block.
///
/// # Errors
/// If the address can't be bound.
pub fn listen_tcp(address: SocketAddr, shares_port: bool) -> io::Result<TcpListener> {
    let socket = socket_for(address, Type::STREAM)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shares_port)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Binds a UDP socket to an address: of both IP versions if it is `[::]`. With `shares_port`, other sockets of
/// this user may be bound to it, too. The socket does not block.
///
/// # Errors
/// If the address can't be bound.
pub fn bind_udp(address: SocketAddr, shares_port: bool) -> io::Result<UdpSocket> {
    let socket = socket_for(address, Type::DGRAM)?;
    socket.set_reuse_port(shares_port)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Returns the advice for an error when an address is bound, with a colon before it; empty if there is none.
#[must_use]
pub fn bind_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ": is another server running there, or does another entry of this configuration use the address?"
        }
        io::ErrorKind::AddrNotAvailable => {
            ": this machine does not have the address; `ip address` lists those it has"
        }
        io::ErrorKind::PermissionDenied => ": ports below 1024 need CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

/// Returns an error with what was tried, such as `listening on TCP 192.0.2.1:80`, and what can be done about it. Its
/// source is the system's error.
#[must_use]
pub fn not_listening(what: &str, error: io::Error) -> anyhow::Error {
    let hint = bind_hint(&error);
    anyhow::Error::new(error).context(format!("{what}{hint}"))
}

#[cfg(test)]
mod tests;
