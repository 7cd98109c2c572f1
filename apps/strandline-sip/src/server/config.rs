//! The configuration: TOML, checked as a whole before anything starts.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use strandline_tls::{ClientCertificates, ClientTls, OwnFiles, ServerTls, TlsError};

use crate::auth::{Algorithm, Users};
use crate::registrar::RegistrarSettings;
use crate::service::{Mode, Relay, Settings};
use crate::transaction::{Protocol, Timings, TransactionLimits};

use super::args::Args;
use super::inbox::{Inbox, InboxSettings};
use super::sources::Sources;
use super::style::SctpStyle;

/// What is wrong with a configuration, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{path}: {cause}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It is no TOML, or has a key or value that it must not have.
    #[error("{path}:\n{cause}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What and where.
        cause: Box<toml::de::Error>,
    },
    /// A value that makes no sense.
    #[error("{key}: {message}")]
    Value {
        /// The key, as `table.key`.
        key: String,
        /// What is wrong, and what would be right.
        message: String,
    },
}

fn wrong(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
    ConfigError::Value { key: key.into(), message: message.into() }
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    mode: FileMode,
    domains: Vec<String>,
    listen: Vec<FileListen>,
    store: FileStore,
    auth: Option<FileAuth>,
    registrar: FileRegistrar,
    timers: FileTimers,
    relay: FileRelay,
    limits: FileLimits,
    overload: FileOverload,
    metrics: FileMetrics,
    tls: Option<FileTls>,
}

