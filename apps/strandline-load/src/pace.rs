//! Open-loop scheduling: operations begin at their own times, whether earlier ones are done or not.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::net::unix::pipe;

/// A kernel timer that tokio can wait for (tokio's pipe readers accept any descriptor that can be polled).
///
/// It waits with the precision of the kernel's timers. tokio's timer wheel has a resolution of one
/// millisecond, which is longer than the times measured here.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: pipe::Receiver,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer: OwnedFd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer: pipe::Receiver::from_owned_fd_unchecked(timer)? })
    }

    /// Waits at least until the given time.
    pub(crate) async fn wait_until(&mut self, at: Instant) -> io::Result<()> {
        let wait = at.saturating_duration_since(now());
        if wait.is_zero() {
            return Ok(());
        }
        let value =
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()).max(1) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            self.timer.readable().await?;
            match self.timer.try_read(&mut [0; 8]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// The evenly spaced times at which operations begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) begin: Instant,
    /// Operations per second.
    pub(crate) rate: f64,
}

impl Schedule {
    pub(crate) fn moment(&self, number: u64) -> Instant {
        self.begin + Duration::from_secs_f64(number as f64 / self.rate)
    }
}

/// Returns the time of the monotonic clock.
#[allow(clippy::disallowed_methods, reason = "a load generator measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
