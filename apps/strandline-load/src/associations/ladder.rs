//! The measurement of one transport at each number of associations.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use strandline_measure::now;

use super::order::{ClientPart, Done, Measured, Order, Part, ServerPart};
use super::process::{Process, progress_bar, together};
use super::report::{Cost, Hold, Ladder, Memory, Step};
use super::{Args, Transport};
use crate::kernel::Look;
use crate::memory::{self, SocketBuffers};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Time after which an idle association has released its memory (it does so after 2 s).
const SETTLE: Duration = Duration::from_millis(3200);

/// Number of SCTP associations from one client address: less than half of its 55,536 ports, so that a free
/// one is found at once.
const SCTP_EACH_HOST: u64 = 25_000;

/// Number of TCP connections from one client address, which has 28,232 ports by default.
const TCP_EACH_HOST: u64 = 5_000;

/// Maximum number of TCP connections of one process, which needs a descriptor for each; a process may be
/// limited to 20,000.
const TCP_EACH_PROCESS: u64 = 19_000;

/// The server and client processes of one transport.
#[derive(Debug)]
struct Stage<'a> {
    args: &'a Args,
    transport: Transport,
    servers: Vec<Process>,
    clients: Vec<Process>,
    /// Memory before anything was set up.
    base: Levels,
    /// Congestion control of its TCP connections.
    tcp_congestion: Option<String>,
}

/// Memory and counters of the processes and the kernel at a moment.
#[derive(Debug, Clone, Default)]
struct Levels {
    server: Measured,
    client: Measured,
    kernel: Look,
}

impl Levels {
    /// Returns the number of packets that both sides sent and received.
    fn packets(&self) -> (u64, u64) {
        let (server, client) = (&self.server, &self.client);
        (server.packets_sent + client.packets_sent, server.packets_received + client.packets_received)
    }
}

/// Measures one transport.
pub(super) async fn run(args: &Args, transport: Transport) -> Result<Ladder> {
    let steps = args.steps_for(transport);
    let most = steps.last().copied().context("--steps is empty")?;
    let mut stage = Stage::start(args, transport, most).await?;
    let mut ladder = Ladder::new(transport, args);
    ladder.sender_tcp_congestion.clone_from(&stage.tcp_congestion);
    for held in steps {
        ladder.steps.push(stage.step(held).await?);
    }
    if args.hold > 0.0 {
        ladder.hold = Some(stage.hold(most).await?);
    }
    stage.end().await?;
    Ok(ladder)
}

