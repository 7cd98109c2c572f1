//! HTTP for those who look after the server: short requests, answered on the shard's own thread, so that nothing waits for a
//! lock.

mod answer;
pub(super) mod client;
mod request;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub(super) use answer::Answer;
pub(super) use request::Request;

/// A request that is longer, or takes longer to come, is nobody's who looks after the server.
const REQUEST_MAX: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests that are answered at once.
const AT_ONCE: usize = 16;

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

/// Listens there and answers until the runtime ends. Returns the address.
///
/// # Errors
/// If it can't listen.
pub(super) async fn listen_for(
    what: &str,
    address: SocketAddr,
    handler: Handler,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("{what} at {address}: is the port taken?"))?;
    let address = listener.local_addr()?;
    tokio::task::spawn_local(serve(listener, handler));
    Ok(address)
}

/// Answers until the task is ended.
async fn serve(listener: TcpListener, handler: Handler) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let handler = Rc::clone(&handler);
                tokio::task::spawn_local(async move {
                    // Who goes away early doesn't want it.
                    let _ = answer(stream, &handler).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection of HTTP");
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}

/// Reading and writing may take so long; whoever makes an answer says itself how long that may take.
async fn answer(mut stream: TcpStream, handler: &Handler) -> io::Result<()> {
    let (reply, is_head) = match tokio::time::timeout(PATIENCE, read(&mut stream)).await?? {
        Some(Ok((request, is_head))) => (handler(&request), is_head),
        Some(Err(refusal)) => (refusal.into(), false),
        None => return Ok(()),
    };
    let answer = match reply {
        Reply::Now(answer) => answer,
        Reply::Later(answer) => answer.await,
    };
    let write = async {
        stream.write_all(answer.head().as_bytes()).await?;
        if !is_head {
            stream.write_all(answer.body().as_bytes()).await?;
        }
        stream.shutdown().await
    };
    tokio::time::timeout(PATIENCE, write).await?
}

/// A request, and whether it is a HEAD; or why it is refused. `None` if nothing comes.
async fn read(stream: &mut TcpStream) -> io::Result<Option<Result<(Request, bool), Answer>>> {
    let mut bytes = Vec::new();
    loop {
        match Request::read(&bytes) {
            Ok(Some(read)) => return Ok(Some(Ok(read))),
            Ok(None) if bytes.len() > REQUEST_MAX => {
                return Ok(Some(Err(Answer::error(431, "the headers are too large", ""))));
            }
            Ok(None) => {}
            Err(what) => return Ok(Some(Err(Answer::error(400, what, "")))),
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}
