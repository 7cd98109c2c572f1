//! Resources of a server on the same machine: processor time and memory of its process and of its child
//! processes.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::echo_process::cpu_in;

/// A watched server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched {
    pid: u32,
}

/// The resources used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) cpu: Duration,
    /// Bytes of memory that isn't file-backed; shared memory counts once.
    pub(super) memory: u64,
    /// RSS and VSZ of ps(1), in bytes.
    pub(super) resident: u64,
    pub(super) virtual_size: u64,
}

/// The report that `--json` prints.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct ServerReport {
    /// Processor time in seconds while the load ran, warm-up and end included.
    pub(super) cpu_s: f64,
    /// Microseconds of processor time for each operation that began in that time.
    pub(super) cpu_us_each: f64,
    /// Cores in use.
    pub(super) cores: f64,
    /// Bytes before there was a connection.
    pub(super) memory_before: u64,
    /// Bytes once all sources were connected.
    pub(super) memory_connected: u64,
    /// Bytes once all phones had registered, if they did so first.
    pub(super) memory_registered: Option<u64>,
    /// Bytes at the end.
    pub(super) memory_end: u64,
    /// Bytes of resident pages at the end, files of the program included (RSS of ps).
    pub(super) resident_end: u64,
    /// Bytes of the address space at the end (VSZ of ps).
    pub(super) virtual_end: u64,
    /// Bytes that each source added before it sent anything.
    pub(super) memory_each_source: f64,
}

impl ServerReport {
    /// Returns the report between two moments, for a number of operations; with memory only at the end.
    pub(super) fn of(begin: Taken, end: Taken, wall: Duration, begun: u64) -> Self {
        let cpu = end.cpu.saturating_sub(begin.cpu).as_secs_f64();
        Self {
            cpu_s: cpu,
            cpu_us_each: cpu * 1e6 / begun.max(1) as f64,
            cores: cpu / wall.as_secs_f64().max(1e-9),
            memory_end: end.memory,
            resident_end: end.resident,
            virtual_end: end.virtual_size,
            ..Self::default()
        }
    }
}

impl Watched {
    pub(super) fn new(pid: u32) -> Self {
        Self { pid }
    }

    /// Returns the resources used up to now.
    pub(super) fn look(self) -> Result<Taken> {
        let mut taken = Taken::default();
        let mut to_look_at = vec![self.pid];
        while let Some(pid) = to_look_at.pop() {
            let Some((one, children)) = look_at(pid) else { continue };
            taken.cpu += one.cpu;
            taken.memory += one.memory;
            taken.resident += one.resident;
            taken.virtual_size += one.virtual_size;
            to_look_at.extend(children);
        }
        let there = taken != Taken::default();
        there.then_some(taken).with_context(|| format!("watching process {}: is it running?", self.pid))
    }
}

/// Returns the resources of one process, and its child processes; `None` if it has ended.
fn look_at(pid: u32) -> Option<(Taken, Vec<u32>)> {
    let (user, system) = cpu_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    let memory = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).map_or(0, |text| unshared(&text));
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let (resident, virtual_size) = (bytes_of(&status, "VmRSS:"), bytes_of(&status, "VmSize:"));
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let children = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids = children
        .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>());
    Some((Taken { cpu: user + system, memory, resident, virtual_size }, pids.collect()))
}

/// Returns the bytes of memory that isn't file-backed, with each page divided among the processes that share
/// it.
fn unshared(rollup: &str) -> u64 {
    ["Pss_Anon:", "Pss_Shmem:"].into_iter().map(|name| bytes_of(rollup, name)).sum()
}

/// Returns the value of the line with this name, converted from kilobytes to bytes; 0 without such a line.
fn bytes_of(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let kilobytes = line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests;
