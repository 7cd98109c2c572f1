//! Checks of the repository that the compiler doesn't make: `cargo xtask tidy` for style, `cargo xtask layers` for the
//! dependency rules of ARCHITECTURE.md.

mod imports;
mod layers;
mod modules;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::tree::{Tree, Violation};

const USAGE: &str = "usage: cargo xtask tidy | layers

tidy    style: lengths of files and functions, circles between modules, unwraps, forbidden words, whitespace, links
layers  which crate may depend on which, and which module of strandline-proto may import which";

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

/// Runs the named check; true if nothing was found.
fn run() -> Result<bool> {
    let mut arguments = std::env::args().skip(1);
    let (Some(command), None) = (arguments.next(), arguments.next()) else { bail!("{USAGE}") };
    let root = workspace_root()?;
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
