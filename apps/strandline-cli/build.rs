//! Gives the program the commit that it is built from, if known: `strandline --version` and the laboratory's
//! results name it.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Some(folder) = git(&["rev-parse", "--git-dir"]) {
        // A commit, a checkout or a reset writes to one of these files.
        for file in ["HEAD", "logs/HEAD"] {
            let path = Path::new(&folder).join(file);
            if path.exists() {
                println!("cargo:rerun-if-changed={}", path.display());
            }
        }
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let shown = commit.as_ref().map_or_else(|| version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo:rustc-env=STRANDLINE_COMMIT={}", commit.unwrap_or_default());
    println!("cargo:rustc-env=STRANDLINE_VERSION={shown}");
}

/// Returns git's output; `None` without git, or if the source is not in a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
