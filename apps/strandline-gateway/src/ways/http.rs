//! Clients of HTTP CONNECT.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::REQUEST_TIMEOUT;
use super::near::{Answered, Near};
use crate::connect_request::{HEAD_MAX, Parsed, SUCCESS, failure, parse, status};
use crate::protocol::Destination;
use crate::registry::{End, Tracked};
use crate::relay::{FIRST_MAX, prepare, reason};

/// Serves a client.
pub(super) async fn serve(mut tcp: TcpStream, near: Near, early_reply: bool) {
    let Ok(Some((to, first))) = timeout(REQUEST_TIMEOUT, asked(&mut tcp)).await else { return };
    let tracked = near.track("http_connect", &to);
    pass(tcp, near, to, first, early_reply, tracked).await;
}

async fn pass(
    mut tcp: TcpStream,
    near: Near,
    to: Destination,
    first: Bytes,
    early_reply: bool,
    mut tracked: Tracked,
) {
    let user = near.link.user();
    let mut result = near.start(&to, &tcp, first, &tracked).await.map(Answered::not_yet).map_err(End::Failed);
    if !early_reply && let Ok(answered) = result {
        result = answered.answer().await;
    }
    match result {
        Ok(answered) => {
            if tcp.write_all(SUCCESS).await.is_err() || prepare(&tcp).is_err() {
                return tracked.set_end(End::ResetHere);
            }
            near.carry(tcp, answered, tracked, user).await;
        }
        Err(end) => {
            tracked.set_end(end);
            let reason = reason(end);
            // The client closes, or has closed.
            let _ = tcp.write_all(&failure(status(reason), &reason.to_string())).await;
        }
    }
}

/// Reads the request. Returns the destination, and what the client has sent behind. `None` if it asked for something else,
/// and was told so.
async fn asked(tcp: &mut TcpStream) -> Option<(Destination, Bytes)> {
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
