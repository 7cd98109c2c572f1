//! HTTP for those who look after the server: hyper speaks it, on the shard's own thread, so that nothing waits for a lock.

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

/// An answer, at once or when something is done.
pub(super) enum Reply {
    Now(Answer),
    Later(Pin<Box<dyn Future<Output = Answer>>>),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Now(answer)
    }
}

/// Answers a request. HEAD comes as a GET.
pub(super) type Handler = Rc<dyn Fn(&Request) -> Reply>;

/// Listens there and answers until the runtime ends. `names` are those that a request may address the server by, beside its
/// addresses and `localhost`. Returns the address.
///
/// # Errors
/// If it can't listen.
pub(super) async fn listen_for(
    what: &str,
    address: SocketAddr,
    names: &[String],
    handler: Handler,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        let hint = hints::listening(&error);
        anyhow::Error::new(error).context(format!("listening for {what} on tcp {address}{hint}"))
    })?;
    let address = listener.local_addr()?;
    let hosts = Hosts::new(what, address.ip(), names);
    tokio::task::spawn_local(serve::serve(listener, Rc::new(hosts), handler));
    Ok(address)
}
