//! Folders for temporary files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// A temporary folder that is removed with this value.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    keeps: bool,
}

impl Folder {
    /// Creates a folder of this process for the given purpose.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        let (all, prefix) = (std::env::temp_dir(), format!("strandline-{purpose}-"));
        remove_left(&all, &prefix);
        let folder = all.join(format!("{prefix}{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { path: folder, keeps: false })
    }

    /// The folder that another process has created; `None` for any other path.
    pub(crate) fn of(path: PathBuf, process: Pid) -> Option<Self> {
        let (prefix, number) = path.file_name()?.to_str()?.rsplit_once('-')?;
        let is_its = prefix.starts_with("strandline-") && number == process.as_raw_nonzero().to_string();
        is_its.then_some(Self { path, keeps: false })
    }

    /// Leaves the folder to another process.
    pub(crate) fn keep(&mut self) {
        self.keeps = true;
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
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
        if !self.keeps
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, folder = %self.path.display(), "removing the folder failed");
        }
    }
}

#[cfg(test)]
mod tests;
