//! The options of the command line.

use std::path::PathBuf;

use super::file::{Access, File, Forward, Peer, Protocol, Proxy, Transparent};
use super::mapping_args::MappingArgs;

/// `strandline gateway`: both roles in one program.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Read this configuration file (TOML); options add to it
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    pub(crate) check: bool,
    /// Accept associations of peers at this UDP address and port, or at several of one port, and connect
    /// onward for them
    #[arg(long, value_name = "ADDRESS:PORT[,...]")]
    listen: Option<String>,
    /// Allow peers to connect to this destination: an address, a network, a name (*.example for all below it) or *
    #[arg(long, value_name = "HOST:PORT")]
    allow: Vec<String>,
    /// Allow peers to send UDP datagrams to this destination
    #[arg(long, value_name = "HOST:PORT")]
    allow_udp: Vec<String>,
    /// Allow peers to listen on TCP here, for their --reverse
    #[arg(long, value_name = "ADDRESS:PORT")]
    allow_listen: Vec<String>,
    /// Allow peers to receive UDP datagrams here, for their --reverse udp/
    #[arg(long, value_name = "ADDRESS:PORT")]
    allow_listen_udp: Vec<String>,
    /// A far gateway: its name here, and its UDP addresses, several if it is multi-homed
    #[arg(long, value_name = "NAME=HOST:PORT[,HOST:PORT]")]
    peer: Vec<String>,
    /// Serve SOCKS5 here (at 127.0.0.1 if only a port is given)
    #[arg(long, value_name = "[ADDRESS:]PORT[=PEER]")]
    socks: Vec<String>,
    /// Serve HTTP CONNECT here
    #[arg(long, value_name = "[ADDRESS:]PORT[=PEER]")]
    http_connect: Vec<String>,
    /// Serve programs of `strandline run` here
    #[arg(long, value_name = "[ADDRESS:]PORT[=PEER]")]
    preload: Vec<String>,
    /// Accept connections here, and let the peer connect to HOST:PORT; with udp/ before, datagrams
    #[arg(long, value_name = "[udp/][ADDRESS:]PORT=[PEER:]HOST:PORT")]
    forward: Vec<String>,
    /// Let the peer accept connections there, and connect to HOST:PORT here; with udp/ before, datagrams
    #[arg(long, value_name = "[udp/][ADDRESS:]PORT=[PEER:]HOST:PORT")]
    reverse: Vec<String>,
    /// Accept connections that nftables redirects here (redirect, dnat), and let the peer connect to their destinations
    #[arg(long, value_name = "[ADDRESS:]PORT[=PEER]")]
    redirect: Vec<String>,
    /// Accept connections of other hosts that nftables diverts here (tproxy; needs CAP_NET_ADMIN)
    #[arg(long, value_name = "[ADDRESS:]PORT[=PEER]")]
    tproxy: Vec<String>,
    /// Capture connections to this network: sets rules of nftables that bring them to --redirect and
    /// --tproxy, or to a port of its own, until the gateway ends; with ! before, leave it out
    #[arg(long, value_name = "[!]NETWORK[:PORTS]")]
    capture: Vec<String>,
    /// Encrypt with the key in this file, as strandline keygen makes it
    /// [default: ~/.config/strandline/key.pem, if it exists]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Peers to trust: SHA256:FINGERPRINT, a file of known hosts or of authorities' certificates, first-use for unknown
    /// far gateways, anyone for peers without a key; repeatable [default: ~/.config/strandline/known_hosts]
    #[arg(long, value_name = "WHO")]
    trust: Vec<String>,
    /// Encrypt nothing and authenticate no peer, although a key exists or others can reach --listen
    #[arg(long, conflicts_with_all = ["key", "trust"])]
    insecure: bool,
    #[command(flatten)]
    mapping: MappingArgs,
    #[command(flatten)]
    ways: Ways,
    #[command(flatten)]
    admin: Admin,
    /// Append a line of JSON for each connection to this file (-: standard output). SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    #[command(flatten)]
    associations: Associations,
    /// Report the addresses as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the gateway is watched and changed.
