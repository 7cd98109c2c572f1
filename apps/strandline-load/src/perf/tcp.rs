//! Flows over the kernel's TCP: plain blocking sockets and a thread for each direction, which is the least
//! that TCP can cost a program. A message is a write.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;

use super::budget::{Budget, Turn};
use super::tally::{Count, Tally, now};

/// Maximum number of bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// Interval at which a sender that waits for its next message checks whether to stop.
const NAP: Duration = Duration::from_millis(50);

/// A connection that both directions share.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    stream: Arc<TcpStream>,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl Connection {
    /// Turns the stream into a blocking socket.
    pub(crate) fn new(stream: tokio::net::TcpStream, nodelay: bool) -> std::io::Result<Self> {
        let stream = stream.into_std()?;
        stream.set_nonblocking(false)?;
        stream.set_nodelay(nodelay)?;
        let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
        Ok(Self { stream: Arc::new(stream), local, peer })
    }

    /// Ends the connection: threads that wait in a call return.
    pub(crate) fn close(&self) {
        // A failure means that the connection is closed already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Sends as the budget allows until told to stop.
    pub(crate) fn send(
        &self,
        data: &Bytes,
        mut budget: Budget,
        tally: &Tally,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        let mut count = Count::default();
        let mut stream = &*self.stream;
        while !stop.load(Ordering::Relaxed) {
            match budget.turn(now) {
                Turn::Send { messages, bytes } => {
                    let message = data.get(..bytes).context("a write's length exceeds its data")?;
                    for _ in 0..messages {
                        stream.write_all(message).context("writing")?;
                        count.bytes += bytes as u64;
                        count.messages += 1;
                        tally.set(count.bytes, count.messages);
                    }
                }
                Turn::WaitUntil(at) => thread::park_timeout(at.saturating_duration_since(now()).min(NAP)),
                Turn::Done => break,
            }
        }
        stream.shutdown(Shutdown::Write).context("shutting down the sending side")
    }

    /// Receives until the other side has ended its direction.
    pub(crate) fn receive(&self, tally: &Tally) -> anyhow::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        let mut sum = 0;
        let mut stream = &*self.stream;
        loop {
            match stream.read(&mut buffer).context("reading")? {
                0 => return Ok(()),
                bytes => sum += bytes as u64,
            }
            tally.set(sum, 0);
        }
    }
}
