//! Load generators, and the servers that they test.
//!
//! - [`echo_server`]: answers on TCP, UDP and SCTP, any set of them at once;
//! - [`echo_load`]: several client processes that a controller starts together, open loop at a given rate;
//! - [`demo`]: both together, reproducing the tables of Ono and Schulzrinne's paper of 2008;
//! - [`associations`]: set-up, transactions and memory with up to millions of associations;
//! - [`itemised`]: memory of one association by item, and with gaps in the received TSNs;
//! - [`flood`]: INITs at a high rate, with plain UDP as baseline;
//! - [`sip`]: phones that register with a SIP server and call one another;
//! - [`perf`]: message throughput over one or several associations, or over TCP, and its cost.
//!
//! Each has its `Args` for the command line and a `run`.
#![forbid(unsafe_code)]

pub mod associations;
mod child;
mod client;
mod controller;
mod cores;
pub mod demo;
pub mod echo_load;
mod echo_process;
pub mod echo_server;
mod exchange;
pub mod flood;
mod folder;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod itemised;
mod job;
mod kernel;
mod memory;
pub mod perf;
mod report;
mod served;
pub mod sip;
#[cfg(test)]
mod testing;
mod trace;
mod worker;

pub use echo_process::{Left, end_with_parent};

use std::process::ExitCode;

use clap::Subcommand;

/// The subcommands of `strandline load`.
#[derive(Debug, Subcommand)]
pub enum Load {
    /// Set up associations or connections at a given rate, and measure the echo of a message on each.
    Echo(echo_load::Args),
    /// Set up, hold and use up to millions of associations, with TCP connections for comparison.
    Associations(associations::Args),
    /// Measure the memory of one association by item, idle and with gaps in the received TSNs.
    Memory(itemised::Args),
    /// Flood your own server with INITs, or with plain UDP for comparison.
    Flood(flood::Args),
    /// Register phones with a SIP server, or let them call one another through it.
    Sip(Box<sip::Args>),
    /// Keep hundreds of thousands of phones connected to SIP servers, and let them all reconnect at once.
    Phones(sip::phones::Args),
    /// One process of `sip`, which starts it.
    #[command(hide = true)]
    SipPart,
    /// One process of `phones`, which starts it.
    #[command(hide = true)]
    PhonesPart,
    /// One process of `associations`, which starts it.
    #[command(hide = true)]
    Part,
    /// One client process; a controller starts it and communicates over its standard input and output.
    #[command(hide = true)]
    Worker,
}

impl Load {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// The error that stopped it, with a hint.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Echo(args) => echo_load::run(&args),
            Self::Associations(args) => associations::run(&args),
            Self::Memory(args) => itemised::run(&args),
            Self::Flood(args) => flood::run(&args),
            Self::Sip(args) => sip::run(&args),
            Self::Phones(args) => sip::phones::run(&args),
            Self::SipPart => sip::run_part().map(|()| ExitCode::SUCCESS),
            Self::PhonesPart => sip::phones::run_part().map(|()| ExitCode::SUCCESS),
            Self::Part => associations::run_part().map(|()| ExitCode::SUCCESS),
            Self::Worker => worker::run().map(|()| ExitCode::SUCCESS),
        }
    }
}
