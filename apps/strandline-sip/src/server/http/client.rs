//! Asks a server of ours.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

pub(in crate::server) use super::request::escape;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// No answer is longer.
const ANSWER_MAX: u64 = 16 << 20;

/// The status and the body of the answer to a request without a body.
///
/// # Errors
/// If nobody is there, or somebody else is.
pub(in crate::server) fn ask(
    address: SocketAddr,
    method: &str,
    target: &str,
    token: Option<&str>,
) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let token = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    write!(stream, "{method} {target} HTTP/1.1\r\nHost: {address}\r\n{token}Connection: close\r\n\r\n")?;
    let mut answer = String::new();
    let read = stream.take(ANSWER_MAX).read_to_string(&mut answer);
    read.with_context(|| format!("{address} doesn't answer"))?;
    parse(&answer)
}

/// The status and the body of an answer.
///
/// # Errors
/// If it is none.
pub(in crate::server) fn parse(answer: &str) -> Result<(u16, String)> {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { bail!("no HTTP") };
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    Ok((status.context("no HTTP")?, body.to_owned()))
}
