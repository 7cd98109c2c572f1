//! `strandline load associations`: a server and clients on this machine set up more and more associations,
//! hold them and use them. Each step measures the memory of an association, the cost of a set-up and a
//! transaction, and whether every association answers.

mod client;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod ladder;
mod line;
mod order;
mod part;
mod process;
mod report;
mod server;
mod session;

use std::fmt;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use strandline::{AssociationConfig, EndpointConfig, Stack, StackBuilder};
use strandline_output::{out, outln};

pub(crate) use self::part::run as run_part;
use crate::demo::published;

/// Maximum number of associations that a stack accepts by default.
const COUNT_MAX: u64 = 4_000_000;

/// SCTP ports of a client address.
const LOCAL_PORTS: (u16, u16) = (10_000, 65_535);

/// The kind of association or connection to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// SCTP associations of one one-to-many endpoint; also `sctp-many`.
    #[value(alias = "sctp-many")]
    Sctp,
    /// SCTP associations that the server accepts one by one, with a one-to-one socket for each.
    SctpOne,
    /// TCP connections of the kernel.
    Tcp,
}

impl Transport {
    fn is_sctp(self) -> bool {
        self != Self::Tcp
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Sctp => "SCTP",
            Self::SctpOne => "SCTP one-to-one",
            Self::Tcp => "TCP",
        })
    }
}

/// Arguments of `strandline load associations`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline load associations                          up to 1,000,000 (about 2.5 GB of memory, 4 minutes)
  strandline load associations --count 10000            up to 10,000, in half a minute
  strandline load associations --heartbeat 30 --hold 90
                                                        measure the cost of heartbeats
  strandline load associations --transport sctp,tcp     also TCP, up to --tcp-max (8 KB of kernel memory each)
  strandline load associations --shards 2 --rate 20000  two shards; 20,000 new ones per second, each with a message")]
pub struct Args {
    /// Maximum number of associations
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    pub count: u64,
    /// Transports to measure, one after another
    #[arg(long, value_enum, value_delimiter = ',', default_value = "sctp")]
    pub transport: Vec<Transport>,
    /// Increasing numbers at which to measure [default: 1, 10, 100, ... up to --count]
    #[arg(long, value_delimiter = ',', value_name = "N,N,...")]
    pub steps: Vec<u64>,
    /// Maximum number of TCP connections; each pair of processes holds 19,000, and each connection takes two
    /// descriptors and about 8 KB in the kernel
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    pub tcp_max: u64,
    /// Seconds between heartbeats of an idle association; 0 disables them
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    pub heartbeat: f64,
    /// Seconds to hold all associations idle at the end, to measure their cost
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    pub hold: f64,
    /// New associations per second, each with an immediate message [default: as many as possible, without a
    /// message]
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Number of single set-ups and transactions timed at each step
    #[arg(long, default_value_t = 2000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub probes: u64,
    /// Size of a message in bytes
    #[arg(long, default_value_t = 1550, value_name = "BYTES")]
    pub size: usize,
    /// Seconds after which an operation fails
    #[arg(long, default_value_t = 20.0, value_name = "SECONDS")]
    pub timeout: f64,
    /// UDP socket of the server
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS:PORT")]
    pub udp_address: SocketAddr,
    /// Use SCTP over raw IP instead of UDP (requires CAP_NET_RAW)
    #[arg(long)]
    pub raw: bool,
    /// Number of shards of the SCTP server, each on its own core
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub shards: u16,
    /// Pin the server to the first core and the client to the second, so that times don't depend on the
    /// scheduler
    #[arg(long, conflicts_with = "shards")]
    pub apart: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl Args {
    fn check(&self) -> Result<()> {
        let not_negative = |value: f64| value >= 0.0 && value.is_finite();
        if !not_negative(self.heartbeat) || (self.heartbeat > 0.0 && self.heartbeat < 0.001) {
            bail!("--heartbeat must be 0 or at least 0.001 s");
        }
        if !not_negative(self.hold) {
            bail!("--hold must be 0 s or more");
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            bail!("--rate must be more than 0");
        }
        if !(self.timeout > 0.0 && self.timeout <= 3600.0) {
            bail!("--timeout must be more than 0 and at most 3600");
        }
        if self.size == 0 || self.size > 1 << 20 {
            bail!("--size must be 1 to 1048576");
        }
        if !self.udp_address.ip().is_loopback() || !self.udp_address.is_ipv4() {
            bail!("--udp-address must be in 127.0.0.0/8: all clients run on this machine");
        }
        let rising = self.steps.windows(2).all(|pair| pair.first() < pair.last());
        if !rising || self.steps.iter().any(|step| *step == 0 || *step > COUNT_MAX) {
            bail!("--steps must be increasing numbers from 1 to {COUNT_MAX}");
        }
        Ok(())
    }

    /// Returns the numbers of associations at which a transport is measured.
    fn steps_for(&self, transport: Transport) -> Vec<u64> {
        let most = match transport {
            Transport::Sctp | Transport::SctpOne => self.count,
            Transport::Tcp => self.count.min(self.tcp_max),
        };
        if self.steps.is_empty() {
            let mut steps: Vec<u64> = (0..7).map(|power| 10_u64.pow(power)).collect();
            steps.retain(|step| *step < most);
            steps.push(most);
            return steps;
        }
        let mut steps = self.steps.clone();
        if transport == Transport::Tcp {
            steps.retain(|step| *step <= self.tcp_max);
            if steps.is_empty() {
                steps.push(self.tcp_max);
            }
        }
        steps
    }
}

/// Measures and prints the result.
///
/// # Errors
/// If the arguments are invalid, a process fails, or an association doesn't answer.
pub fn run(args: &Args) -> Result<ExitCode> {
    args.check()?;
    let published = published::load()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ladders = runtime.block_on(async {
        let mut ladders = Vec::new();
        for transport in &args.transport {
            ladders.push(ladder::run(args, *transport).await?);
        }
        anyhow::Ok(ladders)
    })?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&ladders)?);
    } else {
        let mut text = Vec::new();
        report::print(&ladders, &published, &mut text)?;
        out!("{}", String::from_utf8_lossy(&text));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the configuration of the stacks of both sides.
fn stack_builder(heartbeat_s: Option<f64>) -> StackBuilder {
    let association = AssociationConfig {
        heartbeat_interval: heartbeat_s.map(Duration::from_secs_f64),
        ..AssociationConfig::default()
    };
    Stack::builder().config(EndpointConfig {
        association: Arc::new(association),
        ephemeral_ports: LOCAL_PORTS,
        ..EndpointConfig::default()
    })
}

#[cfg(test)]
mod tests;
