//! Associations and connections from the client's point of view.

use std::cell::Cell;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use strandline::{Address, Association, OutgoingPorts, Peer, RawOptions, SendInfo, Stack};
use tokio::net::{TcpSocket, TcpStream};

use super::order::ClientPart;
use super::server::{none_if_full, write_all};
use super::{LOCAL_PORTS, stack_builder};

/// SCTP ports of each client address on raw IP: half of all.
const RAW_PORTS: RangeInclusive<u16> = 32_768..=65_535;

/// One of the client's addresses, with the sockets needed to set up sessions from there.
#[derive(Debug)]
pub(super) enum Host {
    Sctp { stack: Stack, peer: Peer },
    Tcp { local: IpAddr, port: Cell<u16>, server: SocketAddr },
}

impl Host {
    pub(super) fn new(part: &ClientPart, local: IpAddr) -> Result<Self> {
        if !part.transport.is_sctp() {
            let port = Cell::new(LOCAL_PORTS.0);
            return Ok(Self::Tcp { local, port, server: part.server });
        }
        let builder = stack_builder(part.heartbeat_s);
        let peer = Peer::new(Address::of(part.server), part.port);
        if part.server.port() == 0 {
            let outgoing = OutgoingPorts { count: 1 << 15, within: RAW_PORTS };
            let stack = builder.raw_with(local, RawOptions::default(), outgoing);
            let stack = stack.with_context(|| format!("opening a raw IP socket at {local}"))?;
            return Ok(Self::Sctp { stack, peer });
        }
        let stack = builder.udp((local, 0).into());
        let stack = stack.with_context(|| format!("opening a UDP socket at {local}"))?;
        Ok(Self::Sctp { stack, peer: peer.encapsulation_port(part.server.port()) })
    }

    pub(super) fn stack(&self) -> Option<&Stack> {
        match self {
            Self::Sctp { stack, .. } => Some(stack),
            Self::Tcp { .. } => None,
        }
    }

    /// Sets up a session, and returns it once it is established.
    pub(super) async fn connect(&self) -> Result<Session> {
        match self {
            Self::Sctp { stack, peer } => {
                let association = Association::start(stack, peer, 0, None)?;
                association.established().await?;
                Ok(Session::Sctp(association))
            }
            Self::Tcp { local, port, server } => {
                let stream = bound(*local, port)?.connect(*server).await?;
                stream.set_nodelay(true)?;
                Ok(Session::Tcp(Rc::new(stream)))
            }
        }
    }
}

/// Returns a socket on the next free port of an address.
///
/// If the kernel chooses the port, this takes longer the more connections there are, because it checks the
/// ports of all addresses.
fn bound(local: IpAddr, port: &Cell<u16>) -> Result<TcpSocket> {
    let (first, last) = LOCAL_PORTS;
    for _ in first..=last {
        let this = port.get();
        port.set(if this < last { this + 1 } else { first });
        let socket = if local.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        match socket.bind((local, this).into()) {
            Ok(()) => return Ok(socket),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).with_context(|| format!("choosing a port at {local}")),
        }
    }
    bail!("all ports of {local} are in use")
}

/// An association or a connection. Clones refer to the same one.
#[derive(Debug, Clone)]
pub(super) enum Session {
    Sctp(Association),
    Tcp(Rc<TcpStream>),
}

impl Session {
    /// Returns the congestion control of a TCP connection, as the kernel reports it.
    pub(super) fn tcp_congestion(&self) -> std::io::Result<Option<String>> {
        match self {
            Self::Sctp(_) => Ok(None),
            Self::Tcp(stream) => Ok(Some(rustix::net::sockopt::tcp_congestion(&**stream)?)),
        }
    }

    /// Sends a message and waits until as many bytes have come back.
    pub(super) async fn transact(&self, message: &Bytes) -> Result<()> {
        let mut received = 0;
        match self {
            Self::Sctp(association) => {
                association.send_bytes(message.clone(), SendInfo::default()).await?;
                while received < message.len() {
                    let Some(part) = association.recv().await? else { bail!("the server shut down") };
                    received += part.data.len();
                }
            }
            Self::Tcp(stream) => {
                write_all(stream, message).await?;
                while received < message.len() {
                    stream.readable().await?;
                    let mut buffer = [0; 4096];
                    match stream.try_read(&mut buffer) {
                        Ok(0) => bail!("the server closed the connection"),
                        Ok(count) => received += count,
                        Err(error) => received += none_if_full(error)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the session at once and releases everything.
    pub(super) fn end(self) -> Result<()> {
        match self {
            Self::Sctp(association) => association.abort("measured"),
            Self::Tcp(stream) => stream.set_zero_linger()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
