//! `strandline lab instructions`: how many instructions a program takes in user space, beside what it printed.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::netem::command::missing;
use crate::netem::program::search_path;
use crate::run::extract;

/// `strandline lab instructions`
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Example:
  strandline lab instructions -- strandline perf server --once --quiet --json

It needs valgrind, whose callgrind counts. The program is some fifty times slower meanwhile,
and its threads take turns. The kernel's instructions are not counted.

Prints {\"instructions\": NUMBER, \"report\": WHAT THE PROGRAM PRINTED}.")]
pub struct InstructionsArgs {
    /// The program, which prints a JSON object, with its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub program: Vec<String>,
}

/// Runs it.
///
/// # Errors
/// valgrind is not installed, the program failed or printed no JSON.
pub fn run(args: &InstructionsArgs) -> Result<ExitCode> {
    let mut words = args.program.clone();
    if let Some(first) = words.first_mut().filter(|first| *first == "strandline") {
        *first = std::env::current_exe()?.to_string_lossy().into_owned();
    }
    let child = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--"])
        .args(&words)
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow::anyhow!(missing("valgrind")),
            _ => anyhow::anyhow!(error).context("starting valgrind"),
        })?;
    let output = child.wait_with_output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = told.lines().rev().find(|line| !line.starts_with("==") && !line.trim().is_empty());
        bail!("{}: {}: {}", words.join(" "), output.status, last.unwrap_or("it said nothing"));
    }
    let instructions = collected(&told).context("valgrind didn't say how many instructions it counted")?;
    let report = extract::parse(&String::from_utf8_lossy(&output.stdout)).map_err(anyhow::Error::msg)?;
    println!("{}", json!({ "instructions": instructions, "report": report }));
    Ok(ExitCode::SUCCESS)
}

/// The number in `==123== Collected : 4567`.
pub(crate) fn collected(told: &str) -> Option<u64> {
    let line = told.lines().find(|line| line.starts_with("==") && line.contains("Collected :"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}
