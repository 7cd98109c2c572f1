//! Asks a server what goes on.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::server::http::client::ask;
use crate::server::live::Live;

/// It asks every second.
const PATIENCE: Duration = Duration::from_secs(3);

/// What goes on at the server whose metrics are at this address.
///
/// # Errors
/// If there is none.
pub(super) fn fetch(address: SocketAddr) -> Result<Live> {
    let asked = ask(address, "GET", "/live.json", None, PATIENCE);
    let (status, body) = asked.with_context(|| {
        format!("{address}: is a SIP server there that was started with --metrics {address}?")
    })?;
    parse(status, &body).with_context(|| format!("{address} is no SIP server's metrics"))
}

pub(super) fn parse(status: u16, body: &str) -> Result<Live> {
    if status != 200 {
        bail!("it answers {status}");
    }
    Ok(serde_json::from_str(body)?)
}
