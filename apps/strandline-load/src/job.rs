//! What client processes are told and what they tell: one JSON value a line.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::histogram::Times;
use crate::trace::Steps;

/// A transport, and for SCTP the style of the server's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP: a connection for each association.
    Tcp,
    /// UDP: nothing to set up; a lost message counts as failed.
    Udp,
    /// SCTP, the server with one-to-one sockets; also `sctp-one`.
    #[value(alias = "sctp-one")]
    Sctp,
    /// SCTP, the server with one one-to-many socket.
    SctpMany,
}

impl Transport {
    pub(crate) fn is_sctp(self) -> bool {
        matches!(self, Self::Sctp | Self::SctpMany)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP one-to-one",
            Self::SctpMany => "SCTP one-to-many",
        })
    }
}

/// When the first message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Once the association is established.
    Regular,
    /// Along with the COOKIE ECHO. For TCP and UDP the same as regular.
    Piggyback,
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Content {
    /// Letters, which come back.
    Letters,
    /// Letters and the end of a line, which is answered with the end of a line.
    Line,
    /// An INVITE, which is answered with 200.
    Invite,
}

/// What carries SCTP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Encapsulation {
    /// UDP, to this port of the server.
    Udp(u16),
    /// Raw IP.
    Raw,
}

/// The work of one client process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) transport: Transport,
    pub(crate) content: Content,
    pub(crate) style: Style,
    pub(crate) encapsulation: Encapsulation,
    /// IP address, and the TCP, UDP or SCTP port.
    pub(crate) server: SocketAddr,
    pub(crate) message_bytes: usize,
    /// Operations a second, of this process.
    pub(crate) rate: f64,
    /// Operations in all, of this process.
    pub(crate) count: u64,
    /// Which of the client processes it is, from 0, and how many there are.
    pub(crate) number: u64,
    pub(crate) clients: u64,
    /// This process begins so many seconds later than the first, so that all together are evenly spaced.
    pub(crate) offset_s: f64,
    /// Associations set up beforehand, on which the operations go in turn; 0: a new one for each operation.
    pub(crate) persistent: u64,
    /// New associations are kept until the controller says otherwise.
    pub(crate) hold: bool,
    /// An operation that takes longer has failed.
    pub(crate) timeout_s: f64,
    /// Collect the time between packets.
    pub(crate) trace: bool,
    /// Where to write the packets.
    pub(crate) pcap: Option<PathBuf>,
}

/// From the controller to a client process, after the job.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Command {
    /// Begin at this moment, in nanoseconds since 1970.
    Start {
        /// The moment.
        at_unix_ns: u64,
    },
    /// Let go of everything and end.
    Release,
}

/// From a client process to the controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    /// Ready to start: persistent associations are there.
    Ready,
    /// So far.
    Progress(Progress),
    /// All operations are done.
    Done(Box<Outcome>),
    /// It can't go on.
    Failed(String),
}

/// Counts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) begun: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

/// What a client process, or all of them, measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) progress: Progress,
    /// What went wrong, and how often.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Associations held at the end.
    pub(crate) held: u64,
    /// From the call to set up to its return; nothing for the piggyback style.
    pub(crate) setup: Times,
    /// From sending to receiving the echo; nothing for a new association in piggyback style.
    pub(crate) transaction: Times,
    /// From the beginning of the set-up to receiving the echo.
    pub(crate) total: Times,
    /// From the scheduled start of the operation to receiving the echo.
    pub(crate) scheduled_total: Times,
    /// From the first operation's moment to the last one's end.
    pub(crate) elapsed_s: f64,
    pub(crate) steps: Steps,
    /// Congestion control of the TCP connections.
    pub(crate) tcp_congestion: Option<String>,
}

impl Outcome {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.progress.begun += other.progress.begun;
        self.progress.completed += other.progress.completed;
        self.progress.failed += other.progress.failed;
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
        self.held += other.held;
        self.setup.merge(&other.setup);
        self.transaction.merge(&other.transaction);
        self.total.merge(&other.total);
        self.scheduled_total.merge(&other.scheduled_total);
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.steps.merge(&other.steps);
        if self.tcp_congestion.is_none() {
            self.tcp_congestion.clone_from(&other.tcp_congestion);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
