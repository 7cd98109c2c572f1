//! Connections that the kernel hands over: their clients meant another destination.

use std::net::SocketAddr;

use socket2::SockRef;
use tokio::net::TcpStream;

use super::near::Near;
use crate::local_addresses::is_own;
use crate::protocol::Destination;
use crate::relay::reset;

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

/// Returns whether a connection to this destination would come to the gateway's own socket again, for ever.
fn is_loop(to: SocketAddr, own: SocketAddr) -> bool {
    if to.port() != own.port() {
        return false;
    }
    match own.ip().is_unspecified() {
        // Any of this host's addresses.
        true => to.ip().is_loopback() || is_own(to),
        false => to.ip().to_canonical() == own.ip().to_canonical(),
    }
}

async fn pass(
    listener: &'static str,
    tcp: TcpStream,
    near: Near,
    to: Option<SocketAddr>,
    own: Option<SocketAddr>,
) {
    match to.filter(|to| to.port() != 0 && !own.is_some_and(|own| is_loop(*to, own))) {
        Some(to) => near.pass(listener, tcp, Destination::of(to)).await,
        None => {
            near.gateway.warnings.not_redirected(near.client);
            // Counted before the client learns of it.
            near.note_malformed(listener);
            reset(tcp);
        }
    }
}

#[cfg(test)]
mod tests;
