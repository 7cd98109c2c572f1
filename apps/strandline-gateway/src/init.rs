//! The first process of a container. The kernel ends all others with it, and gives it those that have lost
//! their parents. So it is no gateway itself: it starts one, passes signals on to the newest, and waits for
//! what ends. A hot restart is as anywhere else.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use anyhow::{Context, Result};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use crate::handover::Program;
use crate::signals::Signals;

/// The environment variable with the path at which gateways report their process IDs.
const VARIABLE: &str = "STRANDLINE_GATEWAY_INIT";

/// Returns whether this process is the first of its namespace.
pub(crate) fn is_first() -> bool {
    getpid().is_init()
}

/// Runs the program again, as a child, until the newest process of the gateway ends. Returns its exit code.
///
/// # Errors
/// If it can't be started.
pub(crate) fn run(program: &Program) -> Result<ExitCode> {
    Builder::new_current_thread().enable_all().build()?.block_on(serve(program))
}

async fn serve(program: &Program) -> Result<ExitCode> {
    let (sender, mut reports) = pipe::pipe()?;
    let sender = sender.into_blocking_fd()?;
    // All processes of the gateway inherit it.
    fcntl_setfd(&sender, FdFlags::empty())?;
    let mut signals = Signals::catch()?;
    let mut ended = signal(SignalKind::child())?;
    let mut command = program.command();
    command.env(VARIABLE, format!("/proc/self/fd/{}", sender.as_raw_fd()));
    let child = command.spawn().context("starting the gateway")?;
    let mut main = Pid::from_child(&child);
    loop {
        tokio::select! {
            // Before its end is looked at.
            biased;
            pid = reports.read_i32() => main = pid.ok().and_then(Pid::from_raw).unwrap_or(main),
            passed = signals.passed() => {
                // One that has ended is found below.
                let _ = kill_process(main, passed);
            }
            _ = ended.recv() => {
                if let Some(code) = wait_for(main) {
                    return Ok(code);
                }
            }
        }
    }
}

/// Waits for all that have ended. Returns the exit code of the main process, if it is among them.
fn wait_for(main: Pid) -> Option<ExitCode> {
    let mut code = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == main {
            code = Some(exit_code(status));
        }
    }
    code
}

/// As shells have it: 128 and the number of the signal that has ended a process.
fn exit_code(status: WaitStatus) -> ExitCode {
    let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

impl Signals {
    /// Waits for a signal that is passed on.
    async fn passed(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hangup.recv() => Signal::HUP,
            _ = self.restart.recv() => Signal::USR2,
        }
    }
}

/// Tells the first process, if this one is its gateway, that this one serves.
pub(crate) fn notify() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let pipe = OpenOptions::new().append(true).open(path);
    let pid = getpid().as_raw_nonzero().get();
    if let Err(error) = pipe.and_then(|mut pipe| pipe.write_all(&pid.to_be_bytes())) {
        tracing::warn!(%error, "telling the first process of the container failed: signals go to the process of before");
    }
}
