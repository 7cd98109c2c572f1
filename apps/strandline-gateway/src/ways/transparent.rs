//! Connections that the kernel hands over: their clients meant another destination.

use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::TcpStream;

use super::near::Near;
use crate::protocol::Destination;

/// Passes a connection that was redirected (nftables: `redirect`, `dnat`). The kernel knows where it was going.
pub(super) async fn redirected(tcp: TcpStream, near: Near, own: Option<SocketAddr>) {
    let socket = SockRef::from(&tcp);
    let is_ipv6 =
        matches!(tcp.local_addr(), Ok(SocketAddr::V6(address)) if address.ip().to_ipv4_mapped().is_none());
    let found = if is_ipv6 { socket.original_dst_v6() } else { socket.original_dst_v4() };
    let to = found.ok().and_then(|found| found.as_socket());
    pass("redirect", tcp, near, to, own).await;
}

/// Passes a connection that was diverted (nftables: `tproxy`): its local address is the destination.
pub(super) async fn diverted(tcp: TcpStream, near: Near, own: Option<SocketAddr>) {
    let to = tcp.local_addr().ok();
    pass("tproxy", tcp, near, to, own).await;
}

async fn pass(
    way: &'static str,
    tcp: TcpStream,
    near: Near,
    to: Option<SocketAddr>,
    own: Option<SocketAddr>,
) {
    // One that was addressed to the gateway itself would come back for ever.
    match to.filter(|to| Some(*to) != own && to.port() != 0) {
        Some(to) => near.pass(way, tcp, Destination::of(to)).await,
        None => {
            tracing::warn!(client = %near.client, "no destination: the connection was not redirected by nftables")
        }
    }
}
