//! What this process takes of the machine, as other servers' metrics tell it too.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// Ticks a second of the times in /proc: the same on every architecture that this is built for.
const TICKS_PER_SEC: f64 = 100.0;

/// What it has taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    /// Processor time, the kernel's for it as well.
    pub(super) cpu_secs: f64,
    pub(super) resident_bytes: u64,
    /// Open files that it may have; none if there is no limit.
    pub(super) files_max: Option<u64>,
}

/// `None` where /proc isn't there.
pub(super) fn taken() -> Option<Taken> {
    let (stat, status) = (fs::read_to_string("/proc/self/stat"), fs::read_to_string("/proc/self/status"));
    let cpu_secs = cpu_ticks(&stat.ok()?)? as f64 / TICKS_PER_SEC;
    let resident_bytes = resident_kib(&status.ok()?)? * 1024;
    Some(Taken { cpu_secs, resident_bytes, files_max: getrlimit(Resource::Nofile).current })
}

/// The 14th and 15th of its fields (proc(5)). The second is a name in parentheses, which may have any letters.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

fn resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests;
