//! A queue of frames to another process. A thread writes them, so a process that reads slowly blocks no
//! sender.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use serde::Serialize;

use crate::frame;

/// Maximum number of bytes that may wait for a process that doesn't read.
const WAITING_MAX: usize = 1 << 30;

/// The queue of frames to another process, for any thread.
#[derive(Debug, Clone)]
pub struct Outlet {
    sender: Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    stream: Arc<UnixStream>,
}

impl Outlet {
    /// Creates the queue for the process at the other end of `stream`. A thread must [run](FrameWriter::run)
    /// the writer.
    #[must_use]
    pub fn new(stream: UnixStream) -> (Self, FrameWriter) {
        let (sender, frames) = channel();
        let (waiting, stream) = (Arc::<AtomicUsize>::default(), Arc::new(stream));
        let writer = FrameWriter { frames, waiting: Arc::clone(&waiting), stream: Arc::clone(&stream) };
        (Self { sender, waiting, stream }, writer)
    }

    /// Queues a frame. Returns false if the other process has ended. A process that doesn't read is
    /// disconnected, because it could not make up for missed frames.
    pub fn send(&self, head: &impl Serialize, body: &[u8]) -> bool {
        if self.waiting.load(Ordering::Relaxed) > WAITING_MAX {
            tracing::error!("process disconnected: it stopped reading");
            // It may have ended already.
            let _ = self.stream.shutdown(Shutdown::Both);
            return false;
        }
        self.send_unlimited(head, body)
    }

    /// Queues a frame without a limit. Returns false if the other process has ended.
    pub fn send_unlimited(&self, head: &impl Serialize, body: &[u8]) -> bool {
        let Ok(whole) = frame(head, body) else { return false };
        self.waiting.fetch_add(whole.len(), Ordering::Relaxed);
        self.sender.send(whole).is_ok()
    }
}

/// Writes the frames of an [`Outlet`].
#[derive(Debug)]
pub struct FrameWriter {
    frames: Receiver<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    stream: Arc<UnixStream>,
}

impl FrameWriter {
    /// Writes the frames until the other process has ended, or all clones of the outlet are dropped.
    pub fn run(&self) {
        let mut out = &*self.stream;
        while let Ok(whole) = self.frames.recv() {
            self.waiting.fetch_sub(whole.len(), Ordering::Relaxed);
            if let Err(error) = out.write_all(&whole) {
                tracing::debug!(%error, "writing to a process failed");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
