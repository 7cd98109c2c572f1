//! Reloads the configuration without dropping a connection, either completely or not at all.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use serde_json::{Value, json};

use crate::resolution::Ours;
use crate::transaction::Protocol;

use super::args::Args;
use super::config::{Config, ConfigError, Files};
use super::hub::Hub;
use super::seeds::{NonceKey, authenticator, random_key};
use super::socket::Room;

/// Tables and keys that only a restart changes.
const KEPT: [&str; 12] = [
    "server",
    "listen",
    "store",
    "node",
    "timers",
    "metrics",
    "admin",
    "limits.users_max",
    "limits.transactions_max",
    "limits.transactions_bytes_max",
    "auth.nonce_lifetime_secs",
    "auth.subscribers",
];

/// The outcome of a reload.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reloaded {
    /// Changed tables, and files that were reloaded.
    pub(super) changed: Vec<String>,
    /// Changes that need a restart.
    pub(super) kept: Vec<String>,
}

/// The number of reloads, and the last error.
#[derive(Default)]
pub(super) struct Done(RefCell<(u64, Option<String>)>);

impl Done {
    /// Records a reload.
    pub(super) fn note(&self, result: &Result<Reloaded, ConfigError>) {
        let mut done = self.0.borrow_mut();
        done.0 += 1;
        done.1 = result.as_ref().err().map(ToString::to_string);
        match result {
            Ok(Reloaded { changed, kept }) if kept.is_empty() => {
                tracing::info!(target: "strandline_sip::reload", ?changed, "configuration reloaded");
            }
            // After a signal, the result is reported only in the log.
            Ok(Reloaded { changed, kept }) => {
                tracing::warn!(
                    ?changed,
                    ?kept,
                    "configuration reloaded; some changes take effect after a restart"
                );
            }
            Err(error) => tracing::error!(%error, "configuration not reloaded; the old one stays in use"),
        }
    }

    pub(super) fn told(&self) -> Value {
        let (count, error) = &*self.0.borrow();
        json!({"count": count, "last_error": error})
    }
}

/// Reloads the configuration.
pub(super) struct Reloader {
    args: Args,
    /// The number of processes that share the configuration.
    processes: u8,
    /// The parsed file of the current configuration.
    document: RefCell<toml::Table>,
    nonces: Cell<NonceKey>,
    /// The listening addresses, which don't change.
    ours: Ours,
    local: Vec<(Protocol, SocketAddr)>,
    done: Done,
}

impl Reloader {
    pub(super) fn new(
        args: Args,
        running: &Config,
        nonces: NonceKey,
        local: Vec<(Protocol, SocketAddr)>,
        processes: u8,
    ) -> Rc<Self> {
        let document = RefCell::new(running.document.clone());
        let ours = running.ours();
        Rc::new(Self {
            args,
            processes,
            document,
            nonces: Cell::new(nonces),
            ours,
            local,
            done: Done::default(),
        })
    }

    /// The number of reloads, and the last error.
    pub(super) fn told(&self) -> Value {
        self.done.told()
    }

    /// Reloads the configuration from disk.
    ///
    /// # Errors
    /// Returns an error if it is invalid; nothing has changed then.
    pub(super) fn reload(&self, hub: &Rc<Hub>) -> Result<Reloaded, ConfigError> {
        self.reload_from(hub, &mut Files::of_disk())
    }

    /// Applies a configuration from files that were read already.
    ///
    /// # Errors
    /// Returns an error if it is invalid; nothing has changed then.
    pub(super) fn reload_from(&self, hub: &Rc<Hub>, files: &mut Files) -> Result<Reloaded, ConfigError> {
        let result = self.try_reload(hub, files);
        self.done.note(&result);
        result
    }

