//! IP addresses with the zone of link-local ones.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

use strandline_io::interfaces;
use strandline_proto::zone;
use thiserror::Error;

/// An IP address. A link-local IPv6 address also has a zone (RFC 4007): the link on which it is valid, named by
/// a network interface of this host.
///
/// Parses from text with an optional zone, which is the name or index of an interface: `192.0.2.7`,
/// `2001:db8::7`, `fe80::7%eth1`, `fe80::7%3`. An IPv4-mapped IPv6 address, as IPv6 sockets report IPv4 peers,
/// becomes the IPv4 address.
///
/// ```
/// use strandline::Address;
///
/// let global: Address = "2001:db8::7".parse()?;
/// assert_eq!((global.ip(), global.zone()), ("2001:db8::7".parse()?, 0));
/// let link_local: Address = "fe80::7%3".parse()?;
/// assert_eq!((link_local.ip(), link_local.zone()), ("fe80::7".parse()?, 3));
/// assert_eq!(link_local.to_string(), "fe80::7%3");
/// let mapped: Address = "::ffff:192.0.2.7".parse()?;
/// assert_eq!(mapped, Address::from([192, 0, 2, 7]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    ip: IpAddr,
    zone: u32,
}

impl Address {
    /// Creates an address on the link of the network interface with index `zone`. Only link-local IPv6
    /// addresses have a zone: for others it is 0.
    #[must_use]
    pub fn in_zone(ip: impl Into<IpAddr>, zone: u32) -> Self {
        let ip = ip.into().to_canonical();
        Self { ip, zone: if is_link_local(ip) { zone } else { 0 } }
    }

    /// Returns the IP address, without the zone.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Returns the index of the network interface whose link a link-local address is on; 0 if none was named.
    #[must_use]
    pub fn zone(&self) -> u32 {
        self.zone
    }

    /// True for a link-local IPv6 address without its zone: no socket can be bound or send to it.
    #[must_use]
    pub fn lacks_zone(&self) -> bool {
        self.zone == 0 && is_link_local(self.ip)
    }

    /// The IP address and zone of a socket address. Its port is ignored.
    #[must_use]
    pub fn of(address: SocketAddr) -> Self {
        let zone = match address {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        Self::in_zone(address.ip(), zone)
    }

    /// The address as the engine looks it up.
    pub(crate) fn key(self) -> IpAddr {
        zone::key_of(self.ip, self.zone)
    }

    /// The address of a key of the engine.
    pub(crate) fn of_key(key: IpAddr) -> Self {
        Self::in_zone(zone::bare(key), zone::zone_of(key))
    }

    /// The socket address with a port: for SCTP that is the UDP port of the encapsulation.
    #[must_use]
    pub fn with_port(self, port: u16) -> SocketAddr {
        match self.ip {
            IpAddr::V4(_) => SocketAddr::new(self.ip, port),
            IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(ip, port, 0, self.zone)),
        }
    }
}

/// The socket address that a text names: `192.0.2.7:5060`, `[2001:db8::7]:5060`, or with the zone that a
/// link-local IPv6 address needs, `[fe80::7%eth1]:5060`.
///
/// ```
/// let address = strandline::socket_address("[fe80::7%3]:5060")?;
/// assert_eq!(address.to_string(), "[fe80::7%3]:5060");
/// # Ok::<(), strandline::ParseAddressError>(())
/// ```
///
/// # Errors
/// If it is none, if the zone is no interface of this host, or if it is missing.
pub fn socket_address(text: &str) -> Result<SocketAddr, ParseAddressError> {
    let form = || ParseAddressError::NoSocketAddress(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(form)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    // Of an IPv6 address without brackets the last part could be the port as well.
    if bare.is_none() && host.contains(':') {
        return Err(form());
    }
    let port = port.parse().map_err(|_| form())?;
    let address: Address = match bare.unwrap_or(host).parse() {
        Err(ParseAddressError::NoIp(_)) => return Err(form()),
        parsed => parsed?,
    };
    // Brackets enclose IPv6 addresses, mapped ones too, and nothing else.
    if bare.is_some_and(|bare| !bare.contains(':')) {
        return Err(form());
    }
    if address.lacks_zone() {
        return Err(ParseAddressError::NoZone(address.ip));
    }
    Ok(address.with_port(port))
}

fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

impl From<IpAddr> for Address {
    /// The address without a zone.
    fn from(ip: IpAddr) -> Self {
        Self::in_zone(ip, 0)
    }
}

impl From<Ipv4Addr> for Address {
    /// The address; IPv4 has no zones.
    fn from(ip: Ipv4Addr) -> Self {
        IpAddr::V4(ip).into()
    }
}

impl From<Ipv6Addr> for Address {
    /// The address without a zone.
    fn from(ip: Ipv6Addr) -> Self {
        IpAddr::V6(ip).into()
    }
}

impl From<[u8; 4]> for Address {
    /// An IPv4 address.
    fn from(octets: [u8; 4]) -> Self {
        IpAddr::from(octets).into()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.zone {
            0 => self.ip.fmt(f),
            zone => write!(f, "{}%{zone}", self.ip),
        }
    }
}

/// Why a text is not a valid [`Address`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseAddressError {
    /// The text before the `%`, if any, is not an IP address.
    #[error("{0:?} is not an IP address: expected one such as 192.0.2.7, 2001:db8::7 or fe80::7%eth0")]
    NoIp(String),
    /// A text that should name an IP address and a port doesn't.
    #[error(
        "{0:?} is not an address with a port: expected one such as 192.0.2.7:5060 or [fe80::7%eth0]:5060"
    )]
    NoSocketAddress(String),
    /// The address has a zone and is none of a link.
    #[error("{0} is not link-local: only addresses in fe80::/10 take a zone")]
    NotLinkLocal(IpAddr),
    /// A link-local IPv6 address without a zone, where it needs one.
    #[error("{0} is a link-local address, which each link may have: add the interface, as in {0}%eth0")]
    NoZone(IpAddr),
    /// No network interface has this name or index.
    #[error("{zone:?} is not a network interface of this host: it has {known}")]
    UnknownZone {
        /// The zone as given.
        zone: String,
        /// The names and indexes of the host's interfaces.
        known: String,
    },
}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (ip, zone) = text.split_once('%').map_or((text, None), |(ip, zone)| (ip, Some(zone)));
        let ip: IpAddr = ip.parse().map_err(|_| ParseAddressError::NoIp(text.to_owned()))?;
        let Some(zone) = zone else { return Ok(ip.into()) };
        if !is_link_local(ip) {
            return Err(ParseAddressError::NotLinkLocal(ip));
        }
        Ok(Self { ip, zone: zone_index(zone)? })
    }
}

/// Returns the index of a zone given by name or index. An index is not checked, because interfaces come and go.
fn zone_index(zone: &str) -> Result<u32, ParseAddressError> {
    if let Some(index) = zone.parse().ok().filter(|index| *index != 0) {
        return Ok(index);
    }
    let interfaces = interfaces().unwrap_or_default();
    if let Some((_, index)) = interfaces.iter().find(|(name, _)| name == zone) {
        return Ok(*index);
    }
    let known = interfaces.iter().map(|(name, index)| format!("{name} ({index})"));
    let known = known.collect::<Vec<_>>().join(", ");
    Err(ParseAddressError::UnknownZone { zone: zone.to_owned(), known })
}

#[cfg(test)]
mod tests;
