//! The gateway alone: `strandline gateway` without the other commands.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use strandline_gateway::command::{EXAMPLES, Gateway};
use strandline_output::{LogWriter, errln};
use tracing_subscriber::EnvFilter;

#[derive(Debug, Parser)]
#[command(name = "strandline-gateway", version, after_help = EXAMPLES)]
struct Program {
    #[command(flatten)]
    gateway: Gateway,
}

fn main() -> ExitCode {
    let program = Program::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(LogWriter::default).init();
    match program.gateway.run() {
        Ok(code) => code,
        Err(error) => {
            errln!("strandline-gateway: {error:#}");
            ExitCode::FAILURE
        }
    }
}
