//! HTTP for those who look after the server: short requests, answered on the shard's own thread, so that nothing waits for a
//! lock.

mod answer;
pub(super) mod client;
mod request;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

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

/// Answers a request. HEAD comes as a GET.
pub(super) type Handler = Rc<dyn Fn(&Request) -> Answer>;

/// Answers until the task is ended.
pub(super) async fn serve(listener: TcpListener, handler: Handler) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let handler = Rc::clone(&handler);
                tokio::task::spawn_local(async move {
                    // Who goes away early doesn't want it.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &handler)).await;
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

async fn answer(mut stream: TcpStream, handler: &Handler) -> io::Result<()> {
    let mut bytes = Vec::new();
    let (answer, is_head) = loop {
        match Request::read(&bytes) {
            Ok(Some((request, is_head))) => break (handler(&request), is_head),
            Ok(None) if bytes.len() > REQUEST_MAX => {
                break (Answer::error(431, "the headers are too large", ""), false);
            }
            Ok(None) => {}
            Err(what) => break (Answer::error(400, what, ""), false),
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    stream.write_all(answer.head().as_bytes()).await?;
    if !is_head {
        stream.write_all(answer.body().as_bytes()).await?;
    }
    stream.shutdown().await
}
