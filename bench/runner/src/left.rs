//! Removes remnants of killed runs: control groups and network namespaces, whose names contain the number of
//! the process that created them.

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns whether a process with this number exists. It may be a different one by now; the remnant is then
/// removed after that has ended.
pub(crate) fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Returns those names that have the prefix and whose process doesn't exist any more.
pub(crate) fn left<'a>(
    names: impl Iterator<Item = &'a str>,
    begin: &str,
    is_running: impl Fn(u32) -> bool,
) -> Vec<&'a str> {
    let of_dead = |name: &&str| {
        let pid = name.strip_prefix(begin).and_then(|pid| pid.parse().ok());
        pid.is_some_and(|pid| !is_running(pid))
    };
    names.filter(of_dead).collect()
}

/// Kills processes, given one per line.
pub(crate) fn end(processes: &str) {
    for pid in processes.split_whitespace() {
        // 0 stands for a process that isn't visible from here, and would kill this process group.
        if pid.parse::<u32>().is_ok_and(|pid| pid > 1 && pid != std::process::id()) {
            // The process may have ended by itself in the meantime.
            let _ = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status();
        }
    }
}

#[cfg(test)]
mod tests;
