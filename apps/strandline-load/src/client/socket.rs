//! TCP and UDP, from the kernel.

use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use rustix::net::sockopt::tcp_congestion;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::exchange::Exchange;
use crate::job::{Job, Transport};
use crate::pace::now;
use crate::trace::Steps;

#[derive(Debug)]
pub(crate) struct SocketClient {
    transport: Transport,
    server: SocketAddr,
    /// Filled if the job asks for the time between packets.
    steps: Option<Mutex<Steps>>,
    /// Of its TCP connections, as the kernel tells.
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

    /// A session, and how long it took to set up, if there was anything to set up.
    pub(crate) async fn connect(&self) -> Result<(Session, Option<Duration>)> {
        if self.transport == Transport::Tcp {
            let begin = now();
            let stream = TcpStream::connect(self.server).await?;
            let setup = begin.elapsed();
            stream.set_nodelay(true)?;
            if self.congestion.get().is_none() {
                // Somebody else may have been faster; it is the same.
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

    /// What can be told of the packets' times from the calls: `connect` returns when SYN, ACK has come.
    pub(crate) fn trace(&self, setup: Duration, written: Duration, transaction: Duration) {
        let Some(steps) = &self.steps else { return };
        let mut steps = steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.record("r:SYN, ACK", setup);
        steps.record("s:DATA", written);
        steps.record("r:DATA", transaction.saturating_sub(written));
    }

    /// The congestion control of its connections, if there were any.
    pub(crate) fn congestion(&self) -> Option<String> {
        self.congestion.get().cloned()
    }

    pub(crate) fn take_steps(&self) -> Steps {
        let taken = self.steps.as_ref().map(|steps| steps.lock().unwrap_or_else(PoisonError::into_inner));
        taken.map(|mut steps| std::mem::take(&mut *steps)).unwrap_or_default()
    }
}

impl Session {
    /// Sends a message and waits for the answer. Tells how long the sending took, where that is worth knowing.
    pub(crate) async fn transact(&mut self, exchange: &Exchange) -> Result<Option<Duration>> {
        let begin = now();
        match self {
            Self::Tcp(stream) => {
                stream.write_all(&exchange.message).await?;
                let written = begin.elapsed();
                // Not in the future itself, which is moved, whatever the transport: then its bytes are copied.
                let mut buffer = vec![0; 16_384];
                let (mut received, mut kept) = (0, 0);
                loop {
                    let Some(room) = buffer.get_mut(kept..).filter(|room| !room.is_empty()) else {
                        bail!("the answer has no end")
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
                    bail!("only a part of the answer came");
                }
                Ok(None)
            }
        }
    }
}
