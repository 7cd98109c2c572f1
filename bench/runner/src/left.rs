//! What runs that were killed have left behind: control groups and network namespaces, which bear the number of the process that
//! made them.

use std::path::Path;
use std::process::{Command, Stdio};

/// Is there a process with this number? It may be another one by now: then what is left goes when that has ended.
pub(crate) fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Of these names the ones that begin so and whose process is no more.
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

/// Ends processes, of which each line has one.
pub(crate) fn end(processes: &str) {
    for pid in processes.split_whitespace() {
        // 0 is one that isn't seen from here, and would be all of our own.
        if pid.parse::<u32>().is_ok_and(|pid| pid > 1 && pid != std::process::id()) {
            // It may have ended by itself in the meantime.
            let _ = Command::new("kill").args(["-KILL", pid]).stderr(Stdio::null()).status();
        }
    }
}

#[cfg(test)]
mod tests;
