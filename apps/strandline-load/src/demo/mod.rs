//! `strandline demo`: runs the echo server and the load together, and reproduces the tables of Ono and
//! Schulzrinne's paper of 2008.

mod measure;
pub(crate) mod published;
pub mod sip;
mod tables;

use std::process::ExitCode;

use anyhow::{Result, bail};
use strandline_output::{out, outln};

use self::measure::Plan;

/// Parts of the demo other than the tables.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Part {
    /// Run a SIP server and phones that call one another through it
    Sip(sip::Args),
}

/// Arguments of `strandline demo`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  strandline demo                                 in two minutes, with 50,000 associations
  strandline demo --associations 5000 --no-raw    in half a minute, only over UDP
  strandline demo --json > demo.json              machine-readable
  strandline demo sip                             a SIP server, phones that call one another, and its live page"
)]
pub struct Args {
    #[allow(missing_docs)]
    #[command(subcommand)]
    pub part: Option<Part>,
    /// Associations that the servers accumulate, as in the paper
    #[arg(long, default_value_t = 50_000, value_name = "N")]
    pub associations: u64,
    /// New associations per second
    #[arg(long, default_value_t = 2500.0, value_name = "N")]
    pub rate: f64,
    /// Size in bytes of the message that is echoed on each association
    #[arg(long, default_value_t = 1550, value_name = "BYTES")]
    pub size: usize,
    /// Skip raw IP even if its privilege is available
    #[arg(long)]
    pub no_raw: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints the result.
///
/// # Errors
/// If a server or a client process fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Some(Part::Sip(args)) = &args.part {
        return runtime.block_on(sip::run(args));
    }
    if !(args.rate > 0.0 && args.rate.is_finite()) || args.associations == 0 || args.size == 0 {
        bail!("--associations, --rate and --size must be more than 0");
    }
    let published = published::load()?;
    let plan = Plan {
        associations: args.associations,
        rate: args.rate,
        message_bytes: args.size,
        raw: !args.no_raw,
        quiet: args.json,
    };
    let results = runtime.block_on(measure::run(&plan))?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&results)?);
    } else {
        let mut text = Vec::new();
        tables::print(&published, &results, &mut text)?;
        out!("{}", String::from_utf8_lossy(&text));
    }
    let succeeded = results.cases.iter().all(|case| case.load.completed > 0);
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
