//! `strandline load echo --serve`: its own servers, and the resources that they use.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use strandline_measure::raise_open_files;
use strandline_output::outln;

use crate::echo_process::Server;
use crate::job::{Content, Encapsulation, Job, Outcome, Transport};

use crate::kernel;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Time after which an idle association has released its memory (it does so after 2 s).
pub(crate) const SETTLE: Duration = Duration::from_millis(3200);

/// Maximum number of TCP connections of one server process: its port has 28,232 peers by default.
pub(crate) const TCP_EACH_MAX: u64 = 20_000;

/// One server for all clients; with TCP one for each client, because one process lacks the descriptors.
#[derive(Debug)]
pub(crate) struct Servers {
    servers: Vec<Server>,
    held_in_kernel: bool,
    /// Whether memory is measured because `--hold` was given; persistent associations are kept for the next
    /// transaction only.
    weighs: bool,
}

/// The resources used by servers and kernel up to a moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    user: Duration,
    system: Duration,
    process_bytes: u64,
    kernel: kernel::Look,
}

/// The resources that the servers used.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Served {
    pub(crate) processes: usize,
    pub(crate) cpu_user_s: f64,
    pub(crate) cpu_system_s: f64,
    /// Percent of one processor, while operations were running.
    pub(crate) cpu_percent: f64,
    /// Processor time of each operation in microseconds.
    pub(crate) cpu_us_each: f64,
    /// Bytes for each association or connection held.
    pub(crate) memory: Option<Memory>,
}

/// Memory of the server's side for each association.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Memory {
    /// Growth of the server processes.
    pub(crate) process_bytes: f64,
    /// Growth of the kernel's socket buffers and of the slab caches that belong to sockets, halved, because
    /// both ends are in this kernel.
    pub(crate) kernel_bytes: f64,
}

impl Servers {
    /// Starts the servers, and directs the jobs to them.
    pub(crate) async fn start(raw: bool, jobs: &mut [Job]) -> Result<Self> {
        let transport = jobs.first().context("no client process")?.transport;
        let held = jobs.iter().filter(|job| job.hold).map(|job| job.count + job.persistent).max();
        let fit = raise_open_files().min(TCP_EACH_MAX);
        if transport == Transport::Tcp && held.is_some_and(|held| held > fit) {
            bail!("a process can hold {fit} connections: distribute them with --clients N");
        }
        let mut servers = Vec::new();
        for job in jobs.iter_mut() {
            if servers.is_empty() || transport == Transport::Tcp {
                servers.push(match transport {
                    _ if job.content == Content::Invite => Server::sip(transport).await?,
                    Transport::Tcp => Server::tcp().await?,
                    Transport::Udp => Server::udp().await?,
                    Transport::Sctp | Transport::SctpMany => Server::sctp(raw.then_some(HERE)).await?,
                });
            }
            let listening = &servers.last().context("no server process")?.listening;
            let address = match transport {
                Transport::Tcp => listening.tcp,
                Transport::Udp => listening.udp,
                Transport::Sctp => listening.sctp.map(|port| (HERE, port).into()),
                Transport::SctpMany => listening.sctp_many.map(|port| (HERE, port).into()),
            };
            job.server = address.context("the server does not listen")?;
            if let (false, Some(carrier)) = (raw, listening.encapsulation) {
                job.encapsulation = Encapsulation::Udp(carrier.port());
            }
        }
        Ok(Self { servers, held_in_kernel: transport == Transport::Tcp, weighs: held.is_some() })
    }

    pub(crate) fn look(&self) -> Result<Look> {
        let mut look = Look::default();
        for server in &self.servers {
            let (user, system) = server.cpu()?;
            look.user += user;
            look.system += system;
            look.process_bytes += server.memory()?;
        }
        look.kernel = kernel::Look::now()?;
        Ok(look)
    }

    /// Returns the resources used since `before`. If associations are held, waits first until idle ones have
    /// released their memory.
    pub(crate) async fn took(&self, before: &Look, outcome: &Outcome) -> Result<Served> {
        let now = self.look()?;
        let (user, system) = (now.user - before.user, now.system - before.system);
        let cpu_s = (user + system).as_secs_f64();
        let operations = outcome.progress.completed + outcome.progress.failed;
        let memory = if self.weighs && outcome.held > 0 {
            tokio::time::sleep(SETTLE).await;
            let now = self.look()?;
            let kernel = now.kernel.of_tcp(&before.kernel);
            Some(Memory {
                process_bytes: each(now.process_bytes.saturating_sub(before.process_bytes), outcome.held),
                kernel_bytes: if self.held_in_kernel { each(kernel, outcome.held * 2) } else { 0.0 },
            })
        } else {
            None
        };
        Ok(Served {
            processes: self.servers.len(),
            cpu_user_s: user.as_secs_f64(),
            cpu_system_s: system.as_secs_f64(),
            cpu_percent: cpu_s / outcome.elapsed_s.max(1e-9) * 100.0,
            cpu_us_each: cpu_s * 1e6 / operations.max(1) as f64,
            memory,
        })
    }

    pub(crate) async fn end(self) -> Result<()> {
        for server in self.servers {
            server.end().await?;
        }
        Ok(())
    }
}

impl Served {
    pub(crate) fn print(&self) {
        outln!(
            "server: {:.0} % of a core, {:.1} us per operation ({:.2} s user, {:.2} s system)",
            self.cpu_percent,
            self.cpu_us_each,
            self.cpu_user_s,
            self.cpu_system_s
        );
        if let Some(memory) = &self.memory {
            outln!(
                "server: {:.0} bytes per held association or connection, {:.0} of them in the kernel",
                memory.process_bytes + memory.kernel_bytes,
                memory.kernel_bytes
            );
        }
    }
}

pub(crate) fn each(bytes: u64, count: u64) -> f64 {
    bytes as f64 / count.max(1) as f64
}
