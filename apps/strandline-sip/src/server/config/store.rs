//! `[store]`: the store for bindings.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use strandline_ops::Files;
use strandline_tls::{DatabaseTls, Verify};

use crate::store::{DATABASES_MISSING, Kind, NodeSettings, Shared};

use super::error::{ConfigError, ConfigErrors, in_range, wrong};
use super::files::{pem_of, text_of};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    kind: Option<String>,
    path: Option<PathBuf>,
    url: Option<String>,
    password_file: Option<PathBuf>,
    password_env: Option<String>,
    tls: Option<String>,
    tls_ca: Option<PathBuf>,
    timeout_ms: Option<u64>,
    replicas_min: Option<u32>,
}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // The URL may contain a password.
        f.debug_struct("Table").field("kind", &self.kind).field("path", &self.path).finish_non_exhaustive()
    }
}

/// The store for bindings.
#[derive(Debug, Clone)]
pub enum Store {
    /// An SQLite file, for one server.
    Sqlite(PathBuf),
    /// A database that several nodes may share.
    Shared(Box<Shared>),
}

/// Default for how long a response may wait for the store, in milliseconds.
const TIMEOUT_MS: u64 = 2000;

/// Checks the table. Returns the store, if any (`None` if the table is wrong), and how long a response may wait for
/// it.
pub(super) fn check(
    table: Table,
    node: Option<NodeSettings>,
    files: &mut Files,
    errors: &mut ConfigErrors,
) -> (Option<Option<Store>>, Duration) {
    let timeout_ms = in_range("store.timeout_ms", table.timeout_ms, TIMEOUT_MS, 50..=30_000, errors);
    let timeout = Duration::from_millis(timeout_ms);
    let before = errors.count();
    let kind = match table.kind.as_deref() {
        None if table.path.is_some() => "sqlite",
        None => "memory",
        Some(kind) => kind,
    };
    let shared = match kind {
        "memory" | "sqlite" => None,
        "mysql" => Some(Kind::MySql),
        "postgresql" => Some(Kind::PostgreSql),
        "redis" => Some(Kind::Redis),
        other => {
            let message = format!(
                "unknown kind {other:?}: use \"memory\", \"sqlite\", \"mysql\", \"postgresql\" or \"redis\""
            );
            errors.add(wrong("store.kind", message));
            return (None, timeout);
        }
    };
    let store = match shared {
        Some(kind) => check_shared(table, kind, timeout, node, files, errors)
            .map(|shared| Store::Shared(Box::new(shared))),
        None => {
            let is_sqlite = kind == "sqlite";
            check_single(table, is_sqlite, node.is_some(), errors).map(Store::Sqlite)
        }
    };
    (Some(store).filter(|_| errors.count() == before), timeout)
}

/// Checks the table of a store that one server has. Returns the path of its file; `None` for memory.
fn check_single(table: Table, is_sqlite: bool, is_node: bool, errors: &mut ConfigErrors) -> Option<PathBuf> {
    if is_node {
        let hint = "requires a shared store: kind = \"mysql\", \"postgresql\" or \"redis\" in [store]";
        errors.add(wrong("node", hint));
    }
    for (key, is_given) in [
        ("store.url", table.url.is_some()),
        ("store.password_file", table.password_file.is_some()),
        ("store.password_env", table.password_env.is_some()),
        ("store.tls", table.tls.is_some()),
        ("store.tls_ca", table.tls_ca.is_some()),
        ("store.replicas_min", table.replicas_min.is_some()),
    ] {
        if is_given {
            errors.add(wrong(key, "requires kind = \"mysql\", \"postgresql\" or \"redis\""));
        }
    }
    match (is_sqlite, &table.path) {
        (true, None) => errors.add(wrong("store.path", "required with kind = \"sqlite\"")),
        (false, Some(_)) => errors.add(wrong("store.path", "requires kind = \"sqlite\"")),
        (true, Some(_)) | (false, None) => {}
    }
    table.path
}

