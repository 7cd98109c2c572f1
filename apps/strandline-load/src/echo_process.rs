//! A server under test in a separate process: an echo server, or a SIP front end.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use serde::Deserialize;
use strandline_output::log_arguments;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::echo_server::Listening;
use crate::folder::Folder;
use crate::job::Transport;
use crate::memory;

/// A server process. It ends some time after this value is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) listening: Listening,
}

impl Server {
    /// Starts `strandline echo` with the given arguments, on free ports.
    pub(crate) async fn start(arguments: &[&str]) -> Result<Self> {
        let (child, line) = spawn(&["echo", "--json", "--no-heartbeats"], arguments).await?;
        Ok(Self { listening: serde_json::from_str(&line)?, child })
    }

    /// Starts `strandline sip --front-end` for a transport, on free ports.
    pub(crate) async fn sip(transport: Transport) -> Result<Self> {
        let arguments: &[&str] = match transport {
            Transport::Tcp => &["--listen", "tcp:127.0.0.1:0"],
            Transport::Udp => &["--listen", "udp:127.0.0.1:0"],
            Transport::Sctp => &["--listen", "sctp:127.0.0.1:0", "--sctp-style", "one-to-one"],
            Transport::SctpMany => &["--listen", "sctp:127.0.0.1:0", "--sctp-style", "one-to-many"],
        };
        let (child, line) = spawn(&["sip", "--json", "--front-end"], arguments).await?;
        let announced: FrontEnd = serde_json::from_str(&line)?;
        let mut listening = Listening::default();
        for Announced { protocol, host, port, carrier } in announced.listening {
            match protocol.as_str() {
                "tcp" => listening.tcp = Some((host, port).into()),
                "udp" => listening.udp = Some((host, port).into()),
                _ => {
                    listening.encapsulation = carrier.map(|carrier| (host, carrier).into());
                    (listening.sctp, listening.sctp_many) = (Some(port), Some(port));
                }
            }
        }
        Ok(Self { child, listening })
    }

    pub(crate) async fn tcp() -> Result<Self> {
        Self::start(&["--tcp", "127.0.0.1:0"]).await
    }

    pub(crate) async fn udp() -> Result<Self> {
        Self::start(&["--udp", "127.0.0.1:0"]).await
    }

    /// Starts an SCTP server with both kinds of sockets, in UDP, and on raw IP if an address is given.
    pub(crate) async fn sctp(raw: Option<IpAddr>) -> Result<Self> {
        let mut arguments = vec!["--sctp", "0", "--sctp-many", "0", "--encapsulation", "127.0.0.1:0"];
        let address = raw.map(|address| address.to_string());
        if let Some(address) = &address {
            arguments.extend(["--raw", address]);
        }
        Self::start(&arguments).await
    }

    /// Ends the server and waits until it is gone, so that the next measurement has the machine for itself.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.child.kill().await.context("stopping an echo server")
    }

    /// Returns the bytes of the process's private memory.
    pub(crate) fn memory(&self) -> Result<u64> {
        memory::of_process(self.id()?)
    }

    /// Returns the processor time that the process has used, user and system.
    pub(crate) fn cpu(&self) -> Result<(Duration, Duration)> {
        let path = format!("/proc/{}/stat", self.id()?);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        cpu_in(&text).with_context(|| format!("no processor time in {path}"))
    }

    fn id(&self) -> Result<u32> {
        self.child.id().context("the echo server exited")
    }
}

/// The addresses that `strandline sip --json` reports.
#[derive(Debug, Deserialize)]
struct FrontEnd {
    listening: Vec<Announced>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Announced {
    pub(crate) protocol: String,
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    /// The UDP port that carries SCTP.
    pub(crate) carrier: Option<u16>,
}

/// Starts a server of this program, and waits for the line in which it reports its addresses.
pub(crate) async fn spawn(command: &[&str], arguments: &[&str]) -> Result<(Child, String)> {
    started(this_program()?.args(command).args(arguments)).await
}

/// Starts a server of this program as [`spawn`] does. If this process is killed, the server removes the folder
/// when it ends.
pub(crate) async fn spawn_in(
    folder: &Folder,
    command: &[&str],
    arguments: &[&str],
) -> Result<(Child, String)> {
    started(this_program()?.args(command).args(arguments).env(WITH_FOLDER, folder.path())).await
}

/// Starts a server as [`spawn_in`] does, in a process group of its own, which the terminal's signals don't
/// reach.
pub(crate) async fn spawn_apart(
    folder: &Folder,
    command: &[&str],
    arguments: &[&str],
) -> Result<(Child, String)> {
    let mut program = this_program()?;
    started(program.args(command).args(arguments).env(WITH_FOLDER, folder.path()).process_group(0)).await
}

/// Returns a command of this program that logs as this process does and ends with it, even if this process is killed.
pub(crate) fn this_program() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("locating this program's executable")?);
    command.args(log_arguments()).env(WITH_PARENT, std::process::id().to_string());
    Ok(command)
}

/// Environment variable with the process that started this one as its server.
const WITH_PARENT: &str = "STRANDLINE_WITH_PARENT";
/// Environment variable with the temporary folder of that process.
const WITH_FOLDER: &str = "STRANDLINE_WITH_FOLDER";

/// Removes the folder of a process that was killed, when the server that it started ends.
#[derive(Debug)]
pub struct Left {
    parent: Pid,
    folder: Folder,
}

impl Drop for Left {
    fn drop(&mut self) {
        if is_parent(self.parent) {
            self.folder.keep();
        }
    }
}

fn is_parent(pid: Pid) -> bool {
    rustix::process::getppid() == Some(pid)
}

/// Makes a server that was started for a measurement end with the process that started it, even if that is
/// killed. Call it first in a program that can be such a server, and drop the result at its end.
pub fn end_with_parent() -> Option<Left> {
    let parent = std::env::var(WITH_PARENT).ok().and_then(|text| text.parse().ok());
    let parent = parent.and_then(Pid::from_raw)?;
    // Child processes of such a server inherit the variable, but have another parent.
    if !is_parent(parent) {
        return None;
    }
    let said = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    let folder = std::env::var_os(WITH_FOLDER).and_then(|path| Folder::of(path.into(), parent));
    let left = folder.map(|folder| Left { parent, folder });
    // The parent may have ended before the request took effect.
    if said.is_ok() && !is_parent(parent) {
        drop(left);
        std::process::exit(1);
    }
    left
}

async fn started(command: &mut Command) -> Result<(Child, String)> {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().context("starting a server")?;
    let output = child.stdout.take().context("the server has no standard output")?;
    let Some(line) = BufReader::new(output).lines().next_line().await? else {
        bail!("the server exited: see its message above");
    };
    Ok((child, line))
}

/// Returns the times in /proc/PID/stat, which are in hundredths of a second on every Linux (proc_pid_stat(5):
/// `sysconf(_SC_CLK_TCK)`). The name before them may contain spaces and parentheses.
pub(crate) fn cpu_in(stat: &str) -> Option<(Duration, Duration)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut words = after_name.split_whitespace().skip(11);
    let mut time = || Some(Duration::from_millis(words.next()?.parse::<u64>().ok()?.checked_mul(10)?));
    Some((time()?, time()?))
}

#[cfg(test)]
mod tests;
