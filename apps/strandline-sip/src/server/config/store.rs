//! `[store]`: where bindings are kept.

use std::path::PathBuf;

use serde::Deserialize;

use super::error::{ConfigError, wrong};

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    kind: Option<String>,
    path: Option<PathBuf>,
}

/// The SQLite file; memory only without it.
pub(super) fn check(store: Table) -> Result<Option<PathBuf>, ConfigError> {
    match (store.kind.as_deref(), store.path) {
        (None | Some("memory"), None) => Ok(None),
        (Some("memory"), Some(_)) => Err(wrong("store.path", "goes with kind = \"sqlite\"")),
        (None | Some("sqlite"), Some(path)) => Ok(Some(path)),
        (Some("sqlite"), None) => Err(wrong("store.path", "needed with kind = \"sqlite\"")),
        (Some(kind), _) => Err(wrong("store.kind", format!("{kind:?} is neither \"memory\" nor \"sqlite\""))),
    }
}
