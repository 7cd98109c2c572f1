//! The server process: a one-to-many endpoint, a one-to-one listener, or a TCP listener, which echo all data.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use strandline::{
    Association, AssociationId, Endpoint, Listener, MemoryReport, Message, SendInfo, Stack, TrySendError,
};
use strandline_ops::{listen_tcp, not_listening};
use strandline_tls::AcceptErrors;
use tokio::net::{TcpListener, TcpStream};

use super::line::{add_stack, measure_process};
use super::order::{Measured, ServerPart};
use super::{Transport, stack_builder};
use crate::cores::Cores;

/// Number of associations over which the memory report is averaged: the most recently active ones.
const SAMPLE: usize = 256;

/// Maximum number of messages read at once.
const TURN: usize = 64;

/// A server that is listening.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// SCTP port.
    pub(super) port: u16,
    sctp: Option<Sctp>,
}

struct Sctp {
    stack: Stack,
    active: Active,
    /// The threads of the shards beyond the first.
    _cores: Cores,
}

/// The most recently active associations.
#[derive(Clone)]
enum Active {
    Many(Arc<Endpoint>, Arc<Mutex<VecDeque<AssociationId>>>),
    One(Arc<Mutex<VecDeque<Association>>>),
}

impl Server {
    pub(super) async fn start(part: &ServerPart) -> Result<Self> {
        match part.transport {
            Transport::Sctp | Transport::SctpOne => Self::sctp(part),
            Transport::Tcp => Self::tcp(part).await,
        }
    }

    fn sctp(part: &ServerPart) -> Result<Self> {
        let cores = Cores::start(part.shards)?;
        let runtimes = cores.with_current();
        let builder = stack_builder(part.heartbeat_s).shards(part.shards.into()).runtimes(runtimes.clone());
        let stack = if part.raw {
            builder.raw(part.address.ip()).context("opening the server's raw IP socket")?
        } else {
            builder.udp(part.address).context("opening the server's UDP socket")?
        };
        let address = stack.local_addr().context("the server's stack has no address")?;
        let shards = || (0..stack.shards()).zip(runtimes.iter().cycle());
        let (port, active) = if part.transport == Transport::SctpOne {
            let listener = Arc::new(Listener::bind(&stack, 0)?);
            let active = Arc::new(Mutex::default());
            for (shard, runtime) in shards() {
                runtime.spawn(accept(Arc::clone(&listener), shard, Arc::clone(&active)));
            }
            (listener.port(), Active::One(active))
        } else {
            let endpoint = Arc::new(Endpoint::bind(&stack, 0)?);
            let active = Arc::new(Mutex::default());
            for (shard, runtime) in shards() {
                if stack.shards() == 1 {
                    runtime.spawn(echo(Arc::clone(&endpoint), Arc::clone(&active)));
                } else {
                    runtime.spawn(echo_on(Arc::clone(&endpoint), shard, Arc::clone(&active)));
                }
            }
            (endpoint.port(), Active::Many(endpoint, active))
        };
        Ok(Self { address, port, sctp: Some(Sctp { stack, active, _cores: cores }) })
    }

    async fn tcp(part: &ServerPart) -> Result<Self> {
        let listener = listen_tcp(part.address, false).and_then(TcpListener::from_std);
        let what = || format!("listening on TCP {}", part.address);
        let listener = listener.map_err(|error| not_listening(&what(), error))?;
        let address = listener.local_addr()?;
        tokio::task::spawn_local(async move {
            let mut errors = AcceptErrors::default();
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::task::spawn_local(echo_tcp(stream))),
                    Err(error) => {
                        if let Err(error) = errors.recover(error).await {
                            return tracing::error!(%error, "accepting TCP connections failed");
                        }
                    }
                }
            }
        });
        Ok(Self { address, port: 0, sctp: None })
    }

    pub(super) fn measure(&self) -> Result<Measured> {
        let mut measured = measure_process()?;
        if let Some(sctp) = &self.sctp {
            add_stack(&mut measured, &sctp.stack);
            measured.items = sctp.active.items();
        }
        Ok(measured)
    }
}

