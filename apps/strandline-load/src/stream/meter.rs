//! What has passed so far, and the line each second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::usage::CpuTime;

/// Counts what passes. One side of a test has one.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: AtomicU64,
    messages: AtomicU64,
}

impl Meter {
    /// For the only thread that counts: a locked instruction for each small message would show in the result.
    pub(crate) fn count(&self, bytes: usize) {
        self.bytes.store(self.bytes() + bytes as u64, Ordering::Relaxed);
        self.messages.store(self.messages() + 1, Ordering::Relaxed);
    }

    /// For several threads.
    pub(crate) fn count_shared(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn messages(&self) -> u64 {
        self.messages.load(Ordering::Relaxed)
    }

    /// Prints a line each second, for ever. A second in which nothing passes has no line.
    pub(crate) async fn print_lines(&self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.tick().await;
        let mut line = Line::new(self);
        loop {
            ticks.tick().await;
            line.print(self);
        }
    }
}

/// The line each second.
#[derive(Debug)]
pub(crate) struct Line {
    at: Instant,
    bytes: u64,
    messages: u64,
}

impl Line {
    pub(crate) fn new(meter: &Meter) -> Self {
        Self { at: now(), bytes: meter.bytes(), messages: meter.messages() }
    }

    /// Prints what passed since the last line.
    pub(crate) fn print(&mut self, meter: &Meter) {
        let next = Self::new(meter);
        let seconds = next.at.duration_since(self.at).as_secs_f64().max(1e-9);
        let (bytes, messages) = (next.bytes - self.bytes, next.messages - self.messages);
        if bytes > 0 {
            let (bytes, messages) = (bytes as f64 / seconds, messages as f64 / seconds);
            eprintln!("{:12.0} bytes/s {:9.1} Mbit/s {:10.0} messages/s", bytes, bytes * 8.0 / 1e6, messages);
        }
        *self = next;
    }
}

/// A stretch of time with the processor time used in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    pub(crate) begin: Instant,
    cpu: CpuTime,
}

impl Stopwatch {
    pub(crate) fn start() -> std::io::Result<Self> {
        Ok(Self { begin: now(), cpu: CpuTime::now()? })
    }

    /// Seconds and processor time since the start.
    pub(crate) fn lap(&self) -> std::io::Result<(f64, CpuTime)> {
        Ok((self.begin.elapsed().as_secs_f64(), CpuTime::now()?.since(self.cpu)))
    }
}

/// The time by the monotonic clock.
#[allow(clippy::disallowed_methods, reason = "a throughput test measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
