//! `strandline lab together`: runs programs at the same time, such as two flows that share a link, and prints
//! their reports.

use std::io::Read;
use std::process::{Child, ExitCode, Output};
use std::sync::mpsc::{self, Sender};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use strandline_output::outln;

use crate::netem::program;
use crate::run::extract;

/// Arguments of `strandline lab together`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline lab together -- strandline perf client 10.0.1.2 --quiet --json \\
      + strandline perf client 10.0.1.2 --transport tcp --quiet --json

All programs start at once. The command ends when the last one ends, or when one fails, and
then stops the others. Prints {\"programs\": [OUTPUT OF THE FIRST, OUTPUT OF THE SECOND, ...]}.")]
pub struct TogetherArgs {
    /// Programs with their arguments, separated by +; each prints a JSON object
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub programs: Vec<String>,
}

/// A running program.
struct Running {
    command: String,
    child: Child,
    /// The report, once the program has ended.
    report: Option<Value>,
}

impl Running {
    /// Takes the program's complete output.
    fn take(&mut self, stdout: Vec<u8>, stderr: Vec<u8>) -> Result<()> {
        let status = self.child.wait()?;
        self.report = Some(report(&Output { status, stdout, stderr })?);
        Ok(())
    }
}

/// Reads a program's output continuously, because a program with a full pipe blocks; sends it to `ended` at the
/// end.
fn read(child: &mut Child, number: usize, ended: Sender<(usize, Vec<u8>, Vec<u8>)>) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::spawn(move || {
        let stderr = thread::spawn(move || all(stderr));
        let stdout = all(stdout);
        // The receiver is gone if another program failed.
        let _ = ended.send((number, stdout, stderr.join().unwrap_or_default()));
    });
}

/// Returns everything up to an error; the program's status tells the rest.
fn all(from: Option<impl Read>) -> Vec<u8> {
    let mut printed = Vec::new();
    if let Some(mut from) = from {
        let _ = from.read_to_end(&mut printed);
    }
    printed
}

/// Runs the programs and prints their reports.
///
/// # Errors
/// If a program is not installed, failed, or printed no JSON.
pub fn run(args: &TogetherArgs) -> Result<ExitCode> {
    outln!("{}", json!({ "programs": reports(&args.programs)? }));
    Ok(ExitCode::SUCCESS)
}

fn reports(words: &[String]) -> Result<Vec<Value>> {
    let (ended, ends) = mpsc::channel();
    let mut running = Vec::new();
    for command in words.split(|word| word == "+") {
        match start(command) {
            Ok(mut child) => {
                read(&mut child, running.len(), ended.clone());
                running.push(Running { command: command.join(" "), child, report: None });
            }
            Err(error) => {
                end(running);
                return Err(error);
            }
        }
    }
    drop(ended);
    // In the order in which the programs end.
    for (number, stdout, stderr) in ends {
        let Some(program) = running.get_mut(number) else { continue };
        if let Err(error) = program.take(stdout, stderr) {
            let error = error.context(program.command.clone());
            end(running);
            return Err(error);
        }
    }
    Ok(running.into_iter().filter_map(|program| program.report).collect())
}

fn start(command: &[String]) -> Result<Child> {
    let (name, arguments) = command.split_first().context("a command before or after + is missing")?;
    program::start(name, arguments)
}

fn report(output: &Output) -> Result<Value> {
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = told.lines().rev().find(|line| !line.trim().is_empty());
        bail!("{}: {}", output.status, last.unwrap_or("no output"));
    }
    let report = extract::parse(&String::from_utf8_lossy(&output.stdout)).map_err(anyhow::Error::msg)?;
    ensure!(report.is_object(), "the output is not a JSON object");
    Ok(report)
}

fn end(running: Vec<Running>) {
    for mut program in running {
        // It may have ended by itself.
        let _ = program.child.kill();
        let _ = program.child.wait();
    }
}

#[cfg(test)]
mod tests;
