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
use std::time::Duration;

use serde::Deserialize;
use strandline_ops::{Files, parse_document};

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
use error::{ConfigErrors, wrong};
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
    /// All errors, in the order of the file; those of options come last.
    pub fn of(args: &Args, files: &mut Files) -> Result<Self, ConfigError> {
        let Some(path) = &args.config else {
            return check(args, File::default(), toml::Table::new(), files);
        };
        let text = text_of(files, "--config", path)?;
        let (file, document) = (parse_document(path, &text)?, parse_document(path, &text)?);
        check(args, file, document, files).map_err(|errors| {
            // The value of an option replaces that of the file.
            let is_replaced = |key: &str| args.admin_token.is_some() && key == "admin.token";
            errors.in_file_unless(path, &text, is_replaced).in_order()
        })
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

/// Checks all of it, and reports all errors.
fn check(
    args: &Args,
    mut file: File,
    document: toml::Table,
    files: &mut Files,
) -> Result<Config, ConfigError> {
    let mut all = ConfigErrors::default();
    let errors = &mut all;
    let before = errors.count();
    let mut domains = check_hosts("domains", &file.domains, errors);
    domains.extend(check_hosts("--domain", &args.domain, errors));
    let dns = dns::check(&file.dns, errors);
    let listen = listens(std::mem::take(&mut file.listen), args, errors);
    let are_names_known = errors.count() == before;
    let directory = directory(&file, &domains, dns.is_some(), errors);
    let reached: Vec<Protocol> = listen.iter().map(|(_, listen)| listen.protocol).collect();
    if are_names_known {
        routes::check_reached(&file.route, &reached, errors);
        aliases::check_reached(&file.aliases, &domains, dns.is_some(), &reached, errors);
    }
    let limits = limits::check(&file.limits, errors);
    let settings = settings(&file, domains, directory, &limits, dns.as_ref(), errors);
    let node = node::check(&file.node, errors);
    let (store, store_timeout) = store::check(file.store, node, files, errors);
    let store_read = store.as_ref().map(Option::as_ref);
    let has_tls = file.tls.is_some();
    let mut config = Config {
        auth: file.auth.and_then(|auth| auth::check(auth, store_read, files, errors)),
        store: args.store.clone().map(Store::Sqlite).or(store.flatten()),
        store_timeout,
        connections_max: limits.connections,
        connection_limits: connections::check(&file.connections, errors),
        overload: overload::check(&file.overload, errors),
        metrics: args.metrics.or(file.metrics.address),
        metrics_hosts: check_hosts("metrics.hosts", &file.metrics.hosts, errors),
        tls: file.tls.and_then(|tls| tls::check(tls, files, errors)),
        websocket: websocket::check(file.websocket, errors),
        access: access::check(&file.access, errors),
        dns,
        hep: file.hep.map(|hep| hep::check(hep, files, errors)),
        admin: admin::check(file.admin, args.admin, args.admin_token.as_deref(), files, errors),
        processes: server::check(&file.server, args.processes.as_deref(), errors),
        document,
        listen: Vec::new(),
        settings,
    };
    if config.processes > 1 {
        listen::check_shared(&listen, errors);
    }
    let secure = listen.iter().find(|(_, listen)| listen.protocol.is_secure());
    if let Some((_, secure)) = secure.filter(|_| !has_tls) {
        let name = secure.protocol.name();
        let message = format!("listening for {name} requires a table [tls] with certificate and key");
        errors.add(wrong("tls", message));
    }
    config.listen = listen.into_iter().map(|(_, listen)| listen).collect();
    if are_names_known {
        auth::check_domains(&config, errors);
    }
    all.finish()?;
    config.settings.durable = config.store.is_some();
    config.settings.relay.open |= args.open_relay;
    if args.front_end {
        config.settings.mode = Mode::FrontEnd;
    }
    Ok(config)
}

/// The listening addresses, with the default ones if there are no others.
fn listens(tables: Vec<listen::Table>, args: &Args, errors: &mut ConfigErrors) -> Vec<listen::Keyed> {
    let is_given = !tables.is_empty() || !args.listen.is_empty();
    let tables = tables.into_iter().enumerate();
    let mut all: Vec<listen::Keyed> =
        tables.filter_map(|(at, table)| listen::check(at, table, errors)).collect();
    for text in &args.listen {
        let parsed = errors.take(listen::parse_listen(text, args.sctp_style));
        all.extend(parsed.map(|listen| ("--listen".to_owned(), listen)));
    }
    if !is_given {
        let local = |protocol, port| Listen {
            protocol,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            advertise: None,
            sctp_port: SIP_PORT,
            sctp_style: args.sctp_style,
            sctp_carrier: SctpCarrier::Udp,
            sctp_encryption: None,
        };
        let ports =
            [(Protocol::Udp, SIP_PORT), (Protocol::Tcp, SIP_PORT), (Protocol::Sctp, SCTP_IN_UDP_PORT)];
        all.extend(ports.map(|(protocol, port)| ("--listen".to_owned(), local(protocol, port))));
    }
    if let Some(host) = &args.advertise {
        errors.take(check_domain("--advertise", host));
    }
    for keyed in &mut all {
        match &args.advertise {
            Some(host) if keyed.1.advertise.is_none() => keyed.1.advertise = Some(host.clone()),
            _ => {
                errors.take(listen::check_advertised(keyed));
            }
        }
    }
    listen::check_numbers(&all, errors);
    all
}

/// Aliases and routes. `names`: whether names are resolved.
fn directory(file: &File, domains: &[String], names: bool, errors: &mut ConfigErrors) -> Directory {
    Directory {
        domains: aliases::domains(&file.aliases, domains, errors),
        users: aliases::users(&file.aliases, domains, names, errors),
        routes: routes::check(&file.route, domains, names, errors),
        failover: timers::check_failover(&file.timers, errors),
        offer: file.overload.oc.offer(),
    }
}

/// The settings of the service.
fn settings(
    file: &File,
    domains: Vec<String>,
    directory: Directory,
    limits: &limits::Checked,
    dns: Option<&Dns>,
    errors: &mut ConfigErrors,
) -> Settings {
    Settings {
        mode: match file.mode {
            FileMode::Proxy => Mode::Proxy,
            FileMode::Redirect => Mode::Redirect,
            FileMode::FrontEnd => Mode::FrontEnd,
        },
        domains: domains.into_iter().chain(directory.domains.keys().cloned()).collect(),
        relay: relay::check(&file.relay, errors),
        trusted: identity::check(&file.identity, errors),
        directory,
        registrar: registrar::check(&file.registrar, errors),
        service_route: registrar::service_route(&file.registrar, errors),
        users_max: limits.users,
        timings: timers::check(&file.timers, errors),
        limits: limits.transactions,
        message: limits.message,
        udp_request_bytes_max: limits.udp_request_bytes,
        names_max: dns.map_or(0, |dns| dns.cache_max),
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests;
