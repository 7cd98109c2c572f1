//! `strandline lab sequence`: starts helper programs, such as the gateway on this side, and runs programs one
//! after another beside them, measuring how long each takes.
#![allow(clippy::disallowed_methods, reason = "programs are measured in real time")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};
use strandline_output::outln;

use crate::netem::command::missing;
use crate::netem::program::search_path;
use crate::run::extract;

/// How long a helper may take until it has an open socket.
const READY_MAX: Duration = Duration::from_secs(10);
/// Time between looking for it.
const READY_STEP: Duration = Duration::from_millis(2);

/// Arguments of `strandline lab sequence`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline lab sequence --helpers 1 -- strandline gateway --insecure --peer far=10.0.1.2:9899 --preload 9897 \\
      + strandline run wget -q -O /dev/null http://10.0.1.2/

A helper is started once the one before it has a listening TCP socket or an open UDP socket. Helpers end with
the command. The other programs run one after another, or with --every at these times after the first.
Prints {\"programs\": [{\"seconds\": TIME IT TOOK, \"report\": THE JSON IT PRINTED, OR null}, ...], \"last\": THE SAME
OF THE LAST}. Ends with an error if one of them fails, or a helper ends.")]
pub struct SequenceArgs {
    /// How many of the programs, from the first one on, are helpers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub helpers: usize,
    /// Pause between the helpers' start and the first program
    #[arg(long, value_name = "SECS", default_value_t = 0.0, value_parser = seconds)]
    pub settle: f64,
    /// Start a program so long after the one before it, without waiting for its end
    #[arg(long, value_name = "SECS", value_parser = seconds)]
    pub every: Option<f64>,
    /// Programs with their arguments, separated by +
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub programs: Vec<String>,
}

/// The longest pause, seconds.
const PAUSE_MAX: f64 = 3_600.0;

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if (0.0..=PAUSE_MAX).contains(&value) {
        return Ok(value);
    }
    Err(format!("'{text}' is not between 0 and {PAUSE_MAX} seconds"))
}

/// Runs the programs and prints how long each took.
///
/// # Errors
/// If a program is not installed or failed, or a helper did not open a socket, or ended early.
pub fn run(args: &SequenceArgs) -> Result<ExitCode> {
    let programs = measure(args)?;
    outln!("{}", json!({ "last": programs.last(), "programs": programs }));
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &SequenceArgs) -> Result<Vec<Value>> {
    let mut commands: Vec<&[String]> = args.programs.split(|word| word == "+").collect();
    ensure!(
        commands.len() > args.helpers,
        "--helpers {}: there must be more programs than helpers, separated by +",
        args.helpers
    );
    let programs = commands.split_off(args.helpers);
    let mut helpers = Vec::new();
    for command in commands {
        let mut helper = Process::start(command, Stdio::null())?;
        helper.wait_for_a_socket()?;
        helpers.push(helper);
    }
    thread::sleep(Duration::from_secs_f64(args.settle));
    let measured = match args.every {
        None => programs.into_iter().map(|command| Measured::start(command)?.end()).collect(),
        Some(every) => overlapping(&programs, Duration::from_secs_f64(every)),
    }?;
    for helper in &mut helpers {
        if let Some(status) = helper.child.try_wait()? {
            bail!("{} ended: {status}", helper.command);
        }
    }
    Ok(measured)
}

/// Starts the programs one after another at these times; returns when all have ended.
fn overlapping(commands: &[&[String]], every: Duration) -> Result<Vec<Value>> {
    let begin = Instant::now();
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, command) in (0_u32..).zip(commands) {
            thread::sleep((begin + every * number).saturating_duration_since(Instant::now()));
            let program = Measured::start(command)?;
            threads.push(scope.spawn(move || program.end()));
        }
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?).collect()
    })
}

/// A program and when it was started.
struct Measured {
    process: Process,
    began: Instant,
}

impl Measured {
    fn start(command: &[String]) -> Result<Self> {
        let began = Instant::now();
        Ok(Self { process: Process::start(command, Stdio::piped())?, began })
    }

    /// Waits for the program's end.
    fn end(self) -> Result<Value> {
        let Self { mut process, began } = self;
        let mut printed = Vec::new();
        if let Some(mut stdout) = process.child.stdout.take() {
            std::io::Read::read_to_end(&mut stdout, &mut printed)?;
        }
        let status = process.child.wait()?;
        let seconds = began.elapsed().as_secs_f64();
        ensure!(status.success(), "{}: {status}", process.command);
        let report = extract::parse(&String::from_utf8_lossy(&printed)).ok().filter(Value::is_object);
        Ok(json!({ "seconds": seconds, "report": report }))
    }
}

/// A child process, which is killed when this is dropped.
struct Process {
    command: String,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts a program, which the kernel kills if this process is killed. `strandline` means this program.
    fn start(command: &[String], stdout: Stdio) -> Result<Self> {
        let (name, arguments) = command.split_first().context("a command before or after + is missing")?;
        let path = match name.as_str() {
            "strandline" => std::env::current_exe()?,
            other => found(other).with_context(|| missing(other))?,
        };
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(path)
            .args(arguments)
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(stdout)
            .spawn()
            .with_context(|| missing("setpriv"))?;
        Ok(Self { command: command.join(" "), child })
    }

    /// Waits until the process has a listening TCP socket or an open UDP socket.
    fn wait_for_a_socket(&mut self) -> Result<()> {
        let begin = Instant::now();
        while !self.has_a_socket() {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended before it opened a socket: {status}", self.command);
            }
            ensure!(
                begin.elapsed() < READY_MAX,
                "{} opened no socket within {} s",
                self.command,
                READY_MAX.as_secs()
            );
            thread::sleep(READY_STEP);
        }
        Ok(())
    }

    /// Returns whether one of the process's descriptors is such a socket.
    fn has_a_socket(&self) -> bool {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{}/fd", self.child.id())) else { return false };
        let links = descriptors.flatten().filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        let own: BTreeSet<String> = links
            .filter_map(|link| {
                let name = String::from_utf8_lossy(link.as_os_str().as_bytes()).into_owned();
                Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
            })
            .collect();
        ["tcp", "tcp6", "udp", "udp6"].into_iter().any(|table| {
            let text = fs::read_to_string(format!("/proc/{}/net/{table}", self.child.id()));
            text.is_ok_and(|text| open_sockets(&text).any(|inode| own.contains(inode)))
        })
    }
}

/// Returns the path of a program in the search path.
fn found(program: &str) -> Option<std::path::PathBuf> {
    if program.contains('/') {
        return Some(program.into());
    }
    std::env::split_paths(&search_path()).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Returns the inodes of a kernel table's listening (state 0A, TCP) and open (07, UDP) sockets.
fn open_sockets(table: &str) -> impl Iterator<Item = &str> {
    table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let state = *fields.get(3)?;
        (state == "0A" || state == "07").then(|| fields.get(9).copied())?
    })
}

#[cfg(test)]
mod tests;
