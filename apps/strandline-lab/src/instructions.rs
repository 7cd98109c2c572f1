//! `strandline lab instructions`: counts the instructions that a program executes in user space, beside its
//! output.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;
use strandline_output::outln;

use crate::netem::program;
use crate::run::extract;

/// Arguments of `strandline lab instructions`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline lab instructions -- strandline perf server --once --quiet --json

Requires valgrind, whose callgrind counts the instructions. It slows the program down about
fifty times and serializes its threads. The kernel's instructions are not counted.

Prints {\"instructions\": NUMBER, \"report\": OUTPUT OF THE PROGRAM}.")]
pub struct InstructionsArgs {
    /// Program with its arguments; it prints a JSON object
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// Runs the program and prints its report with the count.
///
/// # Errors
/// If valgrind is not installed, or the program failed or printed no JSON.
pub fn run(args: &InstructionsArgs) -> Result<ExitCode> {
    let mut words = args.program.clone();
    if let Some(first) = words.first_mut().filter(|first| *first == "strandline") {
        *first = std::env::current_exe()?.to_string_lossy().into_owned();
    }
    let callgrind = ["--tool=callgrind", "--callgrind-out-file=/dev/null", "--"].map(str::to_owned);
    let child = program::start("valgrind", callgrind.iter().chain(&words))?;
    let output = child.wait_with_output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = told.lines().rev().find(|line| !line.starts_with("==") && !line.trim().is_empty());
        bail!("{}: {}: {}", words.join(" "), output.status, last.unwrap_or("no output"));
    }
    let instructions = collected(&told).context("no instruction count in valgrind's output")?;
    let report = extract::parse(&String::from_utf8_lossy(&output.stdout)).map_err(anyhow::Error::msg)?;
    outln!("{}", json!({ "instructions": instructions, "report": report }));
    Ok(ExitCode::SUCCESS)
}

/// Extracts the number from `==123== Collected : 4567`.
pub(crate) fn collected(told: &str) -> Option<u64> {
    let line = told.lines().find(|line| line.starts_with("==") && line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}
