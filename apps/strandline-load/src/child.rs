//! A child process of this program. Orders go to its standard input, answers come from its standard output,
//! each as one line of JSON.

use std::process::Stdio;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::echo_process::this_program;

/// A child process. It ends with this value at the latest.
#[derive(Debug)]
pub(crate) struct ChildProcess {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// Name of the process in error messages: `a client process`.
    name: &'static str,
}

impl ChildProcess {
    /// Starts `strandline load PART` and gives it its first order.
    pub(crate) async fn start(name: &'static str, part: &str, first: &impl Serialize) -> Result<Self> {
        let mut child = this_program()?
            .args(["load", part])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let input = child.stdin.take().with_context(|| format!("{name} has no standard input"))?;
        let output = child.stdout.take().with_context(|| format!("{name} has no standard output"))?;
        let mut process = Self { child, input, output: BufReader::new(output).lines(), name };
        process.send(first).await?;
        Ok(process)
    }

    /// Gives the process an order.
    pub(crate) async fn send(&mut self, order: &impl Serialize) -> Result<()> {
        let mut text = serde_json::to_string(order)?;
        text.push('\n');
        self.input
            .write_all(text.as_bytes())
            .await
            .with_context(|| format!("communicating with {}", self.name))
    }

    /// Waits for the process's next answer.
    pub(crate) async fn receive<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.output.next_line().await?;
        let line = line.with_context(|| format!("{} exited unexpectedly", self.name))?;
        serde_json::from_str(&line).with_context(|| format!("unexpected output of {}: {line}", self.name))
    }

    /// Kills the process; `wait` waits until it is gone.
    pub(crate) fn begin_end(&mut self) -> Result<()> {
        self.child.start_kill().with_context(|| format!("stopping {}", self.name))
    }

    /// Waits for the end of the process.
    pub(crate) async fn wait(&mut self) -> Result<()> {
        self.child.wait().await?;
        Ok(())
    }
}
