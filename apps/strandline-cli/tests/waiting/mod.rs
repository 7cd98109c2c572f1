//! Waiting for what other programs do sooner or later.
#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::disallowed_methods, reason = "other programs work in real time")]

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// What hasn't come by then never comes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between one look and the next.
const PAUSE: Duration = Duration::from_millis(10);

/// Looks again and again until there is something, and returns it. The error is what there is instead.
pub fn found_at_last<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) => assert!(Instant::now() < end, "never: {what} {instead}"),
        }
        // Sleeps because what another program does is looked at from outside, and nobody tells when it changes.
        std::thread::sleep(PAUSE);
    }
}

/// Stops a child, and returns once all of its threads have: false if it has ended instead.
pub fn stop(child: &Child) -> bool {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    // The signal is taken by one thread, and until that runs the others go on: the kernel tells the parent when all have stopped.
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    status.stopped()
}

/// Looks again and again until it is so.
pub fn at_last(what: &str, mut is_so: impl FnMut() -> bool) {
    found_at_last(what, || if is_so() { Ok(()) } else { Err(String::new()) });
}

/// Waits for a condition at the end of a test, which does not fail without it.
pub fn is_so_at_last(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() >= end {
            return false;
        }
        // Sleeps because nobody tells when what was ended has left.
        std::thread::sleep(PAUSE);
    }
    true
}
