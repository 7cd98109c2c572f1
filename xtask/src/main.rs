//! Checks of the repository that the compiler doesn't make: `cargo xtask tidy` for style, `cargo xtask
//! layers` for the dependency rules of ARCHITECTURE.md, `cargo xtask instructions` for the engine's
//! instruction counts.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool of those who work on the stack")]

mod imports;
mod instructions;
mod layers;
mod modules;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::tree::{Tree, Violation};

const USAGE: &str = "usage: cargo xtask tidy | layers | instructions [--update]

tidy    style: lengths of files and functions, circles between modules, unwraps, forbidden words, whitespace, links
layers  which crate may depend on which, and which module of a crate may import which
instructions  instructions of the engine for each packet, message, SACK and set-up, against bench/instructions.toml";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the named check. Returns true if nothing was found.
fn run() -> Result<bool> {
    let mut arguments = std::env::args().skip(1);
    let (Some(command), option, None) = (arguments.next(), arguments.next(), arguments.next()) else {
        bail!("{USAGE}")
    };
    let root = workspace_root()?;
    let option = option.as_deref();
    if command == "instructions" && matches!(option, None | Some("--update")) {
        return instructions::check(&root, option.is_some());
    }
    ensure!(option.is_none(), "{USAGE}");
    let mut found = match command.as_str() {
        "tidy" => tidy::check(&Tree::read(&root)?),
        "layers" => layers::check(&root, &Tree::read(&root)?)?,
        _ => bail!("{USAGE}"),
    };
    found.sort();
    found.dedup();
    Ok(report(&command, &found))
}

fn report(command: &str, found: &[Violation]) -> bool {
    for violation in found {
        println!("{violation}");
    }
    match found.len() {
        0 => println!("{command}: nothing found"),
        n => println!("{command}: {n} to mend"),
    }
    found.is_empty()
}

fn workspace_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(Path::to_path_buf).context("xtask lies directly below the workspace's root")
}
