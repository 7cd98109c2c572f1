//! Connections to destinations: as the rules allow them, and with the reason if there is none.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::{timeout, timeout_at};

use crate::clock::now;
use crate::local_addresses::is_own;
use crate::lookups::Lookups;
use crate::protocol::{Destination, Host, Reason};
use crate::rules::Rules;

/// Time for one of several addresses.
const ONE_OF_SEVERAL: Duration = Duration::from_secs(3);

/// Connects to a destination. Without rules, everything is allowed: the operator has named it. `mark` is that of the
/// connection's packets, which needs CAP_NET_ADMIN.
///
/// # Errors
/// The reason, and a text for logs.
pub(crate) async fn connect(
    to: &Destination,
    rules: Option<&Rules>,
    limit: Duration,
    mark: Option<u32>,
    lookups: &Lookups,
) -> Result<TcpStream, (Reason, String)> {
    let deadline = now() + limit;
    let late = |_| (Reason::TimedOut, format!("{to} did not answer within {} s", limit.as_secs_f64()));
    let addresses = timeout_at(deadline, resolve(to, rules, lookups)).await.map_err(late)??;
    let mut failed = None;
    let count = addresses.len();
    for (at, address) in addresses.into_iter().enumerate() {
        let one = async {
            let connecting = open(address, mark);
            if at + 1 == count { Ok(connecting.await) } else { timeout(ONE_OF_SEVERAL, connecting).await }
        };
        match timeout_at(deadline, one).await.map_err(late)? {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => failed = Some((Reason::of(&error), format!("{address}: {error}"))),
            Err(_) => failed = Some((Reason::TimedOut, format!("{address} did not answer"))),
        }
    }
    Err(failed.unwrap_or((Reason::NameNotFound, format!("{to} has no address"))))
}

async fn open(address: SocketAddr, mark: Option<u32>) -> io::Result<TcpStream> {
    let Some(mark) = mark else { return TcpStream::connect(address).await };
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    SockRef::from(&socket).set_mark(mark)?;
    socket.connect(address).await
}

/// Opens a UDP socket that is connected to a destination, by the first address that is allowed.
///
/// # Errors
/// The reason, and a text for logs.
pub(crate) async fn connect_udp(
    to: &Destination,
    rules: Option<&Rules>,
    limit: Duration,
    lookups: &Lookups,
) -> Result<UdpSocket, (Reason, String)> {
    let late = |_| (Reason::TimedOut, format!("{to}: resolving took too long"));
    let addresses = timeout(limit, resolve(to, rules, lookups)).await.map_err(late)??;
    let Some(address) = addresses.first() else {
        return Err((Reason::NameNotFound, format!("{to} has no address")));
    };
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let opened = async {
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        // Known from here on, so that the first datagram is not lost.
        socket.writable().await?;
        Ok(socket)
    };
    opened.await.map_err(|error: io::Error| (Reason::of(&error), format!("{address}: {error}")))
}

/// Returns the addresses that may be connected to, at least one.
async fn resolve(
    to: &Destination,
    rules: Option<&Rules>,
    lookups: &Lookups,
) -> Result<Vec<SocketAddr>, (Reason, String)> {
    let refused = || (Reason::NotAllowed, format!("{to} is not in the list of allowed destinations"));
    let found: Vec<SocketAddr> = match &to.host {
        Host::Ip(ip) => vec![SocketAddr::new(*ip, to.port)],
        Host::Name(name) => {
            if rules.is_some_and(|rules| !rules.may_resolve(name, to.port)) {
                return Err(refused());
            }
            match lookups.resolve(name, to.port).await {
                Ok(found) => found,
                Err(error) => return Err((Reason::NameNotFound, format!("{name}: {error}"))),
            }
        }
    };
    let is_found = !found.is_empty();
    let allowed = found
        .into_iter()
        .filter(|address| rules.is_none_or(|rules| rules.allow(to, *address, is_own(*address))));
    let allowed: Vec<SocketAddr> = allowed.collect();
    if allowed.is_empty() && is_found { Err(refused()) } else { Ok(allowed) }
}

/// Returns the address of this end of a connection, if the socket still has one.
pub(crate) fn local(tcp: &TcpStream) -> Option<SocketAddr> {
    let address: io::Result<SocketAddr> = tcp.local_addr();
    address.ok()
}
