//! The report of a run, as text and as JSON.

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
    /// Whether the network behaved as specified.
    pub valid: bool,
    /// The reasons why the run is invalid.
    pub invalid_because: Vec<String>,
    /// Seconds since the network's start.
    pub elapsed_s: f64,
    /// Lateness of packets over all links.
    pub lateness: LatenessSummary,
    /// The 99th percentile of lateness above which a run is invalid, microseconds.
    pub lateness_limit_us: f64,
    /// Each direction of each path.
    pub links: Vec<LinkReport>,
    /// The programs that ran on it.
    pub programs: Vec<ProgramReport>,
    /// Scheduled changes.
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
    /// Addresses of the left side, by path.
    pub left: Vec<String>,
    /// Addresses of the right side, by path.
    pub right: Vec<String>,
    /// Placeholders in programs' arguments, with the environment variable and the address of each.
    pub substitutions: Vec<(String, String, String)>,
    /// Version of this program.
    pub version: String,
    /// Kernel version.
    pub kernel: String,
}

/// One direction of a path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkReport {
    /// Path number, from 1.
    pub path: usize,
    /// Direction of the link.
    pub direction: Direction,
    /// Settings at the start.
    pub settings: LinkSettings,
    /// Packets sent into the link.
    pub offered: u64,
    /// Bytes sent into the link.
    pub offered_bytes: u64,
    /// Packets delivered by the link, including duplicates.
    pub delivered: u64,
    /// Bytes delivered by the link.
    pub delivered_bytes: u64,
    /// Packets dropped by the loss model.
    pub dropped_loss: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets dropped because the link was cut.
    pub dropped_cut: u64,
    /// Packets dropped because they were too long.
    pub dropped_size: u64,
    /// Duplicates created.
    pub duplicated: u64,
    /// Packets overtaken by a later one.
    pub reordered: u64,
    /// Packets with flipped bits.
    pub corrupted: u64,
    /// Packets marked with ECN congestion experienced.
    pub marked: u64,
    /// Packets that found the queue above the marking limit, whether they could be marked or not.
    pub congested: u64,
    /// Largest queue, bytes.
    pub queue_bytes_max: u64,
    /// Largest queue, packets.
    pub queue_packets_max: u64,
    /// Packets in flight at the end.
    pub on_their_way: u64,
    /// Lateness of the link's packets.
    pub lateness: LatenessSummary,
    /// Failures outside the model.
    pub faults: Faults,
}

/// Packets lost other than by the model. All zero in a valid run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faults {
    /// Packets dropped by the kernel before the emulator read them.
    pub kernel_dropped_before: u64,
    /// Packets dropped by the kernel after the emulator delivered them.
    pub kernel_dropped_after: u64,
    /// Errors of the two devices.
    pub device_errors: u64,
    /// Packets that the emulator could not write.
    pub write_errors: u64,
}

/// Settings of a link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkSettings {
    /// One-way delay, milliseconds.
    pub delay_ms: f64,
    /// Random addition to the delay, milliseconds.
    pub jitter_ms: f64,
    /// Rate in bits a second, if limited.
    pub rate_bps: Option<u64>,
    /// Queue limit in bytes, if limited.
    pub queue_bytes: Option<usize>,
    /// Queue length in bytes above which packets are marked, if any.
    pub mark_bytes: Option<usize>,
    /// Longest packet that passes, bytes, if limited.
    pub size_bytes_max: Option<usize>,
    /// The loss model: `none`, `every 10`, `random 0.01`, ...
    pub loss: String,
    /// Share of packets held back.
    pub reorder: f64,
    /// Largest time that packets are held back, milliseconds.
    pub reorder_ms: f64,
    /// Share of packets duplicated.
    pub duplicate: f64,
    /// Share of packets corrupted.
    pub corrupt: f64,
}

/// A program that ran on the network.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProgramReport {
    /// The program's side.
    pub side: Side,
    /// The command as given.
    pub command: String,
    /// Exit code: 128 plus the signal's number if a signal ended it.
    pub exit_code: Option<u8>,
    /// Whether it was ended because the run was over.
    pub ended_by_us: bool,
}

/// Inputs of a report besides the topology.
#[derive(Debug)]
pub struct Measured {
    /// The emulator's counters.
    pub counters: Counters,
    /// The kernel's counters for each path: the devices on the left and on the right.
    pub kernel: Vec<[KernelCounters; 2]>,
    /// Largest acceptable 99th percentile of lateness.
    pub lateness_limit: Duration,
    /// Whether the emulator ran with real-time priority.
    pub realtime: bool,
}

impl Report {
    /// Builds the report of a run and decides whether the run is valid.
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
                "the emulator was late: 1 % of the packets were delayed by {p99} or more (limit: {limit})"
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

    /// Returns the reasons why a run is invalid.
    fn faults(&self) -> Vec<String> {
        let at = format!("path {} {}", self.path, self.direction.name());
        let Faults { kernel_dropped_before, kernel_dropped_after, device_errors, write_errors } = self.faults;
        let all = [
            (kernel_dropped_before, "packets were dropped by the kernel before the emulator saw them"),
            (kernel_dropped_after, "packets were dropped by the kernel after the emulator delivered them"),
            (device_errors, "device errors"),
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
        write!(f, "sent {} packets ({sent}), delivered {} ({came})", self.offered, self.delivered)?;
        let counts = [
            (self.dropped_loss, "lost"),
            (self.dropped_queue, "dropped because the queue was full"),
            (self.dropped_cut, "dropped by the cut"),
            (self.dropped_size, "too long"),
            (self.duplicated, "duplicated"),
            (self.reordered, "overtaken"),
            (self.corrupted, "damaged"),
            (self.marked, "marked (ECN)"),
            (self.congested.saturating_sub(self.marked), "not marked for lack of ECN"),
            (self.on_their_way, "in transit"),
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
