//! `strandline perf`: measures message throughput between two hosts, over SCTP or TCP, and its cost.
//!
//! A server accepts tests from any client. A test has a control association (or TCP connection) on which the
//! two sides agree on the test and exchange their figures (the module `protocol`), and one or several others
//! that carry the messages.

mod args;
mod budget;
mod channel;
mod client;
mod flow;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod open;
mod path_events;
mod protocol;
mod report;
mod sctp;
mod server;
mod session;
mod shards;
mod tally;
mod tcp;
mod tcp_info;
mod text;
mod trace;
mod track;
mod tuning;

pub use self::args::{Args, ClientArgs, Common, ServerArgs, Side, Transport};

use std::process::ExitCode;

use anyhow::Context;
use strandline_output::errln;
use tokio::sync::watch;

use crate::cores::Cores;

/// Exit code for invalid arguments, the same as clap's.
const WRONG_ARGUMENTS: u8 = 2;

/// Runs one side.
///
/// # Errors
/// The error that stopped it, with a hint.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = match &args.side {
        Side::Server(args) => &args.common,
        Side::Client(args) => &args.common,
    };
    if let Side::Client(args) = &args.side
        && let Err(wrong) = args.parameters()
    {
        errln!("error: {wrong:#}\n\nFor more information, try 'strandline perf client --help'.");
        return Ok(ExitCode::from(WRONG_ARGUMENTS));
    }
    // One thread for each shard: an association lives on one core.
    let cores = Cores::start(common.shards)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("starting the tokio runtime")?.block_on(async {
        let interrupt = interrupt();
        match &args.side {
            Side::Server(args) => server::run(args, cores.with_current(), interrupt).await,
            Side::Client(args) => client::run(args, cores.with_current(), interrupt).await,
        }
    })
}

/// Returns a receiver that turns true at the first Ctrl-C. The second ends the program at once, in case the
/// first didn't.
fn interrupt() -> watch::Receiver<bool> {
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        // Without a signal handler, Ctrl-C just ends the program.
        if tokio::signal::ctrl_c().await.is_ok() {
            tell.send_replace(true);
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(130);
            }
        }
    });
    told
}
