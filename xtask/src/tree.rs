//! The files of the repository as one map, so that every check can be tested on files in memory.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Files by their path from the root, with `/` as separator; only text (UTF-8).
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: BTreeMap<String, String>,
}

/// A violation of a rule. Its message says what is wrong and, after a colon, what would be right.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Violation {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl Violation {
    pub(crate) fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl Tree {
    /// Reads the files that git tracks, and those that it would track if they were added.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let output = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(root)
            .output()
            .context("git ls-files: git is needed to tell the repository's files from others")?;
        ensure!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
        let mut files = BTreeMap::new();
        for name in String::from_utf8(output.stdout)?.split_terminator('\0') {
            // A file deleted and not yet committed is still listed; a file that isn't text concerns no check.
            if let Ok(text) = std::fs::read_to_string(root.join(name)) {
                files.insert(name.to_owned(), text);
            }
        }
        Ok(Self { files })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self { files: files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect() }
    }

    /// Returns the folders of packages: those with a Cargo.toml that names one.
    pub(crate) fn packages(&self) -> Vec<&str> {
        let manifests = self.files.iter().filter_map(|(name, text)| {
            let folder = name.strip_suffix("/Cargo.toml")?;
            text.lines().any(|line| line.trim() == "[package]").then_some(folder)
        });
        manifests.collect()
    }
}
