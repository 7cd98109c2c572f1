//! Programs of `strandline run`, whose `connect` was replaced by crates/strandline-preload.
//!
//! A program's connection comes with a request and padding, for which the receive window has no room: so its
//! socket is not writable, as one that is not connected, until this side opens the window. A connection that
//! fails is reset, and the reason is kept for the program's question.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use strandline_ops::open_window;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::REQUEST_TIMEOUT;
use super::near::{Answered, Near};
use crate::preload_request::{Outcome, REQUEST, Request, is_unknown, parse};
use crate::program_sockets::SocketEntry;
use crate::protocol::Destination;
use crate::registry::CloseReason;
use crate::relay::{prepare_program, reason};

/// The name of the listener in the log and the metrics.
const LISTENER: &str = "preload";

/// Serves a program.
pub(super) async fn serve(mut tcp: TcpStream, near: Near, early_reply: bool) {
    let mut bytes = [0; REQUEST];
    let request = match timeout(REQUEST_TIMEOUT, tcp.read_exact(&mut bytes)).await {
        Ok(Ok(_)) => parse(&bytes),
        // The client has gone.
        Ok(Err(_)) => return,
        Err(_) => None,
    };
    let client = near.client.ip();
    match request {
        Some(Request::Connect { to, key, padding }) => {
            let listed = near.gateway.sockets.begin((client, key), to);
            connect(tcp, near, to, padding, early_reply, listed).await;
        }
        Some(Request::Ask { key }) => {
            let key = (client, key);
            let mut answer = near.gateway.sockets.answer(key);
            if is_unknown(&answer) {
                // Its connection may be one of a process of before.
                answer = near.gateway.questions.query(key).await.unwrap_or(answer);
            }
            // A client that has gone needs no answer.
            let _ = tcp.write_all(&answer).await;
        }
        None => {
            tracing::debug!(client = %near.client, "not a connection of `strandline run`");
            // Counted before the client learns of it.
            near.note_malformed(LISTENER);
        }
    }
}

async fn connect(
    mut tcp: TcpStream,
    near: Near,
    to: SocketAddr,
    padding: usize,
    early_reply: bool,
    listed: SocketEntry,
) {
    let to = Destination::of(to);
    let mut tracked = near.track(LISTENER, &to);
    let user = near.user();
    // From here on a failure is a reset.
    if prepare_program(&tcp, &near.gateway.settings().limits).is_err()
        || (early_reply && open(&mut tcp, padding).await.is_err())
    {
        return tracked.set_end(CloseReason::ResetHere);
    }
    let arrived = early_reply.then_some(&tcp);
    let started = near.start(&to, arrived, Bytes::new(), &tracked).await;
    let mut result = started.map(Answered::not_yet);
    if !early_reply && let Ok(answered) = result {
        result = answered.answer().await;
    }
    match result {
        Ok(answered) => {
            listed.set(Outcome::Connected);
            if !early_reply && open(&mut tcp, padding).await.is_err() {
                return tracked.set_end(CloseReason::ResetHere);
            }
            near.carry(tcp, answered, tracked, (user, listed)).await;
        }
        Err(end) => {
            // Known before the program can ask.
            listed.set(Outcome::Failed(reason(end)));
            tracked.set_end(end);
        }
    }
}

/// Opens the receive window, and reads the padding. The program finds its socket connected.
async fn open(tcp: &mut TcpStream, mut padding: usize) -> io::Result<()> {
    open_window(tcp)?;
    let reading = async {
        let mut room = [0; 4096];
        while padding > 0 {
            let part = room.get_mut(..padding.min(4096)).unwrap_or_default();
            match tcp.read(part).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => padding -= read,
            }
        }
        Ok(())
    };
    timeout(REQUEST_TIMEOUT, reading).await?
}
