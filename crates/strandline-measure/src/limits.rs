//! Limits of the operating system.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of descriptors that a process needs besides those of connections.
const SPARE: u64 = 200;

/// Raises this process's limit of open files as far as permitted, and returns how many connections fit below
/// it.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    now.unwrap_or(1 << 20).saturating_sub(SPARE).max(64)
}
