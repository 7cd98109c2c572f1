//! The processor time of this process.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Duration of a tick, the unit of the times in /proc, on every supported architecture.
const TICK: Duration = Duration::from_millis(10);

/// User and system time of this process.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime {
    /// Time in programs.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// Returns the time used since the process began. Its sum is exact; which part of it the kernel took is
    /// known to a tick of 10 ms.
    ///
    /// # Errors
    /// If /proc can't be read.
    pub fn now() -> io::Result<Self> {
        let system = system_ticks(&fs::read_to_string("/proc/self/stat")?)
            .ok_or_else(|| io::Error::other("/proc/self/stat has no system time"))?;
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let nanos = u32::try_from(used.tv_nsec).unwrap_or(0);
        let used = Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), nanos);
        let system = TICK.saturating_mul(system).min(used);
        Ok(Self { user: used.saturating_sub(system), system })
    }

    /// Returns the time used since an earlier moment.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Returns field 15 of /proc/self/stat (proc(5)). The second field is a name in parentheses, which may contain
/// any characters.
fn system_ticks(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(12)?.parse().ok()
}

#[cfg(test)]
mod tests;
