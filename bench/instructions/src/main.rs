//! The engine's work, for counting its instructions: two endpoints in one thread, packets handed over in memory, the
//! same in each run. `cargo xtask instructions` runs it under callgrind, which counts only inside the functions whose
//! names begin with `measured_`, and forgets all that was before [`begin`].
//!
//!     strandline-instructions transfer MESSAGE_BYTES COUNT
//!     strandline-instructions set-up COUNT
//!
//! Prints how many of each thing there were.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool of those who work on the stack")]

mod set_up;
mod transfer;
mod world;

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> Result<usize> {
        words.get(at).context("a number is missing")?.parse().context("that is no number")
    };
    let counts = match words.first().map(String::as_str) {
        Some("transfer") => transfer::run(number(1)?, number(2)?)?,
        Some("set-up") => set_up::run(number(1)?)?,
        _ => bail!("usage: strandline-instructions transfer MESSAGE_BYTES COUNT | set-up COUNT"),
    };
    for (name, count) in counts {
        println!("{name} {count}");
    }
    Ok(())
}

/// How many of what.
type Counts = Vec<(&'static str, u64)>;

/// Here the counting begins: callgrind sets all it has to zero.
#[inline(never)]
fn begin() {
    std::hint::black_box(());
}
