//! The files that a configuration is made of: the one that the command line names, and those that it names.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use strandline_output::read_file;
use strandline_tls::Pem;

use super::error::{ConfigError, wrong};

/// The longest file: one of some million users.
const BYTES_MAX: u64 = 256 << 20;

/// What was read of them: all of a configuration that is not on the command line. There are secrets in it.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Files {
    /// No others are read.
    whole: bool,
    all: BTreeMap<PathBuf, Vec<u8>>,
}

impl core::fmt::Debug for Files {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_set().entries(self.all.keys()).finish()
    }
}

impl Files {
    /// As they are now: each is read when it is asked for, once.
    #[must_use]
    pub fn of_disk() -> Self {
        Self::default()
    }

    /// As another process has read them.
    ///
    /// # Errors
    /// If these are not the bytes of [`to_bytes`](Self::to_bytes).
    pub(in crate::server) fn from_bytes(mut bytes: &[u8]) -> io::Result<Self> {
        let broken = || io::Error::from(io::ErrorKind::InvalidData);
        let mut all = BTreeMap::new();
        while !bytes.is_empty() {
            let path = take(&mut bytes).ok_or_else(broken)?;
            let content = take(&mut bytes).ok_or_else(broken)?;
            all.insert(OsString::from_vec(path.to_vec()).into(), content.to_vec());
        }
        Ok(Self { whole: true, all })
    }

    /// For another process: path and content of each, behind their lengths.
    ///
    /// # Errors
    /// If one has more than 4 GiB.
    pub(in crate::server) fn to_bytes(&self) -> io::Result<Vec<u8>> {
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

    pub(super) fn text(&mut self, path: &Path) -> Result<String, ConfigError> {
        let text = self.bytes(path).and_then(|bytes| match core::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no UTF-8")),
        });
        text.map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })
    }

    /// The file that a key names.
    pub(super) fn text_of(&mut self, key: &str, path: &Path) -> Result<String, ConfigError> {
        self.text(path).map_err(|error| wrong(key, error.to_string()))
    }

    /// The text of a PEM file.
    pub(super) fn pem(&mut self, key: &str, path: &Path) -> Result<Pem, ConfigError> {
        match self.bytes(path) {
            Ok(bytes) => Ok(Pem { path: path.to_owned(), bytes: bytes.to_vec() }),
            Err(cause) => Err(wrong(key, format!("{}: {cause}", path.display()))),
        }
    }
}

/// What stands behind its length.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests;