#[derive(Debug, Clone, Default, clap::Args)]
struct Admin {
    /// Serve status and Prometheus metrics at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    admin: Option<String>,
    /// Reload and restart only for requests with the token in this file, also from other machines
    #[arg(long, value_name = "FILE")]
    admin_token: Option<PathBuf>,
}

/// How clients are served.
#[derive(Debug, Clone, Default, clap::Args)]
struct Ways {
    /// Serve only clients of this network, an address included: needed where other machines can reach
    /// --socks, --http-connect or --forward; repeatable
    #[arg(long, value_name = "NETWORK")]
    from: Vec<String>,
    /// Answer SOCKS, CONNECT and `strandline run` before the destination has: saves a round trip, and
    /// failures become resets
    #[arg(long)]
    early_reply: bool,
}

/// How associations work.
#[derive(Debug, Clone, Default, clap::Args)]
struct Associations {
    /// Congestion control: bbr, cubic, rfc9260, dctcp or swift. Default: bbr
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Send over all paths to a peer with several addresses at once: coupled (together as fair as one flow) or
    /// independent (paths that share no link). Default: off, one path and the others in reserve
    #[arg(long, value_name = "off|coupled|independent")]
    multipath: Option<String>,
    /// Threads, and engines for SCTP. Default: one for each core with --listen, otherwise one for each peer
    #[arg(long, value_name = "NUMBER")]
    shards: Option<u16>,
}

impl Associations {
    fn add_to(&self, file: &mut File) {
        replace(&mut file.congestion, &self.congestion);
        replace(&mut file.multipath, &self.multipath);
        replace(&mut file.shards, &self.shards);
    }
}

/// Puts the value of an option, if it was given, in the place of a file's.
fn replace<T: Clone>(place: &mut Option<T>, value: &Option<T>) {
    if value.is_some() {
        place.clone_from(value);
    }
}

impl Args {
    /// Returns whether a file is read.
    pub(crate) const fn has_file(&self) -> bool {
        self.config.is_some()
    }

    /// Returns whether an option replaces this key of a file.
    pub(super) fn replaces(&self, key: &str) -> bool {
        match key {
            "listen" => self.listen.is_some(),
            "admin" => self.admin.admin.is_some(),
            "admin_token" => self.admin.admin_token.is_some(),
            "congestion" => self.associations.congestion.is_some(),
            "multipath" => self.associations.multipath.is_some(),
            "shards" => self.associations.shards.is_some(),
            "insecure" => self.insecure,
            "encryption" => self.key.is_some() || !self.trust.is_empty(),
            _ => false,
        }
    }

    /// Adds the options to the tables of a file.
    pub(super) fn add_to(&self, file: &mut File) {
        replace(&mut file.listen, &self.listen);
        replace(&mut file.admin, &self.admin.admin);
        replace(&mut file.admin_token, &self.admin.admin_token);
        replace(&mut file.access_log, &self.access_log);
        self.associations.add_to(file);
        file.insecure |= self.insecure;
        if self.key.is_some() || !self.trust.is_empty() {
            let table = file.encryption.get_or_insert_default();
            if self.key.is_some() {
                table.key.clone_from(&self.key);
            }
            table.trust.extend(self.trust.iter().cloned());
        }
        file.peer.extend(self.peer.iter().map(|text| {
            let (name, addresses) = text.split_once('=').unwrap_or((text, ""));
            Peer {
                name: name.to_owned(),
                addresses: addresses.split(',').filter(|part| !part.is_empty()).map(str::to_owned).collect(),
                sctp_port: None,
                keep: Default::default(),
                idle_timeout_secs: None,
                fallback: self.mapping.fallback(),
                wait_ms: None,
                map: self.mapping.map(),
                contexts_max: self.mapping.contexts_max,
                trust: Vec::new(),
                insecure: false,
            }
        }));
        file.map.extend(self.mapping.rules());
        let names: Vec<String> = file.peer.iter().map(|peer| peer.name.clone()).collect();
        let proxy = |text: &String| {
            let (listen, peer) = at_peer(text);
            Proxy { listen, peer, early_reply: self.ways.early_reply, from: self.ways.from.clone() }
        };
        file.socks.extend(self.socks.iter().map(proxy));
        file.http_connect.extend(self.http_connect.iter().map(proxy));
        file.preload.extend(self.preload.iter().map(proxy));
        file.forward.extend(
            self.forward.iter().map(|text| Forward { from: self.ways.from.clone(), ..forward(text, &names) }),
        );
        file.reverse.extend(self.reverse.iter().map(|text| forward(text, &names)));
        let transparent = |text: &String| {
            let (listen, peer) = at_peer(text);
            Transparent { listen, peer, capture: self.capture.clone(), from: self.ways.from.clone() }
        };
        file.redirect.extend(self.redirect.iter().map(transparent));
        file.tproxy.extend(self.tproxy.iter().map(transparent));
        if !self.capture.is_empty() && self.redirect.is_empty() && self.tproxy.is_empty() {
            file.redirect.extend(own_ports(&self.capture));
        }
        self.add_access(file);
    }

