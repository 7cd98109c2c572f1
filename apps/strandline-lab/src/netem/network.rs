//! An emulated network: the namespaces, their devices and the emulator between them.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use super::command::run;
use super::device::{self, KernelCounters};
use super::emulator::{Counters, Emulator, Waiting};
use super::namespace::Namespaces;
use super::report::{Measured, Report};
use super::schedule::TargetedChange;
use super::topology::{Side, Topology};
use super::units;

/// Real-time priority of the emulator's thread: above programs that run at a low one themselves.
const PRIORITY: &str = "20";

/// Options of the emulator.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Emulator")]
pub struct EmulatorArgs {
    /// A run is invalid if more than 1 % of its packets were delivered later than this
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "1ms")]
    late_limit: Duration,
    /// Time before a packet is due at which the emulator stops sleeping and spins; a longer time is more precise but
    /// uses more processor time
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "30us")]
    spin: Duration,
    /// Time for which packets may be batched in dense traffic (above about 30,000 per second), which saves processor
    /// time
    #[arg(long, value_name = "TIME", value_parser = units::time, default_value = "30us")]
    gather: Duration,
    /// Don't give the emulator a real-time priority (SCHED_FIFO)
    #[arg(long)]
    no_realtime: bool,
    /// Pin the emulator to this processor (counted from 0); programs pinned elsewhere (taskset -c) are not
    /// interrupted by it
    #[arg(long, value_name = "NUMBER")]
    core: Option<usize>,
}

/// A running network. It is removed when this value is dropped.
#[derive(Debug)]
pub struct Network {
    // Dropped in this order: the emulator stops before its namespaces are removed.
    emulator: Option<Emulator>,
    namespaces: Namespaces,
    topology: Topology,
    kernel_before: Vec<[KernelCounters; 2]>,
    lateness_limit: Duration,
    realtime: bool,
}

impl Network {
    /// Creates and starts the network.
    ///
    /// # Errors
    /// If something is missing, with advice.
    pub fn start(name: &str, topology: Topology, args: &EmulatorArgs) -> Result<Self> {
        let namespaces = Namespaces::create(name)?;
        let devices = device::create(&namespaces, &topology)?;
        let kernel_before = kernel_counters(&namespaces)?;
        let emulator = Emulator::start(devices, &topology, Waiting { spin: args.spin, gather: args.gather })?;
        if let Some(core) = args.core {
            emulator.keep_to(core)?;
        }
        let realtime = !args.no_realtime && make_realtime(emulator.thread_id());
        Ok(Self {
            emulator: Some(emulator),
            namespaces,
            topology,
            kernel_before,
            lateness_limit: args.late_limit,
            realtime,
        })
    }

    /// Returns the topology that the network was created from.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the two namespaces.
    #[must_use]
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Starts the clock of the schedule.
    pub fn begin(&self) {
        if let Some(emulator) = &self.emulator {
            emulator.begin(self.topology.schedule.clone());
        }
    }

    /// Applies a change now.
    pub fn change(&self, change: TargetedChange) {
        if let Some(emulator) = &self.emulator {
            emulator.change(change);
        }
    }

    /// Returns the report so far.
    ///
    /// # Errors
    /// If the emulator has stopped, with the reason.
    pub fn report(&self) -> Result<Report> {
        let emulator = self.emulator.as_ref().context("the emulator has stopped")?;
        self.judge(emulator.count()?)
    }

    /// Stops the network and returns its report.
    ///
    /// # Errors
    /// If the emulator had stopped, with the reason.
    pub fn finish(mut self) -> Result<Report> {
        let emulator = self.emulator.take().context("the emulator has stopped")?;
        // The devices are removed with the emulator, so the kernel's counters are read first.
        let kernel = self.kernel_since_start()?;
        let counters = emulator.stop()?;
        Ok(self.report_of(counters, kernel))
    }

    fn judge(&self, counters: Counters) -> Result<Report> {
        let kernel = self.kernel_since_start()?;
        Ok(self.report_of(counters, kernel))
    }

    fn report_of(&self, counters: Counters, kernel: Vec<[KernelCounters; 2]>) -> Report {
        let (lateness_limit, realtime) = (self.lateness_limit, self.realtime);
        Report::new(&self.topology, &Measured { counters, kernel, lateness_limit, realtime })
    }

    fn kernel_since_start(&self) -> Result<Vec<[KernelCounters; 2]>> {
        let now = kernel_counters(&self.namespaces)?;
        let pairs = now.into_iter().zip(&self.kernel_before);
        Ok(pairs
            .map(|([left, right], [left_before, right_before])| {
                [left.since(left_before), right.since(right_before)]
            })
            .collect())
    }
}

fn kernel_counters(namespaces: &Namespaces) -> Result<Vec<[KernelCounters; 2]>> {
    let left = KernelCounters::read(namespaces, Side::Left)?;
    let right = KernelCounters::read(namespaces, Side::Right)?;
    Ok(left.into_iter().zip(right).map(|(left, right)| [left, right]).collect())
}

/// Gives a thread a real-time priority. Returns whether that was allowed.
fn make_realtime(thread_id: i32) -> bool {
    // With one processor, the programs on the network would wait for the emulator.
    let several = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    several && run("chrt", &["--fifo", "--pid", PRIORITY, &thread_id.to_string()], "").is_ok()
}
