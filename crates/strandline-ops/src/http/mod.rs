//! HTTP for administration and metrics, based on hyper. It runs on the server's own thread, so a handler need
//! not be `Send`.
//!
//! Requests must name the server in Host, and cross-origin requests are refused. The connections are limited
//! in total and for each source; those without a request make room for others.

mod answer;
pub mod client;
pub(crate) mod hosts;
mod places;
pub(crate) mod request;
mod serve;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::{listen_tcp, not_listening};
pub use answer::Answer;
use hosts::Hosts;
pub use request::{Request, escape};

/// A response that is available now or later.
pub enum Reply {
    /// A response that is available.
    Now(Answer),
    /// A response that comes later.
    Later(Pin<Box<dyn Future<Output = Answer>>>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Now(answer)
    }
}

/// Handles a request. HEAD is passed as GET.
pub type Handler = Rc<dyn Fn(&Request) -> Reply>;

/// Returns a warning if other machines can reach pages at this address, which have no TLS.
#[must_use]
pub fn exposure(address: SocketAddr) -> Option<String> {
    (!address.ip().to_canonical().is_loopback()).then(|| {
        format!(
            "{address} is reachable from other machines without TLS: bind to 127.0.0.1, or allow access only through a proxy with TLS"
        )
    })
}

/// Listens and serves until the runtime ends, on a task of the current [`LocalSet`](tokio::task::LocalSet).
/// `what` is the table of the configuration, for errors and hints: `metrics` or `admin`. `names` are the host
/// names by which requests may address the server, besides its addresses and `localhost`. Returns the
/// address.
///
/// # Errors
/// Returns an error if it can't listen.
pub async fn listen_for(
    what: &str,
    address: SocketAddr,
    names: &[String],
    handler: Handler,
) -> anyhow::Result<SocketAddr> {
    let listener = bind_for(what, address)?;
    let address = listener.local_addr()?;
    serve_at(what, listener, names, handler)?;
    Ok(address)
}

/// Listens as [`listen_for`] does, without serving yet.
///
/// # Errors
/// Returns an error if it can't listen.
pub fn bind_for(what: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    listen_tcp(address, false)
        .and_then(TcpListener::from_std)
        .map_err(|error| not_listening(&format!("listening for {what} on TCP {address}"), error))
}

/// Serves at a listener as [`listen_for`] does. Aborting the returned task ends the listener; requests that
/// it has accepted are still answered.
///
/// # Errors
/// Returns an error if the socket has no address.
pub fn serve_at(
    what: &str,
    listener: TcpListener,
    names: &[String],
    handler: Handler,
) -> io::Result<AbortHandle> {
    let hosts = Hosts::new(what, listener.local_addr()?.ip(), names);
    Ok(tokio::task::spawn_local(serve::serve(listener, Rc::new(hosts), handler)).abort_handle())
}
