//! The programs on the two sides.

use std::ffi::OsStr;
use std::process::{self, ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::command;
use super::network::Network;
use super::topology::Side;

/// A command to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// A command line for the shell.
    Shell(String),
    /// A program and its arguments, run directly.
    Direct(Vec<String>),
}

impl Invocation {
    /// Returns the command as the user would type it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Shell(text) => text.clone(),
            Self::Direct(words) => words.join(" "),
        }
    }

    /// Returns the program that is run first, if it can be determined without a shell.
    fn program(&self) -> Option<&str> {
        let word = match self {
            Self::Shell(text) => text.split_whitespace().next()?,
            Self::Direct(words) => words.first()?,
        };
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_./+-".contains(c));
        (plain || matches!(self, Self::Direct(_))).then_some(word)
    }

    /// # Errors
    /// If the program isn't installed; the error names its package.
    pub fn check(&self) -> Result<()> {
        let Some(program) = self.program() else { return Ok(()) };
        let script = "PATH=$2; command -v -- \"$1\" >/dev/null";
        match command::run("sh", &["-c", script, "sh", program, &search_path()], "") {
            Ok(_) => Ok(()),
            Err(_) => bail!(command::missing(program)),
        }
    }
}

/// Destination of a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// This process's output, unchanged; the input is inherited as well.
    Inherited,
    /// This process's output, each line prefixed with the side.
    Labelled,
    /// Line by line with the side before each, all to standard error.
    LabelledToStderr,
}

/// A running program.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Its process group, if it has one of its own.
    group: Option<Pid>,
    printers: Vec<JoinHandle<()>>,
    ended: Option<ExitStatus>,
}

impl Program {
    /// Starts the program on a side of the network.
    ///
    /// # Errors
    /// If the program can't be started.
    pub fn start(network: &Network, side: Side, what: &Invocation, output: Output) -> Result<Self> {
        let namespace = network.namespaces().namespace(side);
        // If this process is killed, the kernel kills the program.
        let mut words: Vec<String> =
            ["setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", &namespace].map(str::to_owned).to_vec();
        match what {
            Invocation::Shell(text) => {
                words.extend(["sh".to_owned(), "-c".to_owned(), network.topology().substitute(text)]);
            }
            Invocation::Direct(arguments) => {
                words.extend(arguments.iter().map(|word| network.topology().substitute(word)));
            }
        }
        let (program, arguments) = words.split_first().context("the command is empty")?;
        let mut command = Command::new(program);
        command.args(arguments).env("SIDE", side.name()).env("PATH", search_path()).kill_on_drop(true);
        for (_, variable, address) in network.topology().substitutions() {
            command.env(variable, address);
        }
        if output != Output::Inherited {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        }
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow!(command::missing(program)),
            _ => anyhow!(error).context(format!("starting {}", what.shown())),
        })?;
        let group = match output {
            Output::Inherited => None,
            _ => child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
        };
        let mut printers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            printers.push(tokio::spawn(print(stdout, side, output == Output::LabelledToStderr)));
        }
        if let Some(stderr) = child.stderr.take() {
            printers.push(tokio::spawn(print(stderr, side, true)));
        }
        Ok(Self { child, group, printers, ended: None })
    }

    /// Waits for the program's end and returns its exit code.
    ///
    /// # Errors
    /// If waiting fails.
    pub async fn wait(&mut self) -> Result<u8> {
        let status = self.child.wait().await?;
        self.ended = Some(status);
        Ok(exit_code(status))
    }

    /// Returns whether the program is known to have ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Asks the program to end (SIGTERM).
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Kills the program (SIGKILL).
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.start_kill();
    }

    fn signal(&mut self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        } else if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Waits until all of the program's output has been printed.
    pub async fn printed(self) {
        for printer in self.printers {
            let _ = printer.await;
        }
    }
}

/// Returns the search path for programs: the usual one, then this program's folder, so that `strandline` is
/// found.
pub fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    match std::env::current_exe() {
        Ok(here) => here.parent().map_or(path.clone(), |folder| format!("{path}:{}", folder.display())),
        Err(_) => path,
    }
}

/// Starts a program whose output is read when it has ended. `strandline` means this program.
///
/// # Errors
/// If the program is missing; the error names its package.
pub fn start(
    program: &str,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<process::Child> {
    let path = match program {
        "strandline" => std::env::current_exe()?.into_os_string(),
        other => other.into(),
    };
    process::Command::new(path)
        .args(arguments)
        .env("PATH", search_path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => anyhow!(command::missing(program)),
            _ => anyhow!(error).context(format!("starting {program}")),
        })
}

/// Returns the exit code; 128 plus the signal's number if a signal ended the program, as shells do.
fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

async fn print(from: impl AsyncRead + Unpin, side: Side, to_stderr: bool) {
    let mut lines = BufReader::new(from).split(b'\n');
    let label = format!("{:5} | ", side.name());
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    let to: &mut (dyn AsyncWrite + Send + Unpin) = if to_stderr { &mut stderr } else { &mut stdout };
    // Output that can't be read or written any more is dropped.
    while let Ok(Some(line)) = lines.next_segment().await {
        let mut text = label.clone().into_bytes();
        text.extend_from_slice(&line);
        text.push(b'\n');
        // Flushed, so that lines appear in order whichever program writes the next.
        if to.write_all(&text).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
