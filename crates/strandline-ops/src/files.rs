//! The files of a configuration: the one named on the command line, and those that it names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use strandline_output::read_file;
use strandline_tls::Pem;
use thiserror::Error;

/// Maximum size of a file, in bytes: enough for some million users.
const BYTES_MAX: u64 = 256 << 20;

/// A file that can't be read, or is not valid UTF-8.
#[derive(Debug, Error)]
#[error("{}: {cause}", path.display())]
pub struct Unreadable {
    /// The path of the file.
    pub path: PathBuf,
    /// The cause.
    pub cause: io::Error,
}

/// The contents of the files, which together with the command line make up the configuration. They contain
/// secrets. A file has at most 256 MiB.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Files {
    /// If true, no further files are read.
    whole: bool,
    all: BTreeMap<PathBuf, Vec<u8>>,
}

impl core::fmt::Debug for Files {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl Files {
    /// Reads from disk: each file is read once, on first access.
    #[must_use]
    pub fn of_disk() -> Self {
        Self::default()
    }

    /// Restores the files that another process has read.
    ///
    /// # Errors
    /// Returns an error if `bytes` was not made by [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(mut bytes: &[u8]) -> io::Result<Self> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let mut all = BTreeMap::new();
        while !bytes.is_empty() {
            let path = take(&mut bytes).ok_or_else(broken)?;
            let content = take(&mut bytes).ok_or_else(broken)?;
            all.insert(OsString::from_vec(path.to_vec()).into(), content.to_vec());
        }
        Ok(Self { whole: true, all })
    }

    /// Encodes the files for another process: the path and content of each, preceded by their lengths.
    ///
    /// # Errors
    /// Returns an error if a file is larger than 4 GiB.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (path, content) in &self.all {
            for part in [path.as_os_str().as_bytes(), content] {
                let len = u32::try_from(part.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
                bytes.extend_from_slice(&len.to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        Ok(bytes)
    }

    fn bytes(&mut self, path: &Path) -> io::Result<&[u8]> {
        if !self.whole && !self.all.contains_key(path) {
            self.all.insert(path.to_owned(), read_file(path, BYTES_MAX)?);
        }
        self.all.get(path).map(Vec::as_slice).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The text of a file.
    ///
    /// # Errors
    /// Returns an error if it can't be read, or is not valid UTF-8.
    pub fn text(&mut self, path: &Path) -> Result<String, Unreadable> {
        let text = self.bytes(path).and_then(|bytes| match core::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the file is not valid UTF-8")),
        });
        text.map_err(|cause| Unreadable { path: path.to_owned(), cause })
    }

    /// The contents of a PEM file.
    ///
    /// # Errors
    /// Returns an error if it can't be read.
    pub fn pem(&mut self, path: &Path) -> Result<Pem, Unreadable> {
        match self.bytes(path) {
            Ok(bytes) => Ok(Pem { path: path.to_owned(), bytes: bytes.to_vec() }),
            Err(cause) => Err(Unreadable { path: path.to_owned(), cause }),
        }
    }
}

/// Takes a byte string that is preceded by its length.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests;
