//! `cargo xtask instructions`: counts the engine's instructions with callgrind, so that a slower change shows
//! independently of the machine's load. The reference figures are in bench/instructions.toml.
//!
//! The check covers the engine's own code. Counted separately are code that depends on the processor's
//! features (the checksum, the cookie's hash, the random numbers), and the C library (copies, the allocator),
//! because they differ from machine to machine. Callgrind doesn't support AVX-512, so the checksum is counted
//! on another code path than the one used on processors that have it.

mod callgrind;
mod figures;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use self::callgrind::{Instructions, run};
use self::figures::{Baseline, Figure};

/// A measurement: the program's arguments, the functions counted, and the figure's name for each unit of the
/// program.
struct Measurement {
    arguments: &'static [&'static str],
    functions: &'static str,
    figures: &'static [(&'static str, &'static str)],
}

const LARGE: &[&str] = &["transfer", "8192", "4000"];
const SMALL: &[&str] = &["transfer", "64", "100000"];

const MEASUREMENTS: [Measurement; 8] = [
    Measurement {
        arguments: LARGE,
        functions: "*measured_sender*",
        figures: &[("messages", "8 KB message sent"), ("packets", "packet sent with 8 KB messages")],
    },
    Measurement {
        arguments: LARGE,
        functions: "*measured_receiver*",
        figures: &[("messages", "8 KB message received"), ("packets", "packet received with 8 KB messages")],
    },
    Measurement {
        arguments: LARGE,
        functions: "*measured_sack*",
        figures: &[("sacks", "SACK taken, 8 KB messages")],
    },
    Measurement {
        arguments: SMALL,
        functions: "*measured_sender*",
        figures: &[("messages", "64 B message sent"), ("packets", "packet sent with 64 B messages")],
    },
    Measurement {
        arguments: SMALL,
        functions: "*measured_receiver*",
        figures: &[("messages", "64 B message received"), ("packets", "packet received with 64 B messages")],
    },
    Measurement {
        arguments: SMALL,
        functions: "*measured_sack*",
        figures: &[("messages", "64 B message acknowledged")],
    },
    Measurement {
        arguments: &["set-up", "300"],
        functions: "*measured_set_up*",
        figures: &[("set-ups", "set-up, both sides")],
    },
    Measurement {
        arguments: &["set-up-without-extensions", "300"],
        functions: "*measured_set_up*",
        figures: &[("set-ups", "set-up without extensions, both sides")],
    },
];

/// Counts, and compares with the reference figures or (`update`) writes them. Returns false if a figure has
/// grown, or exceeds its baseline.
pub(crate) fn check(root: &Path, update: bool) -> Result<bool> {
    let path = root.join("bench/instructions.toml");
    if std::env::consts::ARCH != "x86_64" {
        println!("instructions: the figures are of x86_64; here is nothing to compare");
        return Ok(true);
    }
    let program = build(root)?;
    let mut measured = Vec::new();
    for measurement in &MEASUREMENTS {
        let (counts, instructions) = run(root, &program, measurement.arguments, measurement.functions)?;
        for (unit, name) in measurement.figures {
            let count = counts.get(*unit).copied().filter(|count| *count > 0);
            let count = count.with_context(|| format!("the program had no {unit}"))?;
            measured.push(Figure { name, each: instructions.each(count) });
        }
    }
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let baseline = Baseline::parse(&text)?;
    if update {
        std::fs::write(&path, figures::written(&baseline, &measured, rustc.trim()))?;
        println!("instructions: bench/instructions.toml holds what they are now");
        return Ok(true);
    }
    let (report, holds) = figures::compare(&baseline, &measured, rustc.trim());
    println!("{report}");
    Ok(holds)
}

fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["build", "--release", "--locked", "--quiet", "--package", "strandline-instructions"];
    // Flags specific to one machine would produce different code.
    let status = Command::new(cargo).args(arguments).current_dir(root).env_remove("RUSTFLAGS").status()?;
    ensure!(status.success(), "building strandline-instructions");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/strandline-instructions"))
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

impl Instructions {
    /// Returns the instructions for each of `count` operations.
    fn each(&self, count: u64) -> Each {
        let each = |instructions: u64| instructions as f64 / count as f64;
        Each {
            engine: each(self.engine),
            checksum: each(self.checksum),
            hashing: each(self.hashing),
            library: each(self.library),
        }
    }
}

/// Instructions for each operation.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Each {
    engine: f64,
    checksum: f64,
    hashing: f64,
    library: f64,
}
