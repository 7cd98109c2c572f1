//! `[identity]`: the peers whose assertions of identity are passed on.

use serde::Deserialize;

use crate::service::Trusted;

use super::error::ConfigErrors;
use super::host::networks;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    trust: Vec<String>,
}

pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> Trusted {
    Trusted(networks("identity.trust", &file.trust, errors))
}
