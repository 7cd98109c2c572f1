//! `--check` tries what a start would do: it binds the addresses and opens the store. All failures are
//! reported, not only the first.

use std::fs::OpenOptions;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use strandline_ops::Flaw;

use crate::transaction::Protocol;

use super::config::{Config, Store};
use super::hints;
use super::style::SctpCarrier;

/// An address to bind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bound {
    key: &'static str,
    name: String,
    address: SocketAddr,
    is_udp: bool,
}

/// The reasons why a server could not start now.
pub(super) fn flaws(config: &Config) -> Vec<Flaw> {
    let bound = addresses(config);
    let mut flaws = twice(&bound);
    flaws.extend(bound.iter().filter_map(not_bound));
    if let Some(Store::Sqlite(path)) = &config.store {
        flaws.extend(not_opened(path));
    }
    flaws
}

/// The addresses of a configuration, except that of SCTP on IP, which has no ports.
fn addresses(config: &Config) -> Vec<Bound> {
    let listens = config
        .listen
        .iter()
        .filter(|listen| listen.sctp_carrier == SctpCarrier::Udp || listen.protocol != Protocol::Sctp);
    let listens = listens.map(|listen| Bound {
        key: "listen",
        name: listen.protocol.name().to_owned(),
        address: listen.address,
        is_udp: matches!(listen.protocol, Protocol::Udp | Protocol::Sctp),
    });
    let http =
        |key: &'static str, address: SocketAddr| Bound { key, name: key.to_owned(), address, is_udp: false };
    let metrics = config.metrics.map(|address| http("metrics", address));
    let admin = config.admin.as_ref().map(|admin| http("admin", admin.address));
    listens.chain(metrics).chain(admin).collect()
}

/// Returns true if two addresses can't both be bound.
fn overlap(one: &Bound, other: &Bound) -> bool {
    let covers = |one: IpAddr, other: IpAddr| {
        one == other || (one.is_unspecified() && (one.is_ipv6() || other.is_ipv4()))
    };
    let (a, b) = (one.address, other.address);
    one.is_udp == other.is_udp
        && a.port() != 0
        && a.port() == b.port()
        && (covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

fn twice(all: &[Bound]) -> Vec<Flaw> {
    let later = |place: usize| all.iter().skip(place + 1);
    let pairs = all.iter().enumerate().flat_map(|(place, one)| later(place).map(move |other| (one, other)));
    pairs
        .filter(|(one, other)| overlap(one, other))
        .map(|(one, other)| Flaw {
            key: other.key,
            message: format!(
                "{} on {} and {} on {} conflict: give one of them another port",
                one.name, one.address, other.name, other.address
            ),
            is_error: true,
        })
        .collect()
}

/// Why an address can't be bound. If it is in use, it may be in use by the server for which this
/// configuration is meant.
fn not_bound(bound: &Bound) -> Option<Flaw> {
    let result = match bound.is_udp {
        true => UdpSocket::bind(bound.address).map(drop),
        false => TcpListener::bind(bound.address).map(drop),
    };
    let error = result.err()?;
    let is_taken = error.kind() == io::ErrorKind::AddrInUse;
    let hint = match is_taken {
        true => ": by this server if it is running, or by another one",
        false => hints::listening(&error),
    };
    let message = format!("{} on {}: {error}{hint}", bound.name, bound.address);
    Some(Flaw { key: bound.key, message, is_error: !is_taken })
}

/// Why a store's file can't be opened. A missing file would be created by a start, but is not created here.
fn not_opened(path: &Path) -> Option<Flaw> {
    let flaw = |message| Some(Flaw { key: "store.path", message, is_error: true });
    match OpenOptions::new().read(true).write(true).open(path) {
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
