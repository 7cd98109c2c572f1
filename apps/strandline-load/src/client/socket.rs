//! TCP and UDP clients on kernel sockets.

use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::net::sockopt::tcp_congestion;
use strandline_measure::now;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::exchange::Exchange;
use crate::job::{Job, Transport};
use crate::trace::Steps;

#[derive(Debug)]
pub(crate) struct SocketClient {
    transport: Transport,
    server: SocketAddr,
    /// Times between packets, if the job requests them.
    steps: Option<Mutex<Steps>>,
    /// Congestion control of the TCP connections, as the kernel reports it.
    congestion: OnceLock<String>,
}

#[derive(Debug)]
pub(crate) enum Session {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

impl SocketClient {
    pub(crate) fn new(job: &Job) -> Self {
        let steps = job.trace.then(Mutex::default);
        Self { transport: job.transport, server: job.server, steps, congestion: OnceLock::new() }
    }

    /// Returns a session and the time of its set-up, if the transport has one.
    pub(crate) async fn connect(&self) -> Result<(Session, Option<Duration>)> {
        if self.transport == Transport::Tcp {
            let begin = now();
            let stream = TcpStream::connect(self.server).await?;
            let setup = begin.elapsed();
            stream.set_nodelay(true)?;
            if self.congestion.get().is_none() {
                // Another task may have set it already, to the same value.
                let _ = self.congestion.set(tcp_congestion(&stream)?);
            }
            return Ok((Session::Tcp(stream), Some(setup)));
        }
        let any: SocketAddr =
            if self.server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0; 8], 0).into() };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(self.server).await?;
        Ok((Session::Udp(socket), None))
    }

    /// Derives packet times from the times of calls: `connect` returns when SYN, ACK has arrived.
    pub(crate) fn trace(&self, setup: Duration, written: Duration, transaction: Duration) {
        let Some(steps) = &self.steps else { return };
        let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.record("r:SYN, ACK", setup);
        steps.record("s:DATA", written);
        steps.record("r:DATA", transaction.saturating_sub(written));
    }

    /// Returns the congestion control of the connections, if there were any.
    pub(crate) fn congestion(&self) -> Option<String> {
        self.congestion.get().cloned()
    }

    pub(crate) fn take_steps(&self) -> Steps {
        let taken = self.steps.as_ref().map(|steps| steps.lock().unwrap_or_else(PoisonError::into_inner));
        taken.map(|mut steps| std::mem::take(&mut *steps)).unwrap_or_default()
    }
}

impl Session {
    /// Sends a message and waits for the answer. Returns the time that sending took, where it matters.
    pub(crate) async fn transact(&mut self, exchange: &Exchange) -> Result<Option<Duration>> {
        let begin = now();
        match self {
            Self::Tcp(stream) => {
                stream.write_all(&exchange.message).await?;
                let written = begin.elapsed();
                // The buffer is on the heap, because the future is moved, and its bytes would be copied for
                // every transport.
                let mut buffer = vec![0; 16_384];
                let (mut received, mut kept) = (0, 0);
                loop {
                    let Some(room) = buffer.get_mut(kept..).filter(|room| !room.is_empty()) else {
                        bail!("the response is too long")
                    };
                    let count = stream.read(room).await?;
                    if count == 0 {
                        bail!("the server closed the connection");
                    }
                    received += count;
                    let text = buffer.get(..kept + count).unwrap_or(&[]);
                    if exchange.is_whole(received, text)? {
                        return Ok(Some(written));
                    }
                    kept += if exchange.is_kept() { count } else { 0 };
                }
            }
            Self::Udp(socket) => {
                socket.send(&exchange.message).await?;
                let mut buffer = vec![0; 65_536];
                let received = socket.recv(&mut buffer).await?;
                if !exchange.is_whole(received, buffer.get(..received).unwrap_or(&[]))? {
                    bail!("the response is incomplete");
                }
                Ok(None)
            }
        }
    }
}
