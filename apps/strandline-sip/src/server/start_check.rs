//! `--check` tries what a start would do: it binds the addresses and opens the store. All failures are
//! reported, not only the first.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::Path;

use strandline_ops::{Flaw, StartAddress, not_opened};

use crate::store::{SubscriberTable, other_kind};
use crate::transaction::Protocol;

use super::config::{Config, Store, Users};
use super::hints;
use super::style::SctpCarrier;

/// The reasons why a server could not start now.
pub(super) fn flaws(config: &Config) -> Vec<Flaw> {
    let addresses = addresses(config);
    let mut flaws = StartAddress::twice(&addresses);
    flaws.extend(addresses.iter().filter_map(|address| address.not_bound(hints::listening)));
    if let Some(Store::Sqlite(path)) = &config.store {
        flaws.extend(store_flaw(path));
    }
    let users = config.auth.as_ref().map(|auth| &auth.users);
    if let Some(Users::Table(SubscriberTable::Sqlite(path), _)) = users {
        flaws.extend(subscribers_flaw(path));
    }
    flaws
}

/// The reason why the file of a store can't be opened, or created.
fn store_flaw(path: &Path) -> Option<Flaw> {
    file_flaw("store.path", path, OpenOptions::new().read(true).write(true))
}

/// The reason why the file of subscribers can't be read, or created.
fn subscribers_flaw(path: &Path) -> Option<Flaw> {
    let key = "auth.subscribers";
    let flaw = file_flaw(key, path, OpenOptions::new().read(true));
    // A missing file would be created by a start, but is not created here.
    if flaw.is_some() || !path.exists() {
        return flaw;
    }
    let error = SubscriberTable::Sqlite(path.to_owned()).check().err()?;
    Some(Flaw { key: key.into(), message: error.to_string(), is_error: true })
}

/// The reason why a regular file can't be opened with these options, or created.
fn file_flaw(key: &'static str, path: &Path, options: &OpenOptions) -> Option<Flaw> {
    match other_kind(path) {
        Some(kind) => {
            let message = format!("{} is {kind}, no regular file", path.display());
            Some(Flaw { key: key.into(), message, is_error: true })
        }
        None => not_opened(key, path, options),
    }
}

/// The addresses of a configuration, except that of SCTP on IP, which has no ports.
fn addresses(config: &Config) -> Vec<StartAddress> {
    let listens = config
        .listen
        .iter()
        .filter(|listen| listen.sctp_carrier == SctpCarrier::Udp || listen.protocol != Protocol::Sctp);
    let listens = listens.map(|listen| StartAddress {
        key: "listen".into(),
        name: listen.protocol.name().to_owned(),
        address: listen.address,
        is_udp: matches!(listen.protocol, Protocol::Udp | Protocol::Sctp),
    });
    let http = |key: &'static str, address: SocketAddr| StartAddress {
        key: key.into(),
        name: key.to_owned(),
        address,
        is_udp: false,
    };
    let metrics = config.metrics.map(|address| http("metrics", address));
    let admin = config.admin.as_ref().map(|admin| http("admin", admin.address));
    listens.chain(metrics).chain(admin).collect()
}

#[cfg(test)]
mod tests;
