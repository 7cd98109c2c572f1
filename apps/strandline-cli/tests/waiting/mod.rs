//! Waits for other programs.
#![allow(clippy::disallowed_methods, reason = "other programs work in real time")]

use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Time limit of a wait.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two checks.
const PAUSE: Duration = Duration::from_millis(10);

/// Checks until there is a result, and returns it. The error describes the state found instead.
pub fn found_at_last<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + READ_TIMEOUT;
    loop {
        match look() {
            Ok(found) => return found,
            Err(instead) => assert!(Instant::now() < end, "never: {what} {instead}"),
        }
        // Sleeps because another program is observed from outside, without a notification of changes.
        std::thread::sleep(PAUSE);
    }
}

/// Stops a child, and returns once all of its threads have stopped; false if it has ended instead.
pub fn stop(child: &Child) -> bool {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    // One thread takes the signal, and the others continue until it runs: the kernel notifies the parent when
    // all have stopped.
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    status.stopped()
}

/// Checks until the condition holds.
pub fn at_last(what: &str, mut is_so: impl FnMut() -> bool) {
    found_at_last(what, || if is_so() { Ok(()) } else { Err(String::new()) });
}

/// Checks until a number that grows is larger than `most`. The time limit counts from its last change: a busy host
/// takes longer.
pub fn exceeds_at_last(what: &str, most: f64, mut number: impl FnMut() -> f64) {
    let (mut end, mut before) = (Instant::now() + READ_TIMEOUT, number());
    while before <= most {
        // Sleeps because another program is observed from outside, without a notification of changes.
        std::thread::sleep(PAUSE);
        let now = number();
        if now != before {
            (end, before) = (Instant::now() + READ_TIMEOUT, now);
        }
        assert!(Instant::now() < end, "never: {what}: {now}");
    }
}

/// Waits for a condition at the end of a test, which does not fail without it.
#[cfg(feature = "full-interop")]
pub fn is_so_at_last(mut is_so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + READ_TIMEOUT;
    while !is_so() {
        if Instant::now() >= end {
            return false;
        }
        // Sleeps because there is no notification of the end of another program.
        std::thread::sleep(PAUSE);
    }
    true
}
