//! The controller's handle of a process.

use std::net::SocketAddr;

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};

use super::order::{Answer, Done, Measured, Order, Part};
use crate::child::ChildProcess;

/// A child process. It ends some time after this value is dropped.
#[derive(Debug)]
pub(super) struct Process {
    child: ChildProcess,
    pub(super) address: SocketAddr,
    pub(super) port: u16,
}

impl Process {
    /// Starts the process and waits until it is ready.
    pub(super) async fn start(part: &Part) -> Result<Self> {
        let child = ChildProcess::start("a load process", "part", part).await?;
        let mut process = Self { child, address: ([0, 0, 0, 0], 0).into(), port: 0 };
        match process.receive().await? {
            Answer::Ready { address, port } => {
                (process.address, process.port) = (address, port);
                Ok(process)
            }
            other => bail!("expected a child process to be ready, but it sent {other:?}"),
        }
    }

    async fn receive(&mut self) -> Result<Answer> {
        match self.child.receive().await? {
            Answer::Failed(reason) => bail!(reason),
            answer => Ok(answer),
        }
    }

    pub(super) async fn measure(&mut self) -> Result<Measured> {
        self.child.send(&Order::Measure).await?;
        match self.receive().await? {
            Answer::Measured(measured) => Ok(measured),
            other => bail!("expected a child process's results, but it sent {other:?}"),
        }
    }

    /// Gives an order without waiting for its end.
    async fn begin(&mut self, order: Order) -> Result<()> {
        self.child.send(&order).await
    }

    async fn finish(&mut self, mut progress: impl FnMut(u64)) -> Result<Done> {
        loop {
            match self.receive().await? {
                Answer::Progress(so_far) => progress(so_far),
                Answer::Done(done) => return Ok(*done),
                other => bail!("a child process sent an unexpected {other:?}"),
            }
        }
    }

    /// Ends the process and waits until it is gone.
    pub(super) async fn end(mut self) -> Result<()> {
        self.child.begin_end()?;
        self.child.wait().await
    }
}

/// Gives an order to several processes at once, each with its own numbers, and waits until all are done.
pub(super) async fn together(
    processes: &mut [Process],
    order: impl Fn(usize) -> Order,
    bar: &ProgressBar,
) -> Result<Done> {
    for (number, process) in processes.iter_mut().enumerate() {
        process.begin(order(number)).await?;
    }
    let mut total = Done::default();
    // Meanwhile the output of the later processes waits in their pipes: one line in 200 ms.
    for process in processes {
        let before = total.completed;
        let done = process.finish(|so_far| bar.set_position(before + so_far)).await?;
        total.merge(&done);
        bar.set_position(total.completed);
    }
    Ok(total)
}

/// Returns a progress bar, shown if there is a terminal.
pub(super) fn progress_bar(title: String, operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    let style = ProgressStyle::with_template("  {prefix:<46} {bar:24} {pos:>9}/{len} {per_sec} {eta}");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(title);
    bar
}
