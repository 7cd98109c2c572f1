//! What is told about a run: for people and as JSON.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strandline_netem::{LinkConfig, Loss};

use super::device::KernelCounters;
use super::emulator::{ChannelCounters, Counters};
use super::lateness::{Lateness, LatenessSummary};
use super::schedule::Direction;
use super::topology::{Side, Topology};
use super::units::{show_bytes, show_ns, show_rate};

/// A run of an emulated network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Whether the network was what it was said to be.
    pub valid: bool,
    /// Why not.
    pub invalid_because: Vec<String>,
    /// Seconds from the network's start.
    pub elapsed_s: f64,
    /// How late packets were delivered, over all links.
    pub lateness: LatenessSummary,
    /// The 99th percentile above which a run is invalid.
    pub lateness_limit_us: f64,
    /// Each direction of each path.
    pub links: Vec<LinkReport>,
    /// The programs that ran on it.
    pub programs: Vec<ProgramReport>,
    /// Changes that were to happen.
    pub schedule: Vec<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// MTU of the paths.
    pub mtu: u16,
    /// Congestion control of the kernel's TCP.
    pub tcp: String,
    /// Processor time of the emulator.
    pub emulator_cpu_s: f64,
    /// Whether the emulator ran before all ordinary programs.
    pub realtime: bool,
    /// The left side's addresses, path by path.
    pub left: Vec<String>,
    /// The right side's.
    pub right: Vec<String>,
    /// What stands for an address in a program's arguments, its variable of the environment, and the address.
    pub substitutions: Vec<(String, String, String)>,
    /// Version of this program.
    pub version: String,
    /// The kernel.
    pub kernel: String,
}

/// One direction of a path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkReport {
    /// From 1.
    pub path: usize,
    /// Which way.
    pub direction: Direction,
    /// Its parameters at the start.
    pub settings: LinkSettings,
    /// Packets that programs sent into it.
    pub offered: u64,
    /// Their bytes.
    pub offered_bytes: u64,
    /// Packets that came out of it, duplicates included.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Lost as the loss model said.
    pub dropped_loss: u64,
    /// Lost because the queue was full.
    pub dropped_queue: u64,
    /// Lost because the link was cut.
    pub dropped_cut: u64,
    /// Lost because they were too long.
    pub dropped_size: u64,
    /// Second copies made.
    pub duplicated: u64,
    /// Packets that a later one overtook.
    pub reordered: u64,
    /// Packets with flipped bits.
    pub corrupted: u64,
    /// Packets marked: congestion experienced (ECN).
    pub marked: u64,
    /// Packets that found more in the queue than may be without a mark, whether they may be marked or not.
    pub congested: u64,
    /// Most bytes in the queue.
    pub queue_bytes_max: u64,
    /// Most packets in the queue.
    pub queue_packets_max: u64,
    /// Packets on their way at the end.
    pub on_their_way: u64,
    /// How late its packets were delivered.
    pub lateness: LatenessSummary,
    /// What went wrong outside the model.
    pub faults: Faults,
}

/// Packets that were lost although the model had not said so. All zero in a valid run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// The kernel dropped them before the emulator saw them.
    pub kernel_dropped_before: u64,
    /// The kernel dropped them after the emulator delivered them.
    pub kernel_dropped_after: u64,
    /// Errors of the two devices.
    pub device_errors: u64,
    /// The emulator could not deliver them.
    pub write_errors: u64,
}

/// A link's parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkSettings {
    /// One-way delay.
    pub delay_ms: f64,
    /// Random addition to it.
    pub jitter_ms: f64,
    /// Bits a second, if limited.
    pub rate_bps: Option<u64>,
    /// Bytes that may wait, if limited.
    pub queue_bytes: Option<usize>,
    /// Bytes in the queue beyond which packets are marked, if they are.
    pub mark_bytes: Option<usize>,
    /// Longest packet that passes, if there is a limit.
    pub size_bytes_max: Option<usize>,
    /// The loss model: `none`, `every 10`, `random 0.01`, ...
    pub loss: String,
    /// Share held back.
    pub reorder: f64,
    /// By how much at most.
    pub reorder_ms: f64,
    /// Share duplicated.
    pub duplicate: f64,
    /// Share damaged.
    pub corrupt: f64,
}

