//! The configuration: a TOML file and the options of the command line, checked as a whole before anything starts.

mod access;
mod addresses;
mod args;
mod duplicates;
mod encryption;
mod file;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod limits;
mod mapping;
mod mapping_args;
mod peers;
mod priority;
mod ways;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use strandline::encryption::{Encryption, Fingerprint, default_key};
use strandline::{Algorithm, Multipath, socket_address};
use strandline_ops::{ConfigError, ConfigErrors, Files, Flaw, parse_document};

pub(crate) use self::addresses::Listen;
pub use self::args::Args;
pub(crate) use self::encryption::Encrypted;
use self::file::File;
pub(crate) use self::file::{Fallback, Keep};
pub(crate) use self::limits::{Limits, flows_max};
pub(crate) use self::mapping::{MapRule, ruled};
pub(crate) use self::priority::{PriorityRule, beginning};
pub(crate) use self::ways::Clients;
use crate::admin_token::AdminToken;
use crate::capture::Capture;
use crate::mapping::Map;
use crate::peer_identity::PeerIdentity;
use crate::protocol::Destination;
use crate::rules::{Network, Rules};
use crate::ruleset::OWN_MARK;

/// SCTP port of gateways.
const SCTP_PORT: u16 = 5101;
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
const WAIT: Duration = Duration::from_secs(5);
const RESTART_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
const LIFETIME: Duration = Duration::from_secs(1);
const FLOW_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

fn wrong(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
    ConfigError::value(key, message)
}

/// A checked configuration.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) listen: Option<Listen>,
    pub(crate) sctp_port: u16,
    pub(crate) encryption: Option<Encrypted>,
    pub(crate) shards: Option<u16>,
    pub(crate) congestion: Algorithm,
    pub(crate) multipath: Multipath,
    pub(crate) admin: Option<SocketAddr>,
    /// What requests must present that change something; `None`: they come from this host.
    pub(crate) admin_token: Option<AdminToken>,
    pub(crate) access_log: Option<PathBuf>,
    pub(crate) drain_timeout: Duration,
    /// Time for which connections may go on after a hot restart.
    pub(crate) restart_timeout: Duration,
    pub(crate) peers: Vec<Peer>,
    pub(crate) listeners: Vec<ListenerConfig>,
    pub(crate) udp_forwards: Vec<UdpForward>,
    pub(crate) reverses: Vec<Reverse>,
    pub(crate) access: Vec<Arc<Access>>,
    /// Which connections become streams: the first that fits.
    pub(crate) map: Vec<Arc<MapRule>>,
    /// Which connections go before others: the first that fits.
    pub(crate) priority: Vec<Arc<PriorityRule>>,
    pub(crate) limits: Limits,
    /// The parsed file, for the differences of a reload.
    pub(crate) document: toml::Table,
    /// What is allowed, but worth a warning.
    pub(crate) flaws: Vec<Flaw>,
}

/// A far gateway.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) addresses: Vec<Destination>,
    pub(crate) sctp_port: u16,
    pub(crate) keep: Keep,
    pub(crate) idle_timeout: Duration,
    pub(crate) fallback: Fallback,
    /// Time that new connections wait for an association.
    pub(crate) wait: Duration,
    /// What becomes of connections of which no rule says anything.
    pub(crate) map: Map,
    /// The most associations with it at the same time.
    pub(crate) contexts_max: u32,
    pub(crate) security: Security,
    /// Something may need an association with it: connections that become streams, UDP flows or listeners there.
    pub(crate) is_needed: bool,
    /// All that makes its association another one, as text.
    pub(crate) identity: String,
}

/// How the association with a peer is encrypted.
#[derive(Debug, Clone)]
pub(crate) enum Security {
    Plain,
    /// As those of the listener.
    Shared,
    /// With a list of whom to trust of its own.
    Own(Box<Encryption>),
}

