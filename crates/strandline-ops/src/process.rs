//! Resource usage and limits of this process.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ticks per second of the times in /proc, on every supported architecture.
const TICKS_PER_SEC: f64 = 100.0;

/// The resources used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    /// Processor time in user and kernel mode, in seconds.
    pub(super) cpu_secs: f64,
    pub(super) resident_bytes: u64,
    /// Maximum number of open files; `None` for no limit.
    pub(super) files_max: Option<u64>,
}

/// Returns `None` if /proc isn't available.
pub(super) fn taken() -> Option<Taken> {
    let (stat, status) = (fs::read_to_string("/proc/self/stat"), fs::read_to_string("/proc/self/status"));
    let cpu_secs = cpu_ticks(&stat.ok()?)? as f64 / TICKS_PER_SEC;
    let resident_bytes = resident_kib(&status.ok()?)? * 1024;
    Some(Taken { cpu_secs, resident_bytes, files_max: getrlimit(Resource::Nofile).current })
}

/// The sum of fields 14 and 15 (proc(5)). The second field is a name in parentheses, which may contain any
/// characters.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut times = fields.split(' ').skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

fn resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// Raises the limit of open files to the hard limit, because each connection needs one.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "raising the limit of open files failed");
    }
}

#[cfg(test)]
mod tests;
