//! `[relay]`: the clients whose requests to foreign hosts are relayed.

use serde::Deserialize;

use crate::service::Relay;

use super::error::ConfigErrors;
use super::host::networks;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    open: bool,
    from: Vec<String>,
}

pub(super) fn check(file: &Table, errors: &mut ConfigErrors) -> Relay {
    Relay { open: file.open, from: networks("relay.from", &file.from, errors) }
}
