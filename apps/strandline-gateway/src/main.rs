//! The gateway alone: `strandline gateway` without the other commands.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use strandline_gateway::command::{Args, Command, EXAMPLES, Gateway, RUN_EXAMPLES, Run};
use strandline_output::{LogWriter, errln};
use tracing_subscriber::EnvFilter;

#[derive(Debug, Parser)]
#[command(name = "strandline-gateway", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    command: Option<Subcommand>,
    #[command(flatten)]
    args: Args,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommand {
    #[command(flatten)]
    Gateway(Command),
    /// Run a program whose TCP connections go through a gateway
    #[command(after_help = RUN_EXAMPLES)]
    Run(Run),
}

fn main() -> ExitCode {
    let program = Program::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(LogWriter::default).init();
    let result = match program.command {
        Some(Subcommand::Run(run)) => run.run(),
        Some(Subcommand::Gateway(command)) => Gateway::new(Some(command), program.args).run(),
        None => Gateway::new(None, program.args).run(),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            errln!("strandline-gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}
