//! One association or TCP connection of a test, with the tasks or threads that move its messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Context;
use bytes::Bytes;
use strandline::Association;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::budget::Budget;
use super::protocol::{Figures, Parameters};
use super::tally::{Tally, now};
use super::tcp::Connection;
use super::{sctp, tcp_info};

/// The association or connection that carries a flow.
#[derive(Debug, Clone)]
pub(crate) enum Link {
    /// An association, and the runtime of its shard.
    Sctp(Association, Handle),
    Tcp(Connection),
}

/// A link and the counters of its traffic.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) link: Link,
    pub(crate) sent: Arc<Tally>,
    pub(crate) received: Arc<Tally>,
}

/// The end of one direction of a flow: which one, when, and with what result.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) flow: usize,
    pub(crate) sender: bool,
    pub(crate) at: Instant,
    pub(crate) result: anyhow::Result<()>,
}

/// State that all senders of a test share.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) parameters: Arc<Parameters>,
    pub(crate) data: Bytes,
    /// Set to make the senders stop.
    pub(crate) stop: Arc<AtomicBool>,
}

impl Load {
    pub(crate) fn new(parameters: Parameters) -> Self {
        Self {
            // The content doesn't matter, but zeros may be treated specially.
            data: (0..parameters.message_bytes).map(|i| i as u8).collect(),
            parameters: Arc::new(parameters),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }
}

impl Link {
    /// Returns state and counters as far as the transport reports them.
    pub(crate) fn figures(&self) -> Option<Figures> {
        match self {
            Self::Sctp(association, _) => sctp::figures(association),
            Self::Tcp(connection) => {
                tcp_info::tcp_info(connection.local, connection.peer).map(|info| info.figures)
            }
        }
    }

    /// Returns the name of the congestion controller.
    pub(crate) fn congestion(&self) -> Option<String> {
        match self {
            Self::Sctp(association, _) => Some(association.paths().first()?.congestion.to_owned()),
            Self::Tcp(connection) => tcp_info::tcp_info(connection.local, connection.peer)?.congestion,
        }
    }

    /// Returns the other side's address; over SCTP with the UDP port of the path.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Sctp(association, _) => Some(association.status()?.primary),
            Self::Tcp(connection) => Some(connection.peer),
        }
    }

    /// Returns the transport's ports: local and the peer's.
    pub(crate) fn ports(&self) -> (u16, u16) {
        match self {
            Self::Sctp(association, _) => {
                association.status().map_or((0, 0), |status| (status.local_port, status.peer_port))
            }
            Self::Tcp(connection) => (connection.local.port(), connection.peer.port()),
        }
    }

    /// Ends the flow at once.
    pub(crate) fn abort(&self) {
        match self {
            Self::Sctp(association, _) => association.abort("the test was stopped"),
            Self::Tcp(connection) => connection.close(),
        }
    }
}

impl Flow {
    pub(crate) fn new(link: Link) -> Self {
        Self { link, sent: Arc::default(), received: Arc::default() }
    }

    /// Starts sending.
    pub(crate) fn start_sender(&self, number: u16, load: &Load, workers: &mut JoinSet<Ended>) {
        let (tally, load) = (Arc::clone(&self.sent), load.clone());
        let budget = Budget::new(&load.parameters, number, now());
        let flow = usize::from(number);
        match self.link.clone() {
            Link::Sctp(association, shard) => {
                let run = async move {
                    let Load { parameters, data, stop } = load;
                    let result = sctp::send(association, parameters, data, budget, tally, stop).await;
                    Ended { flow, sender: true, at: now(), result }
                };
                workers.spawn_on(run, &shard);
            }
            Link::Tcp(connection) => spawn_thread(workers, flow, true, move || {
                connection.send(&load.data, budget, &tally, &load.stop)
            }),
        }
    }

    /// Starts receiving.
    pub(crate) fn start_receiver(&self, number: u16, parameters: &Parameters, workers: &mut JoinSet<Ended>) {
        let tally = Arc::clone(&self.received);
        let flow = usize::from(number);
        match self.link.clone() {
            Link::Sctp(association, shard) => {
                let (byte_stream, pauses) = (parameters.byte_stream, parameters.pauses);
                let run = async move {
                    let result = match byte_stream {
                        true => sctp::read(association, tally).await,
                        false => sctp::receive(association, tally, pauses).await,
                    };
                    Ended { flow, sender: false, at: now(), result }
                };
                workers.spawn_on(run, &shard);
            }
            Link::Tcp(connection) => {
                spawn_thread(workers, flow, false, move || connection.receive(&tally));
            }
        }
    }
}

/// Runs one direction of a flow in its own thread, and waits for it in a task.
fn spawn_thread(
    workers: &mut JoinSet<Ended>,
    flow: usize,
    sender: bool,
    run: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
) {
    let (tell, told) = tokio::sync::oneshot::channel();
    let started = std::thread::Builder::new().name(format!("flow {flow}")).spawn(move || {
        let result = run();
        // If nobody waits any more, the test is over.
        let _ = tell.send((now(), result));
    });
    workers.spawn(async move {
        let ended = match started {
            Ok(_) => told.await.context("the thread of a flow failed"),
            Err(error) => Err(error).context("starting a thread"),
        };
        let (at, result) = ended.unwrap_or_else(|error| (now(), Err(error)));
        Ended { flow, sender, at, result }
    });
}
