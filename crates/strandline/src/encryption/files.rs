//! Files of keys and of known hosts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use strandline_dtls::{Fingerprint, Identity, IdentityError, KnownHost, KnownHosts, KnownHostsError};

use super::OnLearned;

/// Maximum length of a file in bytes.
const FILE_LEN_MAX: u64 = 16 << 20;

/// A file of keys or known hosts can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong. Not also the error's source: printing the chain of sources would repeat it.
    pub problem: FileProblem,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileProblem {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Others than the owner can read the private key.
    #[error("others can read this private key (mode {0:03o}): chmod 600 it, or make a new key")]
    Readable(u32),
    /// The identity can't be read.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A line of the list can't be read.
    #[error(transparent)]
    KnownHosts(#[from] KnownHostsError),
}

fn at<T>(path: &Path, result: Result<T, FileProblem>) -> Result<T, FileError> {
    result.map_err(|problem| FileError { path: path.to_owned(), problem })
}

/// Makes a key and a certificate for it, and writes both to a new file that only its owner can read. The name
/// stands in the certificate and is only informative.
///
/// # Errors
/// If the file exists or can't be written, or no key can be made.
pub fn create_identity(path: &Path, name: &str) -> Result<Fingerprint, FileError> {
    let create = || {
        let text = Identity::generate(name)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        Ok(Identity::from_pem(&text)?.fingerprint())
    };
    at(path, create())
}

/// Reads a key and its certificate from a file in PEM format.
///
/// # Errors
/// If the file can't be read, others than its owner may read it, or it holds no identity.
pub fn read_identity(path: &Path) -> Result<Identity, FileError> {
    let read = || {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let mode = metadata.mode() & 0o777;
        // As ssh does: the files of others, such as credentials that systemd hands over, are theirs to protect.
        let is_own = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == metadata.uid());
        if is_own && mode & 0o077 != 0 {
            return Err(FileProblem::Readable(mode));
        }
        Ok(Identity::from_pem(&read_text(&mut file)?)?)
    };
    at(path, read())
}

/// Reads a file. One that is too long is an error: it may be a device without an end, and cut off it would lack peers.
pub(super) fn read_text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    if file.take(FILE_LEN_MAX + 1).read_to_end(&mut bytes)? as u64 > FILE_LEN_MAX {
        let what = format!("the file has more than {} MiB: is it the right one?", FILE_LEN_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not valid UTF-8"))
}

/// Reads a list. Lines that can't be read are logged.
pub(super) fn parse(path: &Path, text: &str) -> Result<KnownHosts, KnownHostsError> {
    let (hosts, errors) = KnownHosts::parse_lenient(text)?;
    for error in errors {
        tracing::warn!("{}: {error}: this line is ignored", path.display());
    }
    Ok(hosts)
}

/// A file with a list of known hosts: one line for each, as `name SHA256:... comment`.
#[derive(Debug)]
pub struct KnownHostsFile {
    path: PathBuf,
    /// Held while the file is changed.
    lock: Mutex<()>,
}

impl KnownHostsFile {
    /// Names the file, which need not exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), lock: Mutex::new(()) }
    }

    /// Reads the list; an empty one if there is no file. Lines that can't be read are logged, kept when the
    /// list is changed, and trust nobody ([`KnownHosts::parse_lenient`]).
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn read(&self) -> Result<KnownHosts, FileError> {
        let read = || {
            let mut file = match File::open(&self.path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(KnownHosts::default()),
                Err(error) => return Err(error.into()),
            };
            Ok(parse(&self.path, &read_text(&mut file)?)?)
        };
        at(&self.path, read())
    }

    /// Changes the list: reads it, calls `change`, and replaces the file at once. Other processes that change
    /// a list in this folder wait meanwhile.
    ///
    /// # Errors
    /// If the file can't be read or written.
    pub fn change<T>(&self, change: impl FnOnce(&mut KnownHosts) -> T) -> Result<T, FileError> {
        let _guard = self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let lock = || {
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            std::fs::create_dir_all(folder)?;
            // The file itself is replaced, and a lock on it would not hold for the next one.
            let folder = File::open(folder)?;
            folder.lock()?;
            Ok(folder)
        };
        let _locked = at(&self.path, lock())?;
        let mut hosts = self.read()?;
        let result = change(&mut hosts);
        let write = || {
            let new = self.path.with_extension("new");
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(hosts.to_string().as_bytes())?;
            file.sync_all()?;
            Ok(std::fs::rename(&new, &self.path)?)
        };
        at(&self.path, write()).map(|()| result)
    }
}

impl OnLearned for KnownHostsFile {
    fn learned(&self, host: &KnownHost) {
        if let Err(error) = self.change(|hosts| hosts.add(host.clone())) {
            tracing::error!(%error, "adding a server to the known hosts failed");
        }
    }
}
