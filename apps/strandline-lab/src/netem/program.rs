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

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// By the shell.
    Shell(String),
    /// Directly: a program and its arguments.
    Direct(Vec<String>),
}

impl Invocation {
    /// As people write it.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Shell(text) => text.clone(),
            Self::Direct(words) => words.join(" "),
        }
    }

    /// The program that is run first, if that can be told without a shell.
    fn program(&self) -> Option<&str> {
        let word = match self {
            Self::Shell(text) => text.split_whitespace().next()?,
            Self::Direct(words) => words.first()?,
        };
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_./+-".contains(c));
        (plain || matches!(self, Self::Direct(_))).then_some(word)
    }

    /// # Errors
    /// The program isn't installed; names its package.
    pub fn check(&self) -> Result<()> {
        let Some(program) = self.program() else { return Ok(()) };
        let script = "PATH=$2; command -v -- \"$1\" >/dev/null";
        match command::run("sh", &["-c", script, "sh", program, &search_path()], "") {
            Ok(_) => Ok(()),
            Err(_) => bail!(command::missing(program)),
        }
    }
}

/// Where a program's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// To ours, as it is; its input is ours, too.
    Inherited,
    /// Line by line with the side before each, to ours.
    Labelled,
    /// Line by line with the side before each, all to standard error.
    LabelledToStderr,
}

/// A program that runs.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Its process group, if it has one of its own.
    group: Option<Pid>,
    printers: Vec<JoinHandle<()>>,
    ended: Option<ExitStatus>,
}

impl Program {
    /// Starts it on a side of the network.
    ///
    /// # Errors
    /// It can't be started.
    pub fn start(network: &Network, side: Side, what: &Invocation, output: Output) -> Result<Self> {
        let namespace = network.namespaces().namespace(side);
        // If this process is killed, the kernel ends the program.
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
        let (program, arguments) = words.split_first().context("no program")?;
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

    /// Waits for its end.
    ///
    /// # Errors
    /// The system can't tell.
    pub async fn wait(&mut self) -> Result<u8> {
        let status = self.child.wait().await?;
        self.ended = Some(status);
        Ok(exit_code(status))
    }

    /// Whether it has ended by itself, as far as is known.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Asks it to end.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Ends it.
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

    /// Waits until all that it wrote has been printed.
    pub async fn printed(self) {
        for printer in self.printers {
            let _ = printer.await;
        }
    }
}

/// Where programs are looked for: as always, and then beside this one, so that `strandline` is found.
pub fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    match std::env::current_exe() {
        Ok(here) => here.parent().map_or(path.clone(), |folder| format!("{path}:{}", folder.display())),
        Err(_) => path,
    }
}

/// Starts a program whose output is read when it has ended. `strandline` is this one.
///
/// # Errors
/// If it is missing, with the package that has it.
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

/// 128 and the signal's number if it was ended by a signal, as shells do.
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
    // What can't be read or written any more is nothing to print.
    while let Ok(Some(line)) = lines.next_segment().await {
        let mut text = label.clone().into_bytes();
        text.extend_from_slice(&line);
        text.push(b'\n');
        // Flushed, so that a line is out before the next one, whoever prints that.
        if to.write_all(&text).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
