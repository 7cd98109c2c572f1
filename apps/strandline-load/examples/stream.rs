//! The throughput test as a program of its own:
//!
//! ```text
//! cargo run --release -p strandline-load --example stream -- receive
//! cargo run --release -p strandline-load --example stream -- send --to 127.0.0.1
//! ```

use std::process::ExitCode;

use clap::Parser;
use strandline_load::stream;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: stream::Args,
}

fn main() -> anyhow::Result<ExitCode> {
    stream::run(&Command::parse().args)
}