    fn try_reload(&self, hub: &Rc<Hub>, files: &mut Files) -> Result<Reloaded, ConfigError> {
        let mut new = read(&self.args, files)?;
        if let Some(worker) = self.args.worker {
            new.share(worker, self.processes);
        }
        // With several processes, the supervisor logs the warnings.
        if self.args.worker.is_none() {
            new.warn();
        }
        // Everything that can fail comes first.
        let key = random_key().map_err(|error| ConfigError::Random(error.to_string()))?;
        let nonces = self.nonces.get().next();
        let authenticator = new.auth.as_ref().map(|auth| authenticator(auth, nonces)).transpose();
        let authenticator = authenticator.map_err(|error| ConfigError::Random(error.to_string()))?;
        let told = differences(&self.document.borrow(), &new.document);
        let (tls, websocket) = (new.tls_sides(), Rc::new(new.websocket.clone()));
        hub.tls.replace(tls);
        hub.websocket.replace(websocket);
        if self.document.borrow().get("dns") != new.document.get("dns") {
            hub.look_up_names(new.dns.as_ref(), self.ours.clone());
        }
        hub.room.set(Room { connections: new.connections_max, of_source: new.overload.source_connections });
        hub.connections.patience.set(new.patience);
        hub.refusals_per_sec.set(new.overload.refusals_per_sec);
        hub.gather.set(new.overload.gather);
        hub.inbox(|inbox| {
            new.overload.configure(inbox, key);
            inbox.set_access(new.access.clone());
        });
        if self.document.borrow().get("access") != new.document.get("access") {
            hub.end_denied();
        }
        if self.document.borrow().get("hep") != new.document.get("hep") {
            hub.copy_to(new.hep.clone(), self.local.clone());
        }
        let mut service = hub.service.borrow_mut();
        service.configure(&new.settings);
        // The thread that looks up subscribers is not replaced.
        let path = "auth.subscribers";
        if at(&self.document.borrow(), path) == at(&new.document, path) {
            service.access_mut().set_authenticator(authenticator);
            self.nonces.set(nonces);
        }
        drop(service);
        let mut document = self.document.borrow_mut();
        *document = counting(&document, new.document);
        Ok(told)
    }
}

/// Reads the new configuration.
pub(super) fn read(args: &Args, files: &mut Files) -> Result<Config, ConfigError> {
    if args.config.is_none() {
        return Err(ConfigError::NoFile);
    }
    Config::of(args, files)
}

/// The value at `table` or `table.key`.
fn at<'a>(document: &'a toml::Table, path: &str) -> Option<&'a toml::Value> {
    match path.split_once('.') {
        None => document.get(path),
        Some((table, key)) => document.get(table)?.as_table()?.get(key),
    }
}

fn put(document: &mut toml::Table, path: &str, value: Option<toml::Value>) {
    let (table, key) = match path.split_once('.') {
        None => (Some(&mut *document), path),
        Some((table, key)) => (document.get_mut(table).and_then(toml::Value::as_table_mut), key),
    };
    let Some(table) = table else { return };
    match value {
        Some(value) => {
            table.insert(key.to_owned(), value);
        }
        None => {
            table.remove(key);
        }
    }
}

/// The new document, with the old values of keys that only a restart changes.
pub(super) fn counting(old: &toml::Table, new: toml::Table) -> toml::Table {
    let mut counting = new;
    for path in KEPT {
        put(&mut counting, path, at(old, path).cloned());
    }
    counting
}

/// The differences between two documents.
pub(super) fn differences(old: &toml::Table, new: &toml::Table) -> Reloaded {
    let kept = KEPT.into_iter().filter(|path| at(old, path) != at(new, path));
    let kept = kept.map(|path| format!("{path}: needs a new start")).collect();
    let counting = counting(old, new.clone());
    let keys = old.keys().chain(counting.keys().filter(|key| !old.contains_key(*key)));
    let changed = keys.filter(|key| old.get(*key) != counting.get(*key)).cloned();
    let files =
        [("auth.users", "auth.users: read again"), ("tls.certificate", "tls: certificates read again")];
    let read = files.into_iter().filter(|(path, _)| at(new, path).is_some());
    Reloaded { changed: changed.chain(read.map(|(_, text)| text.to_owned())).collect(), kept }
}

#[cfg(test)]
mod tests;
