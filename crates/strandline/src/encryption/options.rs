//! Encryption as users configure it: a file with a key, and whom to trust.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strandline_dtls::{AuthoritiesError, Fingerprint, FingerprintError, KnownHosts, Trust};

use super::Encryption;
use super::files::{FileError, FileProblem, KnownHostsFile, parse, read_identity, read_text};

/// What a certificate in PEM format begins with.
const PEM: &str = "-----BEGIN CERTIFICATE-----";

/// Options of programs that encrypt: which key to use, and whom to trust.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// File with the own key and certificate. Default: [`default_key`].
    pub key: Option<PathBuf>,
    /// Whom to trust, each as text:
    ///
    /// - `SHA256:...`: peers with this key
    /// - a file with a list of known hosts, or with certificates of authorities in PEM format
    /// - `first-use`: servers that are in [`default_known_hosts`], and unknown ones, which are added to it
    /// - `anyone`: for a server, clients without a certificate as well
    ///
    /// Default: the hosts of [`default_known_hosts`].
    pub trust: Vec<String>,
}

/// Options of encryption can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// There is no key.
    #[error("{0} does not exist: make a key with `strandline keygen`, or name another file")]
    NoKey(PathBuf),
    /// A file can't be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A fingerprint is none.
    #[error("{0}: {1}")]
    Fingerprint(String, FingerprintError),
    /// A file of authorities has none.
    #[error("{0}: {1}")]
    Authorities(String, AuthoritiesError),
    /// Neither `$XDG_CONFIG_HOME` nor `$HOME` is set.
    #[error("there is no home directory: name the files")]
    NoHome,
}

/// Returns the file with the key that programs use by default: `strandline/key.pem` in the user's folder for
/// configuration. `None` without a home directory.
#[must_use]
pub fn default_key() -> Option<PathBuf> {
    Some(folder()?.join("key.pem"))
}

/// Returns the list of known hosts that programs use by default: `strandline/known_hosts` in the user's folder for
/// configuration. `None` without a home directory.
#[must_use]
pub fn default_known_hosts() -> Option<PathBuf> {
    Some(folder()?.join("known_hosts"))
}

fn folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let configuration = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    Some(configuration?.join("strandline"))
}

impl Options {
    /// Reads the files.
    ///
    /// # Errors
    /// If a file is missing or can't be read, or an item of `trust` is malformed.
    pub fn load(&self) -> Result<Encryption, OptionsError> {
        let key = self.key.clone().or_else(default_key).ok_or(OptionsError::NoHome)?;
        if !key.exists() {
            return Err(OptionsError::NoKey(key));
        }
        let identity = read_identity(&key)?;
        let default_file = || default_known_hosts().map(KnownHostsFile::new).ok_or(OptionsError::NoHome);
        let mut trust = Trust::nobody();
        let (mut anonymous, mut file) = (false, None);
        let mut hosts: Option<KnownHosts> = None;
        let mut add = |listed: KnownHosts| match &mut hosts {
            Some(hosts) => hosts.append(listed),
            none => *none = Some(listed),
        };
        for item in &self.trust {
            trust = match item.as_str() {
                "first-use" => {
                    let known = default_file()?;
                    add(known.read()?);
                    file = Some(known);
                    trust
                }
                "anyone" => {
                    anonymous = true;
                    trust
                }
                text if text.starts_with("SHA256:") => {
                    let pin = text.parse::<Fingerprint>();
                    trust.pin(pin.map_err(|error| OptionsError::Fingerprint(text.to_owned(), error))?)
                }
                path => match read_trust(Path::new(path))? {
                    TrustFile::Authorities(text) => trust
                        .authorities(&text)
                        .map_err(|error| OptionsError::Authorities(path.to_owned(), error))?,
                    TrustFile::Hosts(listed) => {
                        add(listed);
                        trust
                    }
                },
            };
        }
        if self.trust.is_empty() {
            add(default_file()?.read()?);
        }
        if let Some(hosts) = hosts {
            trust = trust.hosts(hosts, file.is_some());
        }
        let encryption = Encryption::new(identity, trust).anonymous_clients(anonymous);
        Ok(match file {
            Some(file) => encryption.on_learned(Arc::new(file)),
            None => encryption,
        })
    }
}

/// What a file with peers to trust has.
enum TrustFile {
    /// Certificates in PEM format.
    Authorities(String),
    Hosts(KnownHosts),
}

fn read_trust(path: &Path) -> Result<TrustFile, OptionsError> {
    let failed = |problem| FileError { path: path.to_owned(), problem };
    let text = File::open(path).and_then(|mut file| read_text(&mut file));
    let text = text.map_err(|error| failed(error.into()))?;
    if text.contains(PEM) {
        return Ok(TrustFile::Authorities(text));
    }
    let hosts = parse(path, &text).map_err(|error| failed(FileProblem::KnownHosts(error)))?;
    Ok(TrustFile::Hosts(hosts))
}
