//! The threads of a server.

use std::future::Future;
use std::io;
use std::thread::{JoinHandle, available_parallelism};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Most threads: that of the shards of a stack.
const SHARDS_MAX: usize = 64;

/// Turns in which the task of a stack sends packets that are ready.
const TURNS: usize = 16;

/// A current-thread runtime on each thread. Connections stay on theirs, so that threads share little.
#[derive(Debug)]
pub(crate) struct Shards {
    runtimes: Vec<Handle>,
}

/// A thread that runs a shard.
struct Thread {
    /// Dropping it ends the thread.
    end: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Shards {
    /// Runs a future on this thread, with further threads for the shards beyond the first. Without a `count`
    /// there is one for each core that the process may use. It returns once all threads have ended.
    ///
    /// # Errors
    /// If a thread can't be started.
    pub(crate) fn run<F: Future>(count: Option<u16>, main: impl FnOnce(Self) -> F) -> io::Result<F::Output> {
        let cores = || available_parallelism().map_or(1, usize::from);
        let count = count.map_or_else(cores, usize::from).clamp(1, SHARDS_MAX);
        let first = Builder::new_current_thread().enable_all().build()?;
        let (mut runtimes, mut threads) = (vec![first.handle().clone()], Vec::new());
        for _ in 1..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtimes.push(runtime.handle().clone());
            let (end, ended) = oneshot::channel::<()>();
            let thread = std::thread::Builder::new().name("shard".to_owned()).spawn(move || {
                // An error says that the sender is dropped.
                let _ = runtime.block_on(ended);
            })?;
            threads.push(Thread { end, thread });
        }
        let output = first.block_on(main(Self { runtimes }));
        for Thread { end, thread } in threads {
            drop(end);
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        Ok(output)
    }

    /// The current thread alone.
    #[cfg(test)]
    pub(crate) fn current() -> Self {
        Self { runtimes: vec![Handle::current()] }
    }

    /// Returns the runtime of each thread.
    pub(crate) fn runtimes(&self) -> &[Handle] {
        &self.runtimes
    }

    /// Gives the other tasks of each thread turns: those of SCTP send what is queued.
    pub(crate) async fn flush(&self) {
        for runtime in &self.runtimes {
            let turns = runtime.spawn(async {
                for _ in 0..TURNS {
                    tokio::task::yield_now().await;
                }
            });
            // An error says that the thread has ended.
            let _ = turns.await;
        }
    }

    /// Returns whether there is only one thread.
    pub(crate) fn is_single(&self) -> bool {
        self.runtimes.len() == 1
    }
}
