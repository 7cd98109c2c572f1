//! The server's process: one one-to-many endpoint, or a TCP listener; what comes goes back.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use strandline::{AssociationId, Endpoint, SendInfo};
use tokio::net::{TcpListener, TcpStream};

use super::line::{add_stack, measure_process};
use super::order::{Measured, ServerPart};
use super::{Transport, stack_builder};

/// Associations that the memory report is averaged over: the last ones heard of.
const SAMPLE: usize = 256;

/// Messages taken at once.
const TURN: usize = 64;

/// How long the echo waits for room in a send buffer before it is given up.
const PATIENCE: Duration = Duration::from_millis(50);

/// A server that is listening.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// SCTP port.
    pub(super) port: u16,
    sctp: Option<Sctp>,
}

#[derive(Debug)]
struct Sctp {
    stack: strandline::Stack,
    endpoint: Rc<Endpoint>,
    heard: Rc<RefCell<VecDeque<AssociationId>>>,
}

impl Server {
    pub(super) async fn start(part: &ServerPart) -> Result<Self> {
        match part.transport {
            Transport::Sctp => Self::sctp(part),
            Transport::Tcp => Self::tcp(part).await,
        }
    }

    fn sctp(part: &ServerPart) -> Result<Self> {
        let builder = stack_builder(part.heartbeat_s);
        let stack = if part.raw {
            builder.raw(part.address.ip()).context("opening raw IP for the server")?
        } else {
            builder.udp(part.address).context("opening the server's UDP socket")?
        };
        let endpoint = Rc::new(Endpoint::bind(&stack, 0)?);
        let address = stack.local_addr().context("the server's stack has no address")?;
        let heard = Rc::new(RefCell::new(VecDeque::with_capacity(SAMPLE)));
        tokio::task::spawn_local(echo(Rc::clone(&endpoint), Rc::clone(&heard)));
        let port = endpoint.port();
        Ok(Self { address, port, sctp: Some(Sctp { stack, endpoint, heard }) })
    }

    async fn tcp(part: &ServerPart) -> Result<Self> {
        let listener = TcpListener::bind(part.address).await.context("listening on TCP")?;
        let address = listener.local_addr()?;
        tokio::task::spawn_local(async move {
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    tokio::task::spawn_local(echo_tcp(stream));
                } else {
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        });
        Ok(Self { address, port: 0, sctp: None })
    }

    pub(super) fn measure(&self) -> Result<Measured> {
        let mut measured = measure_process()?;
        if let Some(sctp) = &self.sctp {
            add_stack(&mut measured, &sctp.stack);
            measured.items = sctp.items();
        }
        Ok(measured)
    }
}

impl Sctp {
    /// The memory report of those last heard of, on average.
    fn items(&self) -> Vec<(String, f64)> {
        let mut sums: Vec<(String, f64)> = Vec::new();
        let mut count = 0.0;
        for id in self.heard.borrow().iter() {
            let Some(report) = self.endpoint.control(*id).ok().and_then(|control| control.memory()) else {
                continue;
            };
            count += 1.0;
            for (name, bytes) in report.items {
                match sums.iter_mut().find(|(known, _)| known == name) {
                    Some((_, sum)) => *sum += bytes as f64,
                    None => sums.push((name.to_owned(), bytes as f64)),
                }
            }
        }
        sums.into_iter().map(|(name, sum)| (name, sum / count)).collect()
    }
}

async fn echo(endpoint: Rc<Endpoint>, heard: Rc<RefCell<VecDeque<AssociationId>>>) {
    let mut messages = Vec::with_capacity(TURN);
    while endpoint.recv_many_from(&mut messages, TURN).await.is_ok() {
        for (from, message) in messages.drain(..) {
            hear(&mut heard.borrow_mut(), from);
            let info = SendInfo { stream: message.stream, ppid: message.ppid, ..SendInfo::default() };
            let sending = endpoint.send_to(from, message.data, info);
            // A client that takes nothing back doesn't keep the others waiting: its echo is given up.
            if let Ok(Err(error)) = tokio::time::timeout(PATIENCE, sending).await {
                tracing::debug!(%error, association = %from, "an echo could not be sent");
            }
        }
    }
}

fn hear(heard: &mut VecDeque<AssociationId>, from: AssociationId) {
    if heard.len() == SAMPLE {
        heard.pop_front();
    }
    heard.push_back(from);
}

/// Without a buffer for each connection that waits.
async fn echo_tcp(stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        stream.readable().await?;
        let rest = {
            let mut buffer = [0; 16_384];
            match stream.try_read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    let received = buffer.get(..count).unwrap_or_default();
                    let sent = stream.try_write(received).or_else(none_if_full)?;
                    received.get(sent..).unwrap_or_default().to_vec()
                }
                Err(error) => {
                    none_if_full(error)?;
                    continue;
                }
            }
        };
        // Nearly always nothing, and then nothing was allocated.
        write_all(&stream, &rest).await?;
    }
}

/// Writes all of it, with the stream shared.
pub(super) async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        let sent = stream.try_write(bytes).or_else(none_if_full)?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Nothing was moved because it would have had to wait.
pub(super) fn none_if_full(error: std::io::Error) -> std::io::Result<usize> {
    if error.kind() == std::io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) }
}
