//! The thread that writes bindings down: everything that came together while the last commit was on its way goes into the
//! next (group commit).

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::location::Journal;
use crate::transaction::Outbox;

use super::Store;

/// How long nothing must happen before the store is put in order.
const QUIET: Duration = Duration::from_millis(200);

/// What the writer gives back.
#[derive(Debug)]
pub struct Done {
    /// The answers that waited.
    pub held: Vec<Outbox>,
    /// What they acknowledge is durable.
    pub durable: bool,
}

#[derive(Debug, Default)]
struct Queue {
    changes: Journal,
    held: Vec<Outbox>,
    closed: bool,
}

type Shared = Arc<(Mutex<Queue>, Condvar)>;

/// Writes bindings down on a thread of its own. Dropping it waits until all is written.
#[derive(Debug)]
pub struct Writer {
    shared: Shared,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. `done` is called on it after each commit.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(store: Box<dyn Store>, done: impl FnMut(Done) + Send + 'static) -> std::io::Result<Self> {
        let shared = Shared::default();
        let theirs = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("store".to_owned()).spawn(move || work(&theirs, store, done))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Hands over changes, and the answers that wait for them. Both come back empty.
    pub fn submit(&self, changes: &mut Journal, held: &mut Outbox) {
        let (queue, wake) = &*self.shared;
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.changes.append(changes);
        changes.clear();
        if !held.is_empty() {
            queue.held.push(std::mem::take(held));
        }
        wake.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let (queue, wake) = &*self.shared;
        queue.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        wake.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that writes bindings down has failed");
        }
    }
}

fn work(shared: &Shared, mut store: Box<dyn Store>, mut done: impl FnMut(Done)) {
    let mut changes = Journal::default();
    let mut more = true;
    loop {
        let (mut held, mut closed) = (Vec::new(), false);
        {
            let (queue, wake) = &**shared;
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.changes.is_empty() && queue.held.is_empty() && !queue.closed {
                let wait = if more { QUIET } else { Duration::from_secs(3600) };
                (queue, _) = wake.wait_timeout(queue, wait).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut changes, &mut queue.changes);
            std::mem::swap(&mut held, &mut queue.held);
            closed |= queue.closed;
        }
        if !changes.is_empty() || !held.is_empty() {
            let durable = match store.commit(&changes) {
                Ok(()) => true,
                Err(error) => {
                    tracing::error!(%error, "bindings are not durable");
                    false
                }
            };
            changes.clear();
            done(Done { held, durable });
            more = true;
        } else if closed {
            return;
        } else if more {
            more = store.idle().unwrap_or_else(|error| {
                tracing::warn!(%error, "the store can't be put in order");
                false
            });
        }
    }
}
