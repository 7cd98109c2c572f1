//! Opens stacks and sockets as the arguments of either side say.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result};
use strandline::Stack;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::args::Common;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A stack on raw IP at an address.
pub(crate) fn raw(common: &Common, address: IpAddr, nodelay: bool) -> Result<Stack> {
    let builder = Stack::builder().association(common.association(nodelay));
    builder.raw(address).context("opening raw IP")
}

/// A stack on a UDP socket.
pub(crate) fn udp(common: &Common, address: SocketAddr, remote_port: u16, nodelay: bool) -> Result<Stack> {
    let builder =
        Stack::builder().association(common.association(nodelay)).remote_encapsulation_port(remote_port);
    builder.udp(address).with_context(|| format!("opening UDP {address}"))
}

fn tcp_socket(common: &Common, address: SocketAddr) -> Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Before it connects or listens: the window scale depends on it.
    if let Some(bytes) = common.receive_buffer {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = common.send_buffer {
        socket.set_send_buffer_size(bytes)?;
    }
    Ok(socket)
}

pub(crate) async fn tcp_connect(common: &Common, address: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = tcp_socket(common, address).map_err(std::io::Error::other)?;
    socket.connect(address).await
}

pub(crate) fn tcp_listen(common: &Common, address: SocketAddr) -> Result<TcpListener> {
    let listen = || {
        let socket = tcp_socket(common, address)?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        anyhow::Ok(socket.listen(BACKLOG)?)
    };
    listen()
        .with_context(|| format!("listening on TCP {address}: does another program have the port? (--port)"))
}
