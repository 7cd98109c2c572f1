//! `[access]`: the addresses that may use the server.

use serde::Deserialize;

use crate::server::access::Access;

use super::error::ConfigErrors;
use super::host::networks;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    allow: Vec<String>,
    deny: Vec<String>,
}

pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> Access {
    Access {
        allow: networks("access.allow", &file.allow, errors),
        deny: networks("access.deny", &file.deny, errors),
    }
}