impl Active {
    /// Returns the average memory report of the most recently active associations.
    fn items(&self) -> Vec<(String, f64)> {
        let reports: Vec<MemoryReport> = match self {
            Self::Many(endpoint, active) => {
                let of = |id: &AssociationId| endpoint.control(*id).ok()?.memory();
                lock(active).iter().filter_map(of).collect()
            }
            Self::One(active) => lock(active).iter().filter_map(|held| held.control().memory()).collect(),
        };
        let mut sums: Vec<(String, f64)> = Vec::new();
        for (name, bytes) in reports.iter().flat_map(|report| &report.items) {
            match sums.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += *bytes as f64,
                None => sums.push(((*name).to_owned(), *bytes as f64)),
            }
        }
        sums.into_iter().map(|(name, sum)| (name, sum / reports.len() as f64)).collect()
    }
}

async fn echo(endpoint: Arc<Endpoint>, active: Arc<Mutex<VecDeque<AssociationId>>>) {
    let mut messages = Vec::with_capacity(TURN);
    while endpoint.recv_many_from(&mut messages, TURN).await.is_ok() {
        send_back(&endpoint, &active, messages.drain(..));
    }
}

/// Echoes the messages of one shard, on that shard's runtime.
async fn echo_on(endpoint: Arc<Endpoint>, shard: usize, active: Arc<Mutex<VecDeque<AssociationId>>>) {
    while let Ok(one) = endpoint.recv_on(shard).await {
        send_back(&endpoint, &active, [one]);
    }
}

/// Echoes messages without waiting for room. A client that leaves no room, since it doesn't read, is taken
/// out of the endpoint and served by a task of its own, which holds these messages at most: what the client
/// sends beyond its receive buffer waits at the client, and the others go on meanwhile.
fn send_back(
    endpoint: &Endpoint,
    active: &Mutex<VecDeque<AssociationId>>,
    messages: impl IntoIterator<Item = (AssociationId, Message)>,
) {
    let mut slow: Vec<(AssociationId, Vec<Message>)> = Vec::new();
    for (from, message) in messages {
        note(active, from);
        if let Some((_, waiting)) = slow.iter_mut().find(|(id, _)| *id == from) {
            waiting.push(message);
            continue;
        }
        let info = SendInfo::on(message.stream).ppid(message.ppid);
        match endpoint.try_send_to(from, message.data.clone(), info) {
            Ok(()) => {}
            Err(TrySendError::Full) => slow.push((from, vec![message])),
            Err(error) => tracing::debug!(%error, association = %from, "sending an echo failed"),
        }
    }
    for (from, waiting) in slow {
        match endpoint.peel_off(from) {
            Ok(association) => drop(tokio::spawn(echo_slowly(association, waiting))),
            Err(error) => tracing::debug!(%error, association = %from, "sending an echo failed"),
        }
    }
}

/// Echoes these messages and then what comes, and waits for room.
async fn echo_slowly(association: Association, waiting: Vec<Message>) {
    for message in waiting {
        let info = SendInfo::on(message.stream).ppid(message.ppid);
        if association.send_bytes(message.data, info).await.is_err() {
            return;
        }
    }
    echo_one(association).await;
}

async fn accept(listener: Arc<Listener>, shard: usize, active: Arc<Mutex<VecDeque<Association>>>) {
    while let Ok(association) = listener.accept_on(shard).await {
        note(&active, association.clone());
        tokio::spawn(echo_one(association));
    }
}

/// Echoes on one association, in a task of its own that waits for its messages.
async fn echo_one(association: Association) {
    while let Ok(Some(message)) = association.recv().await {
        let info = SendInfo::on(message.stream).ppid(message.ppid);
        if association.send_bytes(message.data, info).await.is_err() {
            return;
        }
    }
}

fn note<T>(active: &Mutex<VecDeque<T>>, from: T) {
    let mut active = lock(active);
    if active.len() == SAMPLE {
        active.pop_front();
    }
    active.push_back(from);
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Echoes on one connection, without a buffer for each waiting connection.
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
        // The rest is nearly always empty, and then nothing was allocated.
        write_all(&stream, &rest).await?;
    }
}

/// Writes all bytes to a shared stream.
pub(super) async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        let sent = stream.try_write(bytes).or_else(none_if_full)?;
        bytes = bytes.get(sent..).unwrap_or_default();
    }
    Ok(())
}

/// Returns 0 if the error means that the operation would block.
pub(super) fn none_if_full(error: std::io::Error) -> std::io::Result<usize> {
    if error.kind() == std::io::ErrorKind::WouldBlock { Ok(0) } else { Err(error) }
}

#[cfg(test)]
mod tests;