/// A socket that accepts connections for a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenerConfig {
    pub(crate) kind: ListenerKind,
    /// The number of its entry in the table of its kind.
    pub(crate) place: usize,
    pub(crate) listen: SocketAddr,
    /// Index in [`Settings::peers`].
    pub(crate) peer: usize,
    /// The clients that it is for.
    pub(crate) from: Clients,
}

/// How a connection says where it wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    Socks { early_reply: bool },
    HttpConnect { early_reply: bool },
    Preload { early_reply: bool },
    Forward { to: Destination },
    Redirect { capture: Vec<Capture> },
    Tproxy { capture: Vec<Capture> },
}

impl ListenerKind {
    /// Returns the word for logs and metrics.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Socks { .. } => "socks",
            Self::HttpConnect { .. } => "http_connect",
            Self::Preload { .. } => "preload",
            Self::Forward { .. } => "forward",
            Self::Redirect { .. } => "redirect",
            Self::Tproxy { .. } => "tproxy",
        }
    }

    /// Returns what rules bring to the socket; empty: none are set.
    pub(crate) fn captures(&self) -> &[Capture] {
        match self {
            Self::Redirect { capture } | Self::Tproxy { capture } => capture,
            _ => &[],
        }
    }
}

/// An address at which a peer is asked to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reverse {
    pub(crate) listen: SocketAddr,
    pub(crate) peer: usize,
    pub(crate) to: Destination,
    /// `None`: on TCP.
    pub(crate) udp: Option<FlowTimes>,
}

/// Times of UDP flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlowTimes {
    /// Time for which a datagram may be sent.
    pub(crate) lifetime: Duration,
    /// Time without datagrams after which a flow ends.
    pub(crate) idle_timeout: Duration,
}

/// A socket whose datagrams go to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UdpForward {
    /// The number of its entry in the table of forwards.
    pub(crate) place: usize,
    pub(crate) listen: SocketAddr,
    pub(crate) peer: usize,
    pub(crate) to: Destination,
    pub(crate) times: FlowTimes,
    /// The clients that it is for.
    pub(crate) from: Clients,
}

/// What peers from certain addresses, or with certain keys, may do.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    /// Empty: any.
    from: Vec<Network>,
    /// Empty: any, or none.
    keys: Vec<Fingerprint>,
    pub(crate) allow: Rules,
    pub(crate) allow_udp: Rules,
    pub(crate) allow_listen: Rules,
    pub(crate) allow_listen_udp: Rules,
    /// Whether servers get the client's address (PROXY protocol, version 2).
    pub(crate) proxy_protocol: bool,
}

impl Access {
    pub(crate) fn is_for(&self, peer: PeerIdentity) -> bool {
        let has_address = || self.from.iter().any(|network| network.contains(peer.address));
        let has_key = || peer.key.is_some_and(|key| self.keys.contains(&key));
        (self.from.is_empty() || has_address()) && (self.keys.is_empty() || has_key())
    }

    fn allows_something(&self) -> bool {
        let all = [&self.allow, &self.allow_udp, &self.allow_listen, &self.allow_listen_udp];
        all.into_iter().any(|rules| *rules != Rules::default())
    }

    const fn is_for_any(&self) -> bool {
        self.from.is_empty() && self.keys.is_empty()
    }
}

impl Settings {
    /// Returns what a peer is asked for, for people.
    pub(crate) fn describe(&self, reverse: &Reverse) -> String {
        let peer = self.peers.get(reverse.peer).map_or("", |peer| &peer.name);
        let udp = if reverse.udp.is_some() { "udp/" } else { "" };
        format!("{udp}{} at {peer}, to {}", reverse.listen, reverse.to)
    }

    /// Reads and checks.
    ///
    /// # Errors
    /// If a file can't be read, or something is wrong in it or in the options.
    pub(crate) fn read(args: &Args) -> Result<Self, ConfigError> {
        Self::read_with(args, default_key())
    }

