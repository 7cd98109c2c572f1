//! Batches of messages over sockets that keep message boundaries (`SOCK_SEQPACKET`, `SOCK_DGRAM`), with one
//! system call for many messages.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Approximate maximum size of a batch, in bytes. A longer message is sent alone.
const TOGETHER: usize = 32 << 10;
/// Maximum number of bytes that may wait for a process that doesn't read.
const WAITING_MAX: usize = 8 << 20;
/// Maximum number of batches that [`Inbox::take`] takes before other tasks have their turn.
pub const BATCHES_MAX: usize = 64;

/// The socket to another process, with its queue.
#[derive(Debug)]
pub struct Outbox {
    socket: AsyncFd<OwnedFd>,
    /// Messages pushed since the last flush.
    batch: RefCell<Vec<u8>>,
    /// Batches for which the socket had no room.
    waiting: RefCell<VecDeque<Vec<u8>>>,
    waiting_bytes: Cell<usize>,
    /// Notified when a batch has to wait.
    waits: Notify,
}

impl Outbox {
    /// Creates the outbox for a non-blocking socket. A task must [run](Self::run) it.
    ///
    /// # Errors
    /// Returns an error if the runtime can't watch the socket.
    pub fn new(socket: OwnedFd) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            socket: registered(socket)?,
            batch: RefCell::default(),
            waiting: RefCell::default(),
            waiting_bytes: Cell::default(),
            waits: Notify::new(),
        }))
    }

    /// Appends messages to the batch, which the next [`flush`](Self::flush) sends. Returns false if too many
    /// bytes wait already.
    pub fn push(&self, messages: &[u8]) -> bool {
        if self.waiting_bytes.get() > WAITING_MAX {
            return false;
        }
        if self.batch.borrow().len() + messages.len() > TOGETHER {
            self.flush();
        }
        self.batch.borrow_mut().extend_from_slice(messages);
        true
    }

    /// Sends the batch, or queues it.
    pub fn flush(&self) {
        let mut batch = self.batch.borrow_mut();
        if batch.is_empty() {
            return;
        }
        let waits = !self.waiting.borrow().is_empty();
        if waits || send(self.socket.get_ref(), &batch, SendFlags::empty()).is_err() {
            self.waiting_bytes.set(self.waiting_bytes.get() + batch.len());
            self.waiting.borrow_mut().push_back(std::mem::take(&mut *batch));
            self.waits.notify_one();
        }
        batch.clear();
    }

    /// Sends queued batches until the task is ended.
    pub async fn run(self: Rc<Self>) {
        loop {
            self.waits.notified().await;
            while !self.waiting.borrow().is_empty() {
                let Ok(mut ready) = self.socket.writable().await else { return };
                let Some(first) = self.waiting.borrow_mut().pop_front() else { break };
                let sent = ready.try_io(|socket| Ok(send(socket.get_ref(), &first, SendFlags::empty())?));
                match sent {
                    Err(_) => self.waiting.borrow_mut().push_front(first),
                    Ok(sent) => {
                        self.waiting_bytes.set(self.waiting_bytes.get().saturating_sub(first.len()));
                        if let Err(error) = sent {
                            tracing::warn!(%error, "sending messages to another process failed; they are lost");
                        }
                    }
                }
            }
        }
    }
}

/// The socket for batches of other processes.
#[derive(Debug)]
pub struct Inbox {
    socket: AsyncFd<OwnedFd>,
    room: RefCell<Vec<u8>>,
}

impl Inbox {
    /// Creates an inbox for batches up to this length, at a non-blocking socket.
    ///
    /// # Errors
    /// Returns an error if the runtime can't watch the socket.
    pub fn new(socket: OwnedFd, batch_len_max: usize) -> io::Result<Self> {
        Ok(Self { socket: registered(socket)?, room: RefCell::new(vec![0; batch_len_max]) })
    }

    /// Waits until a batch has arrived.
    ///
    /// # Errors
    /// Returns an error if the runtime ends.
    pub async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await.map(|_| ())
    }

    /// Passes arrived batches to `each`, up to [`BATCHES_MAX`]. Returns true if there may be more.
    pub fn take(&self, mut each: impl FnMut(&[u8])) -> bool {
        let mut room = self.room.borrow_mut();
        for _ in 0..BATCHES_MAX {
            let got = self.socket.try_io(Interest::READABLE, |socket| {
                Ok(recv(socket, room.as_mut_slice(), RecvFlags::empty())?)
            });
            match got {
                Ok((len, _)) => each(room.get(..len).unwrap_or(&[])),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) => {
                    tracing::warn!(%error, "receiving messages from other processes failed");
                    return false;
                }
            }
        }
        true
    }
}

#[allow(
    deprecated,
    reason = "what is registered owns its descriptor, which is what `register` has to be promised"
)]
fn registered(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(socket)
}

#[cfg(test)]
mod tests;
