//! One process of a measurement: learns what it is, then does what it is told until the controller is gone.

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin, Stdout};
use tokio::task::LocalSet;

use super::client::Client;
use super::order::{Answer, Measured, Order, Part};
use super::server::Server;
use crate::{limits, memory};

/// The line to the controller.
#[derive(Debug)]
pub(super) struct Line {
    input: Lines<BufReader<Stdin>>,
    output: Stdout,
}

impl Line {
    pub(super) async fn tell(&mut self, answer: &Answer) -> Result<()> {
        let mut text = serde_json::to_string(answer)?;
        text.push('\n');
        self.output.write_all(text.as_bytes()).await?;
        Ok(self.output.flush().await?)
    }

    /// The next order; `None` once the controller is gone.
    async fn order(&mut self) -> Result<Option<Order>> {
        match self.input.next_line().await? {
            Some(line) => serde_json::from_str(&line).context("reading an order").map(Some),
            None => Ok(None),
        }
    }
}

/// Runs a process of `strandline load associations`.
///
/// # Errors
/// If the controller can't be talked to.
pub(crate) fn run() -> Result<()> {
    limits::raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let input = BufReader::new(tokio::io::stdin()).lines();
        let mut line = Line { input, output: tokio::io::stdout() };
        if let Err(error) = work(&mut line).await {
            line.tell(&Answer::Failed(format!("{error:#}"))).await?;
        }
        Ok(())
    })
}

async fn work(line: &mut Line) -> Result<()> {
    let Some(first) = line.input.next_line().await? else { return Ok(()) };
    match serde_json::from_str(&first).context("reading what this process is")? {
        Part::Server(part) => {
            let server = Server::start(&part).await?;
            line.tell(&Answer::Ready { address: server.address, port: server.port }).await?;
            while line.order().await?.is_some() {
                // There is only one thing to ask a server for.
                line.tell(&Answer::Measured(server.measure()?)).await?;
            }
        }
        Part::Client(part) => {
            let address = part.server;
            let mut client = Client::start(part)?;
            line.tell(&Answer::Ready { address, port: 0 }).await?;
            while let Some(order) = line.order().await? {
                let answer = client.obey(order, line).await?;
                line.tell(&answer).await?;
            }
        }
    }
    Ok(())
}

/// What every process can say of itself.
pub(super) fn measure_process() -> Result<Measured> {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(Measured {
        rss_anon: memory::of_process(std::process::id())?,
        cpu_user_s: seconds(usage.user_time()),
        cpu_system_s: seconds(usage.system_time()),
        ..Measured::default()
    })
}

/// Adds a stack's counters.
pub(super) fn add_stack(measured: &mut Measured, stack: &strandline::Stack) {
    let stats = stack.stats();
    measured.associations += stack.association_count() as u64;
    measured.packets_sent += stats.packets_sent;
    measured.packets_received += stats.packets_received;
    measured.timed_out += stats.timed_out;
    measured.replies_dropped += stats.replies_dropped;
}