    /// Returns the mark of this gateway's own connections, which rules leave alone; `None` if it sets none.
    pub(crate) fn own_mark(&self) -> Option<u32> {
        self.listeners.iter().any(|entry| !entry.kind.captures().is_empty()).then_some(OWN_MARK)
    }

    /// As [`read`](Self::read), with another default of the key.
    fn read_with(args: &Args, default_key: Option<PathBuf>) -> Result<Self, ConfigError> {
        let Some(path) = &args.config else {
            let mut file = File::default();
            args.add_to(&mut file);
            return check(&file, default_key);
        };
        let text = Files::of_disk().text(path)?;
        let mut file = parse_document(path, &text)?;
        let document = parse_document(path, &text)?;
        args.add_to(&mut file);
        let settings = check(&file, default_key).map_err(|errors| {
            // Values of options replace those of the file, or are behind them.
            errors.in_file_unless(path, &text, |key| args.replaces(key)).in_order()
        })?;
        Ok(Self { document, ..settings })
    }
}

/// Checks all of it, and reports all errors.
fn check(file: &File, default_key: Option<PathBuf>) -> Result<Settings, ConfigError> {
    let mut errors = ConfigErrors::default();
    let mut flaws = Vec::new();
    let listen = errors.take_or(file.listen.as_deref().map(addresses::listen).transpose(), None);
    let mut trusted = encryption::check(file, default_key, &mut errors);
    if let Some(listen) = listen.as_ref().filter(|_| trusted.is_plain()) {
        flaws.extend(errors.take(check_plain(file, listen.socket)).flatten());
    }
    let mut check_peer = |at: usize| {
        let security = encryption::check_peer(at, file, &mut trusted, &mut errors);
        peers::check_peer(at, file, security, &mut errors)
    };
    let mut peers: Vec<Peer> = (0..file.peer.len()).filter_map(&mut check_peer).collect();
    let map = mapping::check(file, &mut errors);
    duplicates::check(file, listen.as_ref().map(|listen| listen.socket), &mut errors);
    let (listeners, udp_forwards) = ways::check(file, &mut errors, &mut flaws);
    let reverses = peers::check_reverses(file, &mut errors);
    if file.listen.is_none() && peers.is_empty() {
        errors.add(wrong(
            "peer",
            "nothing to do: give --listen ADDRESS:PORT, or --peer NAME=HOST:PORT and a listener",
        ));
    }
    let check_access = |(at, access)| access::check(at, access, &trusted, &mut errors);
    let access: Vec<Access> = file.access.iter().enumerate().map(check_access).collect();
    if file.shards.is_some_and(|shards| !(1..=64).contains(&shards)) {
        errors.add(wrong("shards", "a number from 1 to 64"));
    }
    let sctp_port = errors.take_or(sctp_port("sctp_port", file.sctp_port), SCTP_PORT);
    let congestion = errors.take_or(congestion(file), Algorithm::Bbr);
    let multipath = errors.take_or(multipath(file.multipath.as_deref()), Multipath::Off);
    let admin = errors.take(file.admin.as_deref().map(|text| local("admin", text)).transpose()).flatten();
    let admin_token = errors.take(file.admin_token.as_deref().map(AdminToken::read).transpose()).flatten();
    let priority = priority::check(file, &mut errors);
    let limits = limits::check(&file.limits, &mut errors);
    errors.finish()?;
    let encryption = trusted.encryption();
    flaws.extend(encryption::flaws(file, encryption.as_ref(), &peers));
    flaws.extend(mapping::flaws(&map, &peers));
    flaws.extend(peers::on_demand_flaws(&peers, &reverses, &listeners, &udp_forwards));
    peers::note_needed(&mut peers, &map, &reverses, &udp_forwards);
    let settings = Settings {
        listen,
        sctp_port,
        encryption,
        shards: file.shards,
        congestion,
        multipath,
        admin,
        admin_token,
        access_log: file.access_log.clone(),
        restart_timeout: file.restart_timeout_secs.map_or(RESTART_TIMEOUT, seconds),
        drain_timeout: file.drain_timeout_secs.map_or(DRAIN_TIMEOUT, seconds),
        peers,
        listeners,
        udp_forwards,
        reverses,
        access: access.into_iter().map(Arc::new).collect(),
        map,
        priority,
        limits,
        document: toml::Table::new(),
        flaws,
    };
    Ok(Settings { flaws: [settings.flaws.clone(), use_flaws(&settings)].concat(), ..settings })
}

