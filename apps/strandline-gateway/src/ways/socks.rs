//! SOCKS5 clients.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::REQUEST_TIMEOUT;
use super::near::{Answered, Near};
use crate::protocol::Destination;
use crate::registry::{End, Tracked};
use crate::relay::{FIRST_MAX, prepare, reason};
use crate::socks::{ACCEPTED, MESSAGE_MAX, NO_METHOD, Parsed, code, failure, greeting, request, success};

/// Serves a client.
pub(super) async fn serve(mut tcp: TcpStream, near: Near, early_reply: bool) {
    let Ok(Some((to, first))) = timeout(REQUEST_TIMEOUT, asked(&mut tcp)).await else { return };
    let tracked = near.track("socks", &to);
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
            let written = tcp.write_all(&success(answered.at)).await;
            if written.is_err() || prepare(&tcp).is_err() {
                return tracked.set_end(End::ResetHere);
            }
            near.carry(tcp, answered, tracked, user).await;
        }
        Err(end) => {
            tracked.set_end(end);
            // The client closes, or has closed.
            let _ = tcp.write_all(&failure(code(reason(end)))).await;
        }
    }
}

/// Reads the greeting and the request. Returns the destination, and what the client has sent behind. `None` if it asked for
/// something else, and was told so.
async fn asked(tcp: &mut TcpStream) -> Option<(Destination, Bytes)> {
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
