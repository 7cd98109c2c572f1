//! Open-loop scheduling: operations begin at their own times, whether earlier ones are done or not.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::net::unix::pipe;

/// A kernel timer that tokio can wait for (tokio's pipe readers accept any descriptor that can be polled).
///
/// It waits with the precision of the kernel's timers. tokio's timer wheel has a resolution of one
/// millisecond, which is longer than the times measured here.
#[derive(Debug)]
pub struct Alarm {
    timer: pipe::Receiver,
}

impl Alarm {
    /// Creates an alarm.
    ///
    /// # Errors
    /// If no descriptor is left.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer: OwnedFd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer: pipe::Receiver::from_owned_fd_unchecked(timer)? })
    }

    /// Waits at least until the given time.
    ///
    /// # Errors
    /// If the kernel refuses the timer.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn wait_until(&mut self, at: Instant) -> io::Result<()> {
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
pub struct Schedule {
    /// Time of the first operation.
    pub begin: Instant,
    /// Operations per second.
    pub rate: f64,
}

impl Schedule {
    /// Returns the time of an operation, counted from 0.
    #[must_use]
    pub fn moment(&self, number: u64) -> Instant {
        self.begin + Duration::from_secs_f64(number as f64 / self.rate)
    }
}

/// The times at which operations begin, one after another.
#[derive(Debug, Clone)]
pub struct Arrivals {
    schedule: Schedule,
    number: u64,
    /// The source of independent arrivals, and the seconds until the next one.
    random: Option<(ChaCha8Rng, f64)>,
}

impl Arrivals {
    /// Returns evenly spaced times, `rate` of them per second.
    #[must_use]
    pub fn uniform(begin: Instant, rate: f64) -> Self {
        Self { schedule: Schedule { begin, rate }, number: 0, random: None }
    }

    /// Returns the times of a Poisson process with `rate` arrivals per second on average. The first one is at
    /// `begin`.
    #[must_use]
    pub fn poisson(begin: Instant, rate: f64, seed: u64) -> Self {
        Self { random: Some((ChaCha8Rng::seed_from_u64(seed), 0.0)), ..Self::uniform(begin, rate) }
    }
}

impl Iterator for Arrivals {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        let Schedule { begin, rate } = self.schedule;
        let Some((random, seconds)) = &mut self.random else {
            self.number += 1;
            return Some(self.schedule.moment(self.number - 1));
        };
        let at = begin + Duration::from_secs_f64(*seconds);
        // In (0, 1], with 53 bits: every value is exact as f64.
        let uniform = ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        *seconds -= uniform.ln() / rate;
        Some(at)
    }
}

/// Returns the time of the monotonic clock.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "a load generator measures real time")]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests;
