//! The threads of a gateway.

use std::future::Future;
use std::io;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Runs a future on this thread, with further threads for the shards beyond the first. Each has a runtime of
/// its own, so that a connection and its association stay on one thread.
///
/// # Errors
/// If a thread can't be started.
pub(crate) fn run<F: Future>(count: usize, main: impl FnOnce(Vec<Handle>) -> F) -> io::Result<F::Output> {
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
        threads.push((end, thread));
    }
    let output = first.block_on(main(runtimes));
    for (end, thread) in threads {
        drop(end);
        // A thread that panicked has said so.
        let _ = thread.join();
    }
    Ok(output)
}
