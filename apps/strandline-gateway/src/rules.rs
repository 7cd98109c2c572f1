//! Which destinations a peer may reach, and where it may make this side listen. No I/O.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::protocol::{Destination, Host};

/// One line of an allow-list: `HOST:PORT`. The host is an address, a network such as `10.0.0.0/8`, a name, a
/// name with all below it (`*.example.com`), or `*`. The port is a number, a range such as `8000-8100`, or
/// `*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rule {
    hosts: Hosts,
    first_port: u16,
    last_port: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    /// All but those that must be listed plainly.
    All,
    Network(IpAddr, u8),
    Name(Box<str>),
    /// Names that end in a dot and this.
    Below(Box<str>),
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wants = || {
            format!(
                "`{text}` is not HOST:PORT: the host is an address, a network (10.0.0.0/8), a name (db.example, *.example) or *, \
                 the port a number, a range (8000-8100) or *"
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wants)?;
        let (first_port, last_port) = parse_ports(port).ok_or_else(wants)?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(wants());
        }
        let hosts = parse_hosts(host).ok_or_else(wants)?;
        Ok(Self { hosts, first_port, last_port })
    }
}

fn parse_ports(text: &str) -> Option<(u16, u16)> {
    if text == "*" {
        return Some((1, u16::MAX));
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first != 0 && first <= last).then_some((first, last))
}

fn parse_hosts(text: &str) -> Option<Hosts> {
    if text == "*" {
        return Some(Hosts::All);
    }
    if let Some(below) = text.strip_prefix("*.") {
        return match Host::parse(below)? {
            Host::Name(name) => Some(Hosts::Below(name)),
            Host::Ip(_) => None,
        };
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Some((network, bits)) = bare.split_once('/') {
        let network: IpAddr = network.parse().ok()?;
        let bits: u8 = bits.parse().ok()?;
        return (bits <= width(network)).then_some(Hosts::Network(network, bits));
    }
    Some(match Host::parse(text)? {
        Host::Ip(ip) => Hosts::Network(ip, width(ip)),
        Host::Name(name) => Hosts::Name(name),
    })
}

const fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// Returns whether the address is in the network.
pub(crate) fn is_within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (ip.to_canonical(), network) {
        (IpAddr::V4(ip), IpAddr::V4(network)) => {
            bits == 0 || (ip.to_bits() ^ network.to_bits()) >> 32_u8.saturating_sub(bits).min(31) == 0
        }
        (IpAddr::V6(ip), IpAddr::V6(network)) => {
            bits == 0 || (ip.to_bits() ^ network.to_bits()) >> 128_u8.saturating_sub(bits).min(127) == 0
        }
        _ => false,
    }
}

/// Addresses at which clouds tell each of their hosts its secrets, besides link-local ones: of Amazon,
/// Google, Alibaba, Azure and Oracle.
const METADATA: [IpAddr; 6] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
];

/// Returns whether an address leads to the gateway's own host or link, to several hosts, or to a cloud's
/// metadata: rules for `*` and for wide networks don't include it. Other addresses of the host are special,
/// too, but only the kernel knows them.
pub(crate) fn is_special(ip: IpAddr) -> bool {
    is_of_host_or_link(ip) || METADATA.contains(&ip)
}

fn is_of_host_or_link(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            ip.is_loopback() || ip.is_link_local() || ip.octets()[0] == 0 || ip.octets()[0] >= 224
        }
        IpAddr::V6(ip) => {
            ip.is_loopback() || ip.is_unspecified() || ip.is_unicast_link_local() || ip.is_multicast()
        }
    }
}

/// Returns whether a rule for a network lists its special addresses plainly.
fn is_plain(network: IpAddr, bits: u8) -> bool {
    bits == width(network) || (is_of_host_or_link(network) && bits >= 8)
}

/// An allow-list. Empty, it allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules(Vec<Rule>);

impl Rules {
    pub(crate) fn new(rules: Vec<Rule>) -> Self {
        Self(rules)
    }

    /// Returns a list of all destinations but those that must be listed plainly.
    pub(crate) fn elsewhere() -> Self {
        Self(vec![Rule { hosts: Hosts::All, first_port: 1, last_port: u16::MAX }])
    }

    /// Returns whether a name may be resolved at all: because a rule lists it, or because one for addresses
    /// may allow what it stands for.
    pub(crate) fn may_resolve(&self, name: &str, port: u16) -> bool {
        let on_port = |rule: &&Rule| rule.has_port(port);
        self.0.iter().filter(on_port).any(|rule| match &rule.hosts {
            Hosts::All | Hosts::Network(..) => true,
            Hosts::Name(_) | Hosts::Below(_) => rule.has_name(name),
        })
    }

