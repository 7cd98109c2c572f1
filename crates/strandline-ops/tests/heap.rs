//! Test of the heap's purge delay, without the test harness, which has threads of its own.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "tests say what they measure")]

use std::process::ExitCode;
use std::sync::mpsc;

use strandline_ops::heap::{give_back_at_once, purge_delay_ms};

fn main() -> ExitCode {
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_some() {
        return check(!give_back_at_once(), "an order stands");
    }
    // 10 is the default of this option and of none of its neighbours.
    let mut result = check(purge_delay_ms() == 10, "the option is the one that is meant");
    let (end, ended) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || ended.recv());
    result = worse(
        result,
        check(!give_back_at_once() && purge_delay_ms() == 10, "nothing is done beside threads"),
    );
    drop(end);
    let _ = thread.join();
    // A thread disappears a moment after it was joined.
    while std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() > 1) {
        std::thread::yield_now();
    }
    worse(result, check(give_back_at_once() && purge_delay_ms() == 0, "alone it is done"))
}

fn check(holds: bool, what: &str) -> ExitCode {
    println!("{} {what}", if holds { "ok" } else { "FAILED" });
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn worse(one: ExitCode, other: ExitCode) -> ExitCode {
    if one == ExitCode::SUCCESS { other } else { one }
}
