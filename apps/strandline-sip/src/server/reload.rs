//! Reloads the configuration without dropping a connection, either completely or not at all.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

use serde_json::Value;
use strandline_ops::{Document, Files, Reload, Reloads};

use crate::resolution::Ours;
use crate::transaction::Protocol;

use super::args::Args;
use super::config::{Config, ConfigError};
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

/// Files that are read again with the configuration, by the keys that name them.
const FILES: [(&str, &str); 2] =
    [("auth.users", "auth.users: read again"), ("tls.certificate", "tls: certificates read again")];

/// The document in use at the start of the server.
pub(super) fn document(config: &Config) -> Document {
    Document::new(config.document.clone(), &KEPT, &FILES)
}

/// Logs the result of a reload.
pub(super) fn log(result: &Result<Reload, ConfigError>) {
    match result {
        Ok(Reload { changed, kept }) if kept.is_empty() => {
            tracing::info!(target: "strandline_sip::reload", ?changed, "configuration reloaded");
        }
        // After a signal, the result is reported only in the log.
        Ok(Reload { changed, kept }) => {
            tracing::warn!(
                ?changed,
                ?kept,
                "configuration reloaded; some changes take effect after a restart"
            );
        }
        Err(error) => tracing::error!(%error, "configuration not reloaded; the old one stays in use"),
    }
}

/// Reloads the configuration.
pub(super) struct Reloader {
    args: Args,
    /// The number of processes that share the configuration.
    processes: u8,
    /// The parsed file of the current configuration.
    document: Document,
    nonces: Cell<NonceKey>,
    /// The listening addresses, which don't change.
    ours: Ours,
    local: Vec<(Protocol, SocketAddr)>,
    reloads: Reloads,
}

impl Reloader {
    pub(super) fn new(
        args: Args,
        running: &Config,
        nonces: NonceKey,
        local: Vec<(Protocol, SocketAddr)>,
        processes: u8,
    ) -> Rc<Self> {
        let document = document(running);
        let ours = running.ours();
        Rc::new(Self {
            args,
            processes,
            document,
            nonces: Cell::new(nonces),
            ours,
            local,
            reloads: Reloads::default(),
        })
    }

    /// The number of reloads, and the last error.
    pub(super) fn reload_status(&self) -> Value {
        self.reloads.status()
    }

    /// Reloads the configuration from disk.
    ///
    /// # Errors
    /// Returns an error if it is invalid; nothing has changed then.
    pub(super) fn reload(&self, hub: &Rc<Hub>) -> Result<Reload, ConfigError> {
        self.reload_from(hub, &mut Files::of_disk())
    }

    /// Applies a configuration from files that were read already.
    ///
    /// # Errors
    /// Returns an error if it is invalid; nothing has changed then.
    pub(super) fn reload_from(&self, hub: &Rc<Hub>, files: &mut Files) -> Result<Reload, ConfigError> {
        let result = self.try_reload(hub, files);
        self.reloads.note(&result);
        log(&result);
        result
    }

    fn try_reload(&self, hub: &Rc<Hub>, files: &mut Files) -> Result<Reload, ConfigError> {
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
        let differences = self.document.differences(&new.document);
        let (tls, websocket) = (new.tls_sides(), Rc::new(new.websocket.clone()));
        hub.transports.tls.replace(tls);
        hub.transports.websocket.replace(websocket);
        if !self.document.is_same(&new.document, "dns") {
            hub.set_name_servers(new.dns.as_ref(), self.ours.clone());
        }
        hub.transports
            .room
            .set(Room { connections: new.connections_max, of_source: new.overload.source_connections });
        hub.transports.connections.limits.set(new.connection_limits);
        hub.intake.refusals_per_sec.set(new.overload.refusals_per_sec);
        hub.intake.gather.set(new.overload.gather);
        hub.intake.inbox(|inbox| {
            new.overload.configure(inbox, key);
            inbox.set_access(new.access.clone());
        });
        if !self.document.is_same(&new.document, "access") {
            hub.end_denied();
        }
        if !self.document.is_same(&new.document, "hep") {
            hub.set_hep(new.hep.clone(), self.local.clone());
        }
        let mut service = hub.service.borrow_mut();
        service.configure(&new.settings);
        // The thread that looks up subscribers is not replaced.
        if self.document.is_same(&new.document, "auth.subscribers") {
            service.access_mut().set_authenticator(authenticator);
            self.nonces.set(nonces);
        }
        drop(service);
        self.document.replace(new.document);
        Ok(differences)
    }
}

/// Reads the new configuration.
pub(super) fn read(args: &Args, files: &mut Files) -> Result<Config, ConfigError> {
    if args.config.is_none() {
        return Err(ConfigError::NoFile);
    }
    Config::of(args, files)
}
