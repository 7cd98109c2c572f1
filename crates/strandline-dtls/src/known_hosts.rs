//! The list of known hosts: which key belongs to which name.

use core::fmt::Write as _;
use std::net::SocketAddr;

use crate::fingerprint::{Fingerprint, FingerprintError};

/// Lines read of a list, and bytes of each.
const LINES_MAX: usize = 65_536;
const LINE_LEN_MAX: usize = 1024;

/// A host and its key: one line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownHost {
    /// A host name, an IP address, or `[address]:port`.
    pub name: String,
    /// Its key.
    pub fingerprint: Fingerprint,
    /// The rest of the line.
    pub comment: String,
}

/// A list of hosts and their keys. A host may have several keys, each on a line of its own:
/// `name SHA256:... comment`. Empty lines and those that begin with `#` are kept and mean nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownHosts {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    Host(KnownHost),
    Text(String),
}

/// A line of a list can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct KnownHostsError {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: LineError,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// There is a name and nothing behind it.
    #[error("a name and a fingerprint are expected")]
    NoFingerprint,
    /// The fingerprint is none.
    #[error(transparent)]
    Fingerprint(#[from] FingerprintError),
    /// The line is longer than 1,024 bytes.
    #[error("longer than 1,024 bytes")]
    TooLong,
    /// There are more than 65,536 lines.
    #[error("too many lines: at most 65,536")]
    TooMany,
}

impl KnownHosts {
    /// Reads a list.
    ///
    /// # Errors
    /// If a line is neither empty, nor a comment, nor a name with a fingerprint.
    pub fn parse(text: &str) -> Result<Self, KnownHostsError> {
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let at = |kind| KnownHostsError { line: index + 1, kind };
            if index >= LINES_MAX {
                return Err(at(LineError::TooMany));
            }
            lines.push(Line::parse(line).map_err(at)?);
        }
        Ok(Self { lines })
    }

    /// Returns the hosts in the order of their lines.
    pub fn hosts(&self) -> impl Iterator<Item = &KnownHost> {
        self.lines.iter().filter_map(|line| match line {
            Line::Host(host) => Some(host),
            Line::Text(_) => None,
        })
    }

    /// Appends a host. Returns false if it is listed with this key already.
    pub fn add(&mut self, host: KnownHost) -> bool {
        let is_known =
            |known: &KnownHost| known.is_named(&host.name) && known.fingerprint == host.fingerprint;
        if self.hosts().any(is_known) {
            return false;
        }
        self.lines.push(Line::Host(host));
        true
    }

    /// Removes all lines of a name, or of a fingerprint. Returns how many.
    pub fn remove(&mut self, name_or_fingerprint: &str) -> usize {
        let before = self.lines.len();
        let fingerprint = name_or_fingerprint.parse().ok();
        self.lines.retain(|line| match line {
            Line::Host(host) => !host.is_named(name_or_fingerprint) && Some(host.fingerprint) != fingerprint,
            Line::Text(_) => true,
        });
        before - self.lines.len()
    }

    /// Returns the keys of a host under a name; empty if it is unknown.
    pub(crate) fn keys_of(&self, name: &str) -> Vec<Fingerprint> {
        self.hosts().filter(|host| host.is_named(name)).map(|host| host.fingerprint).collect()
    }

    /// Returns whether a server at an address, which the user called `name`, has a key of the list: `None` if neither is
    /// listed, false if either is listed with other keys only. An entry for the port counts instead of that of the address.
    pub(crate) fn knows(&self, address: SocketAddr, name: Option<&str>, key: Fingerprint) -> Option<bool> {
        let [with_port, plain] = names_of(address);
        let of_port = self.keys_of(&with_port);
        let of_address = if of_port.is_empty() { self.keys_of(&plain) } else { of_port };
        let of_name = name.map_or_else(Vec::new, |name| self.keys_of(name));
        let listed = [of_address, of_name].into_iter().filter(|keys| !keys.is_empty());
        listed.map(|keys| keys.contains(&key)).reduce(|address, name| address && name)
    }

    /// Returns whether any host has this key.
    pub(crate) fn has_key(&self, fingerprint: Fingerprint) -> bool {
        self.hosts().any(|host| host.fingerprint == fingerprint)
    }
}

impl core::fmt::Display for KnownHosts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for line in &self.lines {
            match line {
                Line::Host(host) => writeln!(f, "{host}")?,
                Line::Text(text) => writeln!(f, "{text}")?,
            }
        }
        Ok(())
    }
}

impl KnownHost {
    /// True if the host has this name. Case does not count in names of hosts (RFC 4343).
    fn is_named(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl core::fmt::Display for KnownHost {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.name, self.fingerprint)?;
        if !self.comment.is_empty() {
            f.write_char(' ')?;
            f.write_str(&self.comment)?;
        }
        Ok(())
    }
}

impl Line {
    fn parse(line: &str) -> Result<Self, LineError> {
        if line.len() > LINE_LEN_MAX {
            return Err(LineError::TooLong);
        }
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            // Without the carriage return of other systems, which the last line may have.
            return Ok(Self::Text(line.trim_end().to_owned()));
        }
        let (name, rest) = trimmed.split_once(char::is_whitespace).ok_or(LineError::NoFingerprint)?;
        let rest = rest.trim_start();
        let (fingerprint, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let fingerprint = fingerprint.parse()?;
        Ok(Self::Host(KnownHost {
            name: name.to_owned(),
            fingerprint,
            comment: comment.trim_start().to_owned(),
        }))
    }
}

/// Returns the names under which a host at an address is looked up, the most specific first: `[address]:port` and the
/// address.
pub(crate) fn names_of(address: SocketAddr) -> [String; 2] {
    let ip = address.ip().to_canonical();
    [format!("[{ip}]:{}", address.port()), ip.to_string()]
}

#[cfg(test)]
mod tests;