fn check_shared(
    table: Table,
    kind: Kind,
    timeout: Duration,
    node: Option<NodeSettings>,
    files: &mut Files,
    errors: &mut ConfigErrors,
) -> Option<Shared> {
    if !cfg!(feature = "databases") {
        errors.add(wrong("store.kind", format!("{:?}: {DATABASES_MISSING}", kind.name())));
    }
    if table.path.is_some() {
        errors.add(wrong("store.path", "requires kind = \"sqlite\""));
    }
    if table.replicas_min.is_some() && kind != Kind::Redis {
        errors.add(wrong("store.replicas_min", "requires kind = \"redis\""));
    }
    let url = errors.take(check_url(table.url, kind));
    let tls = errors.take(check_tls(table.tls.as_deref(), table.tls_ca, kind, files));
    let password = match (table.password_file, table.password_env) {
        (None, None) => Ok(None),
        (Some(path), None) => text_of(files, "store.password_file", &path)
            .map(|text| Some(text.trim_end_matches(['\r', '\n']).to_owned())),
        (None, Some(variable)) => {
            let unset =
                |_| wrong("store.password_env", format!("the environment variable {variable:?} is not set"));
            std::env::var(&variable).map(Some).map_err(unset)
        }
        (Some(_), Some(_)) => {
            Err(wrong("store.password_env", "use either store.password_env or store.password_file, not both"))
        }
    };
    let password = errors.take(password);
    let replicas_min = table.replicas_min.unwrap_or(0);
    let node = node.unwrap_or_else(super::node::alone);
    Some(Shared { kind, url: url?, password: password?, tls: tls?, timeout, replicas_min, node })
}

fn check_url(url: Option<String>, kind: Kind) -> Result<String, ConfigError> {
    let name = kind.name();
    let example = match kind {
        Kind::MySql => "mysql://user@host:3306/database",
        Kind::PostgreSql => "postgresql://user@host:5432/database",
        Kind::Redis => "redis://host:6379/0",
    };
    let Some(url) = url else {
        return Err(wrong("store.url", format!("required with kind = {name:?}, such as {example:?}")));
    };
    let schemes: &[&str] = match kind {
        Kind::MySql => &["mysql://"],
        Kind::PostgreSql => &["postgresql://", "postgres://"],
        Kind::Redis => &["redis://", "redis+unix://", "unix://", "valkey://", "rediss://", "valkeys://"],
    };
    // The value is not shown, because it may contain a password.
    if !schemes.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(wrong("store.url", format!("expected a URL such as {example:?} with kind = {name:?}")));
    }
    if requests_tls(&url) {
        let message = "requests TLS: set store.tls to \"require\", \"verify-ca\" or \"verify-full\" instead";
        return Err(wrong("store.url", message));
    }
    Ok(url)
}

/// Returns true if the URL of a database requests TLS.
fn requests_tls(url: &str) -> bool {
    let (address, options) = url.split_once('?').unwrap_or((url, ""));
    let wants = |option: &str| {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let off = ["disable", "disabled", "allow", "prefer", "preferred", "false"];
        let is = |name: &str| key.eq_ignore_ascii_case(name);
        (is("sslmode") || is("ssl-mode") || is("ssl_mode") || is("require_ssl")) && !off.contains(&value)
    };
    address.starts_with("rediss://") || address.starts_with("valkeys://") || options.split('&').any(wants)
}

/// Checks `tls`, with libpq's names of the modes, and `tls_ca`.
fn check_tls(
    mode: Option<&str>,
    ca: Option<PathBuf>,
    kind: Kind,
    files: &mut Files,
) -> Result<Option<Verify>, ConfigError> {
    let mode = mode.unwrap_or("disable");
    if !matches!(mode, "disable" | "require" | "verify-ca" | "verify-full") {
        let message =
            format!("unknown mode {mode:?}: use \"disable\", \"require\", \"verify-ca\" or \"verify-full\"");
        return Err(wrong("store.tls", message));
    }
    if mode == "verify-ca" && kind == Kind::MySql {
        return Err(wrong(
            "store.tls",
            "\"verify-ca\" is not available with kind = \"mysql\": use \"verify-full\"",
        ));
    }
    let verify = match (mode, ca) {
        ("disable" | "require", Some(_)) => {
            return Err(wrong("store.tls_ca", "requires store.tls = \"verify-ca\" or \"verify-full\""));
        }
        ("disable", None) => return Ok(None),
        ("require", None) => Verify::Nothing,
        (_, None) => return Err(wrong("store.tls_ca", format!("required with store.tls = {mode:?}"))),
        ("verify-ca", Some(path)) => Verify::Authority(pem_of(files, "store.tls_ca", &path)?),
        (_, Some(path)) => Verify::Host(pem_of(files, "store.tls_ca", &path)?),
    };
    DatabaseTls::new(&verify).map_err(|error| wrong("store.tls_ca", error.to_string()))?;
    Ok(Some(verify))
}
