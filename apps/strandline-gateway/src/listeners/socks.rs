//! SOCKS5 clients.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::REQUEST_TIMEOUT;
use super::near::Near;
use super::proxy_request::{ProxyReplies, pass};
use crate::protocol::Destination;
use crate::relay::FIRST_MAX;
use crate::socks::{ACCEPTED, MESSAGE_MAX, NO_METHOD, Parsed, code, failure, greeting, request, success};

/// Serves a client.
pub(super) async fn serve(mut tcp: TcpStream, near: Near, early_reply: bool) {
    let Ok(Some(request)) = timeout(REQUEST_TIMEOUT, read_request(&mut tcp)).await else { return };
    let answers = ProxyReplies { listener: "socks", success, failure: |reason| failure(code(reason)) };
    pass(tcp, near, request, early_reply, answers).await;
}

/// Reads the greeting and the request. Returns the destination, and what the client has sent behind. `None`
/// if it asked for something else, and was told so.
async fn read_request(tcp: &mut TcpStream) -> Option<(Destination, Bytes)> {
    let mut buffer = Vec::with_capacity(MESSAGE_MAX);
    let has_offered = loop {
        match greeting(&buffer) {
            Parsed::Whole(has_offered, len) => {
                buffer.drain(..len);
                break has_offered;
            }
            Parsed::Partial => read(tcp, &mut buffer).await?,
            Parsed::Wrong(_) => return None,
        }
    };
    tcp.write_all(if has_offered { &ACCEPTED } else { &NO_METHOD }).await.ok()?;
    if !has_offered {
        return None;
    }
    loop {
        match request(&buffer) {
            Parsed::Whole(to, len) => return Some((to, Bytes::from(buffer.split_off(len)))),
            Parsed::Partial => read(tcp, &mut buffer).await?,
            Parsed::Wrong(code) => {
                let _ = tcp.write_all(&failure(code)).await;
                return None;
            }
        }
    }
}

/// Reads more; `None` at the end, or if it is too much.
async fn read(tcp: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let read = tcp.read_buf(buffer).await.ok()?;
    (read > 0 && buffer.len() <= FIRST_MAX).then_some(())
}
