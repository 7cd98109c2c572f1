//! What clients of SOCKS5 and HTTP CONNECT have in common: they name the destination, and are told what became of it.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::REQUEST_TIMEOUT;
use super::near::{Answered, Near};
use crate::protocol::{Destination, Reason};
use crate::registry::CloseReason;
use crate::relay::{prepare, reason};

/// How a protocol tells the outcome.
pub(super) struct ProxyReplies {
    /// The name of the listener in the log and the metrics.
    pub(super) listener: &'static str,
    /// The connection is there, from this address if it is known.
    pub(super) success: fn(Option<SocketAddr>) -> Vec<u8>,
    /// There is none.
    pub(super) failure: fn(Reason) -> Vec<u8>,
}

/// Why a client has named no destination.
pub(super) enum NoRequest {
    /// It has gone.
    Gone,
    /// It asked for something else, which is answered with these bytes, if with any.
    Wrong(Vec<u8>),
}

/// Returns the request of a client that has sent it in time, and answers others.
pub(super) async fn request<R>(
    tcp: &mut TcpStream,
    near: &Near,
    listener: &'static str,
    reading: impl AsyncFnOnce(&mut TcpStream) -> Result<R, NoRequest>,
) -> Option<R> {
    let late = |_| Err(NoRequest::Wrong(Vec::new()));
    match timeout(REQUEST_TIMEOUT, reading(tcp)).await.unwrap_or_else(late) {
        Ok(request) => Some(request),
        Err(NoRequest::Gone) => None,
        Err(NoRequest::Wrong(answer)) => {
            // Counted before the client learns of it.
            near.note_malformed(listener);
            let _ = tcp.write_all(&answer).await;
            None
        }
    }
}

/// Begins a connection for a client that has asked for one and has sent `first` behind, and passes its data. With
/// `early_reply` the client is told of success before the far side has answered.
pub(super) async fn pass(
    mut tcp: TcpStream,
    near: Near,
    (to, first): (Destination, Bytes),
    early_reply: bool,
    answers: ProxyReplies,
) {
    let mut tracked = near.track(answers.listener, &to);
    let user = near.user();
    let mut result = near.start(&to, Some(&tcp), first, &tracked).await.map(Answered::not_yet);
    if !early_reply && let Ok(answered) = result {
        result = answered.answer().await;
    }
    match result {
        Ok(answered) => {
            let written = tcp.write_all(&(answers.success)(answered.at)).await;
            if written.is_err() || prepare(&tcp, &near.gateway.settings().limits).is_err() {
                return tracked.set_end(CloseReason::ResetHere);
            }
            near.carry(tcp, answered, tracked, user).await;
        }
        Err(end) => {
            tracked.set_end(end);
            // The client closes, or has closed.
            let _ = tcp.write_all(&(answers.failure)(reason(end))).await;
        }
    }
}
