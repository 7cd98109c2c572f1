//! The header that announces HTTP/1.1 on SCTP streams (RFC 7838).

use std::time::Duration;

use hyper::header::{ALT_SVC, HeaderMap, HeaderValue};

use crate::host;

/// The protocol's name. It is not registered with IANA.
const PROTOCOL: &str = "h1-sctp";
/// Lifetime that this crate's servers announce, which is also the default of RFC 7838 section 3.1.
const MAX_AGE: Duration = Duration::from_secs(86_400);
/// Longest lifetime that is believed.
const MAX_AGE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// What a server announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announced {
    /// HTTP/1.1 on SCTP streams of the same host.
    Sctp {
        /// The SCTP port.
        port: u16,
        /// The UDP port of encapsulation; `None` if it isn't named.
        udp_port: Option<u16>,
        /// How long this holds.
        lifetime: Duration,
    },
    /// Nothing any more of what was announced before.
    Nothing,
}

/// Returns the header's value.
pub(crate) fn announce(sctp_port: u16, udp_port: Option<u16>) -> Option<HeaderValue> {
    let udp = udp_port.map_or(String::new(), |port| format!("; udp={port}"));
    let text = format!("{PROTOCOL}=\":{sctp_port}\"{udp}; ma={}", MAX_AGE.as_secs());
    HeaderValue::from_str(&text).ok()
}

/// Returns what the headers of a response announce; `None` if they say nothing of SCTP on the same host.
pub(crate) fn of(headers: &HeaderMap) -> Option<Announced> {
    let values = headers.get_all(ALT_SVC).iter().filter_map(|value| value.to_str().ok());
    values.filter_map(parse).next()
}

/// Parses a value; `None` if it says nothing of SCTP on the same host.
pub(crate) fn parse(value: &str) -> Option<Announced> {
    if value.trim() == "clear" {
        return Some(Announced::Nothing);
    }
    split(value, ',').into_iter().find_map(alternative)
}

fn alternative(text: &str) -> Option<Announced> {
    let mut parts = split(text, ';').into_iter();
    let (protocol, authority) = parts.next()?.split_once('=')?;
    if protocol.trim() != PROTOCOL {
        return None;
    }
    // Another host would need a proof that it speaks for this one (section 2.1).
    let port = unquote(authority).strip_prefix(':').and_then(host::port)?;
    let (mut udp_port, mut lifetime) = (None, MAX_AGE);
    for part in parts {
        let Some((name, value)) = part.split_once('=') else { continue };
        match name.trim().to_ascii_lowercase().as_str() {
            "udp" => udp_port = Some(host::port(unquote(value))?),
            "ma" => lifetime = seconds(unquote(value))?,
            _ => {}
        }
    }
    Some(Announced::Sctp { port, udp_port, lifetime })
}

/// Parses a lifetime in seconds: digits alone. One that is too long for a number is the longest.
fn seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().map_or(MAX_AGE_MAX, Duration::from_secs).min(MAX_AGE_MAX))
}

/// Splits a text at a separator that isn't within quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    text.split(|letter: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match letter {
            '"' if !was_escaped => is_quoted = !is_quoted,
            '\\' if is_quoted && !was_escaped => is_escaped = true,
            _ => {}
        }
        letter == separator && !is_quoted
    })
    .collect()
}

fn unquote(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

#[cfg(test)]
mod tests;
