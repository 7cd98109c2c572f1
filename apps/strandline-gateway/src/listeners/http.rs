//! Clients of HTTP CONNECT.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::REQUEST_TIMEOUT;
use super::near::Near;
use super::proxy_request::{ProxyReplies, pass};
use crate::connect_request::{HEAD_MAX, Parsed, SUCCESS, failure, parse, status};
use crate::protocol::Destination;
use crate::relay::FIRST_MAX;

/// Serves a client.
pub(super) async fn serve(mut tcp: TcpStream, near: Near, early_reply: bool) {
    let Ok(Some(request)) = timeout(REQUEST_TIMEOUT, read_request(&mut tcp)).await else { return };
    let answers = ProxyReplies {
        listener: "http_connect",
        success: |_| SUCCESS.to_vec(),
        failure: |reason| failure(status(reason), &reason.to_string()),
    };
    pass(tcp, near, request, early_reply, answers).await;
}

/// Reads the request. Returns the destination, and what the client has sent behind. `None` if it asked for
/// something else, and was told so.
async fn read_request(tcp: &mut TcpStream) -> Option<(Destination, Bytes)> {
    let mut buffer = Vec::with_capacity(1024);
    loop {
        match parse(&buffer) {
            Parsed::Whole(to, len) => return Some((to, Bytes::from(buffer.split_off(len)))),
            Parsed::Partial => {
                let read = tcp.read_buf(&mut buffer).await.ok()?;
                if read == 0 || buffer.len() > HEAD_MAX + FIRST_MAX {
                    return None;
                }
            }
            Parsed::Wrong(status, text) => {
                let _ = tcp.write_all(&failure(status, text)).await;
                return None;
            }
        }
    }
}
