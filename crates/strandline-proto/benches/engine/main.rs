//! The engine alone, on one thread, without sockets: an upper bound for what a carrier can reach, and the place to see
//! what a change of the engine costs.
//!
//! ```text
//! cargo bench -p strandline-proto --bench engine                     # everything
//! cargo bench -p strandline-proto --bench engine -- transfer sack    # these parts
//! cargo bench -p strandline-proto --bench engine -- run 64 20        # 20 MiB of 64-byte messages, once
//! cargo bench -p strandline-proto --bench engine -- run 64 20 zero   # the same without checksums (RFC 9653)
//! ```
//!
//! The last forms are for `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*Sender*measured*'` and for
//! `perf record -e cpu-clock`: the functions of either side have "sender" and "receiver" in their names.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark")]
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod codec;
mod sack;
mod transfer;
mod wheel;

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Number of runs, of which the median is printed.
const RUNS: usize = 5;

/// Returns the processor time of this thread, which does not include other work on the machine.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Returns the median nanoseconds per operation of the `count` operations that `run` does after `prepare`.
fn nanos_each<T>(count: usize, mut prepare: impl FnMut() -> T, mut run: impl FnMut(&mut T)) -> f64 {
    let mut times: Vec<f64> = (0..RUNS)
        .map(|_| {
            let mut subject = prepare();
            let start = processor_time();
            run(&mut subject);
            (processor_time() - start).as_secs_f64() * 1e9 / count as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    if words.first().is_some_and(|word| word == "run") {
        let number = |at: usize, default: usize| words.get(at).map_or(default, |word| word.parse().unwrap());
        let zero_checksum = words.get(3).is_some_and(|word| word == "zero");
        return transfer::once(number(1, 64), number(2, 20) << 20, zero_checksum);
    }
    let wanted = |part: &str| words.is_empty() || words.iter().any(|word| word == part);
    if wanted("transfer") {
        transfer::table();
    }
    if wanted("checksum") {
        transfer::checksum_table();
    }
    if wanted("sack") {
        sack::table();
    }
    if wanted("wheel") {
        wheel::table();
    }
    if wanted("codec") {
        codec::table();
    }
}
