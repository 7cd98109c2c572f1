//! What `--check` tries of a start: it binds the addresses and opens the files. All failures are reported, not only
//! the first.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::{Flaw, bind_udp, listen_tcp};

/// An address that a start binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartAddress {
    /// The key, as `table.key`.
    pub key: Cow<'static, str>,
    /// What is served there.
    pub name: String,
    /// The address.
    pub address: SocketAddr,
    /// Whether it is of UDP; otherwise it is of TCP.
    pub is_udp: bool,
}

impl StartAddress {
    /// Returns the flaws of addresses of which only one of two can be bound.
    #[must_use]
    pub fn twice(all: &[Self]) -> Vec<Flaw> {
        let later = |place: usize| all.iter().skip(place + 1);
        let pairs =
            all.iter().enumerate().flat_map(|(place, one)| later(place).map(move |other| (one, other)));
        pairs
            .filter(|(one, other)| one.is_udp == other.is_udp && overlap(one.address, other.address))
            .map(|(one, other)| Flaw {
                key: other.key.clone(),
                message: format!(
                    "{} on {} and {} on {} conflict: give one of them another port",
                    one.name, one.address, other.name, other.address
                ),
                is_error: true,
            })
            .collect()
    }

    /// Returns why the address can't be bound now; `hint` returns the advice for an error, with a colon before it.
    #[must_use]
    pub fn not_bound(&self, hint: impl FnOnce(&io::Error) -> &'static str) -> Option<Flaw> {
        let result = match self.is_udp {
            true => bind_udp(self.address, false).map(drop),
            false => listen_tcp(self.address, false).map(drop),
        };
        Some(self.failed(&result.err()?, hint))
    }

    /// Returns the flaw of an address that could not be bound. If it is in use, it may be in use by the server for
    /// which the configuration is meant.
    #[must_use]
    pub fn failed(&self, error: &io::Error, hint: impl FnOnce(&io::Error) -> &'static str) -> Flaw {
        let is_taken = error.kind() == io::ErrorKind::AddrInUse;
        let hint = match is_taken {
            true => ": by this server if it is running, or by another one",
            false => hint(error),
        };
        let message = format!("{} on {}: {error}{hint}", self.name, self.address);
        Flaw { key: self.key.clone(), message, is_error: !is_taken }
    }
}

/// Returns whether two addresses of one protocol can't both be bound. An IPv6 socket of all addresses has those of
/// IPv4, too.
#[must_use]
pub fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    let covers = |one: IpAddr, other: IpAddr| {
        one == other || (one.is_unspecified() && (one.is_ipv6() || other.is_ipv4()))
    };
    one.port() != 0 && one.port() == other.port() && (covers(a, b) || covers(b, a))
}

/// Returns why a file can't be opened with these options. A missing file would be created by a start, but is not
/// created here.
#[must_use]
pub fn not_opened(key: &'static str, path: &Path, options: &OpenOptions) -> Option<Flaw> {
    let flaw = |message| Some(Flaw { key: key.into(), message, is_error: true });
    match options.open(path) {
        Ok(_) => return None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return flaw(format!("{}: {error}", path.display())),
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder) {
        Ok(found) if !found.is_dir() => flaw(format!("{} is not a directory", folder.display())),
        Err(error) => flaw(format!("directory {}: {error}; create it first", folder.display())),
        Ok(_) => {
            // Only creating a file shows whether one can be created there, whatever the user's privileges.
            let trial = path.with_extension(format!("check-{}", std::process::id()));
            let made = OpenOptions::new().write(true).create_new(true).open(&trial);
            let error = made.err();
            if error.is_none() {
                // If it can't be removed, it is empty and harmless.
                let _ = std::fs::remove_file(&trial);
            }
            flaw(format!("directory {}: {}; check its permissions", folder.display(), error?))
        }
    }
}

#[cfg(test)]
mod tests;
