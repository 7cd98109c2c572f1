//! `[metrics]`.

use std::net::SocketAddr;

use serde::Deserialize;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    pub(super) address: Option<SocketAddr>,
    pub(super) hosts: Vec<String>,
}
