//! `[access]`: the addresses that may use the server.

use serde::Deserialize;

use crate::server::access::Access;

use super::error::ConfigError;
use super::host::networks;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    allow: Vec<String>,
    deny: Vec<String>,
}

pub(super) fn check(file: &Table) -> Result<Access, ConfigError> {
    Ok(Access { allow: networks("access.allow", &file.allow)?, deny: networks("access.deny", &file.deny)? })
}
