//! Threads for the shards of a stack.

use anyhow::Result;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// Runtimes on separate threads, for the shards beyond the first.
pub(crate) struct Cores {
    pub(crate) handles: Vec<Handle>,
    /// Dropping the senders ends the threads.
    _ends: Vec<oneshot::Sender<()>>,
}

impl Cores {
    /// Starts the threads. Call it outside of a runtime; the first shard is driven by the runtime that calls
    /// [`with_current`](Self::with_current).
    pub(crate) fn start(shards: u16) -> Result<Self> {
        let (mut handles, mut ends) = (Vec::new(), Vec::new());
        for _ in 1..shards {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            handles.push(runtime.handle().clone());
            let (end, ended) = oneshot::channel::<()>();
            ends.push(end);
            std::thread::Builder::new().name("shard".to_owned()).spawn(move || {
                let _ = runtime.block_on(ended);
            })?;
        }
        Ok(Self { handles, _ends: ends })
    }

    /// Returns the runtime of each shard, beginning with the current one.
    pub(crate) fn with_current(&self) -> Vec<Handle> {
        std::iter::once(Handle::current()).chain(self.handles.iter().cloned()).collect()
    }
}
