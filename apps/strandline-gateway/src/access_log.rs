//! The access log: a line of JSON for each connection. A thread writes it, so that a slow disk delays no connection.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Lines that wait for the thread; further ones are lost.
const LINES_MAX: usize = 16_384;

/// An access log. Dropping it writes what waits.
#[derive(Debug)]
pub(crate) struct AccessLog {
    jobs: Option<SyncSender<Job>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    lost: Arc<AtomicU64>,
}

enum Job {
    Line(String),
    StackFactory,
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
        let counted = Arc::clone(&lost);
        let thread = std::thread::Builder::new().name("access-log".to_owned());
        let thread = thread.spawn(move || run(file, path.as_deref(), &waiting, &counted))?;
        Ok(Self { jobs: Some(jobs), thread: Mutex::new(Some(thread)), lost })
    }

    /// Hands a line to the thread.
    pub(crate) fn write(&self, line: String) {
        if let Some(jobs) = &self.jobs
            && let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = jobs.try_send(Job::Line(line))
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the file again, for programs that have renamed it.
    pub(crate) fn reopen(&self) {
        if let Some(jobs) = &self.jobs {
            // If the queue is full, the next signal does it.
            let _ = jobs.try_send(Job::StackFactory);
        }
    }

    /// Returns how many lines were lost: the file could not be written, or was too slow.
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

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn run(mut file: Box<dyn Write + Send>, path: Option<&Path>, jobs: &Receiver<Job>, lost: &AtomicU64) {
    for job in jobs {
        match job {
            Job::Line(mut line) => {
                line.push('\n');
                if let Err(error) = file.write_all(line.as_bytes())
                    && lost.fetch_add(1, Ordering::Relaxed) == 0
                {
                    tracing::error!(%error, "writing the access log failed: lines are lost");
                }
            }
            Job::StackFactory => match path.map(append) {
                Some(Ok(opened)) => file = Box::new(opened),
                Some(Err(error)) => tracing::error!(%error, "opening the access log again failed"),
                None => {}
            },
        }
    }
}

#[cfg(test)]
mod tests;