/// A program that ran on the network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProgramReport {
    /// Where.
    pub side: Side,
    /// As it was given.
    pub command: String,
    /// How it ended: 128 and the signal's number if by a signal.
    pub exit_code: Option<u8>,
    /// Whether it was ended because the run was over.
    pub ended_by_us: bool,
}

/// What a report is made of besides the topology.
#[derive(Debug)]
pub struct Measured {
    /// By the emulator.
    pub counters: Counters,
    /// By the kernel, for each path: the devices on the left and on the right.
    pub kernel: Vec<[KernelCounters; 2]>,
    /// The 99th percentile of lateness that is still good.
    pub lateness_limit: Duration,
    /// Whether the emulator ran before all ordinary programs.
    pub realtime: bool,
}

impl Report {
    /// Judges a run.
    #[must_use]
    pub fn new(topology: &Topology, measured: &Measured) -> Self {
        let mut links = Vec::new();
        let mut all = Lateness::new();
        for (path, channels) in measured.counters.paths.iter().enumerate() {
            let kernel = measured.kernel.get(path).copied().unwrap_or_default();
            for (direction, counters) in Direction::BOTH.into_iter().zip(channels) {
                all.add(&counters.lateness);
                links.push(LinkReport::new(topology, path, direction, counters, kernel));
            }
        }
        let lateness = all.summary();
        let lateness_limit_us = measured.lateness_limit.as_secs_f64() * 1e6;
        let mut invalid_because: Vec<String> = links.iter().flat_map(LinkReport::faults).collect();
        if lateness.p99_us > lateness_limit_us {
            let (p99, limit) = (show_us(lateness.p99_us), show_us(lateness_limit_us));
            invalid_because.push(format!(
                "the emulator was late: more than 1 % of the packets by {p99} or more, {limit} is the limit"
            ));
        }
        let uname = rustix::system::uname();
        Self {
            valid: invalid_because.is_empty(),
            invalid_because,
            elapsed_s: measured.counters.elapsed.as_secs_f64(),
            lateness,
            lateness_limit_us,
            links,
            programs: Vec::new(),
            schedule: topology.schedule.iter().map(|entry| entry.text.clone()).collect(),
            seed: topology.seed,
            mtu: topology.mtu,
            tcp: topology.tcp.clone(),
            emulator_cpu_s: measured.counters.cpu.as_secs_f64(),
            realtime: measured.realtime,
            left: topology.addresses(Side::Left).map(|address| address.to_string()).collect(),
            right: topology.addresses(Side::Right).map(|address| address.to_string()).collect(),
            substitutions: topology.substitutions(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: uname.release().to_string_lossy().into_owned(),
        }
    }
}

impl LinkReport {
    fn new(
        topology: &Topology,
        path: usize,
        direction: Direction,
        counters: &ChannelCounters,
        [left, right]: [KernelCounters; 2],
    ) -> Self {
        let (from, to) = match direction {
            Direction::ToRight => (left, right),
            Direction::ToLeft => (right, left),
        };
        let link = counters.link;
        Self {
            path: path + 1,
            direction,
            settings: LinkSettings::new(topology.link(path, direction).config()),
            offered: link.offered,
            offered_bytes: link.offered_bytes,
            delivered: counters.written,
            delivered_bytes: counters.written_bytes,
            dropped_loss: link.dropped_loss,
            dropped_queue: link.dropped_queue,
            dropped_cut: link.dropped_cut,
            dropped_size: link.dropped_size,
            duplicated: link.duplicated,
            reordered: link.reordered,
            corrupted: link.corrupted,
            marked: counters.marked_ce,
            congested: link.marked,
            queue_bytes_max: link.queue_bytes_max,
            queue_packets_max: link.queue_packets_max,
            on_their_way: counters.on_their_way,
            lateness: counters.lateness.summary(),
            faults: Faults {
                kernel_dropped_before: from.dropped_to_emulator,
                kernel_dropped_after: to.dropped_from_emulator,
                device_errors: from.errors,
                write_errors: counters.write_errors,
            },
        }
    }