    /// Returns whether this address may be connected to. `asked` is the destination as the peer named it: an
    /// address is allowed by itself, or because the name that stands for it is. The latter does not hold for
    /// addresses that must be listed plainly, except for `localhost`; `is_own` says that this is one of the
    /// host.
    pub(crate) fn allow(&self, asked: &Destination, address: SocketAddr, is_own: bool) -> bool {
        let ip = address.ip().to_canonical();
        let is_special = is_own || is_special(ip);
        let mut rules = self.0.iter().filter(|rule| rule.has_port(address.port()));
        rules.any(|rule| match (&rule.hosts, &asked.host) {
            (Hosts::All, _) => !is_special,
            (Hosts::Network(network, bits), _) => {
                is_within(ip, *network, *bits) && (!is_special || is_plain(*network, *bits))
            }
            (Hosts::Name(listed), Host::Name(name)) => {
                listed == name && (!is_special || (&**name == "localhost" && ip.is_loopback()))
            }
            (Hosts::Below(_), Host::Name(name)) => rule.has_name(name) && !is_special,
            (Hosts::Name(_) | Hosts::Below(_), Host::Ip(_)) => false,
        })
    }

    /// Returns how a destination is listed, as it was asked for: nothing is resolved. `None` if it is not.
    /// What must be listed plainly is not listed by `*`.
    pub(crate) fn list(&self, asked: &Destination) -> Option<RuleMatch> {
        let on_port = self.0.iter().filter(|rule| rule.has_port(asked.port));
        on_port.filter_map(|rule| rule.list(asked)).max()
    }

    /// Returns whether a rule fits a destination as it was asked for. `*` stands for all.
    pub(crate) fn fit(&self, asked: &Destination) -> bool {
        self.0.iter().filter(|rule| rule.has_port(asked.port)).any(|rule| match (&rule.hosts, &asked.host) {
            (Hosts::All, _) => true,
            (Hosts::Network(network, bits), Host::Ip(ip)) => is_within(*ip, *network, *bits),
            (Hosts::Name(_) | Hosts::Below(_), Host::Name(name)) => rule.has_name(name),
            _ => false,
        })
    }

    /// Returns whether the peer may make this side listen at an address.
    pub(crate) fn allow_listen(&self, at: SocketAddr) -> bool {
        let ip = at.ip().to_canonical();
        self.0.iter().any(|rule| {
            let has_host = match &rule.hosts {
                Hosts::All => true,
                // The unspecified address stands for all: only a rule for it, or for all, includes it.
                Hosts::Network(network, bits) if ip.is_unspecified() => *network == ip && *bits > 0,
                Hosts::Network(network, bits) => is_within(ip, *network, *bits),
                Hosts::Name(name) => &**name == "localhost" && ip.is_loopback(),
                Hosts::Below(_) => false,
            };
            has_host && rule.has_port(at.port())
        })
    }
}

/// How a destination is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RuleMatch {
    /// As any other.
    BeingAny,
    /// By its address, its network or its name.
    Plainly,
}

impl Rule {
    fn list(&self, asked: &Destination) -> Option<RuleMatch> {
        match (&self.hosts, &asked.host) {
            (Hosts::All, Host::Ip(ip)) => (!is_special(*ip)).then_some(RuleMatch::BeingAny),
            (Hosts::All, Host::Name(_)) => Some(RuleMatch::BeingAny),
            (Hosts::Network(network, bits), Host::Ip(ip)) => {
                let is_plain = !is_special(*ip) || is_plain(*network, *bits);
                (is_within(*ip, *network, *bits) && is_plain).then_some(RuleMatch::Plainly)
            }
            (Hosts::Name(_) | Hosts::Below(_), Host::Name(name)) => {
                self.has_name(name).then_some(RuleMatch::Plainly)
            }
            _ => None,
        }
    }

    fn has_port(&self, port: u16) -> bool {
        (self.first_port..=self.last_port).contains(&port)
    }

    fn has_name(&self, name: &str) -> bool {
        match &self.hosts {
            Hosts::Name(listed) => **listed == *name,
            Hosts::Below(domain) => name.strip_suffix(&**domain).is_some_and(|host| host.ends_with('.')),
            Hosts::All | Hosts::Network(..) => false,
        }
    }
}

/// A network: `192.0.2.0/24`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    ip: IpAddr,
    bits: u8,
}

impl Network {
    pub(crate) fn contains(self, ip: IpAddr) -> bool {
        is_within(ip, self.ip, self.bits)
    }

    pub(crate) const fn is_ipv6(self) -> bool {
        self.ip.is_ipv6()
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match parse_hosts(text) {
            Some(Hosts::Network(ip, bits)) => Ok(Self { ip, bits }),
            _ => Err(format!("`{text}` is neither an address nor a network such as 192.0.2.0/24")),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.bits)
    }
}

#[cfg(test)]
mod tests;