#[derive(Debug, Deserialize, Default, Clone, Copy)]
#[serde(rename_all = "kebab-case")]
enum FileMode {
    #[default]
    Proxy,
    FrontEnd,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileListen {
    protocol: String,
    address: SocketAddr,
    advertise: Option<String>,
    sctp_port: Option<u16>,
    style: Option<SctpStyle>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileStore {
    kind: Option<String>,
    path: Option<PathBuf>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileRegistrar {
    expires_default_secs: Option<u32>,
    expires_min_secs: Option<u32>,
    expires_max_secs: Option<u32>,
    contacts_max: Option<usize>,
    outbound: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAuth {
    realm: String,
    users: PathBuf,
    algorithms: Option<Vec<String>>,
    nonce_lifetime_secs: Option<u64>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileTimers {
    t1_ms: Option<u64>,
    t2_ms: Option<u64>,
    t4_ms: Option<u64>,
    c_secs: Option<u64>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileRelay {
    open: bool,
    from: Vec<String>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileLimits {
    users_max: Option<usize>,
    transactions_max: Option<usize>,
    connections_max: Option<usize>,
    message_header_bytes_max: Option<usize>,
    message_body_bytes_max: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTls {
    certificate: PathBuf,
    key: PathBuf,
    ca: Option<PathBuf>,
    client_certificates: Option<String>,
    #[serde(default)]
    peers: Vec<String>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileMetrics {
    address: Option<SocketAddr>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct FileOverload {
    patience_ms: Option<u64>,
    queue_bytes_max: Option<usize>,
    refusals_per_sec_max: Option<u32>,
    source_messages_per_sec_max: Option<u32>,
    source_connections_max: Option<u32>,
}

/// What is done when there is more than can be done.
#[derive(Debug, Clone, Copy)]
pub struct Overload {
    pub(super) settings: InboxSettings,
    /// Who is refused may be told so, so often.
    pub(super) refusals_per_sec: u32,
    pub(super) source_messages_per_sec: Option<u32>,
    pub(super) source_connections: Option<u32>,
}

impl Overload {
    /// The inbox; `key` must be random.
    pub(super) fn inbox(&self, key: [u8; 16]) -> Inbox {
        let sources = self.source_messages_per_sec.map(|per_sec| Sources::new(per_sec, key));
        Inbox::new(self.settings, sources, key)
    }
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// For what.
    pub protocol: Protocol,
    /// Where; of SCTP, the UDP socket that carries it.
    pub address: SocketAddr,
    /// The host that others are told.
    pub advertise: Option<String>,
    /// The SCTP port.
    pub sctp_port: u16,
    /// Its sockets.
    pub sctp_style: SctpStyle,
}

/// A configuration that makes sense.
#[derive(Debug, Clone)]
pub struct Config {
    /// Of the service. Its addresses are known once it listens.
    pub settings: Settings,
    /// Where to listen.
    pub listen: Vec<Listen>,
    /// The SQLite file; memory only without it.
    pub store: Option<PathBuf>,
    /// Who has to prove who they are; nobody without it.
    pub auth: Option<Auth>,
    /// Connections at most.
    pub connections_max: usize,
    /// Too much to do.
    pub overload: Overload,
    /// Where metrics are.
    pub metrics: Option<SocketAddr>,
    /// Certificates.
    pub tls: Option<Tls>,
}

/// What TLS needs.
#[derive(Debug, Clone)]
pub struct Tls {
    /// For connections that are accepted.
    pub server: ServerTls,
    /// For those that are opened, if anybody is trusted.
    pub client: Option<ClientTls>,
    /// Domains whose owners may send requests for other hosts.
    pub peers: Vec<String>,
}

/// How users prove who they are.
#[derive(Debug, Clone)]
pub struct Auth {
    /// The realm.
    pub realm: String,
    /// The users and their secrets.
    pub users: Users,
    /// What is offered, the most preferred first.
    pub algorithms: Vec<Algorithm>,
    /// How long a nonce can be used.
    pub nonce_lifetime: Duration,
}

impl Config {
    /// Reads the file that the command line names, and adds what else stands there.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn of(args: &Args) -> Result<Self, ConfigError> {
        let file = match &args.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let mut config = check(file)?;
        for text in &args.listen {
            config.listen.push(parse_listen(text, args.sctp_style)?);
        }
        for domain in &args.domain {
            config.settings.domains.push(check_domain("--domain", domain)?);
        }
        if config.listen.is_empty() {
            let local = |protocol, port| Listen {
                protocol,
                address: SocketAddr::from(([127, 0, 0, 1], port)),
                advertise: None,
                sctp_port: 5060,
                sctp_style: args.sctp_style,
            };
            config.listen =
                vec![local(Protocol::Udp, 5060), local(Protocol::Tcp, 5060), local(Protocol::Sctp, 9899)];
        }
        for listen in &mut config.listen {
            listen.advertise = listen.advertise.take().or_else(|| args.advertise.clone());
            check_listen(listen)?;
        }
        if config.tls.is_none() && config.listen.iter().any(|listen| listen.protocol == Protocol::Tls) {
            return Err(wrong("tls", "needed to listen for tls: a table [tls] with certificate and key"));
        }
        for protocol in Protocol::ALL {
            let count = config.listen.iter().filter(|listen| listen.protocol == protocol).count();
            if count > 1 {
                let name = protocol.in_uri();
                return Err(wrong("listen", format!("{count} entries for {name}: there can be one of each")));
            }
        }
        config.store = config.store.or_else(|| args.store.clone());
        config.metrics = args.metrics.or(config.metrics);
        config.settings.durable = config.store.is_some();
        config.settings.relay.open |= args.open_relay;
        if args.front_end {
            config.settings.mode = Mode::FrontEnd;
        }
        Ok(config)
    }
}

fn read(path: &Path) -> Result<File, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
    toml::from_str(&text)
        .map_err(|cause| ConfigError::Malformed { path: path.to_owned(), cause: Box::new(cause) })
}

fn check(file: File) -> Result<Config, ConfigError> {
    let defaults = Settings::default();
    let mode = match file.mode {
        FileMode::Proxy => Mode::Proxy,
        FileMode::FrontEnd => Mode::FrontEnd,
    };
    let domains =
        file.domains.iter().map(|domain| check_domain("domains", domain)).collect::<Result<_, _>>()?;
    let listen = file.listen.into_iter().map(file_listen).collect::<Result<_, _>>()?;
    let transactions = file.limits.transactions_max.unwrap_or(defaults.limits.servers_max);
    let mut message = defaults.message;
    let sizes = &file.limits;
    message.header_bytes_max = sizes.message_header_bytes_max.unwrap_or(message.header_bytes_max);
    message.body_bytes_max = sizes.message_body_bytes_max.unwrap_or(message.body_bytes_max);
    let settings = Settings {
        mode,
        domains,
        relay: Relay { open: file.relay.open, from: networks(&file.relay.from)? },
        registrar: check_registrar(&file.registrar)?,
        users_max: file.limits.users_max.unwrap_or(defaults.users_max),
        timings: check_timers(&file.timers)?,
        limits: TransactionLimits { servers_max: transactions, clients_max: transactions },
        message,
        ..defaults
    };
    let connections_max = file.limits.connections_max.unwrap_or(1_000_000);
    let auth = file.auth.map(check_auth).transpose()?;
    let (store, overload) = (check_store(file.store)?, check_overload(&file.overload)?);
    let metrics = file.metrics.address;
    let tls = file.tls.map(check_tls).transpose()?;
    Ok(Config { settings, listen, store, auth, connections_max, overload, metrics, tls })
}

fn file_listen(listen: FileListen) -> Result<Listen, ConfigError> {
    let protocol = protocol("listen.protocol", &listen.protocol)?;
    for (key, there) in [("sctp_port", listen.sctp_port.is_some()), ("style", listen.style.is_some())] {
        if there && protocol != Protocol::Sctp {
            let message = format!("goes with protocol = \"sctp\", not {:?}", listen.protocol);
            return Err(wrong(format!("listen.{key}"), message));
        }
    }
    Ok(Listen {
        protocol,
        address: listen.address,
        advertise: listen.advertise,
        sctp_port: listen.sctp_port.unwrap_or(5060),
        sctp_style: listen.style.unwrap_or_default(),
    })
}

fn protocol(key: &str, name: &str) -> Result<Protocol, ConfigError> {
    Protocol::from_uri(name.as_bytes())
        .ok_or_else(|| wrong(key, format!("{name:?} is none of \"udp\", \"tcp\", \"sctp\" and \"tls\"")))
}

fn parse_listen(text: &str, sctp_style: SctpStyle) -> Result<Listen, ConfigError> {
    let form =
        || wrong("--listen", format!("{text:?} is not like udp:192.0.2.1:5060 or tcp:[2001:db8::1]:5060"));
    let (name, address) = text.split_once(':').ok_or_else(form)?;
    let protocol = protocol("--listen", name)?;
    let address = address.parse().map_err(|_| form())?;
    Ok(Listen { protocol, address, advertise: None, sctp_port: 5060, sctp_style })
}

fn check_listen(listen: &Listen) -> Result<(), ConfigError> {
    match &listen.advertise {
        None if listen.address.ip().is_unspecified() => Err(wrong(
            "listen.advertise",
            format!("needed with address {}: phones must be told a name or an address", listen.address),
        )),
        Some(host) => check_domain("listen.advertise", host).map(|_| ()),
        None => Ok(()),
    }
}

fn check_domain(key: &str, domain: &str) -> Result<String, ConfigError> {
    let lower = domain.to_ascii_lowercase();
    let host = if lower.parse::<IpAddr>().is_ok() {
        Ok(())
    } else {
        crate::codec::Host::parse(lower.as_bytes()).map(|_| ())
    };
    host.map_err(|_| wrong(key, format!("{domain:?} is neither a name nor an address")))?;
    Ok(lower)
}

fn check_store(store: FileStore) -> Result<Option<PathBuf>, ConfigError> {
    match (store.kind.as_deref(), store.path) {
        (None | Some("memory"), None) => Ok(None),
        (Some("memory"), Some(_)) => Err(wrong("store.path", "goes with kind = \"sqlite\"")),
        (None | Some("sqlite"), Some(path)) => Ok(Some(path)),
        (Some("sqlite"), None) => Err(wrong("store.path", "needed with kind = \"sqlite\"")),
        (Some(kind), _) => Err(wrong("store.kind", format!("{kind:?} is neither \"memory\" nor \"sqlite\""))),
    }
}

fn check_auth(file: FileAuth) -> Result<Auth, ConfigError> {
    if file.realm.is_empty() || file.realm.chars().any(|char| char.is_control() || matches!(char, '"' | '\\'))
    {
        return Err(wrong(
            "auth.realm",
            "must be a text without quotes and backslashes, such as \"example.com\"",
        ));
    }
    let text = std::fs::read_to_string(&file.users)
        .map_err(|cause| ConfigError::Unreadable { path: file.users.clone(), cause })?;
    let users = Users::read(&text)
        .map_err(|error| wrong("auth.users", format!("{}, {error}", file.users.display())))?;
    let names = file.algorithms.unwrap_or_else(|| vec!["SHA-256".to_owned(), "MD5".to_owned()]);
    let known = |name: &String| {
        let message = || format!("{name:?} is none of \"SHA-256\", \"SHA-512-256\" and \"MD5\"");
        Algorithm::from_name(name.as_bytes()).ok_or_else(|| wrong("auth.algorithms", message()))
    };
    let algorithms: Vec<Algorithm> = names.iter().map(known).collect::<Result<_, _>>()?;
    if algorithms.is_empty() {
        return Err(wrong("auth.algorithms", "at least one is needed"));
    }
    let nonce_lifetime = Duration::from_secs(file.nonce_lifetime_secs.unwrap_or(300));
    Ok(Auth { realm: file.realm, users, algorithms, nonce_lifetime })
}

fn check_registrar(file: &FileRegistrar) -> Result<RegistrarSettings, ConfigError> {
    let defaults = RegistrarSettings::default();
    let settings = RegistrarSettings {
        expires_default_secs: file.expires_default_secs.unwrap_or(defaults.expires_default_secs),
        expires_min_secs: file.expires_min_secs.unwrap_or(defaults.expires_min_secs),
        expires_max_secs: file.expires_max_secs.unwrap_or(defaults.expires_max_secs),
        contacts_max: file.contacts_max.unwrap_or(defaults.contacts_max),
        outbound: file.outbound.unwrap_or(defaults.outbound),
        ..defaults
    };
    if settings.expires_min_secs > 3600 {
        // RFC 3261 section 10.3: an hour must never be refused.
        return Err(wrong(
            "registrar.expires_min_secs",
            "more than 3600 would refuse what must not be refused",
        ));
    }
    if settings.expires_max_secs < settings.expires_min_secs {
        return Err(wrong("registrar.expires_max_secs", "less than expires_min_secs"));
    }
    let range = settings.expires_min_secs..=settings.expires_max_secs;
    if !range.contains(&settings.expires_default_secs) {
        return Err(wrong(
            "registrar.expires_default_secs",
            "not between expires_min_secs and expires_max_secs",
        ));
    }
    if settings.contacts_max == 0 {
        return Err(wrong("registrar.contacts_max", "0 would let nobody register"));
    }
    Ok(settings)
}

fn check_tls(file: FileTls) -> Result<Tls, ConfigError> {
    let clients = match file.client_certificates.as_deref() {
        None if file.ca.is_some() && !file.peers.is_empty() => ClientCertificates::Optional,
        None | Some("none") => ClientCertificates::None,
        Some("optional") => ClientCertificates::Optional,
        Some("required") => ClientCertificates::Required,
        Some(other) => {
            let message = format!("{other:?} is none of \"none\", \"optional\" and \"required\"");
            return Err(wrong("tls.client_certificates", message));
        }
    };
    if file.ca.is_none() && (clients != ClientCertificates::None || !file.peers.is_empty()) {
        return Err(wrong("tls.ca", "needed to check the certificates of clients and peers"));
    }
    let peers = file.peers.iter().map(|peer| check_domain("tls.peers", peer)).collect::<Result<_, _>>()?;
    let own = OwnFiles { certificate: file.certificate, key: file.key };
    let broken = |error: TlsError| wrong("tls", error.to_string());
    let server = ServerTls::new(&own, file.ca.as_deref(), clients).map_err(broken)?;
    let client = file.ca.as_deref().map(|ca| ClientTls::new(ca, Some(&own))).transpose().map_err(broken)?;
    Ok(Tls { server, client, peers })
}

fn check_overload(file: &FileOverload) -> Result<Overload, ConfigError> {
    let defaults = InboxSettings::default();
    let within = |key: &str, value: u64, least: u64, most: u64| match value {
        value if (least..=most).contains(&value) => Ok(value),
        value => Err(wrong(format!("overload.{key}"), format!("{value} is not between {least} and {most}"))),
    };
    let patience_ms = file.patience_ms.unwrap_or(defaults.patience.as_millis() as u64);
    // Longer than half of T1, and senders over UDP ask again before they are refused.
    let patience = Duration::from_millis(within("patience_ms", patience_ms, 10, 250)?);
    let bytes_max = file.queue_bytes_max.unwrap_or(defaults.bytes_max) as u64;
    let bytes_max = within("queue_bytes_max", bytes_max, 1 << 20, 1 << 36)? as usize;
    let some = |key: &str, value: Option<u32>, most: u32| {
        let checked = value.map(|value| within(key, value.into(), 1, most.into())).transpose()?;
        Ok(checked.map(|_| value.unwrap_or(most)))
    };
    Ok(Overload {
        settings: InboxSettings { patience, bytes_max },
        refusals_per_sec: file.refusals_per_sec_max.unwrap_or(50_000),
        source_messages_per_sec: some(
            "source_messages_per_sec_max",
            file.source_messages_per_sec_max,
            1_000_000,
        )?,
        source_connections: some("source_connections_max", file.source_connections_max, u32::MAX)?,
    })
}

fn check_timers(file: &FileTimers) -> Result<Timings, ConfigError> {
    let defaults = Timings::default();
    let millis = |key: &str, value: Option<u64>, default: Duration, max: u64| match value {
        None => Ok(default),
        Some(value) if (10..=max).contains(&value) => Ok(Duration::from_millis(value)),
        Some(value) => Err(wrong(format!("timers.{key}"), format!("{value} is not between 10 and {max}"))),
    };
    let t1 = millis("t1_ms", file.t1_ms, defaults.t1, 10_000)?;
    let t2 = millis("t2_ms", file.t2_ms, defaults.t2, 60_000)?;
    let t4 = millis("t4_ms", file.t4_ms, defaults.t4, 60_000)?;
    let c = file.c_secs.map_or(defaults.c, Duration::from_secs);
    if c < Duration::from_secs(181) {
        // RFC 3261 section 16.6, step 11.
        return Err(wrong("timers.c_secs", "must be more than 180"));
    }
    Ok(Timings { t1, t2, t4, c })
}

fn networks(texts: &[String]) -> Result<Vec<(IpAddr, u8)>, ConfigError> {
    let network = |text: &String| {
        let form = || wrong("relay.from", format!("{text:?} is not like 192.0.2.0/24 or 2001:db8::/32"));
        let (address, prefix) = text.split_once('/').map_or((text.as_str(), None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(most), |prefix| prefix.parse().map_err(|_| form()))?;
        if prefix > most { Err(form()) } else { Ok((address, prefix)) }
    };
    texts.iter().map(network).collect()
}
