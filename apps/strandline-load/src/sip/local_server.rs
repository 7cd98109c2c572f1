//! `strandline load sip --serve`: the load's own server.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Deserialize;
use tokio::process::Child;

use crate::echo_process::{Announced, spawn, spawn_in};
use crate::folder::Folder;

use super::args::{Args, SctpStyle, Transport};

/// The addresses that `strandline sip --json` reports.
#[derive(Debug, Deserialize)]
struct Announcement {
    listening: Vec<Announced>,
}

/// The server, which ends with this value.
#[derive(Debug)]
pub(super) struct Own {
    child: Child,
    /// The folder of its store.
    folder: Option<Folder>,
}

impl Own {
    /// Starts the server on free ports, and makes the load use and watch it.
    pub(super) async fn start(args: &mut Args) -> Result<Self> {
        let folder = if args.durable { Some(Folder::new("load-sip")?) } else { None };
        let (listen, style) = match (args.transport, args.sctp_style) {
            (Transport::Tcp, _) => ("tcp:127.0.0.1:0", "one-to-many"),
            (Transport::Sctp, Some(SctpStyle::OneToOne)) => ("sctp:127.0.0.1:0", "one-to-one"),
            (Transport::Sctp, _) => ("sctp:127.0.0.1:0", "one-to-many"),
            // Over TLS the server can't be started without a certificate: `check` has refused that.
            (Transport::Udp | Transport::Tls, _) => ("udp:127.0.0.1:0", "one-to-many"),
        };
        let mut arguments = vec!["--domain", &args.domain, "--listen", listen, "--sctp-style", style];
        let store = folder.as_ref().map(|folder| folder.path().join("sip.db"));
        if let Some(store) = &store {
            let store = store.to_str().context("the path of the temporary directory is not valid UTF-8")?;
            arguments.extend(["--store", store]);
        }
        let (child, line) = match &folder {
            Some(folder) => spawn_in(folder, &["sip", "--json"], &arguments).await?,
            None => spawn(&["sip", "--json"], &arguments).await?,
        };
        let announced: Announcement = serde_json::from_str(&line)?;
        let Announced { host, port, carrier, .. } =
            announced.listening.into_iter().next().context("the SIP server announced no address")?;
        let pid = child.id().context("the SIP server has exited")?;
        if args.apart {
            keep_to(0, Pid::from_raw(pid as i32))?;
            keep_to(1, None)?;
        }
        args.server = SocketAddr::new(host, port);
        args.encapsulation = carrier.unwrap_or(args.encapsulation);
        args.watch = Some(pid);
        Ok(Self { child, folder })
    }

    /// Ends the server and waits until it is gone.
    pub(super) async fn end(mut self) -> Result<()> {
        self.child.kill().await.context("stopping the SIP server")?;
        drop(self.folder);
        Ok(())
    }
}

/// Pins a process, or this thread, to a core.
fn keep_to(core: usize, pid: Option<Pid>) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(pid, &cores)
        .with_context(|| format!("pinning to core {core}: --apart requires cores 0 and 1"))
}