/// Returns what makes a configuration useless, at least in part.
fn use_flaws(settings: &Settings) -> Vec<Flaw> {
    let Settings { listeners, udp_forwards, reverses, access, listen, .. } = settings;
    let mut flaws = Vec::new();
    if listeners.is_empty() && udp_forwards.is_empty() && reverses.is_empty() && listen.is_none() {
        flaws.push(flaw("peer", "no listener: give --socks, --http-connect, --forward or another one"));
    }
    let is_for_any = |access: &Arc<Access>| access.is_for_any();
    if let Some(at) = access.iter().position(is_for_any).filter(|at| at + 1 < access.len()) {
        let text = format!("tables behind access[{at}] never count, because that one is for any peer");
        flaws.push(flaw("access", &text));
    }
    if listen.is_some() && !access.iter().any(|access| access.allows_something()) {
        flaws
            .push(flaw("access.allow", "peers can reach nothing: allow destinations with --allow HOST:PORT"));
    }
    flaws
}

fn congestion(file: &File) -> Result<Algorithm, ConfigError> {
    match &file.congestion {
        Some(name) => {
            name.parse().map_err(|error: strandline::UnknownAlgorithm| wrong("congestion", error.to_string()))
        }
        // As for HTTP: random losses don't slow it down, which one window for all connections would suffer from.
        None => Ok(Algorithm::Bbr),
    }
}

/// Refuses to listen without encryption where other machines can reach it, unless that is said plainly: then
/// it is a flaw.
fn check_plain(file: &File, listen: SocketAddr) -> Result<Option<Flaw>, ConfigError> {
    if listen.ip().to_canonical().is_loopback() {
        return Ok(None);
    }
    if file.insecure {
        return Ok(Some(flaw("listen", "nothing is encrypted, and no peer is authenticated")));
    }
    Err(wrong(
        "listen",
        format!(
            "{listen} is reachable from other machines, and without a key nothing is encrypted and no peer is \
             authenticated: make a key with strandline keygen, listen on 127.0.0.1, or allow it plainly with --insecure \
             (insecure = true), in a network that you trust"
        ),
    ))
}

fn flaw(key: &'static str, message: &str) -> Flaw {
    Flaw { key: key.into(), message: message.to_owned(), is_error: false }
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

fn multipath(name: Option<&str>) -> Result<Multipath, ConfigError> {
    match name {
        None | Some("off") => Ok(Multipath::Off),
        Some("coupled") => Ok(Multipath::Coupled),
        Some("independent") => Ok(Multipath::Independent),
        Some(_) => Err(wrong("multipath", "off, coupled or independent")),
    }
}

fn sctp_port(key: &str, port: Option<u16>) -> Result<u16, ConfigError> {
    match port.unwrap_or(SCTP_PORT) {
        0 => Err(wrong(key, "a number from 1 to 65535")),
        port => Ok(port),
    }
}

fn socket(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    socket_address(text).map_err(|error| wrong(key, error.to_string()))
}

/// Parses an address and port; a port alone is one of 127.0.0.1.
fn local(key: &str, text: &str) -> Result<SocketAddr, ConfigError> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new([127, 0, 0, 1].into(), port)),
        Err(_) => socket(key, text),
    }
}

#[cfg(test)]
mod tests;
