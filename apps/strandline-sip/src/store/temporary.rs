//! SQLite files for tests.

use std::path::PathBuf;

/// A file that is deleted after its test, together with the files beside it.
pub(super) struct File(pub(super) PathBuf);

impl File {
    pub(super) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("strandline-store-{name}-{}.db", std::process::id()));
        let file = Self(path);
        file.remove();
        file
    }

    /// The file, or one beside it.
    pub(super) fn beside(&self, end: &str) -> PathBuf {
        PathBuf::from(format!("{}{end}", self.0.display()))
    }

    fn remove(&self) {
        for end in ["", "-wal", "-shm", ".away", "-wal.away"] {
            let _ = std::fs::remove_file(self.beside(end));
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.remove();
    }
}
