//! The thread that writes the access log, and the lines that wait for it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Bytes of lines that wait for the thread at most.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// Time between two reports of lost lines.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// Pause before a file that isn't ready is written again.
const PAUSE: Duration = Duration::from_millis(10);

/// Lines of an access log since its beginning.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Lines that were written.
    pub(crate) written: u64,
    /// Lines that were lost: they could not be written, or too many waited.
    pub(crate) lost: u64,
}

/// A file that a thread of its own writes, so that a slow one delays nobody. Lines that don't fit the queue are lost.
pub(super) struct Writer(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Notified when the thread has something to do.
    wanted: Condvar,
    /// Notified when the thread has nothing left to do.
    idle: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    is_writing: bool,
    must_reopen: bool,
    has_ended: bool,
    counts: Counts,
    reports: Reports,
}

/// When lost lines are reported: at once, and then once in [`REPORT_EVERY`].
#[derive(Debug, Default)]
pub(super) struct Reports {
    last: Option<Instant>,
    unreported: u64,
}

impl Reports {
    /// Takes note of lost lines. Returns the number to report now, if any.
    pub(super) fn on_lost(&mut self, lines: u64, now: Instant) -> Option<u64> {
        self.unreported += lines;
        let is_due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= REPORT_EVERY);
        if !is_due || self.unreported == 0 {
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.unreported))
    }
}

#[allow(clippy::disallowed_methods, reason = "a limit of log lines")]
fn now() -> Instant {
    Instant::now()
}

impl Writer {
    /// Appends to a file, or to standard output if the path is `-`.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            // Without the buffer of the standard library, which would keep what can't be written.
            let file = File::from(rustix::io::dup(rustix::stdio::stdout())?);
            return Self::spawn(Box::new(file), None);
        }
        Self::spawn(Box::new(append(path)?), Some(path.to_path_buf()))
    }

    pub(super) fn spawn(file: Box<dyn Write + Send>, path: Option<PathBuf>) -> io::Result<Self> {
        let shared =
            Arc::new(Shared { state: Mutex::default(), wanted: Condvar::new(), idle: Condvar::new() });
        let target = Target { file, path, is_within_line: false };
        let for_thread = Arc::clone(&shared);
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || run(&for_thread, target))?;
        Ok(Self(shared))
    }

    /// Hands a line to the thread, without waiting.
    pub(super) fn push(&self, line: &str) {
        let lost = {
            let mut state = self.0.lock();
            if state.waiting.len() + line.len() < WAITING_BYTES_MAX {
                if state.waiting.is_empty() {
                    self.0.wanted.notify_one();
                }
                state.waiting.extend_from_slice(line.as_bytes());
                state.waiting.push(b'\n');
                return;
            }
            state.counts.lost += 1;
            state.reports.on_lost(1, now())
        };
        if let Some(lost_lines) = lost {
            tracing::error!(lost_lines, "the access log's file is too slow: too many lines wait for it");
        }
    }

    /// Makes the thread open the file again, once it has written the lines that wait.
    pub(super) fn reopen(&self) {
        self.0.lock().must_reopen = true;
        self.0.wanted.notify_one();
    }

    /// Returns the counts of lines.
    pub(super) fn counts(&self) -> Counts {
        self.0.lock().counts
    }

    /// Waits until no line waits any more. Returns whether that was so in time.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let is_busy = |state: &mut State| state.is_writing || state.must_reopen || !state.waiting.is_empty();
        let waited = self.0.idle.wait_timeout_while(self.0.lock(), limit, is_busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.wanted.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for lines, and moves them to an empty batch. Returns whether the file is to be opened again after that;
    /// `None` at the end.
    fn next(&self, batch: &mut Vec<u8>) -> Option<bool> {
        let mut state = self.lock();
        loop {
            if !state.waiting.is_empty() || state.must_reopen {
                std::mem::swap(&mut state.waiting, batch);
                state.is_writing = true;
                return Some(std::mem::take(&mut state.must_reopen));
            }
            state.is_writing = false;
            self.idle.notify_all();
            if state.has_ended {
                return None;
            }
            state = self.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Writes lines until nobody adds any.
fn run(shared: &Shared, mut target: Target) {
    let mut batch = Vec::new();
    while let Some(must_reopen) = shared.next(&mut batch) {
        let all = count_lines(&batch);
        let (written, error) = target.write(&batch);
        let written = count_lines(batch.get(..written).unwrap_or_default());
        batch.clear();
        let lost = {
            let mut state = shared.lock();
            state.counts.written += written;
            state.counts.lost += all - written;
            state.reports.on_lost(all - written, now())
        };
        match (lost, error) {
            (Some(lost_lines), Some(error)) => {
                tracing::error!(%error, lost_lines, "writing to the access log failed");
            }
            (Some(lost_lines), None) => tracing::error!(lost_lines, "lines of the access log were lost"),
            (None, _) => {}
        }
        if must_reopen && let Err(error) = target.reopen() {
            tracing::error!(%error, "opening the access log again failed: the file before is still written");
        }
    }
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Opens a file to append to. A pipe that nobody reads is an error: to open it would wait for its reader.
fn append(path: &Path) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().create(true).append(true).custom_flags(nonblocking).open(path);
    let file = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NXIO) => io::Error::new(
            ErrorKind::NotConnected,
            "no program reads this pipe: its reader has to be started first",
        ),
        _ => error,
    })?;
    // The thread may wait for a reader that is slow.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

/// The file.
struct Target {
    file: Box<dyn Write + Send>,
    /// The path, if the file can be opened again.
    path: Option<PathBuf>,
    /// Whether a line was cut off.
    is_within_line: bool,
}

impl Target {
    /// Writes lines. Returns the bytes that were written, and the error that prevented the rest.
    fn write(&mut self, lines: &[u8]) -> (usize, Option<io::Error>) {
        if self.is_within_line && !lines.is_empty() {
            if let (_, Some(error)) = self.write_bytes(b"\n") {
                return (0, Some(error));
            }
            self.is_within_line = false;
        }
        let (written, error) = self.write_bytes(lines);
        if let Some(last) = lines.get(..written).and_then(<[u8]>::last) {
            self.is_within_line = *last != b'\n';
        }
        (written, error)
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> (usize, Option<io::Error>) {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return (written, Some(ErrorKind::WriteZero.into())),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Standard output may be shared with a program that doesn't want to wait for it.
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::park_timeout(PAUSE),
                Err(error) => return (written, Some(error)),
            }
        }
        (written, None)
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Some(path) = &self.path {
            self.file = Box::new(append(path)?);
            self.is_within_line = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
