//! Benchmark of the engine by instruction count: two endpoints in one thread exchange packets in memory, identically in
//! each run. `cargo xtask instructions` runs it under callgrind, which counts only inside the functions whose
//! names begin with `measured_`, and discards all counts from before [`begin`].
//!
//!     strandline-instructions transfer MESSAGE_BYTES COUNT
//!     strandline-instructions set-up COUNT
//!     strandline-instructions set-up-without-extensions COUNT
//!
//! Prints the number of each kind of operation.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool of those who work on the stack")]

mod set_up;
mod transfer;
mod world;

use anyhow::{Context, Result, bail};
use strandline_proto::config::ExtensionsConfig;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> Result<usize> {
        words.get(at).context("a number is missing")?.parse().context("that is no number")
    };
    let counts = match words.first().map(String::as_str) {
        Some("transfer") => transfer::run(number(1)?, number(2)?)?,
        Some("set-up") => set_up::run(ExtensionsConfig::default(), number(1)?)?,
        Some("set-up-without-extensions") => set_up::run(ExtensionsConfig::NONE, number(1)?)?,
        _ => bail!(
            "usage: strandline-instructions transfer MESSAGE_BYTES COUNT | set-up COUNT | set-up-without-extensions COUNT"
        ),
    };
    for (name, count) in counts {
        println!("{name} {count}");
    }
    Ok(())
}

/// Numbers of operations by kind.
type Counts = Vec<(&'static str, u64)>;

/// Marks the start of counting: callgrind resets its counters.
#[inline(never)]
fn begin() {
    std::hint::black_box(());
}
