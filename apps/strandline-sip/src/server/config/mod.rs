//! The configuration: a TOML file, checked as a whole before anything starts. Each table has its own module.

mod access;
mod admin;
mod aliases;
mod auth;
mod connections;
mod dns;
mod error;
mod files;
mod flaws;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod hep;
mod host;
mod identity;
mod limits;
mod listen;
mod metrics;
mod node;
mod overload;
mod registrar;
mod relay;
mod routes;
mod server;
mod store;
mod timers;
mod tls;
mod websocket;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use strandline_ops::Files;

use crate::codec::SIP_PORT;
use crate::resolution::Ours;
use crate::service::{Directory, Mode, Settings};
use crate::transaction::Protocol;

use super::access::Access;
use super::args::Args;
use super::dns::Dns;
use super::hep::HepSettings;
use super::socket::{ConnectionLimits, TlsSides};
use super::style::SctpCarrier;
use super::transports::WebSockets;

pub use admin::Admin;
pub use auth::{Auth, Users};
pub use error::ConfigError;
use error::wrong;
use files::text_of;
use host::{check_domain, check_hosts};
pub use listen::Listen;
pub use overload::Overload;
pub use store::Store;
pub use tls::Tls;

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    mode: FileMode,
    domains: Vec<String>,
    listen: Vec<listen::Table>,
    store: store::Table,
    node: node::Table,
    auth: Option<auth::Table>,
    registrar: registrar::Table,
    timers: timers::Table,
    relay: relay::Table,
    identity: identity::Table,
    limits: limits::Table,
    connections: connections::Table,
    overload: overload::Table,
    metrics: metrics::Table,
    tls: Option<tls::Table>,
    websocket: websocket::Table,
    admin: admin::Table,
    access: access::Table,
    aliases: aliases::Table,
    route: Vec<routes::Table>,
    dns: dns::Table,
    hep: Option<hep::Table>,
    server: server::Table,
}

#[derive(Debug, Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum FileMode {
    #[default]
    Proxy,
    Redirect,
    FrontEnd,
}

/// The UDP port of SCTP in UDP (RFC 6951 section 5.1), as assigned by IANA.
const SCTP_IN_UDP_PORT: u16 = 9899;

/// A valid configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Settings of the service. Its addresses are added once the server listens.
    pub settings: Settings,
    /// The listening addresses.
    pub listen: Vec<Listen>,
    /// The store for bindings; without one, they are kept in memory only.
    pub store: Option<Store>,
    /// How long a response may wait for the store.
    pub store_timeout: Duration,
    /// Authentication; `None` disables it.
    pub auth: Option<Auth>,
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Timeouts and buffer limits of connections.
    pub connection_limits: ConnectionLimits,
    /// Overload control.
    pub overload: Overload,
    /// The address of the metrics page.
    pub metrics: Option<SocketAddr>,
    /// Host names accepted in requests for metrics, besides the address and `localhost`.
    pub metrics_hosts: Vec<String>,
    /// Certificates.
    pub tls: Option<Tls>,
    /// Settings of WebSocket connections.
    pub websocket: WebSockets,
    /// The addresses that may use the server.
    pub access: Access,
    /// Name resolution; `None` disables it.
    pub(super) dns: Option<Dns>,
    /// The collector for copies of messages.
    pub(super) hep: Option<HepSettings>,
    /// Administration over HTTP.
    pub admin: Option<Admin>,
    /// Number of processes, which all serve the same addresses.
    pub processes: u8,
    /// The parsed file.
    pub(super) document: toml::Table,
}

impl Config {
    /// Reads the file named on the command line, and adds the other options.
    ///
    /// # Errors
    /// Returns the first error.
    pub fn of(args: &Args, files: &mut Files) -> Result<Self, ConfigError> {
        let (mut file, document) = match &args.config {
            Some(path) => read(path, files)?,
            None => (File::default(), toml::Table::new()),
        };
        for domain in &args.domain {
            file.domains.push(check_domain("--domain", domain)?);
        }
        let admin = std::mem::take(&mut file.admin);
        let admin = admin::check(admin, args.admin, args.admin_token.as_deref(), files)?;
        let processes = server::check(&file.server, args.processes.as_deref())?;
        let mut config = Self { admin, processes, document, ..check(file, files)? };
        for text in &args.listen {
            config.listen.push(listen::parse_listen(text, args.sctp_style)?);
        }
        if config.listen.is_empty() {
            let local = |protocol, port| Listen {
                protocol,
                address: SocketAddr::from(([127, 0, 0, 1], port)),
                advertise: None,
                sctp_port: SIP_PORT,
                sctp_style: args.sctp_style,
                sctp_carrier: SctpCarrier::Udp,
                sctp_encryption: None,
            };
            config.listen = vec![
                local(Protocol::Udp, SIP_PORT),
                local(Protocol::Tcp, SIP_PORT),
                local(Protocol::Sctp, SCTP_IN_UDP_PORT),
            ];
        }
        for listen in &mut config.listen {
            listen.advertise = listen.advertise.take().or_else(|| args.advertise.clone());
            listen::check_listen(listen)?;
        }
        let secure = config.listen.iter().find(|listen| listen.protocol.is_secure());
        if let Some(secure) = secure.filter(|_| config.tls.is_none()) {
            let name = secure.protocol.name();
            let message = format!("listening for {name} requires a table [tls] with certificate and key");
            return Err(wrong("tls", message));
        }
        for protocol in Protocol::ALL {
            let count = config.listen.iter().filter(|listen| listen.protocol == protocol).count();
            if count > 1 && protocol == Protocol::Sctp {
                listen::check_carriers(&config.listen)?;
            } else if count > 1 {
                let name = protocol.name();
                return Err(wrong("listen", format!("{count} entries for {name}: at most one is allowed")));
            }
        }
        let listens: Vec<Protocol> = config.listen.iter().map(|listen| listen.protocol).collect();
        routes::check_reached(&config.settings.directory, &listens)?;
        auth::check_domains(&config)?;
        config.store = args.store.clone().map(Store::Sqlite).or(config.store);
        config.metrics = args.metrics.or(config.metrics);
        config.settings.durable = config.store.is_some();
        config.settings.relay.open |= args.open_relay;
        if args.front_end {
            config.settings.mode = Mode::FrontEnd;
        }
        if config.processes > 1 {
            listen::check_shared(&config.listen)?;
        }
        Ok(config)
    }
}

