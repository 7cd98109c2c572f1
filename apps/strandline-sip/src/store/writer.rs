//! The thread that persists bindings. All changes that arrive while a commit is running go into the next one
//! (group commit). When there is little traffic, a commit waits briefly for more changes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::bindings::Journal;
use crate::transaction::Outbox;

use super::gathering::{ENOUGH, GATHER, Gathering};
use super::stats::now;
use super::{Store, StoreError, StoreStats};

/// How long the store must be idle before maintenance starts.
const QUIET: Duration = Duration::from_millis(200);
/// The pause after a failure, which doubles each time.
const BACK_OFF_MIN: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(1);
/// Size of the pending changes, in bytes, from which only the last change of each user is kept while the
/// store fails.
const COMPACT_FROM: usize = 4 << 20;

/// A notification from the writer.
#[derive(Debug)]
pub enum Done {
    /// Everything up to the submission `through` is durable, and these responses can be sent.
    Durable {
        /// The responses.
        held: Vec<Outbox>,
        /// The number of the last durable submission.
        through: u64,
    },
    /// The changes that these responses acknowledge are not yet durable.
    Failed {
        /// The responses.
        held: Vec<Outbox>,
    },
    /// The store has failed permanently.
    Lost(StoreError),
}

/// Responses that wait for a commit.
#[derive(Debug)]
struct Held {
    answers: Outbox,
    number: u64,
    at: Duration,
}

#[derive(Debug, Default)]
struct Queue {
    changes: Journal,
    held: VecDeque<Held>,
    /// Number of submissions.
    submitted: u64,
    /// Number of responses that wait for the next commit.
    answers: usize,
    /// True while the thread waits for more of them.
    gathers: bool,
    /// True while the thread waits for anything. Waking a thread that doesn't wait costs a system call as well.
    waits: bool,
    closed: bool,
}

impl Queue {
    /// Takes the responses that wait for submissions up to `through`.
    fn take(&mut self, through: u64) -> Vec<Outbox> {
        let count = self.held.iter().take_while(|held| held.number <= through).count();
        self.held.drain(..count).map(|held| held.answers).collect()
    }
}

type Shared = Arc<(Mutex<Queue>, Condvar)>;

fn lock(shared: &Shared) -> MutexGuard<'_, Queue> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Persists bindings on its own thread. Dropping it blocks until everything is written or can't be.
#[derive(Debug)]
pub struct Writer {
    shared: Shared,
    stats: Arc<StoreStats>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which calls `done` after each commit.
    ///
    /// # Errors
    /// Returns an error if the thread can't be started.
    pub fn start(
        store: Box<dyn Store>,
        stats: Arc<StoreStats>,
        done: impl FnMut(Done) + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Shared::default();
        let (theirs, counted) = (Arc::clone(&shared), Arc::clone(&stats));
        let thread = std::thread::Builder::new().name("store".to_owned()).spawn(move || {
            let (changes, gathering) = Default::default();
            Worker { shared: theirs, store, done, stats: counted, changes, gathering }.work();
        })?;
        Ok(Self { shared, stats, thread: Some(thread) })
    }

    /// Submits changes, and the responses that wait for them since `at`. Both arguments are emptied. Returns
    /// the number of this submission, from 1.
    pub fn submit(&self, changes: &mut Journal, held: &mut Outbox, at: Duration) -> u64 {
        let mut queue = lock(&self.shared);
        queue.changes.append(changes);
        changes.clear();
        queue.submitted += 1;
        let number = queue.submitted;
        queue.answers += held.len();
        let wakes = queue.waits && (!queue.gathers || queue.answers >= ENOUGH);
        if !held.is_empty() {
            queue.held.push_back(Held { answers: held.take(), number, at });
        }
        // The woken thread needs the lock at once.
        drop(queue);
        if wakes {
            self.shared.1.notify_one();
        }
        number
    }

    /// Takes back the responses that have waited since `since` or longer. They are not returned again,
    /// whether or not their changes were stored.
    #[must_use]
    pub fn overdue(&self, since: Duration) -> Vec<Outbox> {
        let mut queue = lock(&self.shared);
        let count = queue.held.iter().take_while(|held| held.at <= since).count();
        queue.held.drain(..count).map(|held| held.answers).collect()
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> &StoreStats {
        &self.stats
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.shared).closed = true;
        self.shared.1.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes bindings panicked");
        }
    }
}

/// How often a lasting failure is logged again.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Limits what is logged of failures: the first one, each new cause, and the recovery.
#[derive(Debug, Default)]
struct Complaint {
    logged: Option<(Instant, String)>,
    since: u64,
}

