//! DNS queries, made through a library. Only the request concerned waits for them.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{TokioResolver, system_conf};

use crate::resolution::{
    Answer, Found, Naptr, NoAnswer, Ours, QueryResult, Question, Records, Srv, locate_servers,
};

/// Lifetime of a negative result without a TTL.
const NEGATIVE: Duration = Duration::from_secs(30);
/// Lifetime of the negative result for a name that DNS can't represent.
const IMPOSSIBLE: Duration = Duration::from_secs(3600);
/// Timeout of a whole lookup, as a multiple of the timeout of one query.
const STEPS: u32 = 3;
/// The result of a failed lookup, which is not repeated for a while.
pub(super) const NOBODY: Answer = Answer { found: Found::NoAnswer, ttl: Duration::from_secs(5) };

/// Settings of name resolution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dns {
    /// Name servers; if empty, those of the system.
    pub(super) servers: Vec<SocketAddr>,
    /// Timeout of one query.
    pub(super) timeout: Duration,
    /// Maximum number of cached names and results.
    pub(super) cache_max: usize,
    /// Whether the system's hosts file is used.
    pub(super) hosts: bool,
}

/// Queries name servers.
#[derive(Debug)]
pub(super) struct Resolver {
    dns: TokioResolver,
    ours: Ours,
    timeout: Duration,
}

impl Resolver {
    /// Creates a resolver with the configured name servers, or else those of the system.
    pub(super) fn new(dns: &Dns, ours: Ours) -> Result<Self, NetError> {
        let (config, mut options) = if dns.servers.is_empty() {
            system_conf::read_system_conf()?
        } else {
            let servers = dns.servers.iter().map(|server| name_server(*server)).collect();
            (ResolverConfig::from_name_servers(servers), ResolverOpts::default())
        };
        options.timeout = dns.timeout;
        options.attempts = 1;
        options.cache_size = dns.cache_max as u64;
        options.use_hosts_file = if dns.hosts { ResolveHosts::Always } else { ResolveHosts::Never };
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let dns_client = builder.with_options(options).build()?;
        Ok(Self { dns: dns_client, ours, timeout: dns.timeout * STEPS })
    }

    /// Finds the servers of a name. Fails on timeout.
    pub(super) async fn locate_servers(&self, question: &Question) -> Answer {
        let located = locate_servers(question, &self.ours, self);
        tokio::time::timeout(self.timeout, located).await.unwrap_or(NOBODY)
    }

    async fn records<T>(
        &self,
        name: &str,
        kind: RecordType,
        mut read: impl FnMut(&RData) -> Option<T>,
    ) -> QueryResult<T> {
        // The final dot makes the name absolute, so that no search domain is appended.
        let whole = format!("{}.", name.trim_end_matches('.'));
        let Ok(name) = Name::from_ascii(whole) else { return Ok((Vec::new(), IMPOSSIBLE)) };
        match self.dns.lookup(name, kind).await {
            Ok(lookup) => {
                let records = lookup.answers().iter().filter_map(|record| read(&record.data)).collect();
                Ok((records, lookup.valid_until().saturating_duration_since(now())))
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(none)))
                if matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
            {
                let ttl = none.negative_ttl.map(|secs| Duration::from_secs(secs.into()));
                Ok((Vec::new(), ttl.unwrap_or(NEGATIVE)))
            }
            Err(error) => {
                tracing::debug!(%error, "DNS query failed");
                Err(NoAnswer)
            }
        }
    }
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

/// The clock by which the library reports how long a result is valid.
#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

fn naptr_in(data: &RData) -> Option<Naptr> {
    match data {
        RData::NAPTR(naptr) if naptr.regexp.is_empty() => Some(Naptr {
            order: naptr.order,
            preference: naptr.preference,
            flags: naptr.flags.clone(),
            service: naptr.services.clone(),
            replacement: naptr.replacement.to_ascii().into(),
        }),
        _ => None,
    }
}

fn srv_in(data: &RData) -> Option<Srv> {
    match data {
        RData::SRV(srv) => Some(Srv {
            priority: srv.priority,
            weight: srv.weight,
            port: srv.port,
            target: srv.target.to_ascii().into(),
        }),
        _ => None,
    }
}

fn address_in(data: &RData) -> Option<IpAddr> {
    match data {
        RData::A(address) => Some(IpAddr::V4(address.0)),
        RData::AAAA(address) => Some(IpAddr::V6(address.0)),
        _ => None,
    }
}

impl Records for Resolver {
    async fn naptr(&self, name: &str) -> QueryResult<Naptr> {
        self.records(name, RecordType::NAPTR, naptr_in).await
    }

    async fn srv(&self, name: &str) -> QueryResult<Srv> {
        self.records(name, RecordType::SRV, srv_in).await
    }

    async fn addresses(&self, name: &str, v6: bool) -> QueryResult<IpAddr> {
        self.records(name, if v6 { RecordType::AAAA } else { RecordType::A }, address_in).await
    }
}

#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