impl Config {
    /// The transports for outgoing requests. Connections can use any address family, datagrams only that of
    /// their socket.
    pub(super) fn ours(&self) -> Ours {
        let usable = self.listen.iter().filter(|listen| !listen.protocol.is_websocket());
        let usable = usable.filter(|listen| {
            let trusts = self.tls.as_ref().is_some_and(|tls| tls.client.is_some());
            listen.protocol != Protocol::Tls || trusts
        });
        let one = |listen: &Listen| match listen.protocol {
            Protocol::Udp | Protocol::Sctp => {
                (listen.protocol, listen.address.is_ipv4(), listen.address.is_ipv6())
            }
            other => (other, true, true),
        };
        let mut protocols: Vec<(Protocol, bool, bool)> = Vec::new();
        for (protocol, v4, v6) in usable.map(one) {
            match protocols.iter_mut().find(|known| known.0 == protocol) {
                // SCTP over two carriers.
                Some(known) => *known = (protocol, known.1 | v4, known.2 | v6),
                None => protocols.push((protocol, v4, v6)),
            }
        }
        Ours { protocols }
    }

    /// The TLS settings for both kinds of connections.
    pub(super) fn tls_sides(&self) -> TlsSides {
        self.tls.as_ref().map_or_else(TlsSides::default, |tls| TlsSides {
            server: Some(tls.server.clone()),
            client: tls.client.clone(),
            peers: tls.peers.clone().into(),
        })
    }
}

fn read(path: &Path, files: &mut Files) -> Result<(File, toml::Table), ConfigError> {
    let text = text_of(files, "--config", path)?;
    let malformed = |cause| ConfigError::Malformed { path: path.to_owned(), cause: Box::new(cause) };
    Ok((toml::from_str(&text).map_err(malformed)?, toml::from_str(&text).map_err(malformed)?))
}

fn check(file: File, files: &mut Files) -> Result<Config, ConfigError> {
    let defaults = Settings::default();
    let mode = match file.mode {
        FileMode::Proxy => Mode::Proxy,
        FileMode::Redirect => Mode::Redirect,
        FileMode::FrontEnd => Mode::FrontEnd,
    };
    let domains =
        file.domains.iter().map(|domain| check_domain("domains", domain)).collect::<Result<_, _>>()?;
    let domains: Vec<String> = domains;
    let dns = dns::check(&file.dns)?;
    let directory = Directory {
        domains: aliases::domains(&file.aliases, &domains)?,
        users: aliases::users(&file.aliases, &domains, dns.is_some())?,
        routes: routes::check(&file.route, &domains, dns.is_some())?,
        failover: timers::check_failover(&file.timers)?,
        offer: file.overload.oc.offer(),
    };
    let domains = domains.into_iter().chain(directory.domains.keys().cloned()).collect();
    let limits = limits::check(&file.limits, defaults.users_max, defaults.limits, defaults.message)?;
    let settings = Settings {
        mode,
        domains,
        relay: relay::check(&file.relay)?,
        trusted: identity::check(&file.identity)?,
        directory,
        registrar: registrar::check(&file.registrar)?,
        service_route: registrar::service_route(&file.registrar)?,
        users_max: limits.users,
        timings: timers::check(&file.timers)?,
        limits: limits.transactions,
        message: limits.message,
        udp_request_bytes_max: limits.udp_request_bytes,
        names_max: dns.as_ref().map_or(0, |dns| dns.cache_max),
        ..defaults
    };
    let node = node::check(&file.node)?;
    let (store, store_timeout) = store::check(file.store, node, files)?;
    Ok(Config {
        settings,
        listen: file.listen.into_iter().map(listen::check).collect::<Result<_, _>>()?,
        auth: file.auth.map(|auth| auth::check(auth, store.as_ref(), files)).transpose()?,
        store,
        store_timeout,
        connections_max: limits.connections,
        connection_limits: connections::check(&file.connections)?,
        overload: overload::check(&file.overload)?,
        metrics: file.metrics.address,
        metrics_hosts: check_hosts("metrics.hosts", &file.metrics.hosts)?,
        tls: file.tls.map(|tls| tls::check(tls, files)).transpose()?,
        websocket: websocket::check(file.websocket)?,
        access: access::check(&file.access)?,
        dns,
        hep: file.hep.map(|hep| hep::check(hep, files)).transpose()?,
        admin: None,
        processes: 1,
        document: toml::Table::new(),
    })
}
