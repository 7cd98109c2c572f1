//! The emulator's clock, and the time that its thread waited for a processor.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

/// Counts nanoseconds since it was created.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "the emulator works in real time")]
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The kernel's account of the time that this thread was ready to run but not running.
#[derive(Debug)]
pub(crate) struct RunDelay {
    /// `None` if the kernel keeps no such account.
    file: Option<File>,
    last_ns: u64,
}

impl RunDelay {
    /// Opens the account of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        let file = File::open("/proc/thread-self/schedstat").ok();
        let mut delay = Self { file, last_ns: 0 };
        delay.added_ns();
        delay
    }

    /// Returns the increase since the last call, nanoseconds.
    pub(crate) fn added_ns(&mut self) -> u64 {
        let total_ns = self.read().unwrap_or_default();
        let added = total_ns.saturating_sub(self.last_ns);
        self.last_ns = total_ns;
        added
    }

    /// Reads the second number: time spent waiting on a run queue.
    fn read(&self) -> Option<u64> {
        let mut text = [0; 96];
        let len = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..len)?).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}