    fn add_access(&self, file: &mut File) {
        let all = [&self.allow, &self.allow_udp, &self.allow_listen, &self.allow_listen_udp];
        if all.iter().any(|rules| !rules.is_empty()) {
            // For any peer: the table that is for any, if there is one, since none behind it ever counts.
            let is_for_any = |access: &Access| access.from.is_empty() && access.key.0.is_empty();
            let at = file.access.iter().position(is_for_any).unwrap_or_else(|| {
                file.access.push(Access::default());
                file.access.len() - 1
            });
            if let Some(access) = file.access.get_mut(at) {
                access.allow.extend(self.allow.iter().cloned());
                access.allow_udp.extend(self.allow_udp.iter().cloned());
                access.allow_listen.extend(self.allow_listen.iter().cloned());
                access.allow_listen_udp.extend(self.allow_listen_udp.iter().cloned());
            }
        }
    }
}

/// Returns redirects at any ports of loopback, one for each IP version that is captured.
fn own_ports(captures: &[String]) -> impl Iterator<Item = Transparent> {
    let is_ipv6 = |text: &String| text.matches(':').count() > 1;
    let of_version = move |(listen, wants_ipv6): (&str, bool)| {
        let capture: Vec<String> =
            captures.iter().filter(|text| is_ipv6(text) == wants_ipv6).cloned().collect();
        let is_any = capture.iter().any(|text| !text.starts_with('!'));
        is_any.then(|| Transparent { listen: listen.to_owned(), peer: None, capture, from: Vec::new() })
    };
    [("127.0.0.1:0", false), ("[::1]:0", true)].into_iter().filter_map(of_version)
}

/// Splits `ADDRESS:PORT=PEER`.
fn at_peer(text: &str) -> (String, Option<String>) {
    match text.split_once('=') {
        Some((listen, peer)) => (listen.to_owned(), Some(peer.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// Splits `ADDRESS:PORT=PEER:HOST:PORT`, in which only the name of a peer is one.
fn forward(text: &str, peers: &[String]) -> Forward {
    let (listen, rest) = text.split_once('=').unwrap_or((text, ""));
    let (protocol, listen) = match listen.strip_prefix("udp/") {
        Some(listen) => (Protocol::Udp, listen),
        None => (Protocol::Tcp, listen),
    };
    let named = rest.split_once(':').filter(|(name, to)| {
        to.contains(':')
            && !name.starts_with('[')
            && (peers.iter().any(|peer| peer == name) || !to.starts_with(':'))
    });
    let (peer, to) = match named {
        Some((peer, to)) => (Some(peer.to_owned()), to),
        None => (None, rest),
    };
    let (listen, to) = (listen.to_owned(), to.to_owned());
    Forward { listen, peer, to, protocol, lifetime_ms: None, idle_timeout_secs: None, from: Vec::new() }
}
