//! One connection on a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use hyper_util::client::legacy::connect::{Connected, Connection};
use strandline::{Ended, Ppid, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::table::{ConnectionId, Reading, Writing};
use super::{HttpAssociation, Owner};

/// Most bytes of several buffers that one message takes.
const WRITE_MAX: usize = 16 << 10;

/// One HTTP connection: both directions of one stream of an association.
///
/// `poll_shutdown` ends the outgoing direction: the peer reads the end. Dropping the stream before that resets
/// the connection: the peer reads an error.
#[derive(Debug)]
pub struct HttpStream {
    owner: Arc<Owner>,
    id: ConnectionId,
    send: SendStream,
}

impl HttpStream {
    pub(super) fn new(owner: Arc<Owner>, id: ConnectionId, mut send: SendStream) -> Self {
        send.set_ppid(Ppid(owner.shared.settings.label(false).ppid()));
        Self { owner, id, send }
    }

    /// Returns the stream's number.
    #[must_use]
    pub fn stream(&self) -> u16 {
        self.send.id().0
    }

    /// Returns the association.
    #[must_use]
    pub fn association(&self) -> HttpAssociation {
        HttpAssociation { owner: Arc::clone(&self.owner) }
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let shared = &self.owner.shared;
        // hyper reads into large buffers: several messages in one call are cheaper.
        let mut has_read = false;
        shared.with(|table| {
            loop {
                match table.read(self.id, buf.remaining(), cx) {
                    Reading::Data(data) => buf.put_slice(&data),
                    _ if has_read => return Poll::Ready(Ok(())),
                    Reading::Pending => return Poll::Pending,
                    Reading::End => return Poll::Ready(Ok(())),
                    Reading::Reset => return Poll::Ready(Err(reset())),
                    Reading::GivenUp => return Poll::Ready(Err(given_up())),
                    Reading::Lost(ended) => return Poll::Ready(Err(lost(ended))),
                }
                has_read = true;
                if buf.remaining() == 0 {
                    return Poll::Ready(Ok(()));
                }
            }
        })
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let shared = &this.owner.shared;
        let send = Pin::new(&mut this.send);
        // Under the lock, so that no END or RESET is sent between the check and the write.
        shared.with(|table| {
            let room = match table.room(this.id, cx) {
                Writing::Room(room) => usize::try_from(room).unwrap_or(usize::MAX),
                Writing::Pending => return Poll::Pending,
                Writing::Closed => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                Writing::Lost(ended) => return Poll::Ready(Err(lost(ended))),
            };
            let part = buf.get(..buf.len().min(room)).unwrap_or_default();
            let written = ready!(send.poll_write(cx, part))?;
            table.on_sent(this.id, written);
            Poll::Ready(Ok(written))
        })
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut parts = bufs.iter().filter(|part| !part.is_empty());
        let Some(first) = parts.next() else { return Poll::Ready(Ok(0)) };
        let Some(second) = parts.next().filter(|_| first.len() < WRITE_MAX) else {
            return self.poll_write(cx, first);
        };
        // A head and the beginning of a body in one message.
        let mut message = Vec::with_capacity(WRITE_MAX);
        for part in [first, second].into_iter().chain(parts) {
            let room = WRITE_MAX - message.len();
            message.extend_from_slice(part.get(..part.len().min(room)).unwrap_or_default());
        }
        self.poll_write(cx, &message)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Returns at once: written data is already queued for sending.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.owner.shared.with(|table| table.end(self.id));
        Poll::Ready(Ok(()))
    }
}

impl Drop for HttpStream {
    fn drop(&mut self) {
        self.owner.shared.with(|table| table.drop_handle(self.id));
        self.owner.shared.changed.notify_waiters();
        self.owner.shared.controls.notify_one();
    }
}

impl Connection for HttpStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// Returns the error of a connection that the peer has given up.
fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the peer reset the HTTP connection on this stream")
}

/// Returns the error of a connection that this side has given up.
fn given_up() -> io::Error {
    let text = "what had arrived on this stream was not read for too long, while other streams had no room";
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// Returns the error of a connection whose association ended first.
fn lost(ended: Ended) -> io::Error {
    let kind = match ended {
        Ended::ShutDown => io::ErrorKind::UnexpectedEof,
        Ended::PeerAborted { .. } => io::ErrorKind::ConnectionReset,
        Ended::TimedOut => io::ErrorKind::TimedOut,
        Ended::Unreachable => io::ErrorKind::ConnectionRefused,
        Ended::NoRoute => io::ErrorKind::NetworkUnreachable,
        _ => io::ErrorKind::ConnectionAborted,
    };
    io::Error::new(kind, ended)
}
