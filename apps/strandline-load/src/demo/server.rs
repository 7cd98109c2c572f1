//! An echo server in a process of its own.

use std::net::IpAddr;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::echo_server::Listening;
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
        let program = std::env::current_exe().context("finding this program's own file")?;
        let mut child = Command::new(program)
            .args(["echo", "--json", "--no-heartbeats"])
            .args(arguments)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting an echo server")?;
        let output = child.stdout.take().context("an echo server without standard output")?;
        let Some(line) = BufReader::new(output).lines().next_line().await? else {
            bail!("the echo server ended: see its message above");
        };
        Ok(Self { listening: serde_json::from_str(&line)?, child })
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
        memory::of_process(self.child.id().context("the echo server ended")?)
    }
}
