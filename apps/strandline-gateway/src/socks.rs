//! SOCKS version 5 (RFC 1928), the server's side: CONNECT without authentication. No I/O.

use std::net::{IpAddr, SocketAddr};

use crate::protocol::{Destination, Host, Reason};

const VERSION: u8 = 5;
const CONNECT: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
/// A greeting has at most 257 bytes, a request 262.
pub(crate) const MESSAGE_MAX: usize = 262;

/// The answer to a greeting that offers no authentication.
pub(crate) const ACCEPTED: [u8; 2] = [VERSION, NO_AUTHENTICATION];
/// The answer to one that doesn't.
pub(crate) const NO_METHOD: [u8; 2] = [VERSION, 0xff];

/// What the beginning of a client's bytes is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parsed<T> {
    /// More bytes are needed.
    Partial,
    /// A whole message, and its length.
    Whole(T, usize),
    /// Not SOCKS 5, or a request that this server refuses with this code of section 6.
    Wrong(u8),
}

/// Parses a greeting (section 3). The value says whether the client offers to do without authentication.
pub(crate) fn greeting(bytes: &[u8]) -> Parsed<bool> {
    match bytes {
        [] | [VERSION] => Parsed::Partial,
        [VERSION, count, methods @ ..] => match methods.get(..usize::from(*count)) {
            Some(methods) => Parsed::Whole(methods.contains(&NO_AUTHENTICATION), 2 + usize::from(*count)),
            None => Parsed::Partial,
        },
        _ => Parsed::Wrong(1),
    }
}

/// Parses a request (section 4).
pub(crate) fn request(bytes: &[u8]) -> Parsed<Destination> {
    let [version, command, _, kind, rest @ ..] = bytes else {
        return if bytes.first().is_some_and(|version| *version != VERSION) {
            Parsed::Wrong(1)
        } else {
            Parsed::Partial
        };
    };
    if *version != VERSION {
        return Parsed::Wrong(1);
    }
    if *command != CONNECT {
        return Parsed::Wrong(7);
    }
    let (len, rest) = match kind {
        1 => (4, rest),
        4 => (16, rest),
        3 => match rest {
            [] => return Parsed::Partial,
            [len, rest @ ..] => (usize::from(*len), rest),
        },
        _ => return Parsed::Wrong(8),
    };
    let Some((host, rest)) = rest.split_at_checked(len) else { return Parsed::Partial };
    let [high, low, ..] = *rest else { return Parsed::Partial };
    let host = match (kind, <[u8; 4]>::try_from(host), <[u8; 16]>::try_from(host)) {
        (1, Ok(ip), _) => Some(Host::Ip(IpAddr::from(ip))),
        (4, _, Ok(ip)) => Some(Host::Ip(IpAddr::from(ip).to_canonical())),
        _ => std::str::from_utf8(host).ok().and_then(Host::parse),
    };
    let port = u16::from_be_bytes([high, low]);
    let consumed = 4 + usize::from(*kind == 3) + len + 2;
    match host {
        Some(host) if port != 0 => Parsed::Whole(Destination { host, port }, consumed),
        // General failure: a name that can't be one.
        _ => Parsed::Wrong(1),
    }
}

/// Returns the reply to a request that succeeded. `at` is the far side's address in the connection, if it is known.
pub(crate) fn success(at: Option<SocketAddr>) -> Vec<u8> {
    reply(0, at)
}

/// Returns the reply to a request that failed.
pub(crate) fn failure(code: u8) -> Vec<u8> {
    reply(code, None)
}

/// Returns the code of section 6 for a reason.
pub(crate) const fn code(reason: Reason) -> u8 {
    match reason {
        Reason::NotAllowed => 2,
        Reason::NetworkUnreachable => 3,
        // 4 is also what clients show best for names and time-outs: RFC 1928 has no code for them.
        Reason::HostUnreachable | Reason::NameNotFound | Reason::TimedOut => 4,
        Reason::Refused => 5,
        _ => 1,
    }
}

fn reply(code: u8, at: Option<SocketAddr>) -> Vec<u8> {
    let at = at.unwrap_or(SocketAddr::new([0, 0, 0, 0].into(), 0));
    let mut bytes = vec![VERSION, code, 0];
    match at.ip() {
        IpAddr::V4(ip) => {
            bytes.push(1);
            bytes.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(4);
            bytes.extend_from_slice(&ip.octets());
        }
    }
    bytes.extend_from_slice(&at.port().to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests;
