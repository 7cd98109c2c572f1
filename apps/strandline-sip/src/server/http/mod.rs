//! HTTP for administration and metrics, based on hyper. It runs on the shard's own thread, so nothing waits
//! for a lock.

mod answer;
pub(super) mod client;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod hosts;
mod places;
mod request;
mod serve;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;

use tokio::net::TcpListener;

use super::hints;
pub(super) use answer::Answer;
use hosts::Hosts;
pub(super) use request::Request;

/// A response that is available now or later.
pub(super) enum Reply {
    Now(Answer),
    Later(Pin<Box<dyn Future<Output = Answer>>>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Now(answer)
    }
}

/// Handles a request. HEAD is passed as GET.
pub(super) type Handler = Rc<dyn Fn(&Request) -> Reply>;

/// Listens and serves until the runtime ends. `names` are the host names by which requests may address the
/// server, besides its addresses and `localhost`. Returns the address.
///
/// # Errors
/// Returns an error if it can't listen.
pub(super) async fn listen_for(
    what: &str,
    address: SocketAddr,
    names: &[String],
    handler: Handler,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        let hint = hints::listening(&error);
        anyhow::Error::new(error).context(format!("listening for {what} on TCP {address}{hint}"))
    })?;
    let address = listener.local_addr()?;
    let hosts = Hosts::new(what, address.ip(), names);
    tokio::task::spawn_local(serve::serve(listener, Rc::new(hosts), handler));
    Ok(address)
}
