//! SOCKS5 clients.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::near::Near;
use super::proxy_request::{NoRequest, ProxyReplies, pass, request as request_of};
use crate::protocol::Destination;
use crate::relay::FIRST_MAX;
use crate::socks::{ACCEPTED, MESSAGE_MAX, NO_METHOD, Parsed, code, failure, greeting, request, success};

/// The name of the listener in the log and the metrics.
const LISTENER: &str = "socks";

/// Serves a client.
pub(super) async fn serve(mut tcp: TcpStream, near: Near, early_reply: bool) {
    let Some(request) = request_of(&mut tcp, &near, LISTENER, read_request).await else { return };
    let answers = ProxyReplies { listener: LISTENER, success, failure: |reason| failure(code(reason)) };
    pass(tcp, near, request, early_reply, answers).await;
}

/// Reads the greeting and the request. Returns the destination, and what the client has sent behind.
async fn read_request(tcp: &mut TcpStream) -> Result<(Destination, Bytes), NoRequest> {
    let mut buffer = Vec::with_capacity(MESSAGE_MAX);
    let has_offered = loop {
        match greeting(&buffer) {
            Parsed::Whole(has_offered, len) => {
                buffer.drain(..len);
                break has_offered;
            }
            Parsed::Partial => read(tcp, &mut buffer).await?,
            Parsed::Wrong(_) => return Err(NoRequest::Wrong(Vec::new())),
        }
    };
    if !has_offered {
        return Err(NoRequest::Wrong(NO_METHOD.to_vec()));
    }
    tcp.write_all(&ACCEPTED).await.map_err(|_| NoRequest::Gone)?;
    loop {
        match request(&buffer) {
            Parsed::Whole(to, len) => return Ok((to, Bytes::from(buffer.split_off(len)))),
            Parsed::Partial => read(tcp, &mut buffer).await?,
            Parsed::Wrong(code) => return Err(NoRequest::Wrong(failure(code))),
        }
    }
}

/// Reads more.
async fn read(tcp: &mut TcpStream, buffer: &mut Vec<u8>) -> Result<(), NoRequest> {
    match tcp.read_buf(buffer).await {
        Ok(0) | Err(_) => Err(NoRequest::Gone),
        Ok(_) if buffer.len() > FIRST_MAX => Err(NoRequest::Wrong(Vec::new())),
        Ok(_) => Ok(()),
    }
}
