//! A server to aim at in a process of its own: an echo server, or a SIP front end.

use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::echo_server::Listening;
use crate::job::Transport;
use crate::memory;

/// Ends with this value, sooner or later.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) listening: Listening,
}

impl Server {
    /// Starts `strandline echo` with some arguments, on ports that are free.
    pub(crate) async fn start(arguments: &[&str]) -> Result<Self> {
        let (child, line) = spawn(&["echo", "--json", "--no-heartbeats"], arguments).await?;
        Ok(Self { listening: serde_json::from_str(&line)?, child })
    }

    /// Starts `strandline sip --front-end` for a transport, on ports that are free.
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

    /// SCTP with both kinds of sockets, in UDP, and on raw IP if an address is given.
    pub(crate) async fn sctp(raw: Option<IpAddr>) -> Result<Self> {
        let mut arguments = vec!["--sctp", "0", "--sctp-many", "0", "--encapsulation", "127.0.0.1:0"];
        let address = raw.map(|address| address.to_string());
        if let Some(address) = &address {
            arguments.extend(["--raw", address]);
        }
        Self::start(&arguments).await
    }

    /// Ends it and waits until it is gone, so that the next measurement has the machine for itself.
    pub(crate) async fn end(mut self) -> Result<()> {
        self.child.kill().await.context("ending an echo server")
    }

    /// Bytes of the process's own memory.
    pub(crate) fn memory(&self) -> Result<u64> {
        memory::of_process(self.id()?)
    }

    /// Processor time that it has used, user and system.
    pub(crate) fn cpu(&self) -> Result<(Duration, Duration)> {
        let path = format!("/proc/{}/stat", self.id()?);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        cpu_in(&text).with_context(|| format!("no processor time in {path}"))
    }

    fn id(&self) -> Result<u32> {
        self.child.id().context("the echo server ended")
    }
}

/// What `strandline sip --json` says of where it listens.
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

/// Starts a server of this program's, and waits for the line in which it says where it listens.
pub(crate) async fn spawn(command: &[&str], arguments: &[&str]) -> Result<(Child, String)> {
    started(this_program()?.args(command).args(arguments)).await
}

/// Starts this program in a process group of its own, which the terminal's signals don't reach.
pub(crate) async fn spawn_apart(command: &[&str], arguments: &[&str]) -> Result<(Child, String)> {
    started(this_program()?.args(command).args(arguments).process_group(0)).await
}

/// A command of this program that ends with this process, also if that is killed.
pub(crate) fn this_program() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("finding this program's own file")?);
    command.env(WITH_PARENT, std::process::id().to_string());
    Ok(command)
}

/// The process that started this one as its server, if one did.
const WITH_PARENT: &str = "STRANDLINE_WITH_PARENT";

/// A server that was started for a measurement ends with the process that started it, also if that is killed. To be called first
/// thing by a program that such servers are made of.
pub fn end_with_parent() {
    let parent = std::env::var(WITH_PARENT).ok().and_then(|text| text.parse().ok());
    let Some(parent) = parent.and_then(Pid::from_raw) else { return };
    let is_there = || rustix::process::getppid() == Some(parent);
    // What such a server starts itself inherits the name, but has another parent.
    if !is_there() {
        return;
    }
    let said = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    // It may have ended before that was said.
    if said.is_ok() && !is_there() {
        std::process::exit(1);
    }
}

async fn started(command: &mut Command) -> Result<(Child, String)> {
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().context("starting a server")?;
    let output = child.stdout.take().context("a server without standard output")?;
    let Some(line) = BufReader::new(output).lines().next_line().await? else {
        bail!("the server ended: see its message above");
    };
    Ok((child, line))
}

/// The times in /proc/PID/stat: in hundredths of a second on every Linux (proc_pid_stat(5): `sysconf(_SC_CLK_TCK)`). The
/// name before them may have spaces and parentheses.
pub(crate) fn cpu_in(stat: &str) -> Option<(Duration, Duration)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut words = after_name.split_whitespace().skip(11);
    let mut time = || Some(Duration::from_millis(words.next()?.parse::<u64>().ok()?.checked_mul(10)?));
    Some((time()?, time()?))
}

#[cfg(test)]
mod tests;
