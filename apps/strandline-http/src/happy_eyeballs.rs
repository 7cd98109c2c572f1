//! Connections to hosts with several addresses (Happy Eyeballs, RFC 8305).

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hyper_util::client::legacy::connect::CaptureConnection;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Time after which the next address is tried beside those before it (section 5).
pub(crate) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Time that SCTP has once TCP is refused.
pub(crate) const SCTP_WAIT: Duration = Duration::from_secs(3);
/// Addresses of a host that are tried at most.
const ADDRESSES_MAX: usize = 16;

/// Returns the addresses of a host in the order in which they are to be tried: IPv6 and IPv4 in turn, beginning with
/// the kind that the system prefers (section 4).
///
/// # Errors
/// If the name can't be resolved or has no address.
pub(crate) async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<strandline::Address>() {
        return Ok(vec![address.with_port(port)]);
    }
    let found = tokio::net::lookup_host((bare, port)).await;
    let found = found.map_err(|error| no_address(host, &error.to_string()))?;
    let addresses = interleave(found.collect());
    if addresses.is_empty() { Err(no_address(host, "the name has none")) } else { Ok(addresses) }
}

fn no_address(host: &str, cause: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address: {cause}"))
}

/// Lets IPv6 and IPv4 alternate, beginning with the kind of the first one.
fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let begins_with_v4 = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, second): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv4() == begins_with_v4);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut ordered = Vec::new();
    while ordered.len() < ADDRESSES_MAX {
        let before = ordered.len();
        ordered.extend(first.next());
        ordered.extend(second.next());
        if ordered.len() == before {
            break;
        }
    }
    ordered.truncate(ADDRESSES_MAX);
    ordered
}

/// Waits until a request of hyper-util's client has a connection. If there is none, this never returns.
pub(crate) async fn connected(mut request: CaptureConnection) {
    drop(request.wait_for_connection_metadata().await);
}

/// Connects to a host over TCP.
///
/// # Errors
/// `NotFound` if the host has no address. Otherwise the error of the address that failed last.
pub(crate) async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let tcp = race(resolve(host, port).await?, TcpStream::connect).await?;
    // If it fails, the connection works all the same.
    let _ = tcp.set_nodelay(true);
    Ok(tcp)
}

/// Connects to the address that answers first. Each is tried 250 ms after the one before, or as soon as that
/// has failed. Attempts that are late are dropped.
///
/// # Errors
/// The error of the last one that failed, if all fail.
pub(crate) async fn race<T, F>(addresses: Vec<SocketAddr>, connect: impl Fn(SocketAddr) -> F) -> io::Result<T>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = VecDeque::from(addresses);
    let mut attempts = JoinSet::new();
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    loop {
        if let Some(address) = waiting.pop_front() {
            attempts.spawn(connect(address));
        }
        let has_more = !waiting.is_empty();
        loop {
            tokio::select! {
                biased;
                ended = attempts.join_next() => match ended {
                    Some(Ok(Ok(connected))) => return Ok(connected),
                    Some(Ok(Err(error))) => last = error,
                    Some(Err(error)) => last = io::Error::other(error),
                    None => return Err(last),
                },
                () = tokio::time::sleep(ATTEMPT_DELAY), if has_more => {}
            }
            if has_more {
                break;
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
