//! What the library of `strandline run` says first in each connection, and what it is answered. No I/O.
//!
//! crates/strandline-preload/src/request.rs has the diagram.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;

use crate::protocol::Reason;

const MAGIC: [u8; 4] = *b"SLp1";
/// Bytes of a request.
pub(crate) const REQUEST: usize = 36;
/// Most bytes of padding.
const PADDING_MAX: u32 = 1 << 20;

/// What a program asks for. `key` names its socket: SO_COOKIE XOR the secret of `strandline run`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// A connection; so much padding follows.
    Connect { to: SocketAddr, key: u64, padding: usize },
    /// What became of a connection.
    Ask { key: u64 },
}

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Unknown,
    Pending,
    Connected,
    Failed(Reason),
}

/// Parses a request; `None` if it is none.
pub(crate) fn parse(bytes: &[u8; REQUEST]) -> Option<Request> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let ([kind, family], rest) = rest.split_first_chunk()?;
    let (port, rest) = rest.split_first_chunk()?;
    let (octets, rest) = rest.split_first_chunk::<16>()?;
    let (key, padding) = rest.split_first_chunk()?;
    let padding = u32::from_be_bytes(*padding.first_chunk()?);
    if *magic != MAGIC {
        return None;
    }
    let key = u64::from_be_bytes(*key);
    let ip = match (family, octets.split_first_chunk::<4>()?) {
        (4, (v4, rest)) if rest.iter().all(|byte| *byte == 0) => IpAddr::V4(Ipv4Addr::from(*v4)),
        (6, _) => IpAddr::V6(Ipv6Addr::from(*octets)),
        _ => return None,
    };
    let to = SocketAddr::new(ip.to_canonical(), u16::from_be_bytes(*port));
    match kind {
        1 if to.port() != 0 && padding <= PADDING_MAX => {
            Some(Request::Connect { to, key, padding: padding as usize })
        }
        2 if padding == 0 => Some(Request::Ask { key }),
        _ => None,
    }
}

/// Bytes of an answer.
pub(crate) const ANSWER: usize = 32;

/// Returns whether an answer says that the socket is unknown.
pub(crate) fn is_unknown(answer: &[u8]) -> bool {
    answer.get(4) == Some(&0)
}

/// Returns the answer about a connection to a destination.
pub(crate) fn answer(to: Option<SocketAddr>, outcome: Outcome) -> Vec<u8> {
    let (kind, error) = match outcome {
        Outcome::Unknown => (0, 0),
        Outcome::Pending => (1, 0),
        Outcome::Connected => (2, 0),
        Outcome::Failed(reason) => (3, errno(reason).raw_os_error()),
    };
    let (family, octets) = match to.map(|to| to.ip()) {
        None => (0, [0; 16]),
        Some(IpAddr::V4(ip)) => {
            let [a, b, c, d] = ip.octets();
            (4, [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
        }
        Some(IpAddr::V6(ip)) => (6, ip.octets()),
    };
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&[kind, family]);
    bytes.extend_from_slice(&to.map_or(0, |to| to.port()).to_be_bytes());
    bytes.extend_from_slice(&octets);
    bytes.extend_from_slice(&u64::from(error.unsigned_abs()).to_be_bytes());
    bytes
}

/// Returns what a program finds as the error of `connect`.
pub(crate) const fn errno(reason: Reason) -> Errno {
    match reason {
        Reason::Refused => Errno::CONNREFUSED,
        Reason::NetworkUnreachable | Reason::NoAssociation => Errno::NETUNREACH,
        Reason::TimedOut => Errno::TIMEDOUT,
        Reason::NotAllowed => Errno::ACCESS,
        Reason::Limit => Errno::NOBUFS,
        _ => Errno::HOSTUNREACH,
    }
}

#[cfg(test)]
mod tests;
