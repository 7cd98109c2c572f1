//! Settings of a service.

use core::net::{IpAddr, SocketAddr};

use crate::codec::{Host, Limits};
use crate::registrar::RegistrarSettings;
use crate::transaction::{Protocol, Timings, TransactionLimits};

use super::directory::Directory;

/// The mode of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Registrar and proxy.
    #[default]
    Proxy,
    /// Registrar and redirect server: responds with 302 and the contacts of the user.
    Redirect,
    /// Responds with 200 to every request, as the front end of Ono and Schulzrinne's measurements does.
    FrontEnd,
}

/// An address that a service advertises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// The protocol that it listens for.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
    /// A name or an address, an IPv6 address without brackets.
    host: String,
    /// The host as an address, if it is one: parsed once, because each message needs it.
    ip: Option<IpAddr>,
}

impl Advertised {
    /// `host` is a name or an address, an IPv6 address without brackets.
    #[must_use]
    pub fn new(protocol: Protocol, host: String, port: u16) -> Self {
        // As in URIs, where zeros in front don't matter.
        let ip = host.parse::<IpAddr>().ok().or_else(|| Host::parse(host.as_bytes()).ok()?.ip());
        Self { protocol, port, host, ip }
    }

    /// The host as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.host
    }

    /// The host as written in Via.
    #[must_use]
    pub fn host(&self) -> Host<'_> {
        match self.ip {
            Some(IpAddr::V4(address)) => Host::V4(address),
            Some(IpAddr::V6(address)) => Host::V6(address),
            None => Host::Name(self.host.as_bytes()),
        }
    }
}

/// Senders whose requests may go to other hosts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Relay {
    /// Every sender: an open relay, for closed networks only.
    pub open: bool,
    /// Senders in one of these networks: address and length of the prefix.
    pub from: Vec<(IpAddr, u8)>,
}

impl Relay {
    /// Whether requests of this sender may go to other hosts.
    #[must_use]
    pub fn allows(&self, peer: &SocketAddr) -> bool {
        self.open || self.names(peer)
    }

    /// Whether a sender is in one of the networks.
    pub(super) fn names(&self, peer: &SocketAddr) -> bool {
        is_in(&self.from, peer)
    }
}

/// Networks beside those of [`Relay`] whose assertions of identity are passed on (RFC 3325).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trusted(pub Vec<(IpAddr, u8)>);

impl Trusted {
    /// Whether a peer is in one of the networks.
    pub(super) fn contains(&self, peer: &SocketAddr) -> bool {
        is_in(&self.0, peer)
    }
}

fn is_in(networks: &[(IpAddr, u8)], peer: &SocketAddr) -> bool {
    networks.iter().any(|(network, prefix)| contains(*network, *prefix, peer.ip().to_canonical()))
}

/// Whether an address is in a network, given as an address and the length of its prefix.
pub(crate) fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            let shift = 32u32.saturating_sub(u32::from(prefix));
            (u64::from(network.to_bits()) >> shift) == (u64::from(address.to_bits()) >> shift)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            network.to_bits() & mask == address.to_bits() & mask
        }
        _ => false,
    }
}

/// All settings of a service.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The mode.
    pub mode: Mode,
    /// Domains of its users, in lower case. Its addresses are domains too.
    pub domains: Vec<String>,
    /// Its addresses.
    pub advertised: Vec<Advertised>,
    /// Senders whose requests may go to other hosts.
    pub relay: Relay,
    /// Networks whose assertions of identity are passed on.
    pub trusted: Trusted,
    /// Aliases, and routes to trunks.
    pub directory: Directory,
    /// Registrations.
    pub registrar: RegistrarSettings,
    /// The value of Service-Route in answers to REGISTER (RFC 3608); empty for none.
    pub service_route: Vec<u8>,
    /// Maximum number of users.
    pub users_max: usize,
    /// The values of timers.
    pub timings: Timings,
    /// Limits of transactions.
    pub limits: TransactionLimits,
    /// Limits of a message.
    pub message: Limits,
    /// Maximum size of a request in a datagram, in bytes; a larger one goes over TCP to where that is
    /// possible (RFC 3261 section 18.1.1). 0 for no limit.
    pub udp_request_bytes_max: usize,
    /// Maximum number of names of other hosts that are known at once; 0 to locate none.
    pub names_max: usize,
    /// Bindings are stored: a 200 to REGISTER is held until they are durable.
    pub durable: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Proxy,
            domains: Vec::new(),
            advertised: Vec::new(),
            relay: Relay::default(),
            trusted: Trusted::default(),
            directory: Directory::default(),
            registrar: RegistrarSettings::default(),
            service_route: Vec::new(),
            users_max: 2_000_000,
            timings: Timings::default(),
            limits: TransactionLimits::default(),
            message: Limits::default(),
            udp_request_bytes_max: 1300,
            names_max: 0,
            durable: false,
        }
    }
}

impl Settings {
    /// Whether phones get GRUUs: requests to these must not be redirected (RFC 5627 section 6.1).
    #[must_use]
    pub fn gives_gruus(&self) -> bool {
        self.registrar.gruu && self.mode == Mode::Proxy
    }

    /// Its address for a protocol.
    #[must_use]
    pub fn address(&self, protocol: Protocol) -> Option<&Advertised> {
        self.advertised.iter().find(|advertised| advertised.protocol == protocol)
    }

    /// Whether this is one of its addresses.
    #[must_use]
    pub fn is_here(&self, host: &Host<'_>, port: u16) -> bool {
        self.advertised.iter().any(|advertised| advertised.port == port && advertised.host() == *host)
    }

    /// Whether this is a domain of its users.
    #[must_use]
    pub fn is_domain(&self, host: &Host<'_>, port: Option<u16>) -> bool {
        let here =
            || port.is_none_or(|port| self.advertised.iter().any(|advertised| advertised.port == port));
        let named = || match host {
            // The usual spelling is compared first, as it is faster.
            Host::Name(name) => {
                let is = |domain: &String| domain.as_bytes() == *name;
                self.domains.iter().any(is)
                    || self.domains.iter().any(|domain| Host::Name(domain.as_bytes()) == *host)
            }
            Host::V4(_) | Host::V6(_) => false,
        };
        (named() && here()) || self.is_here(host, port.unwrap_or(Protocol::Udp.default_port()))
    }
}
