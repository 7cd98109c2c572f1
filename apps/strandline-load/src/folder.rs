//! Folders for temporary files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// A temporary folder that is removed with this value.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a folder of this process for the given purpose.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        let (all, prefix) = (std::env::temp_dir(), format!("strandline-{purpose}-"));
        remove_left(&all, &prefix);
        let folder = all.join(format!("{prefix}{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

/// Removes the folders of processes that were killed, whose numbers no process has any more. Folders of other
/// users can't be removed, which is right.
fn remove_left(all: &Path, prefix: &str) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<i32>().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else { continue };
        if test_kill_process(pid) == Err(Errno::SRCH)
            && let Err(error) = std::fs::remove_dir_all(entry.path())
        {
            tracing::debug!(%error, folder = %entry.path().display(), "removing a folder of an ended process failed");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "removing the folder failed");
        }
    }
}

#[cfg(test)]
mod tests;
