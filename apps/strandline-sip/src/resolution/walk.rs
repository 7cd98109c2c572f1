//! Resolves names to servers by NAPTR, SRV and address records (RFC 3263 sections 4.1, 4.2 and 5).

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use futures_util::future::join_all;

use crate::codec::Host;
use crate::transaction::Protocol;

use super::question::Question;
use super::records::{Naptr, NoAnswer, QueryResult, Records, Srv};

/// Maximum number of NAPTR records examined.
const SERVICES_MAX: usize = 16;
/// Maximum number of SRV records examined, in the order of priority.
const TARGETS_MAX: usize = 16;
/// Maximum number of addresses of one target.
const ADDRESSES_MAX: usize = 8;
/// Upper limit of a TTL: a record with a TTL of a week may be outdated tomorrow.
const TTL_MAX: Duration = Duration::from_secs(86_400);
/// Lower limit of a TTL, so that a result can be used at all.
const TTL_MIN: Duration = Duration::from_secs(1);
/// How long a failed query is not repeated (RFC 2308 section 7 allows five minutes).
const NO_ANSWER: Duration = Duration::from_secs(5);

/// The transports with which this server can reach others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ours {
    /// Each transport, and whether it can reach IPv4 and IPv6.
    pub protocols: Vec<(Protocol, bool, bool)>,
}

/// A server with all its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The transport protocol.
    pub protocol: Protocol,
    /// Servers with a lower priority are tried first.
    pub priority: u16,
    /// Relative weight among the servers of one priority.
    pub weight: u16,
    /// The addresses, the preferred ones first.
    pub addresses: Vec<SocketAddr>,
}

/// The outcome of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// At least one server.
    Servers(Vec<Server>),
    /// There is no server.
    Nothing,
    /// The lookup failed.
    NoAnswer,
}

/// The outcome of a lookup and its lifetime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The outcome.
    pub found: Found,
    /// The lifetime: the shortest TTL of all records used.
    pub ttl: Duration,
}

impl Ours {
    fn has(&self, protocol: Protocol) -> bool {
        self.protocols.iter().any(|(ours, ..)| *ours == protocol)
    }

    /// The address families of a transport, IPv6 before IPv4 (RFC 6724, RFC 7984 section 4.2). Callers may
    /// reorder the result.
    fn families(&self, protocol: Protocol) -> Vec<bool> {
        let ours = self.protocols.iter().find(|(ours, ..)| *ours == protocol);
        let (v4, v6) = ours.map_or((false, false), |(_, v4, v6)| (*v4, *v6));
        [true, false].into_iter().filter(|is_v6| if *is_v6 { v6 } else { v4 }).collect()
    }
}

/// Finds the servers for a name, limited to the transports of `ours`.
pub async fn locate_servers(question: &Question, ours: &Ours, records: &impl Records) -> Answer {
    let mut walk = Walk { ours, records, ttl: TTL_MAX, failed: false };
    let mut servers = walk.find(question).await;
    servers.retain(|server| !server.addresses.is_empty());
    let found = match (servers.is_empty(), walk.failed) {
        (false, _) => Found::Servers(servers),
        (true, true) => Found::NoAnswer,
        (true, false) => Found::Nothing,
    };
    let ttl = if walk.failed { walk.ttl.min(NO_ANSWER) } else { walk.ttl };
    Answer { found, ttl: ttl.clamp(TTL_MIN, TTL_MAX) }
}

/// The next lookup for a name.
enum Next {
    Srv(Box<str>),
    Addresses(Box<str>),
}

/// The SRV records of a service.
enum Service {
    Servers(Vec<Server>),
    /// There are no SRV records.
    Unknown,
    /// The records say that the service doesn't exist.
    None,
}

struct Walk<'a, R> {
    ours: &'a Ours,
    records: &'a R,
    ttl: Duration,
    failed: bool,
}