impl Complaint {
    /// Logs a failure if it is due. Returns whether it was logged.
    fn failed(&mut self, error: &StoreError) -> bool {
        let (text, at) = (error.to_string(), now());
        self.since += 1;
        let is_new = |(logged, before): &(Instant, String)| {
            *before != text || at.saturating_duration_since(*logged) >= LOGGED_EVERY
        };
        if !self.logged.as_ref().is_none_or(is_new) {
            return false;
        }
        tracing::error!(%error, failures = self.since, "writing bindings failed; REGISTER requests get 503");
        self.logged = Some((at, text));
        true
    }

    fn done(&mut self) {
        if self.logged.take().is_some() {
            tracing::info!(failures = self.since, "writing bindings works again");
            self.since = 0;
        }
    }
}

struct Worker<D> {
    shared: Shared,
    store: Box<dyn Store>,
    done: D,
    stats: Arc<StoreStats>,
    /// Changes that are not yet durable.
    changes: Journal,
    gathering: Gathering,
}

impl<D: FnMut(Done)> Worker<D> {
    fn work(mut self) {
        let (mut more, mut pause) = (true, BACK_OFF_MIN);
        let (mut through, mut complaint) = (0, Complaint::default());
        loop {
            let (submitted, closed) =
                self.wait(through, if more { QUIET } else { Duration::from_secs(3600) });
            if submitted > through || !self.changes.is_empty() {
                self.stats.set_backlog(self.changes.as_bytes().len());
                match self.commit() {
                    Ok(()) => {
                        (through, more, pause) = (submitted, true, BACK_OFF_MIN);
                        complaint.done();
                        self.changes.clear();
                        let held = lock(&self.shared).take(through);
                        (self.done)(Done::Durable { held, through });
                        self.stats.set_backlog(0);
                    }
                    Err(error) if closed || error.is_final => return self.give_up(submitted, error),
                    Err(error) => {
                        complaint.failed(&error);
                        let held = lock(&self.shared).take(submitted);
                        (self.done)(Done::Failed { held });
                        self.rest(pause);
                        pause = (pause * 2).min(BACK_OFF_MAX);
                    }
                }
            } else if closed {
                return;
            } else if more {
                more = self.store.idle().unwrap_or_else(|error| {
                    tracing::warn!(%error, "compacting the store failed");
                    false
                });
            }
        }
    }

    /// Waits up to `timeout` for work, and takes it.
    fn wait(&mut self, through: u64, timeout: Duration) -> (u64, bool) {
        let shared = Arc::clone(&self.shared);
        let mut queue = lock(&shared);
        if queue.submitted == through && self.changes.is_empty() && !queue.closed {
            queue.waits = true;
            (queue, _) = shared.1.wait_timeout(queue, timeout).unwrap_or_else(PoisonError::into_inner);
            queue.waits = false;
            if queue.submitted > through && !queue.closed {
                queue = self.gather(&shared.1, queue);
            }
        }
        queue.answers = 0;
        if self.changes.is_empty() {
            std::mem::swap(&mut self.changes, &mut queue.changes);
        } else {
            self.changes.append(&queue.changes);
            queue.changes.clear();
        }
        (queue.submitted, queue.closed)
    }

    /// Waits for more changes, unless there are enough or waiting has proved useless.
    fn gather<'a>(&mut self, came: &Condvar, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        if queue.answers >= ENOUGH || !self.gathering.waits() {
            return queue;
        }
        (queue.gathers, queue.waits) = (true, true);
        let few = |queue: &mut Queue| queue.answers < ENOUGH && !queue.closed;
        (queue, _) = came.wait_timeout_while(queue, GATHER, few).unwrap_or_else(PoisonError::into_inner);
        (queue.gathers, queue.waits) = (false, false);
        self.gathering.waited(queue.answers);
        queue
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        let begin = now();
        let result = self.store.commit(&self.changes);
        match &result {
            Ok(()) => self.stats.on_commit(begin.elapsed()),
            Err(_) => self.stats.on_failure(),
        }
        result
    }

    /// Pauses after a failure, unless the writer is being closed.
    fn rest(&mut self, pause: Duration) {
        if self.changes.as_bytes().len() >= COMPACT_FROM {
            self.changes.compact();
        }
        let (queue, end) = (lock(&self.shared), now() + pause);
        let left = |_: &mut Queue| now() < end;
        let (queue, _) = self
            .shared
            .1
            .wait_timeout_while(queue, pause, |queue| !queue.closed && left(queue))
            .unwrap_or_else(PoisonError::into_inner);
        drop(queue);
    }

    fn give_up(mut self, submitted: u64, error: StoreError) {
        tracing::error!(%error, users = self.changes.len(), "changes that were not acknowledged are discarded");
        let held = lock(&self.shared).take(submitted);
        (self.done)(Done::Failed { held });
        if error.is_final {
            (self.done)(Done::Lost(error));
        }
    }
}

#[cfg(test)]
mod tests;
