//! Detects that an SQLite file was removed or replaced. Writes to such a file still succeed, and are lost
//! with the server.

use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::StoreError;

/// The device and inode number of a file.
type Inode = (u64, u64);

/// A file and the path under which it was opened.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    inode: Inode,
}

impl Watched {
    /// Returns `None` if there is no such file, as for an in-memory database.
    fn new(path: PathBuf) -> Option<Self> {
        let inode = inode(&path).ok()?;
        Some(Self { path, inode })
    }

    fn check(&self) -> Result<(), StoreError> {
        let way_out = "no binding is durable until it is back: move it back if it was moved; otherwise save what this \
                       server has, and start it again (docs/sip-operation.md, \"The store\")";
        let cause = match inode(&self.path) {
            Ok(inode) if inode == self.inode => return Ok(()),
            Ok(_) => format!("the file was replaced while the server runs; {way_out}"),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                format!("the file was removed while the server runs; {way_out}")
            }
            Err(error) => format!("checking the file failed ({error}); {way_out}"),
        };
        Err(StoreError::new(format!("the store's file {}", self.path.display()), cause))
    }
}

fn inode(path: &Path) -> std::io::Result<Inode> {
    metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The paths of a database and of its write-ahead log.
#[derive(Debug)]
pub(super) struct Place {
    files: Vec<Watched>,
}

impl Place {
    /// Records the files of an open database and its log.
    pub(super) fn new(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let files = [path.to_owned(), PathBuf::from(log)];
        Self { files: files.into_iter().filter_map(Watched::new).collect() }
    }

    /// Checks that the paths still lead to the files that were opened.
    ///
    /// # Errors
    /// Returns an error if a file was removed or replaced, because everything written to it would be lost.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        self.files.iter().try_for_each(Watched::check)
    }
}

#[cfg(test)]
mod tests;
