//! One process of a measurement: receives its role, then executes orders until the controller is gone.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};
use strandline_measure::raise_open_files;
use tokio::task::LocalSet;

use super::client::Client;
use super::line::Line;
use super::order::{Answer, Part};
use super::server::Server;

/// Runs a process of `strandline load associations`.
///
/// # Errors
/// If communication with the controller fails.
pub(crate) fn run() -> Result<()> {
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut line = Line::open();
        if let Err(error) = work(&mut line).await {
            line.send(&Answer::Failed(format!("{error:#}"))).await?;
        }
        Ok(())
    })
}

async fn work(line: &mut Line) -> Result<()> {
    let Some(first) = line.receive().await? else { return Ok(()) };
    match serde_json::from_str(&first).context("reading this process's role")? {
        Part::Server(part) => {
            keep_to(part.core)?;
            let server = Server::start(&part).await?;
            line.send(&Answer::Ready { address: server.address, port: server.port }).await?;
            while line.order().await?.is_some() {
                // A server has only one order: to measure.
                line.send(&Answer::Measured(server.measure()?)).await?;
            }
        }
        Part::Client(part) => {
            keep_to(part.core)?;
            let address = part.server;
            let mut client = Client::start(part)?;
            line.send(&Answer::Ready { address, port: 0 }).await?;
            while let Some(order) = line.order().await? {
                let answer = client.obey(order, line).await?;
                line.send(&answer).await?;
            }
        }
    }
    Ok(())
}

/// Pins this thread, and the threads that it starts, to a core.
fn keep_to(core: Option<usize>) -> Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)
        .with_context(|| format!("pinning to core {core}: --apart requires cores 0 and 1"))
}
