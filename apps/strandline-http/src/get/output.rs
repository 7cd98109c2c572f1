//! Where responses go, and which files may be written.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, symlink_metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hyper::header::HeaderValue;
use rustix::fs::{OFlags, XattrFlags, lgetxattr, lremovexattr, lsetxattr};
use url::Url;

use super::failure::Failure;

/// Bytes of a file's name, without the number that makes it unique.
const NAME_MAX: usize = 200;
/// Extended attribute of a file that isn't complete: its entity tag or date.
const VALIDATOR: &str = "user.strandline.validator";
/// Bytes of its value.
const VALIDATOR_MAX: usize = 1024;
/// Bytes of an extension that a shortened name keeps.
const EXTENSION_MAX: usize = 16;

/// The place for a response's body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    Standard,
    File { path: PathBuf, existing: Existing },
    Nothing,
}

/// What happens to a file that exists before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// It is opened, whatever it is: the user has named it.
    Opened,
    /// It is replaced if it is a regular file: a page has named it, and the user permits it.
    Replaced,
    /// It stays as it is, and the response goes to a new file: a page has named it.
    Kept,
}

impl Output {
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Notes with the file what shows that a part of it is of the same file, for a later run with `-C`. File systems
    /// without extended attributes don't.
    pub(super) fn keep_validator(&self, validator: &HeaderValue) {
        if let Some(path) = self.file() {
            let _ = lsetxattr(path, VALIDATOR, validator.as_bytes(), XattrFlags::empty());
        }
    }

    /// Returns what an earlier run has noted with the file.
    pub(super) fn validator(&self) -> Option<HeaderValue> {
        let mut value = [0; VALIDATOR_MAX];
        let len = lgetxattr(self.file()?, VALIDATOR, &mut value).ok()?;
        HeaderValue::from_bytes(value.get(..len)?).ok()
    }

    /// Removes what was noted, because the file is complete.
    pub(super) fn forget_validator(&self) {
        if let Some(path) = self.file() {
            let _ = lremovexattr(path, VALIDATOR);
        }
    }

    /// Returns the first bytes of the file as text.
    pub(super) fn text(&self, bytes_max: u64) -> Option<Result<String, Failure>> {
        let path = self.file()?;
        let mut text = Vec::new();
        let read = File::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut text));
        let read = read.map_err(|cause| Failure::Write { file: path.display().to_string(), cause });
        Some(read.map(|_| String::from_utf8_lossy(&text).into_owned()))
    }
}

/// The files that the responses of a run are written to.
#[derive(Debug, Default)]
pub(super) struct Names(HashSet<PathBuf>);

impl Names {
    /// Returns a file for a URL that no other response of this run is written to: `a`, `a.1`, `a.2`.
    pub(super) fn file(&mut self, directory: &Path, url: &Url, existing: Existing) -> Output {
        let name = name(url, existing != Existing::Opened);
        let mut path = directory.join(&name);
        let is_taken = |path: &Path| existing == Existing::Kept && symlink_metadata(path).is_ok();
        let mut number = 1_u64;
        while is_taken(&path) || !self.0.insert(path.clone()) {
            path = directory.join(format!("{name}.{number}"));
            number += 1;
        }
        Output::File { path, existing }
    }
}

/// Returns the end of a URL's path as the name of a file. A name that a page has chosen begins with no dot, which would
/// hide the file, and with no hyphen, which would make it an option of commands.
fn name(url: &Url, is_chosen_by_page: bool) -> String {
    let last = url.path_segments().and_then(|mut names| names.next_back()).unwrap_or_default();
    let mut name = match last {
        "" | "." | ".." => "index.html".to_owned(),
        // The parser has encoded control characters, and a slash ends a segment.
        name => name.replace('\\', "_"),
    };
    if is_chosen_by_page && name.starts_with(['.', '-']) {
        name.replace_range(..1, "_");
    }
    if name.len() > NAME_MAX {
        // The parser has encoded what isn't ASCII.
        let end = name.rfind('.').map_or("", |dot| name.get(dot..).unwrap_or_default());
        let end = if end.len() <= EXTENSION_MAX { end } else { "" };
        name = name.chars().take(NAME_MAX - end.len()).chain(end.chars()).collect();
    }
    name
}

/// A file or standard output that is written.
pub(super) struct Writer {
    to: Option<Box<dyn Write + Send>>,
    name: String,
}

impl Writer {
    /// Opens the place, to be written from a byte on. `has_begun` says that this run has opened it before.
    pub(super) fn open(output: &Output, from: u64, has_begun: bool) -> Result<Self, Failure> {
        let (to, name): (Option<Box<dyn Write + Send>>, _) = match output {
            Output::Nothing => (None, String::new()),
            Output::Standard => (Some(Box::new(io::stdout())), "standard output".to_owned()),
            Output::File { path, existing } => {
                let name = path.display().to_string();
                let opened = open(path, from, *existing, has_begun);
                let opened = opened.map_err(|cause| Failure::Write { file: name.clone(), cause })?;
                (Some(Box::new(opened)), name)
            }
        };
        Ok(Self { to, name })
    }

    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.write_all(data).map_err(|cause| Failure::Write { file: self.name.clone(), cause })
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
        let Some(to) = &mut self.to else { return Ok(()) };
        to.flush().map_err(|cause| Failure::Write { file: self.name.clone(), cause })
    }
}

fn open(path: &Path, from: u64, existing: Existing, has_begun: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    match (from, existing) {
        (1.., _) => options.append(true),
        (0, Existing::Kept) if !has_begun => options.write(true).create_new(true),
        (0, _) => options.write(true).create(true).truncate(true),
    };
    if existing != Existing::Opened {
        // Neither follows a symbolic link nor waits for the reader of a pipe.
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if existing != Existing::Opened && !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "not a regular file"));
    }
    if from > 0 && metadata.len() != from {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
