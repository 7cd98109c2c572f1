//! Folders for temporary files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A folder that goes with this value.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes one of this process, for this purpose.
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("strandline-{purpose}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "removing a folder");
        }
    }
}
