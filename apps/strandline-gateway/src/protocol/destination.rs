//! Where a connection leads.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Longest name of a host, in bytes (RFC 1035 section 2.3.4, as text).
const NAME_MAX: usize = 253;

/// A host: an address, or a name that the far side resolves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Ip(IpAddr),
    /// Lower case.
    Name(Box<str>),
}

impl Host {
    /// Returns a host; `None` if the text is neither an address nor a name. Names have letters, digits and
    /// `-`, `_`, `.`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Ip(address.to_canonical()));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_name) {
            return None;
        }
        // Resolvers take `127.1` and `0x7f000001` for addresses: as names they would pass rules for addresses.
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_number = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
        (!is_number).then(|| Self::Name(name.into()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// A host and a TCP port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Destination {
    pub(crate) fn of(address: SocketAddr) -> Self {
        Self { host: Host::Ip(address.ip().to_canonical()), port: address.port() }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wants = || format!("`{text}` is not HOST:PORT, such as db.example:5432 or [2001:db8::1]:80");
        let (host, port) = text.rsplit_once(':').ok_or_else(wants)?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(wants());
        }
        let host = Host::parse(host).ok_or_else(wants)?;
        let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(wants)?;
        Ok(Self { host, port })
    }
}
