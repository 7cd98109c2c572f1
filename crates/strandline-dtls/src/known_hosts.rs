//! The list of known hosts: which key belongs to which name.

use core::fmt::Write as _;
use std::collections::HashSet;
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
    /// Neither a host nor a comment.
    Unreadable(String),
}

/// What a list has of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Its key.
    Listed,
    /// Other keys only, under this name.
    Other {
        name: String,
        expected: Vec<Fingerprint>,
    },
    Nothing,
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

    /// Reads a list, and returns it with the lines that can't be read. These are kept. A host whose line is
    /// one of them counts as listed with a key that it does not have, so that no first use makes up for it.
    ///
    /// # Errors
    /// If there are more than 65,536 lines.
    pub fn parse_lenient(text: &str) -> Result<(Self, Vec<KnownHostsError>), KnownHostsError> {
        let (mut lines, mut errors) = (Vec::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let at = |kind| KnownHostsError { line: index + 1, kind };
            if index >= LINES_MAX {
                return Err(at(LineError::TooMany));
            }
            lines.push(Line::parse(line).unwrap_or_else(|kind| {
                errors.push(at(kind));
                Line::Unreadable(line.to_owned())
            }));
        }
        Ok((Self { lines }, errors))
    }

    /// Returns the hosts in the order of their lines.
    pub fn hosts(&self) -> impl Iterator<Item = &KnownHost> {
        self.lines.iter().filter_map(|line| match line {
            Line::Host(host) => Some(host),
            Line::Text(_) | Line::Unreadable(_) => None,
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

    /// Appends hosts, except for those that are listed already.
    pub fn extend(&mut self, hosts: impl IntoIterator<Item = KnownHost>) {
        let key = |host: &KnownHost| (host.name.to_ascii_lowercase(), host.fingerprint);
        let mut listed: HashSet<_> = self.hosts().map(key).collect();
        self.lines.extend(hosts.into_iter().filter(|host| listed.insert(key(host))).map(Line::Host));
    }

    /// Appends the lines of another list, except for hosts that are listed already. Lines that can't be read
    /// come along: their hosts stay refused.
    pub fn append(&mut self, other: Self) {
        let (hosts, lines) =
            other.lines.into_iter().partition::<Vec<_>, _>(|line| matches!(line, Line::Host(_)));
        self.lines.extend(lines);
        self.extend(hosts.into_iter().filter_map(|line| match line {
            Line::Host(host) => Some(host),
            Line::Text(_) | Line::Unreadable(_) => None,
        }));
    }

    /// Removes all lines of a name, or of a fingerprint. Returns how many.
    pub fn remove(&mut self, name_or_fingerprint: &str) -> usize {
        let before = self.lines.len();
        let fingerprint = name_or_fingerprint.parse().ok();
        self.lines.retain(|line| match line {
            Line::Host(host) => !host.is_named(name_or_fingerprint) && Some(host.fingerprint) != fingerprint,
            Line::Unreadable(text) => !is_line_of(text, name_or_fingerprint),
            Line::Text(_) => true,
        });
        before - self.lines.len()
    }

    /// Returns the keys of a host under a name; `None` if it is unknown.
    fn keys_of(&self, name: &str) -> Option<Vec<Fingerprint>> {
        let mut keys = None;
        for line in &self.lines {
            match line {
                Line::Host(host) if host.is_named(name) => {
                    keys.get_or_insert_with(Vec::new).push(host.fingerprint);
                }
                // Listed, but with a key that nobody can have.
                Line::Unreadable(text) if is_line_of(text, name) => {
                    keys.get_or_insert_with(Vec::new);
                }
                _ => {}
            }
        }
        keys
    }

    /// Looks up a server at an address, which the user called `name`. Each of both that is listed must have
    /// the key. An entry for the port counts instead of that of the address.
    pub(crate) fn look_up(&self, address: SocketAddr, name: Option<&str>, key: Fingerprint) -> Found {
        let listed = |name: String| self.keys_of(&name).map(|keys| (name, keys));
        let [with_port, plain] = names_of(address);
        let of_address = listed(with_port).or_else(|| listed(plain));
        let of_name = name.and_then(|name| listed(name.to_owned()));
        let mut found = Found::Nothing;
        for (name, expected) in of_name.into_iter().chain(of_address) {
            if !expected.contains(&key) {
                return Found::Other { name, expected };
            }
            found = Found::Listed;
        }
        found
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
                Line::Text(text) | Line::Unreadable(text) => writeln!(f, "{text}")?,
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

/// Returns whether a line that can't be read begins with a name.
fn is_line_of(line: &str, name: &str) -> bool {
    line.split_whitespace().next().is_some_and(|first| first.eq_ignore_ascii_case(name))
}

/// Returns the names under which a host at an address is looked up, the most specific first: `[address]:port` and the
/// address.
pub(crate) fn names_of(address: SocketAddr) -> [String; 2] {
    let ip = address.ip().to_canonical();
    [format!("[{ip}]:{}", address.port()), ip.to_string()]
}

#[cfg(test)]
mod tests;
