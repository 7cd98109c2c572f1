//! A directory whose files are opened without leaving it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Flags of every file: NONBLOCK so that opening a FIFO doesn't wait.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// A directory. Symbolic links in it are followed as long as they stay below it.
#[derive(Debug)]
pub(super) struct Root {
    directory: OwnedFd,
    /// Whether the kernel has openat2. Without it no symbolic link is followed.
    has_openat2: bool,
}

impl Root {
    /// Opens the directory.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let directory =
            openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let probe = beneath(&directory, ".");
        Ok(Self { directory, has_openat2: !matches!(probe, Err(Errno::NOSYS | Errno::PERM)) })
    }

    /// Opens a file or directory below the root, by a path of [`Target::path`](super::path::Target::path).
    pub(super) fn file(&self, path: &str) -> io::Result<File> {
        let path = if path.is_empty() { "." } else { path };
        let opened = if self.has_openat2 {
            beneath(&self.directory, path)
        } else {
            without_links(&self.directory, path)
        };
        Ok(opened?.into())
    }
}

fn beneath(directory: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(directory, path, FILE, Mode::empty(), resolve) {
            // A rename elsewhere made the kernel unsure whether `..` in a link stays below.
            Err(Errno::AGAIN | Errno::INTR) => {}
            opened => return opened,
        }
    }
}

/// Opens one component after another, none of them a symbolic link.
fn without_links(directory: &OwnedFd, path: &str) -> Result<OwnedFd, Errno> {
    let mut parent: Option<OwnedFd> = None;
    let mut names = path.split('/').peekable();
    while let Some(name) = names.next() {
        if name == ".." {
            return Err(Errno::XDEV);
        }
        let at = parent.as_ref().unwrap_or(directory).as_fd();
        let directory = if names.peek().is_some() { OFlags::DIRECTORY } else { OFlags::empty() };
        parent = Some(openat(at, name, FILE | OFlags::NOFOLLOW | directory, Mode::empty())?);
    }
    parent.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests;
