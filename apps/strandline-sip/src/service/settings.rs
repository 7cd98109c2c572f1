//! What a service is to be.

use core::net::{IpAddr, SocketAddr};

use crate::codec::{Host, Limits};
use crate::registrar::RegistrarSettings;
use crate::transaction::{Protocol, Timings, TransactionLimits};

use super::directory::Directory;

/// What it does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Registrar and proxy.
    #[default]
    Proxy,
    /// Registrar, and 302 with where users are in place of going there.
    Redirect,
    /// Answers 200 to everything, as the front end of Ono and Schulzrinne's measurements does.
    FrontEnd,
}

/// An address under which it is known to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertised {
    /// For what.
    pub protocol: Protocol,
    /// The port.
    pub port: u16,
    /// A name or an address, an IPv6 address without brackets.
    host: String,
    /// The address that it is, if it is one: each message asks for that.
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

    /// The host as it stands in Via.
    #[must_use]
    pub fn host(&self) -> Host<'_> {
        match self.ip {
            Some(IpAddr::V4(address)) => Host::V4(address),
            Some(IpAddr::V6(address)) => Host::V6(address),
            None => Host::Name(self.host.as_bytes()),
        }
    }
}

/// Whose requests go to hosts that are none of ours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Relay {
    /// Everybody's: an open relay, for closed networks only.
    pub open: bool,
    /// Those that come from one of these networks: address and length of its prefix.
    pub from: Vec<(IpAddr, u8)>,
}

impl Relay {
    /// May who sends from here?
    #[must_use]
    pub fn allows(&self, peer: &SocketAddr) -> bool {
        self.open
            || self.from.iter().any(|(network, prefix)| contains(*network, *prefix, peer.ip().to_canonical()))
    }
}

/// Is an address in a network, which is an address and the length of its prefix?
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
    /// What it does.
    pub mode: Mode,
    /// Domains of its users, in small letters. Its addresses are domains too.
    pub domains: Vec<String>,
    /// Its addresses.
    pub advertised: Vec<Advertised>,
    /// Requests for elsewhere.
    pub relay: Relay,
    /// Aliases, and routes to trunks.
    pub directory: Directory,
    /// Registrations.
    pub registrar: RegistrarSettings,
    /// The value of Service-Route in answers to REGISTER (RFC 3608); empty for none.
    pub service_route: Vec<u8>,
    /// Users at most.
    pub users_max: usize,
    /// The values of timers.
    pub timings: Timings,
    /// Transactions at most.
    pub limits: TransactionLimits,
    /// How large a message may be.
    pub message: Limits,
    /// Requests that are larger go over TCP to those who listen there, rather than in a datagram (RFC 3261 section 18.1.1); 0: none.
    pub udp_request_bytes_max: usize,
    /// Names of other hosts that are known at once; they aren't looked up if there may be none.
    pub names_max: usize,
    /// Bindings are written down: a 200 to REGISTER is held until that is done.
    pub durable: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Proxy,
            domains: Vec::new(),
            advertised: Vec::new(),
            relay: Relay::default(),
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
    /// Do phones get GRUUs? They must not be redirected (RFC 5627 section 6.1).
    #[must_use]
    pub fn gives_gruus(&self) -> bool {
        self.registrar.gruu && self.mode == Mode::Proxy
    }

    /// Its address for a protocol.
    #[must_use]
    pub fn address(&self, protocol: Protocol) -> Option<&Advertised> {
        self.advertised.iter().find(|advertised| advertised.protocol == protocol)
    }

    /// Is this one of its addresses?
    #[must_use]
    pub fn is_here(&self, host: &Host<'_>, port: u16) -> bool {
        self.advertised.iter().any(|advertised| advertised.port == port && advertised.host() == *host)
    }

    /// Is this a domain of its users?
    #[must_use]
    pub fn is_domain(&self, host: &Host<'_>, port: Option<u16>) -> bool {
        let here =
            || port.is_none_or(|port| self.advertised.iter().any(|advertised| advertised.port == port));
        let named = || match host {
            // Mostly it is written as it is here: that is seen at once, other spellings byte by byte.
            Host::Name(name) => {
                let is = |domain: &String| domain.as_bytes() == *name;
                self.domains.iter().any(is)
                    || self.domains.iter().any(|domain| Host::Name(domain.as_bytes()) == *host)
            }
            Host::V4(_) | Host::V6(_) => false,
        };
        (named() && here()) || self.is_here(host, port.unwrap_or(5060))
    }
}