impl<R: Records> Walk<'_, R> {
    fn note<T>(&mut self, result: QueryResult<T>) -> Vec<T> {
        match result {
            Ok((records, ttl)) => {
                self.ttl = self.ttl.min(ttl);
                records
            }
            Err(NoAnswer) => {
                self.failed = true;
                Vec::new()
            }
        }
    }

    async fn find(&mut self, question: &Question) -> Vec<Server> {
        let Question { name, port, protocol, secure } = question;
        match (protocol, port) {
            (Some(protocol), _) if !self.ours.has(*protocol) => Vec::new(),
            (Some(protocol), Some(port)) => self.at(name, *port, *protocol).await,
            (Some(protocol), None) => match self.service(&service_name(*protocol, name), *protocol).await {
                Service::Servers(servers) => servers,
                Service::None => Vec::new(),
                Service::Unknown => self.at(name, protocol.default_port(), *protocol).await,
            },
            (None, _) => self.by_naptr(name, *secure).await,
        }
    }

    /// Lets DNS choose the transport (section 4.1).
    async fn by_naptr(&mut self, name: &str, secure: bool) -> Vec<Server> {
        let records = self.records.naptr(name).await;
        let records = self.note(records);
        if !records.iter().any(is_of_sip) {
            return self.by_preference(name, secure).await;
        }
        for (protocol, next) in services(records, secure, self.ours) {
            let servers = match next {
                Next::Srv(name) => match self.service(&name, protocol).await {
                    Service::Servers(servers) => servers,
                    Service::Unknown | Service::None => Vec::new(),
                },
                Next::Addresses(name) => self.at(&name, protocol.default_port(), protocol).await,
            };
            if servers.iter().any(|server| !server.addresses.is_empty()) {
                return servers;
            }
        }
        Vec::new()
    }

    /// Without NAPTR records, uses the first supported transport that has SRV records. TCP comes first,
    /// because it detects an absent server at once. Without SRV records, uses the default port with UDP or
    /// TLS.
    async fn by_preference(&mut self, name: &str, secure: bool) -> Vec<Server> {
        let (wanted, last): (&[Protocol], _) = if secure {
            (&[Protocol::Tls], Protocol::Tls)
        } else {
            (&[Protocol::Tcp, Protocol::Udp, Protocol::Sctp], Protocol::Udp)
        };
        let mut refused = false;
        for protocol in wanted.iter().filter(|protocol| self.ours.has(**protocol)) {
            match self.service(&service_name(*protocol, name), *protocol).await {
                Service::Servers(servers) => return servers,
                Service::None => refused |= *protocol == last,
                Service::Unknown => {}
            }
        }
        // Without UDP, any supported transport is used.
        let last = self.ours.has(last).then_some(last);
        let other = || wanted.iter().copied().find(|protocol| self.ours.has(*protocol));
        match last.or_else(other) {
            Some(protocol) if !refused => self.at(name, protocol.default_port(), protocol).await,
            _ => Vec::new(),
        }
    }

    /// The servers of a service, from its SRV records.
    async fn service(&mut self, name: &str, protocol: Protocol) -> Service {
        let result = self.records.srv(name).await;
        let mut records = self.note(result);
        if records.is_empty() {
            return Service::Unknown;
        }
        records.retain(|record| !is_root(&record.target));
        if records.is_empty() {
            return Service::None;
        }
        records.sort_by_key(|record| record.priority);
        records.truncate(TARGETS_MAX);
        let (all, families) = (self.records, self.ours.families(protocol));
        let results = join_all(records.iter().map(|record| addresses(all, &record.target, &families))).await;
        let mut servers = Vec::with_capacity(records.len());
        for (Srv { priority, weight, port, .. }, result) in records.into_iter().zip(results) {
            let addresses = self.take(result, port);
            servers.push(Server { protocol, priority, weight, addresses });
        }
        Service::Servers(servers)
    }

    /// A server for a host and a port.
    async fn at(&mut self, name: &str, port: u16, protocol: Protocol) -> Vec<Server> {
        let results = addresses(self.records, name, &self.ours.families(protocol)).await;
        let addresses = self.take(results, port);
        vec![Server { protocol, priority: 0, weight: 0, addresses }]
    }

    fn take(&mut self, results: Vec<QueryResult<IpAddr>>, port: u16) -> Vec<SocketAddr> {
        let all: Vec<IpAddr> = results.into_iter().flat_map(|result| self.note(result)).collect();
        let fit = |address: &IpAddr| {
            let host = match address {
                IpAddr::V4(address) => Host::V4(*address),
                IpAddr::V6(address) => Host::V6(*address),
            };
            host.may_be_sent_to()
        };
        let fitting = all.into_iter().filter(fit).take(ADDRESSES_MAX);
        fitting.map(|address| SocketAddr::new(address, port)).filter(|_| port != 0).collect()
    }
}

async fn addresses(records: &impl Records, name: &str, families: &[bool]) -> Vec<QueryResult<IpAddr>> {
    join_all(families.iter().map(|v6| records.addresses(name, *v6))).await
}

fn is_root(name: &str) -> bool {
    name.is_empty() || name == "."
}

/// The SRV name of a service, such as `_sip._udp.name`.
fn service_name(protocol: Protocol, name: &str) -> String {
    match protocol {
        Protocol::Tls => format!("_sips._tcp.{name}"),
        other => format!("_sip._{}.{name}", other.name()),
    }
}

/// Returns true if the record is about SIP. A domain may have NAPTR records for other services.
fn is_of_sip(record: &Naptr) -> bool {
    let service = record.service.to_ascii_uppercase();
    service.starts_with(b"SIP+") || service.starts_with(b"SIPS+")
}

/// The transport of a NAPTR service (RFC 3263 section 4.1, RFC 4168 section 7).
fn protocol(service: &[u8]) -> Option<Protocol> {
    match service.to_ascii_uppercase().as_slice() {
        b"SIP+D2U" => Some(Protocol::Udp),
        b"SIP+D2T" => Some(Protocol::Tcp),
        b"SIP+D2S" => Some(Protocol::Sctp),
        b"SIPS+D2T" => Some(Protocol::Tls),
        _ => None,
    }
}

/// The usable services, the preferred ones first.
fn services(mut records: Vec<Naptr>, secure: bool, ours: &Ours) -> Vec<(Protocol, Next)> {
    records.sort_by_key(|record| (record.order, record.preference));
    let usable = records.into_iter().filter_map(|record| {
        let protocol = protocol(&record.service)?;
        if !ours.has(protocol) || (secure && protocol != Protocol::Tls) || is_root(&record.replacement) {
            return None;
        }
        match &*record.flags {
            b"s" | b"S" => Some((protocol, Next::Srv(record.replacement))),
            b"a" | b"A" => Some((protocol, Next::Addresses(record.replacement))),
            _ => None,
        }
    });
    usable.take(SERVICES_MAX).collect()
}

#[cfg(test)]
mod tests;
