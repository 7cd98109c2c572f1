//! Asks a server what goes on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::server::live::Live;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// No answer is longer.
const ANSWER_MAX: u64 = 1 << 20;

/// What goes on at the server whose metrics are at this address.
///
/// # Errors
/// If there is none.
pub(super) fn fetch(address: SocketAddr) -> Result<Live> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).with_context(|| {
        format!("{address}: is a server there that was started with --metrics {address}?")
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET /live.json HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream
        .take(ANSWER_MAX)
        .read_to_string(&mut answer)
        .with_context(|| format!("{address} doesn't answer"))?;
    parse(&answer).with_context(|| format!("{address} is no SIP server's metrics"))
}

fn parse(answer: &str) -> Result<Live> {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { bail!("no HTTP") };
    let status = head.lines().next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        bail!("{status}");
    }
    Ok(serde_json::from_str(body)?)
}
