//! Metrics and the live page, over HTTP on a port of their own. They are read on the shard's own thread: nothing waits for
//! a lock.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::hub::Hub;
use super::{metrics, status};

/// A request that is longer, or takes longer to come, is nobody's who wants metrics.
const REQUEST_MAX: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(5);
/// Requests that are answered at once.
const AT_ONCE: usize = 16;

/// The live page: all of it, with what it needs.
const PAGE: &str = include_str!("live.html");

/// Answers until the task is ended.
pub(super) async fn serve(listener: TcpListener, hub: Rc<Hub>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let hub = Rc::clone(&hub);
                tokio::task::spawn_local(async move {
                    // Who goes away early doesn't want it.
                    let _ = tokio::time::timeout(PATIENCE, answer(stream, &hub)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting a connection for metrics");
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, hub: &Hub) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        if request.len() > REQUEST_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let (status, kind, body) = match path(&request) {
        Some(b"/") => ("200 OK", "text/html; charset=utf-8", PAGE.to_owned()),
        Some(b"/live.json") => ("200 OK", "application/json", status::json(hub)),
        Some(b"/metrics") => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics::text(hub)),
        _ => {
            let others = "There are / and /live.json and /metrics here.\n".to_owned();
            ("404 Not Found", "text/plain; charset=utf-8", others)
        }
    };
    let len = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\nCache-Control: no-store\r\n\
         Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
         connect-src 'self'; img-src data:\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// What a GET asks for, without its query.
fn path(request: &[u8]) -> Option<&[u8]> {
    let rest = request.strip_prefix(b"GET ")?;
    rest.split(|byte| matches!(byte, b' ' | b'?' | b'\r')).next()
}
