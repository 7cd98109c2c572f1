//! The driver's alarm: when it must run even if nothing wakes it.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use strandline_io::Timer;
use strandline_proto::time::Time;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Sleep;

use crate::carrier::Carrier;
use crate::clock::Clock;

/// For real sockets, a kernel timer: tokio's timer rounds up to whole milliseconds, in which a local network
/// has five round trips, and wakes its own thread for each earlier deadline (decision 69). For in-memory
/// networks, whose time may be virtual, and if the process has no descriptor left, tokio's timer.
#[derive(Debug)]
pub(super) enum Alarm {
    /// Stays ready from the time that it fires until it is set again. `reported` is true once that was reported,
    /// or if it isn't set.
    Runtime {
        sleep: Pin<Box<Sleep>>,
        reported: bool,
    },
    Kernel(AsyncFd<Watched>),
}

/// Wraps a descriptor as the runtime needs it.
#[derive(Debug)]
pub(super) struct Watched(Timer);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// Creates an alarm that isn't set. Must be called from within the runtime.
    pub(super) fn new(carrier: &Carrier, clock: &Clock) -> Self {
        if carrier.is_of_the_kernel() {
            match Self::of_the_kernel() {
                Ok(alarm) => return alarm,
                Err(error) => {
                    tracing::debug!(%error, "creating a kernel timer failed; timers have a resolution of 1 ms")
                }
            }
        }
        Self::of_the_runtime(clock)
    }

    fn of_the_runtime(clock: &Clock) -> Self {
        Self::Runtime { sleep: Box::pin(tokio::time::sleep_until(clock.instant(Time::MAX))), reported: true }
    }

    #[allow(
        deprecated,
        reason = "the successor is unsafe, for types whose descriptor changes; a timer has one for its life"
    )]
    fn of_the_kernel() -> std::io::Result<Self> {
        let watched = Watched(Timer::new()?);
        Ok(Self::Kernel(AsyncFd::with_interest(watched, Interest::READABLE)?))
    }

    /// Sets the alarm to `at`, replacing any earlier setting. It must be polled afterwards.
    pub(super) fn set(&mut self, at: Time, now: Time, clock: &Clock) {
        let error = match self {
            Self::Runtime { sleep, reported } => {
                sleep.as_mut().reset(clock.instant(at));
                *reported = at == Time::MAX;
                return;
            }
            // The kernel timer is left as it is: a stale one costs one spurious wake-up.
            Self::Kernel(_) if at == Time::MAX => return,
            Self::Kernel(timer) => timer.get_ref().0.set(at.since(now)).err(),
        };
        if let Some(error) = error {
            tracing::warn!(%error, "the kernel timer failed; timers have a resolution of 1 ms from now on");
            *self = Self::of_the_runtime(clock);
            self.set(at, now, clock);
        }
    }

    /// Ready once after the alarm fired, possibly for an earlier setting. Otherwise registers the task to be
    /// woken.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Runtime { reported: true, .. } => Poll::Pending,
            Self::Runtime { sleep, reported } => {
                let rings = sleep.as_mut().poll(cx);
                *reported = rings.is_ready();
                rings
            }
            Self::Kernel(timer) => timer.poll_read_ready(cx).map(|ready| match ready {
                // Setting the timer again ends its readiness, so nothing has to be read.
                Ok(mut guard) => guard.clear_ready(),
                Err(error) => tracing::debug!(%error, "the kernel timer is no longer polled: the runtime is shutting down"),
            }),
        }
    }
}
