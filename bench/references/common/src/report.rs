//! The report of one side, printed at the end as one line of JSON.

use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;

/// The report. All reference programs use the same names.
#[derive(Debug, Serialize)]
pub struct Report {
    side: &'static str,
    transport: &'static str,
    seconds: f64,
    bytes: u64,
    messages: u64,
    cpu_user_seconds: f64,
    cpu_system_seconds: f64,
}

impl Report {
    /// The report with another duration.
    pub fn lasting(self, seconds: f64) -> Self {
        Self { seconds, ..self }
    }

    /// Prints the report on standard output.
    pub fn print(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

/// Real and processor time since a start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    pub begin: Instant,
    user: f64,
    system: f64,
}

fn cpu() -> anyhow::Result<(f64, f64)> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    Ok((seconds(usage.user_time()), seconds(usage.system_time())))
}

impl Stopwatch {
    pub fn start() -> anyhow::Result<Self> {
        let (user, system) = cpu()?;
        Ok(Self { begin: Instant::now(), user, system })
    }

    /// Returns the report up to now.
    pub fn report(
        &self,
        side: &'static str,
        transport: &'static str,
        bytes: u64,
        messages: u64,
    ) -> anyhow::Result<Report> {
        let (user, system) = cpu()?;
        Ok(Report {
            side,
            transport,
            seconds: self.begin.elapsed().as_secs_f64(),
            bytes,
            messages,
            cpu_user_seconds: user - self.user,
            cpu_system_seconds: system - self.system,
        })
    }
}
