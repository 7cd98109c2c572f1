//! The messages between the controller and client processes: one JSON value per line.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use strandline_measure::Times;

use crate::trace::Steps;

/// A transport, and for SCTP the style of the server's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP, with a connection instead of each association.
    Tcp,
    /// UDP, without set-up; a lost message counts as failed.
    Udp,
    /// SCTP to a server with one-to-one sockets; also `sctp-one`.
    #[value(alias = "sctp-one")]
    Sctp,
    /// SCTP to a server with one one-to-many socket.
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

/// The time of the first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Style {
    /// Once the association is established.
    Regular,
    /// Along with the COOKIE ECHO. For TCP and UDP the same as regular.
    Piggyback,
}

/// The content of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Content {
    /// Letters, which are echoed.
    Letters,
    /// Letters and the end of a line, answered with the end of a line.
    Line,
    /// An INVITE, answered with 200.
    Invite,
}

/// The carrier of SCTP packets.
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
    /// IP address, and TCP, UDP or SCTP port of the server.
    pub(crate) server: SocketAddr,
    pub(crate) message_bytes: usize,
    /// Operations per second of this process.
    pub(crate) rate: f64,
    /// Total operations of this process.
    pub(crate) count: u64,
    /// Number of this client process, from 0, and the number of client processes.
    pub(crate) number: u64,
    pub(crate) clients: u64,
    /// Seconds by which this process begins later than the first, so that the operations of all together are
    /// evenly spaced.
    pub(crate) offset_s: f64,
    /// Number of associations set up beforehand and used in turn; 0: a new one for each operation.
    pub(crate) persistent: u64,
    /// Whether new associations are kept until the controller releases them.
    pub(crate) hold: bool,
    /// Seconds after which an operation has failed.
    pub(crate) timeout_s: f64,
    /// Whether to collect the time between packets.
    pub(crate) trace: bool,
    /// File for the packets.
    pub(crate) pcap: Option<PathBuf>,
}

/// A message from the controller to a client process, after the job.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Command {
    /// Begin at the given time.
    Start {
        /// Time in nanoseconds since 1970.
        at_unix_ns: u64,
    },
    /// Release everything and end.
    Release,
}

/// A message from a client process to the controller.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    /// Ready to start: persistent associations are established.
    Ready,
    /// Counts so far.
    Progress(Progress),
    /// All operations are done.
    Done(Box<Outcome>),
    /// The process can't continue.
    Failed(String),
}

/// Counts so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) begun: u64,
    pub(crate) completed: u64,
    pub(crate) failed: u64,
}

/// The measurements of one client process, or of all.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) progress: Progress,
    /// Errors, with the number of their occurrences.
    pub(crate) errors: BTreeMap<String, u64>,
    /// Number of associations held at the end.
    pub(crate) held: u64,
    /// Time from the call that sets up to its return; empty for the piggyback style.
    pub(crate) setup: Times,
    /// Time from sending to receiving the echo; empty for a new association in piggyback style.
    pub(crate) transaction: Times,
    /// Time from the beginning of the set-up to receiving the echo.
    pub(crate) total: Times,
    /// From the scheduled start of the operation to receiving the echo.
    pub(crate) scheduled_total: Times,
    /// Seconds from the first operation's scheduled start to the last one's end.
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
