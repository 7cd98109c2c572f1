//! The processor time of this process.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// User and system time of this process.
#[derive(Debug, Clone, Copy)]
pub struct CpuTime {
    /// Time in programs.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl CpuTime {
    /// Returns the time used since the process began.
    ///
    /// # Errors
    /// If the kernel doesn't report it.
    pub fn now() -> std::io::Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        Ok(Self { user: duration(usage.user_time()), system: duration(usage.system_time()) })
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

fn duration(time: TimeVal) -> Duration {
    let (seconds, micros) = (time.tv_sec(), time.tv_usec());
    Duration::from_secs(seconds.try_into().unwrap_or(0))
        + Duration::from_micros(micros.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests;