impl<'a> Stage<'a> {
    async fn start(args: &'a Args, transport: Transport, most: u64) -> Result<Stage<'a>> {
        let processes = match transport {
            Transport::Sctp | Transport::SctpOne => 1,
            Transport::Tcp => most.div_ceil(TCP_EACH_PROCESS),
        };
        let each_host = if transport.is_sctp() { SCTP_EACH_HOST } else { TCP_EACH_HOST };
        let hosts = most.div_ceil(processes).div_ceil(each_host);
        let heartbeat_s = (args.heartbeat > 0.0).then_some(args.heartbeat);
        let (mut servers, mut clients) = (Vec::new(), Vec::new());
        for number in 0..processes {
            let address = match (transport, args.raw) {
                (Transport::Sctp | Transport::SctpOne, false) => args.udp_address,
                _ => SocketAddr::new(SERVER, 0),
            };
            let core = |core| args.apart.then_some(core);
            let (raw, shards) = (args.raw, args.shards);
            let part = ServerPart { transport, address, raw, shards, heartbeat_s, core: core(0) };
            let server = Process::start(&Part::Server(part)).await?;
            let part = ClientPart {
                transport,
                server: server.address,
                port: server.port,
                hosts: (0..hosts).map(|host| host_address(number * hosts + host)).collect(),
                message_bytes: args.size,
                heartbeat_s,
                timeout_s: args.timeout,
                core: core(1),
            };
            clients.push(Process::start(&Part::Client(part)).await?);
            servers.push(server);
        }
        let base = Levels::default();
        let mut stage = Self { args, transport, servers, clients, base, tcp_congestion: None };
        // Sets up and ends one association first, so that what every process allocates once isn't counted for
        // the first measured one.
        let (warm, _) = stage.one_by_one(Order::SetUp { count: 100 }, "warming up", 100).await?;
        stage.tcp_congestion = warm.tcp_congestion;
        tokio::time::sleep(SETTLE).await;
        stage.base = stage.levels().await?;
        Ok(stage)
    }

    async fn step(&mut self, held: u64) -> Result<Step> {
        let clients = self.clients.len() as u64;
        let rate = self.args.rate.map(|rate| rate / clients as f64);
        let title = format!("{}: setting up {held}", self.transport);
        let grown = self.all(|number| Order::Grow { to: share(held, clients, number), rate }, &title, held);
        let (grown, buffers_most) = memory::socket_buffers_during(grown).await;
        let grown = grown?;
        let swept = self.sweep(held).await?;
        tokio::time::sleep(SETTLE).await;
        let memory = self.memory(held, buffers_most).await?;
        let probes = self.args.probes;
        let title = format!("single set-ups, {held} held");
        let (set_up, setup_cpu) = self.one_by_one(Order::SetUp { count: probes }, &title, probes).await?;
        let title = format!("single transactions, {held} held");
        let (transacted, transaction_cpu) =
            self.one_by_one(Order::Transact { count: probes }, &title, probes).await?;
        let levels = self.levels().await?;
        let (sent, received) = levels.packets();
        Ok(Step {
            held: grown.held,
            grown: (grown.completed > 0).then(|| grown.rate()),
            rate_asked: self.args.rate,
            rate_reached: self.args.rate.filter(|_| grown.completed > 0).map(|_| grown.rate()),
            grown_times: grown.setup.summary(),
            grown_transactions: grown.transaction.summary(),
            grown_totals: grown.total.summary(),
            swept: swept.completed,
            sweep_rate: swept.rate(),
            sweep_times: swept.transaction.summary(),
            setup: set_up.setup.summary().context("no set-up completed")?,
            transaction: transacted.transaction.summary().context("no transaction completed")?,
            setup_cpu,
            transaction_cpu,
            packets_lost: sent.saturating_sub(received),
            inits_shed: levels.server.inits_shed + levels.client.inits_shed,
            memory,
        })
    }

    /// Runs a transaction on every held association, and fails if one doesn't answer.
    async fn sweep(&mut self, held: u64) -> Result<Done> {
        let title = format!("{}: a transaction on each of {held}", self.transport);
        let swept = self.all(|_| Order::Sweep, &title, held).await?;
        if swept.completed != held {
            bail!("only {} of {held} associations completed a transaction", swept.completed);
        }
        Ok(swept)
    }

    /// Gives an order to all clients at once.
    async fn all(&mut self, order: impl Fn(usize) -> Order, title: &str, operations: u64) -> Result<Done> {
        let bar = progress_bar(title.to_owned(), operations);
        let done = together(&mut self.clients, order, &bar).await?;
        bar.finish_and_clear();
        succeeded(done, title)
    }

    /// Gives an order to the first client only, which runs one operation at a time on the otherwise idle
    /// machine. Returns the result and its processor time.
    async fn one_by_one(&mut self, order: Order, title: &str, operations: u64) -> Result<(Done, Cost)> {
        let bar = progress_bar(format!("{}: {title}", self.transport), operations);
        let before = self.cpu_s().await?;
        let first = self.clients.get_mut(..1).context("no client process")?;
        let done = together(first, |_| order, &bar).await?;
        bar.finish_and_clear();
        let after = self.cpu_s().await?;
        let each_us = |after: f64, before: f64| (after - before) * 1e6 / operations as f64;
        let cost = Cost { server_us: each_us(after.0, before.0), client_us: each_us(after.1, before.1) };
        Ok((succeeded(done, title)?, cost))
    }

    /// Returns the processor time of the first server and of the first client, in seconds.
    async fn cpu_s(&mut self) -> Result<(f64, f64)> {
        let server = self.servers.first_mut().context("no server process")?.measure().await?;
        let client = self.clients.first_mut().context("no client process")?.measure().await?;
        Ok((server.cpu_s(), client.cpu_s()))
    }

    async fn levels(&mut self) -> Result<Levels> {
        let (mut server, mut client) = (Measured::default(), Measured::default());
        for process in &mut self.servers {
            server.add(&process.measure().await?);
        }
        for process in &mut self.clients {
            client.add(&process.measure().await?);
        }
        Ok(Levels { server, client, kernel: Look::now()? })
    }

    async fn memory(&mut self, held: u64, buffers_most: SocketBuffers) -> Result<Memory> {
        let now = self.levels().await?;
        let (base, transport) = (&self.base, self.transport);
        let each = |now: u64, base: u64| now.saturating_sub(base) as f64 / held as f64;
        let server_process = each(now.server.rss_anon, base.server.rss_anon);
        // Both ends are in this kernel.
        let ends = held as f64 * 2.0;
        let pages = |buffers: SocketBuffers| if transport.is_sctp() { buffers.udp } else { buffers.tcp };
        let growth = now.kernel.growth(&base.kernel, pages);
        let kernel = growth.share / ends;
        let most = |most: u64, base: u64| most.saturating_sub(base) as f64 / ends;
        let caches = growth.caches.into_iter().map(|(name, bytes)| (name, bytes / ends));
        Ok(Memory {
            // Fewer sockets than before means that other programs have closed theirs; the associations
            // released nothing.
            server: server_process + kernel.max(0.0),
            server_process,
            client_process: each(now.client.rss_anon, base.client.rss_anon),
            kernel,
            others: growth.others.map(|others| others / ends),
            kernel_items: growth.items.map(|items| items.each(ends)),
            kernel_items_missing: growth.missing,
            socket_buffers_most: most(buffers_most.tcp, base.kernel.buffers.tcp),
            udp_buffers_most: most(buffers_most.udp, base.kernel.buffers.udp),
            kernel_caches: caches.filter(|(_, bytes)| *bytes >= 8.0).collect(),
            stack: now.server.items.iter().map(|(_, bytes)| bytes).sum(),
            stack_items: now.server.items.into_iter().collect(),
        })
    }

    /// Measures the cost of holding the associations idle for a while.
    async fn hold(&mut self, held: u64) -> Result<Hold> {
        let seconds = self.args.hold;
        let before = self.levels().await?;
        let begin = now();
        let bar = progress_bar(format!("{}: holding {held}", self.transport), seconds as u64);
        while begin.elapsed().as_secs_f64() < seconds {
            let left = (seconds - begin.elapsed().as_secs_f64()).min(1.0);
            tokio::time::sleep(Duration::from_secs_f64(left.max(0.0))).await;
            bar.set_position(begin.elapsed().as_secs());
        }
        bar.finish_and_clear();
        let after = self.levels().await?;
        let elapsed = begin.elapsed().as_secs_f64();
        let swept = self.sweep(held).await?;
        let ((sent_before, received_before), (sent, received)) = (before.packets(), after.packets());
        let (sent, received) = (sent - sent_before, received - received_before);
        Ok(Hold {
            seconds: elapsed,
            heartbeat_s: (self.transport.is_sctp() && self.args.heartbeat > 0.0)
                .then_some(self.args.heartbeat),
            server_cpu_share: (after.server.cpu_s() - before.server.cpu_s()) / elapsed,
            client_cpu_share: (after.client.cpu_s() - before.client.cpu_s()) / elapsed,
            // A HEARTBEAT and its HEARTBEAT ACK are one packet each.
            heartbeats_per_s: sent as f64 / 2.0 / elapsed,
            packets_sent: sent,
            packets_received: received,
            timed_out: after.server.timed_out + after.client.timed_out,
            answered_afterwards: swept.completed,
        })
    }

    async fn end(self) -> Result<()> {
        for process in self.clients.into_iter().chain(self.servers) {
            process.end().await?;
        }
        Ok(())
    }
}

fn succeeded(done: Done, doing: &str) -> Result<Done> {
    match &done.error {
        None => Ok(done),
        Some(error) => bail!("{} of {} failed ({doing}): {error}", done.failed, done.failed + done.completed),
    }
}

/// Returns the share of the whole that one of several processes takes.
fn share(all: u64, processes: u64, number: usize) -> u64 {
    all / processes + u64::from((number as u64) < all % processes)
}

/// Returns one of the addresses after 127.0.0.1, on the same interface.
fn host_address(number: u64) -> IpAddr {
    Ipv4Addr::from(u32::from(Ipv4Addr::LOCALHOST) + 1 + number as u32).into()
}

#[cfg(test)]
mod tests;
