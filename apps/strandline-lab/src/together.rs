//! `strandline lab together`: programs at the same time, such as two flows that share a link, and what each printed.

use std::process::{Child, ExitCode, Output};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::netem::program;
use crate::run::extract;

/// `strandline lab together`
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Example:
  strandline lab together -- strandline perf client 10.0.1.2 --quiet --json \\
      + strandline perf client 10.0.1.2 --transport tcp --quiet --json

All are started at once. It ends when the last one does, or when one fails, with the others.

Prints {\"programs\": [WHAT THE FIRST PRINTED, WHAT THE SECOND PRINTED, ...]}.")]
pub struct TogetherArgs {
    /// Programs, each of which prints a JSON object, with their arguments; + between them
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub programs: Vec<String>,
}

/// Runs them.
///
/// # Errors
/// A program is not installed, failed, or printed no JSON.
pub fn run(args: &TogetherArgs) -> Result<ExitCode> {
    println!("{}", json!({ "programs": reports(&args.programs)? }));
    Ok(ExitCode::SUCCESS)
}

fn reports(words: &[String]) -> Result<Vec<Value>> {
    let mut running = Vec::new();
    for command in words.split(|word| word == "+") {
        match start(command) {
            Ok(child) => running.push((command.join(" "), child)),
            Err(error) => {
                end(running);
                return Err(error);
            }
        }
    }
    let mut reports = Vec::new();
    let mut running = running.into_iter();
    while let Some((command, child)) = running.next() {
        let report = child.wait_with_output().map_err(Into::into).and_then(|output| report(&output));
        match report.context(command) {
            Ok(report) => reports.push(report),
            Err(error) => {
                end(running);
                return Err(error);
            }
        }
    }
    Ok(reports)
}

fn start(command: &[String]) -> Result<Child> {
    let (name, arguments) = command.split_first().context("nothing stands beside a +")?;
    program::start(name, arguments)
}

fn report(output: &Output) -> Result<Value> {
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = told.lines().rev().find(|line| !line.trim().is_empty());
        bail!("{}: {}", output.status, last.unwrap_or("it said nothing"));
    }
    let report = extract::parse(&String::from_utf8_lossy(&output.stdout)).map_err(anyhow::Error::msg)?;
    ensure!(report.is_object(), "it printed no JSON object");
    Ok(report)
}

fn end(running: impl IntoIterator<Item = (String, Child)>) {
    for (_, mut child) in running {
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests;
