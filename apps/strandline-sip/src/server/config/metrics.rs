//! `[metrics]`: the metrics page.

use std::net::SocketAddr;

use serde::Deserialize;

use super::host::socket_address_if_any;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Table {
    #[serde(deserialize_with = "socket_address_if_any")]
    pub(super) address: Option<SocketAddr>,
    pub(super) hosts: Vec<String>,
}
