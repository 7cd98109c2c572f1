//! `strandline load phones`: growing numbers of phones that stay connected. Measures the server's resources
//! for each, its response times, and the time until all phones are registered again that reconnect at once.

mod controller;
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::sip) mod fuzzing;
mod order;
mod phone;
mod report;
mod worker;

use std::process::ExitCode;

use anyhow::{Result, bail};
use strandline_output::outln;

pub(crate) use worker::run as run_part;

/// The transport of phones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Transport {
    /// TCP, a connection for each phone.
    Tcp,
    /// SCTP over UDP, an association for each phone.
    Sctp,
}

/// Starts SIP servers, connects growing numbers of phones and keeps them connected.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline load phones                                 1,000, 10,000 and 100,000 TCP connections
  strandline load phones --steps 1000,250000             about 3 GB of memory
  strandline load phones --transport sctp --steps 1000,1000000
                                                         a million associations
  strandline load phones --steps 100000 --return         and all reconnect at once
Each TCP connection takes a descriptor in a server and in a phone process. --each limits the connections of a process;
more servers and phone processes are started as needed.")]
pub struct Args {
    /// Transport of the phones
    #[arg(long, value_enum, default_value = "tcp")]
    pub transport: Transport,
    /// Increasing numbers of phones at which to measure
    #[arg(long, value_delimiter = ',', value_name = "N,...", default_value = "1000,10000,100000")]
    pub steps: Vec<u64>,
    /// Number of users to which the phones belong
    #[arg(long, default_value_t = 300_000, value_name = "N")]
    pub users: u32,
    /// Maximum number of TCP connections of a process
    #[arg(long, default_value_t = 19_000, value_name = "N")]
    pub each: u64,
    /// Number of single REGISTERs timed at each step
    #[arg(long, default_value_t = 2000, value_name = "N")]
    pub probes: u64,
    /// At the end close all connections and let all phones reconnect, first in groups, then all at once
    #[arg(long = "return")]
    pub come_back: bool,
    /// Pin servers to the first core and phones to the second
    #[arg(long)]
    pub apart: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl Args {
    fn check(&self) -> Result<()> {
        let rising = self.steps.windows(2).all(|pair| pair.first() < pair.last());
        if self.steps.is_empty() || !rising || self.steps.iter().any(|step| !(1..=10_000_000).contains(step))
        {
            bail!("--steps must be increasing numbers from 1 to 10000000");
        }
        if self.users == 0 || self.each == 0 || self.probes == 0 {
            bail!("--users, --each and --probes must be at least 1");
        }
        Ok(())
    }
}

/// Measures and prints the result.
///
/// # Errors
/// If the arguments are invalid, or a phone can't register.
pub fn run(args: &Args) -> Result<ExitCode> {
    args.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(controller::measure(args))?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    Ok(ExitCode::SUCCESS)
}
