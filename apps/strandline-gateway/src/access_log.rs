//! The access log: a line of JSON for each connection. A thread writes it, so that a slow disk delays no connection.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::clock::now;
use crate::refused_lines::{RefusedLines, Source};

/// Lines that wait for the thread; further ones are lost.
const LINES_MAX: usize = 16_384;

/// An access log. Dropping it writes what waits.
#[derive(Debug)]
pub(crate) struct AccessLog {
    jobs: Option<SyncSender<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lost: Arc<AtomicU64>,
    refused: Arc<Mutex<RefusedLines>>,
}

enum Job {
    Line(Line),
    Reopen,
    /// Lines are held back: their sums are to be written at the end of the period.
    Sum,
}

/// A line, and the number of connections that it stands for.
struct Line {
    text: String,
    connections: u64,
}

impl Line {
    fn of(value: &Value) -> Self {
        Self { text: value.to_string(), connections: 1 + value["more"].as_u64().unwrap_or(0) }
    }
}

/// What the thread writes to.
struct Output {
    file: Box<dyn Write + Send>,
    lost: Arc<AtomicU64>,
}

impl AccessLog {
    /// Opens a log that is appended to a file, or goes to standard output if the path is `-`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let (file, path): (Box<dyn Write + Send>, _) = if path == Path::new("-") {
            // Without the buffer of the standard library, which would keep what can't be written.
            (Box::new(File::from(rustix::io::dup(rustix::stdio::stdout())?)), None)
        } else {
            (Box::new(append(path)?), Some(path.to_path_buf()))
        };
        let (jobs, waiting) = sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let output = Output { file, lost: Arc::clone(&lost) };
        let refused = Arc::<Mutex<RefusedLines>>::default();
        let summed = Arc::clone(&refused);
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        let thread = thread.spawn(move || run(output, path.as_deref(), &waiting, &summed))?;
        Ok(Self { jobs: Some(jobs), thread: Mutex::new(Some(thread)), lost, refused })
    }

    /// Writes the line of a refused connection, unless there were many of this reason and source: then a later line
    /// sums them up.
    pub(crate) fn write_refused(&self, key: (&'static str, Source), line: impl FnOnce() -> Value) {
        let (sums, line, begins_to_hold) = {
            let (now, mut refused) = (now(), lock(&self.refused));
            let sums = refused.finish(now);
            let held_before = refused.ends().is_some();
            let line = refused.admit(now, key, line);
            (sums, line, !held_before && refused.ends().is_some())
        };
        sums.into_iter().chain(line).for_each(|line| self.send(Line::of(&line)));
        if let (Some(jobs), true) = (&self.jobs, begins_to_hold) {
            // If the queue is full, the thread sees it behind any other job.
            let _ = jobs.try_send(Job::Sum);
        }
    }

    /// Hands a line to the thread.
    pub(crate) fn write(&self, line: String) {
        self.send(Line { text: line, connections: 1 });
    }

    fn send(&self, line: Line) {
        let connections = line.connections;
        if let Some(jobs) = &self.jobs
            && let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = jobs.try_send(Job::Line(line))
        {
            self.lost.fetch_add(connections, Ordering::Relaxed);
        }
    }

    /// Opens the file again, for programs that have renamed it.
    pub(crate) fn reopen(&self) {
        if let Some(jobs) = &self.jobs {
            // If the queue is full, the next signal does it.
            let _ = jobs.try_send(Job::Reopen);
        }
    }

    /// Returns how many connections have lost their line: the file could not be written, or was too slow.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn lock(refused: &Mutex<RefusedLines>) -> MutexGuard<'_, RefusedLines> {
    refused.lock().unwrap_or_else(PoisonError::into_inner)
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Output {
    fn write(&mut self, line: Line) {
        let Line { mut text, connections } = line;
        text.push('\n');
        if let Err(error) = self.file.write_all(text.as_bytes())
            && self.lost.fetch_add(connections, Ordering::Relaxed) == 0
        {
            tracing::error!(%error, "writing the access log failed: lines are lost");
        }
    }

    fn write_all(&mut self, lines: &[Value]) {
        lines.iter().for_each(|line| self.write(Line::of(line)));
    }
}

/// Writes until the log is dropped.
fn run(mut output: Output, path: Option<&Path>, jobs: &Receiver<Job>, refused: &Mutex<RefusedLines>) {
    loop {
        let sums_due = lock(refused).ends();
        let job = match sums_due {
            Some(due) => jobs.recv_timeout(due.saturating_duration_since(now())),
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match job {
            Ok(Job::Line(line)) => output.write(line),
            Ok(Job::Reopen) => match path.map(append) {
                Some(Ok(opened)) => output.file = Box::new(opened),
                Some(Err(error)) => tracing::error!(%error, "opening the access log again failed"),
                None => {}
            },
            Ok(Job::Sum) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if sums_due.is_some_and(|due| now() >= due) {
            let sums = lock(refused).finish(now());
            output.write_all(&sums);
        }
    }
    let sums = lock(refused).finish_now();
    output.write_all(&sums);
}

#[cfg(test)]
mod tests;
