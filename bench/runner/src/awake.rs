//! Keeps the cores from being halted: runs a loop on each, in the idle scheduling class.

use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::process::{Child, Command};

/// The loop, which runs until its parent is gone.
const LOOP: &str =
    "while kill -0 $PPID 2>/dev/null; do i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; done";

/// The loops, one for each core; they end with this value.
#[derive(Debug)]
pub(crate) struct Awake {
    _loops: Vec<Child>,
}

impl Awake {
    pub(crate) fn start() -> Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let one = |core: usize| {
            Command::new("chrt")
                .args(["--idle", "0", "taskset", "-c", &core.to_string(), "sh", "-c", LOOP])
                .stdin(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .context("chrt, of util-linux, which keeps a core awake")
        };
        Ok(Self { _loops: (0..cores).map(one).collect::<Result<_>>()? })
    }
}
