//! Clients of HTTP CONNECT.

use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::near::Near;
use super::proxy_request::{NoRequest, ProxyReplies, pass, request};
use crate::connect_request::{HEAD_MAX, Parsed, SUCCESS, failure, parse, status};
use crate::protocol::Destination;
use crate::relay::FIRST_MAX;

/// The name of the listener in the log and the metrics.
const LISTENER: &str = "http_connect";

/// Serves a client.
pub(super) async fn serve(mut tcp: TcpStream, near: Near, early_reply: bool) {
    let Some(request) = request(&mut tcp, &near, LISTENER, read_request).await else { return };
    let answers = ProxyReplies {
        listener: LISTENER,
        success: |_| SUCCESS.to_vec(),
        failure: |reason| failure(status(reason), &reason.to_string()),
    };
    pass(tcp, near, request, early_reply, answers).await;
}

/// Reads the request. Returns the destination, and what the client has sent behind.
async fn read_request(tcp: &mut TcpStream) -> Result<(Destination, Bytes), NoRequest> {
    let mut buffer = Vec::with_capacity(1024);
    loop {
        match parse(&buffer) {
            Parsed::Whole(to, len) => return Ok((to, Bytes::from(buffer.split_off(len)))),
            Parsed::Partial => {
                let read = tcp.read_buf(&mut buffer).await.map_err(|_| NoRequest::Gone)?;
                if read == 0 {
                    return Err(NoRequest::Gone);
                }
                if buffer.len() > HEAD_MAX + FIRST_MAX {
                    return Err(NoRequest::Wrong(Vec::new()));
                }
            }
            Parsed::Wrong(status, text) => return Err(NoRequest::Wrong(failure(status, text))),
        }
    }
}
