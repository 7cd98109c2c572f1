//! The client side of each transport.

mod sctp;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use strandline_measure::now;

use self::sctp::SctpClient;
use self::socket::SocketClient;
use crate::exchange::Exchange;
use crate::job::{Job, Style};
use crate::trace::{StepObserver, Steps};

/// Sets up sessions with the server.
#[derive(Debug)]
pub(crate) enum Client {
    Socket(SocketClient),
    Sctp(SctpClient),
}

/// An association, a connection, or a UDP socket.
#[derive(Debug)]
pub(crate) enum Session {
    Socket(socket::Session),
    Sctp(strandline::Association),
}

/// The times of one operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    pub(crate) setup: Option<Duration>,
    pub(crate) transaction: Option<Duration>,
    pub(crate) total: Duration,
}

impl Client {
    pub(crate) fn new(job: &Job) -> Result<Self> {
        Ok(if job.transport.is_sctp() {
            Self::Sctp(SctpClient::new(job)?)
        } else {
            Self::Socket(SocketClient::new(job))
        })
    }

    /// Sets up a session without a transaction.
    pub(crate) async fn connect(&self) -> Result<Session> {
        Ok(match self {
            Self::Socket(client) => Session::Socket(client.connect().await?.0),
            Self::Sctp(client) => Session::Sctp(client.connect().await?),
        })
    }

    /// Sets up a session and runs one transaction on it.
    pub(crate) async fn operate(&self, style: Style, exchange: &Exchange) -> Result<(Session, Taken)> {
        let begin = now();
        match (self, style) {
            (Self::Sctp(client), Style::Piggyback) => {
                let association = client.start()?;
                sctp::transact(&association, exchange).await?;
                let taken = Taken { total: begin.elapsed(), ..Taken::default() };
                Ok((Session::Sctp(association), taken))
            }
            (Self::Sctp(client), Style::Regular) => {
                let association = client.connect().await?;
                let setup = begin.elapsed();
                sctp::transact(&association, exchange).await?;
                let total = begin.elapsed();
                let taken = Taken { setup: Some(setup), transaction: Some(total - setup), total };
                Ok((Session::Sctp(association), taken))
            }
            (Self::Socket(client), _) => {
                let (mut session, setup) = client.connect().await?;
                let connected = now();
                let written = session.transact(exchange).await?;
                let total = begin.elapsed();
                let transaction = connected.elapsed();
                if let (Some(setup), Some(written)) = (setup, written) {
                    client.trace(setup, written, transaction);
                }
                Ok((Session::Socket(session), Taken { setup, transaction: Some(transaction), total }))
            }
        }
    }

    /// Waits for the graceful end of sessions, so that the server isn't left with associations without a
    /// peer.
    pub(crate) async fn let_go(&self) {
        if let Self::Sctp(client) = self {
            client.let_go().await;
        }
    }

    /// Returns the congestion control of the client's TCP connections, if there were any.
    pub(crate) fn tcp_congestion(&self) -> Option<String> {
        match self {
            Self::Socket(client) => client.congestion(),
            Self::Sctp(_) => None,
        }
    }

    pub(crate) fn take_steps(&self) -> Result<Steps> {
        match self {
            Self::Socket(client) => Ok(client.take_steps()),
            Self::Sctp(client) => client.finish(),
        }
    }
}

impl Session {
    /// Runs one transaction on an existing session.
    pub(crate) async fn transact(&mut self, exchange: &Exchange) -> Result<Taken> {
        let begin = now();
        match self {
            Self::Socket(session) => {
                session.transact(exchange).await?;
            }
            Self::Sctp(association) => sctp::transact(association, exchange).await?,
        }
        let total = begin.elapsed();
        Ok(Taken { setup: None, transaction: Some(total), total })
    }
}

/// Returns the observer that a job requests.
fn observer(job: &Job) -> Result<Watch> {
    let steps = job.trace.then(|| Arc::new(StepObserver::default()));
    let capture = match &job.pcap {
        Some(path) => {
            let capture = strandline::Capture::create(path);
            Some(Arc::new(capture.with_context(|| format!("creating {}", path.display()))?))
        }
        None => None,
    };
    Ok(Watch { steps, capture })
}

/// The observer of an SCTP client's packets.
#[derive(Debug, Clone)]
struct Watch {
    steps: Option<Arc<StepObserver>>,
    capture: Option<Arc<strandline::Capture>>,
}

impl strandline::PacketObserver for Watch {
    fn packet(&self, packet: &strandline::ObservedPacket<'_>) {
        if let Some(steps) = &self.steps {
            steps.packet(packet);
        }
        if let Some(capture) = &self.capture {
            capture.packet(packet);
        }
    }
}

impl Watch {
    fn is_needed(&self) -> bool {
        self.steps.is_some() || self.capture.is_some()
    }
}
