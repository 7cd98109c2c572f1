//! Queries the activity of a server.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use strandline_ops::http::client::send_request;

use crate::server::live::Live;

/// Timeout of a query.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The activity of the server whose metrics are at this address.
///
/// # Errors
/// Returns an error if the server doesn't respond properly.
pub(super) fn fetch(address: SocketAddr) -> Result<Live> {
    let asked = send_request(address, "GET", "/live.json", None, TIMEOUT);
    let (status, body) = asked
        .with_context(|| format!("{address}: is a SIP server running there with --metrics {address}?"))?;
    parse(status, &body).with_context(|| format!("{address} is not the metrics address of a SIP server"))
}

pub(super) fn parse(status: u16, body: &str) -> Result<Live> {
    if status != 200 {
        bail!("HTTP status {status}");
    }
    Ok(serde_json::from_str(body)?)
}