    /// What makes a run invalid.
    fn faults(&self) -> Vec<String> {
        let at = format!("path {} {}", self.path, self.direction.name());
        let Faults { kernel_dropped_before, kernel_dropped_after, device_errors, write_errors } = self.faults;
        let all = [
            (kernel_dropped_before, "packets were dropped by the kernel before the emulator saw them"),
            (kernel_dropped_after, "packets were dropped by the kernel after the emulator delivered them"),
            (device_errors, "errors of the device"),
            (write_errors, "packets could not be delivered"),
        ];
        let found = all.into_iter().filter(|(count, _)| *count > 0);
        found.map(|(count, what)| format!("{at}: {count} {what}")).collect()
    }
}

impl LinkSettings {
    fn new(config: &LinkConfig) -> Self {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        let limited = config.rate_bps > 0;
        let loss = match config.loss {
            Loss::None => "none".to_owned(),
            Loss::EveryNth(n) => format!("every {n}"),
            Loss::Random(probability) => format!("random {probability}"),
            Loss::Bursts { good_packets_mean, bad_packets_mean, good_loss, bad_loss } => format!(
                "bursts good {good_packets_mean:.1} bad {bad_packets_mean:.1} packets, losing {good_loss} and {bad_loss}"
            ),
        };
        Self {
            delay_ms: ms(config.delay),
            jitter_ms: ms(config.jitter),
            rate_bps: limited.then_some(config.rate_bps),
            queue_bytes: (limited && config.queue_bytes_max < usize::MAX).then_some(config.queue_bytes_max),
            mark_bytes: (limited && config.mark_bytes < usize::MAX).then_some(config.mark_bytes),
            size_bytes_max: (config.size_max < usize::MAX).then_some(config.size_max),
            loss,
            reorder: config.reordering.probability,
            reorder_ms: ms(config.reordering.extra_delay_max),
            duplicate: config.duplication,
            corrupt: config.corruption,
        }
    }
}

fn show_us(us: f64) -> String {
    show_ns((us * 1e3) as u64)
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let many = self.links.iter().any(|link| link.path > 1);
        for link in &self.links {
            let path = if many { format!("path {} ", link.path) } else { String::new() };
            writeln!(f, "netem: {path}{}: {link}", link.direction.name())?;
        }
        let LatenessSummary { p50_us, p99_us, max_us, .. } = self.lateness;
        let (p50, p99, max) = (show_us(p50_us), show_us(p99_us), show_us(max_us));
        let cpu = 100.0 * self.emulator_cpu_s / self.elapsed_s.max(1e-9);
        let time = self.elapsed_s;
        writeln!(
            f,
            "netem: {time:.2} s; deliveries late by {p50} (median), {p99} (99 %), {max} (most); {cpu:.0} % of a core"
        )?;
        for reason in &self.invalid_because {
            writeln!(f, "netem: INVALID: {reason}")?;
        }
        Ok(())
    }
}

impl Display for LinkReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (sent, came) = (show_bytes(self.offered_bytes), show_bytes(self.delivered_bytes));
        write!(f, "{} packets ({sent}) sent, {} ({came}) delivered", self.offered, self.delivered)?;
        let counts = [
            (self.dropped_loss, "lost"),
            (self.dropped_queue, "dropped by the full queue"),
            (self.dropped_cut, "dropped by the cut"),
            (self.dropped_size, "too long"),
            (self.duplicated, "duplicated"),
            (self.reordered, "overtaken"),
            (self.corrupted, "damaged"),
            (self.marked, "marked (ECN)"),
            (self.congested.saturating_sub(self.marked), "without ECN and so not marked"),
            (self.on_their_way, "still on their way"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, ", {count} {what}")?;
        }
        if let Some(rate_bps) = self.settings.rate_bps {
            let (bytes, packets) = (show_bytes(self.queue_bytes_max), self.queue_packets_max);
            write!(f, "; largest queue at {}: {bytes} ({packets} packets)", show_rate(rate_bps as f64))?;
        }
        Ok(())
    }
}
