//! When the driver is to run though nobody wakes it.

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

/// Where real sockets carry the packets, a timer of the kernel's: the runtime's rounds up to whole milliseconds, in which a
/// local network has five round trips, and wakes its own thread for each earlier deadline (decision 69). The runtime's for the
/// network in memory, whose time may be virtual, and where the process has no descriptor left.
#[derive(Debug)]
pub(super) enum Alarm {
    /// It is ready from when it rings until it is set again; `heard`: that was told, or it isn't set.
    Runtime {
        sleep: Pin<Box<Sleep>>,
        heard: bool,
    },
    Kernel(AsyncFd<Watched>),
}

/// Gives the runtime the descriptor in the form that it wants.
#[derive(Debug)]
pub(super) struct Watched(Timer);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Alarm {
    /// An alarm that isn't set. To be called from within the runtime.
    pub(super) fn new(carrier: &Carrier, clock: &Clock) -> Self {
        if carrier.is_of_the_kernel() {
            match Self::of_the_kernel() {
                Ok(alarm) => return alarm,
                Err(error) => {
                    tracing::debug!(%error, "no timer of the kernel's: timers are whole milliseconds")
                }
            }
        }
        Self::of_the_runtime(clock)
    }

    fn of_the_runtime(clock: &Clock) -> Self {
        Self::Runtime { sleep: Box::pin(tokio::time::sleep_until(clock.instant(Time::MAX))), heard: true }
    }

    #[allow(
        deprecated,
        reason = "the successor is unsafe, for types whose descriptor changes; a timer has one for its life"
    )]
    fn of_the_kernel() -> std::io::Result<Self> {
        let watched = Watched(Timer::new()?);
        Ok(Self::Kernel(AsyncFd::with_interest(watched, Interest::READABLE)?))
    }

    /// It rings at `at`, and no longer when it was to ring before. It must be polled after that.
    pub(super) fn set(&mut self, at: Time, now: Time, clock: &Clock) {
        let error = match self {
            Self::Runtime { sleep, heard } => {
                sleep.as_mut().reset(clock.instant(at));
                *heard = at == Time::MAX;
                return;
            }
            // It isn't set: a stale one that rings wakes the driver once for nothing.
            Self::Kernel(_) if at == Time::MAX => return,
            Self::Kernel(timer) => timer.get_ref().0.set(at.since(now)).err(),
        };
        if let Some(error) = error {
            tracing::warn!(%error, "the kernel's timer failed: timers are whole milliseconds from now on");
            *self = Self::of_the_runtime(clock);
            self.set(at, now, clock);
        }
    }

    /// Ready, once, if it rang; perhaps for a time that it was set to before. Otherwise it wakes the task when it does.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Runtime { heard: true, .. } => Poll::Pending,
            Self::Runtime { sleep, heard } => {
                let rings = sleep.as_mut().poll(cx);
                *heard = rings.is_ready();
                rings
            }
            Self::Kernel(timer) => timer.poll_read_ready(cx).map(|ready| match ready {
                // The kernel's readiness ends when it is set again, so there is nothing to read.
                Ok(mut guard) => guard.clear_ready(),
                Err(error) => tracing::debug!(%error, "the runtime watches no timer: it ends"),
            }),
        }
    }
}
