//! Starts servers and processes with phones, and gives these their orders.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::Deserialize;
use tokio::process::Child;

use super::order::{Done, Order, Part};
use super::report::{Report, Returned, Step};
use super::{Args, Transport};
use crate::child::ChildProcess;
use crate::echo_process::{Announced, spawn};
use crate::sip::orders::Reply;
use crate::sip::watch::{Taken, Watched};

/// Time after which an idle association has released its memory (it does so after 2 s).
const SETTLE: Duration = Duration::from_millis(3200);
/// Number of phones at one address: less than half of its ports.
const EACH_HOST: u64 = 12_000;
/// Number of phones that reconnect at a time, of all processes together.
const SOME: u64 = 64;

/// The addresses that `strandline sip --json` reports.
#[derive(Debug, Deserialize)]
struct Announcement {
    listening: Vec<Announced>,
}

/// The servers, and the processes with their phones. They end with this value.
struct Stage {
    servers: Vec<(Child, Watched)>,
    phones: Vec<ChildProcess>,
}

pub(super) async fn measure(args: &Args) -> Result<Report> {
    let most = args.steps.last().copied().context("--steps is empty")?;
    let processes = match args.transport {
        Transport::Tcp => most.div_ceil(args.each),
        Transport::Sctp => 1,
    };
    let mut stage = Stage { servers: Vec::new(), phones: Vec::new() };
    for number in 0..processes {
        stage.add(args, number, processes, most.div_ceil(processes)).await?;
    }
    let mut steps = Vec::new();
    let mut held = 0;
    for to in &args.steps {
        steps.push(stage.step(args, held, *to).await?);
        held = *to;
    }
    let (mut returned, mut storm) = (None, None);
    if args.come_back {
        let at_once = SOME.div_ceil(processes);
        returned = Some(Returned::of(&stage.all(|_| Order::Return { at_once }).await?));
        storm = Some(Returned::of(&stage.all(|_| Order::Return { at_once: u64::MAX }).await?));
    }
    let seconds = |returned: &Option<Returned>| returned.as_ref().map(|returned| returned.seconds);
    let storm_ratio = seconds(&storm).zip(seconds(&returned)).map(|(storm, returned)| storm / returned);
    let transport = if args.transport == Transport::Tcp { "TCP" } else { "SCTP" };
    Ok(Report { transport, processes: stage.phones.len(), steps, returned, storm, storm_ratio })
}

impl Stage {
    /// Adds a server, and the process with its phones.
    async fn add(&mut self, args: &Args, number: u64, processes: u64, phones: u64) -> Result<()> {
        let listen = match args.transport {
            Transport::Tcp => "tcp:127.0.0.1:0",
            Transport::Sctp => "sctp:127.0.0.1:0",
        };
        let (server, line) =
            spawn(&["sip", "--json"], &["--domain", "example.com", "--listen", listen]).await?;
        let announced: Announcement = serde_json::from_str(&line)?;
        let Announced { host, port, carrier, .. } =
            announced.listening.into_iter().next().context("the SIP server announced no address")?;
        let pid = server.id().context("the SIP server has exited")?;
        if args.apart {
            let mut cores = CpuSet::new();
            cores.set(0);
            sched_setaffinity(Pid::from_raw(pid as i32), &cores)
                .context("pinning the server to core 0: --apart requires cores 0 and 1")?;
        }
        let hosts = phones.div_ceil(EACH_HOST);
        let users = args.users / processes as u32;
        let part = Part {
            server: SocketAddr::new(host, port),
            carrier,
            hosts: (0..hosts).map(|host| host_address(number * hosts + host)).collect(),
            first: number as u32 * users,
            users: users.max(1),
            run: run_number(),
            core: args.apart.then_some(1),
        };
        self.servers.push((server, Watched::new(pid)));
        let mut process = ChildProcess::start("a phone process", "phones-part", &part).await?;
        done(&mut process).await?;
        self.phones.push(process);
        Ok(())
    }

    async fn step(&mut self, args: &Args, held: u64, to: u64) -> Result<Step> {
        let processes = self.phones.len() as u64;
        let before = self.taken()?;
        let opened = self.all(|number| Order::Open { to: share(to, processes, number) }).await?;
        tokio::time::sleep(SETTLE).await;
        let connected = self.taken()?;
        let registered = self.all(|_| Order::Register).await?;
        tokio::time::sleep(SETTLE).await;
        let settled = self.taken()?;
        let first = self.phones.first_mut().context("no phone process")?;
        first.send(&Order::Probe { count: args.probes }).await?;
        let probed = done(first).await?;
        let each = |after: u64, before: u64| (after as f64 - before as f64) / (to - held).max(1) as f64;
        let cpu = self.taken()?.cpu.saturating_sub(settled.cpu).as_secs_f64();
        Ok(Step {
            held: to,
            opened_each_second: opened.rate(),
            registered_each_second: registered.rate(),
            memory_each_connection: each(connected.memory, before.memory),
            memory_each_registration: each(settled.memory, connected.memory),
            response: probed.times.summary(),
            server_cpu_us: cpu * 1e6 / probed.phones.max(1) as f64,
            refused: registered.refused + probed.refused,
        })
    }

    /// Gives an order to all processes at once.
    async fn all(&mut self, order: impl Fn(u64) -> Order) -> Result<Done> {
        for (number, process) in (0..).zip(&mut self.phones) {
            process.send(&order(number)).await?;
        }
        let mut total = Done::default();
        for process in &mut self.phones {
            total.merge(&done(process).await?);
        }
        Ok(total)
    }

    /// Returns the resources that all servers have used.
    fn taken(&self) -> Result<Taken> {
        let mut all = Taken::default();
        for (_, watched) in &self.servers {
            let taken = watched.look()?;
            all.cpu += taken.cpu;
            all.memory += taken.memory;
        }
        Ok(all)
    }
}

async fn done(process: &mut ChildProcess) -> Result<Done> {
    process.receive::<Reply<Done>>().await?.into_result()
}

/// Returns the share of the whole that one of several processes takes.
fn share(all: u64, processes: u64, number: u64) -> u64 {
    all / processes + u64::from(number < all % processes)
}

/// Returns one of the addresses after 127.0.0.1, on the same interface.
fn host_address(number: u64) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + 1 + number as u32).into()
}

#[allow(clippy::disallowed_methods, reason = "a load generator is a program of its own")]
fn run_number() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
