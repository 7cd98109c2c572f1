//! The controller's end of a process.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::order::{Answer, Done, Measured, Order, Part};

/// A process that was started here. It ends with this value, sooner or later.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    pub(super) address: SocketAddr,
    pub(super) port: u16,
}

impl Process {
    /// Starts it and waits until it is ready.
    pub(super) async fn start(part: &Part) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program's own file")?;
        let mut child = tokio::process::Command::new(program)
            .args(["load", "part"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("starting a process")?;
        let input = child.stdin.take().context("a process without standard input")?;
        let output = child.stdout.take().context("a process without standard output")?;
        let output = BufReader::new(output).lines();
        let mut process = Self { child, input, output, address: ([0, 0, 0, 0], 0).into(), port: 0 };
        process.tell(part).await?;
        match process.hear().await? {
            Answer::Ready { address, port } => {
                (process.address, process.port) = (address, port);
                Ok(process)
            }
            other => bail!("a process said {other:?} instead of being ready"),
        }
    }

    async fn tell(&mut self, what: &impl serde::Serialize) -> Result<()> {
        let mut text = serde_json::to_string(what)?;
        text.push('\n');
        self.input.write_all(text.as_bytes()).await.context("talking to a process")
    }

    async fn hear(&mut self) -> Result<Answer> {
        let line = self.output.next_line().await?.context("a process ended unexpectedly")?;
        match serde_json::from_str(&line).with_context(|| format!("a process said: {line}"))? {
            Answer::Failed(reason) => bail!(reason),
            answer => Ok(answer),
        }
    }

    pub(super) async fn measure(&mut self) -> Result<Measured> {
        self.tell(&Order::Measure).await?;
        match self.hear().await? {
            Answer::Measured(measured) => Ok(measured),
            other => bail!("a process said {other:?} instead of what it measured"),
        }
    }

    /// Gives an order without waiting for its end.
    async fn begin(&mut self, order: Order) -> Result<()> {
        self.tell(&order).await
    }

    async fn finish(&mut self, mut progress: impl FnMut(u64)) -> Result<Done> {
        loop {
            match self.hear().await? {
                Answer::Progress(so_far) => progress(so_far),
                Answer::Done(done) => return Ok(*done),
                other => bail!("a process said {other:?} in the middle of its work"),
            }
        }
    }

    /// Ends it and waits until it is gone.
    pub(super) async fn end(mut self) -> Result<()> {
        self.child.kill().await.context("ending a process")
    }
}

/// Gives an order to some processes at once, each with its own numbers, and waits until all are done.
pub(super) async fn together(
    processes: &mut [Process],
    order: impl Fn(usize) -> Order,
    bar: &ProgressBar,
) -> Result<Done> {
    for (number, process) in processes.iter_mut().enumerate() {
        process.begin(order(number)).await?;
    }
    let mut total = Done::default();
    // What the later ones say meanwhile waits in their pipes: a line in 200 ms.
    for process in processes {
        let before = total.completed;
        let done = process.finish(|so_far| bar.set_position(before + so_far)).await?;
        total.merge(&done);
        bar.set_position(total.completed);
    }
    Ok(total)
}

/// A line on the terminal, if there is one.
pub(super) fn progress_bar(title: String, operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    let style = ProgressStyle::with_template("  {prefix:<46} {bar:24} {pos:>9}/{len} {per_sec} {eta}");
    if let Ok(style) = style {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(title);
    bar
}
