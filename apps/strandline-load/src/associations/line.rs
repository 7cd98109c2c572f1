//! The connection from a process to its controller, and the measurements that every process can report of
//! itself.

use anyhow::{Context, Result};
use strandline_measure::CpuTime;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin, Stdout};

use super::order::{Answer, Measured, Order};
use crate::memory;

/// The connection to the controller.
#[derive(Debug)]
pub(super) struct Line {
    input: Lines<BufReader<Stdin>>,
    output: Stdout,
}

impl Line {
    pub(super) fn open() -> Self {
        Self { input: BufReader::new(tokio::io::stdin()).lines(), output: tokio::io::stdout() }
    }

    /// Returns the controller's next line, or `None` once the controller is gone.
    pub(super) async fn receive(&mut self) -> Result<Option<String>> {
        Ok(self.input.next_line().await?)
    }

    pub(super) async fn send(&mut self, answer: &Answer) -> Result<()> {
        let mut text = serde_json::to_string(answer)?;
        text.push('\n');
        self.output.write_all(text.as_bytes()).await?;
        Ok(self.output.flush().await?)
    }

    /// Returns the next order, or `None` once the controller is gone.
    pub(super) async fn order(&mut self) -> Result<Option<Order>> {
        match self.receive().await? {
            Some(line) => serde_json::from_str(&line).context("reading a command").map(Some),
            None => Ok(None),
        }
    }
}

/// Returns the measurements that every process can report of itself.
pub(super) fn measure_process() -> Result<Measured> {
    let cpu = CpuTime::now()?;
    Ok(Measured {
        rss_anon: memory::of_process(std::process::id())?,
        cpu_user_s: cpu.user.as_secs_f64(),
        cpu_system_s: cpu.system.as_secs_f64(),
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
    measured.inits_shed += stats.inits_shed;
}
