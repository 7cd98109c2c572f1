//! The command line of `strandline load sip`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use strandline::{Address, ParseAddressError};

use super::encryption::SctpEncryption;
use super::plan::Scenario;

/// The transport of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum Transport {
    /// UDP; requests are retransmitted as in RFC 3261
    Udp,
    /// TCP
    Tcp,
    /// SCTP over UDP, or over IP
    Sctp,
    /// TLS over TCP
    Tls,
}

impl Transport {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Sctp => "SCTP",
            Self::Tls => "TLS",
        }
    }

    /// Returns the transport parameter of URIs.
    pub(super) const fn uri_parameter(self) -> &'static str {
        match self {
            Self::Udp => "",
            Self::Tcp => ";transport=tcp",
            Self::Sctp => ";transport=sctp",
            Self::Tls => ";transport=tls",
        }
    }
}

/// The lifetime of a TCP connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum Lifetime {
    /// For the whole run
    Persistent,
    /// Opened by a REGISTER; the last --sources of them stay open
    Open,
    /// For one call; the callee listens, and the server connects to it
    Dialog,
    /// For one transaction; the callee listens, and the server connects to it
    Transaction,
}

/// The server's kind of SCTP sockets (RFC 6458).
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
pub enum SctpStyle {
    /// One socket for all associations
    OneToMany,
    /// One socket for each association
    OneToOne,
}

/// What is done before a measurement.
#[derive(Debug, Clone, Copy, clap::Args, Serialize, Deserialize)]
pub struct Preparation {
    /// Remove all contacts of the phones first: those of earlier runs would also be called
    #[arg(long)]
    pub remove_contacts: bool,
    /// Register all phones before the measurement (always done before calls)
    #[arg(long)]
    pub registered: bool,
}

/// Registers phones with a SIP server or lets them call one another through it, and measures its responses.
#[derive(Debug, Clone, clap::Args, Serialize, Deserialize)]
#[command(after_help = "\
Examples:
  strandline load sip register                           64 REGISTERs outstanding over UDP, 10,000 phones
  strandline load sip register --rate 50000 --time 30    50,000 per second, independently of the responses
  strandline load sip register --transport tcp --sources 15000 --users 15000
                                                         over 15,000 persistent connections
  strandline load sip register --transport tcp --lifetime transaction
                                                         with a connection for each REGISTER
  strandline load sip call --transport tcp --lifetime dialog
                                                         with a connection for each call, on both sides
  strandline load sip register --serve --rate 2500       start a server, and measure its resources
  strandline load sip register --transport tls --ca ca.pem --server 127.0.0.1:5061
                                                         over 1,000 TLS connections
  strandline load sip call --transport sctp              calls over 1,000 associations
  strandline load sip register --password secret         with Digest authentication
  strandline load sip call --rate 5000 --json            5,000 calls per second over UDP, machine-readable
  strandline load sip call --offer 1,2,4,10              maximum throughput, and throughput under overload
  strandline load sip --scenario apps/strandline-load/scenarios/options.toml
                                                         a scenario from a file: OPTIONS by each phone
  strandline load sip register --registered --watch 1234
                                                         also measure the server, which is process 1234
Without --serve, start the server with: strandline sip --domain example.com")]
pub struct Args {
    /// Scenario to run
    #[arg(value_enum, default_value = "register")]
    pub scenario: Scenario,
    /// Run the scenario of a file instead (docs/load-sip.md)
    #[arg(long = "scenario", value_name = "FILE", conflicts_with_all = ["scenario", "renewals"])]
    pub file: Option<PathBuf>,
    /// Transport of messages
    #[arg(long, value_enum, default_value = "udp")]
    pub transport: Transport,
    /// Lifetime of a TCP connection
    #[arg(long, value_enum, default_value = "persistent")]
    pub lifetime: Lifetime,
    /// IP address of the server, with its UDP, TCP or SCTP port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5060", value_parser = strandline::socket_address)]
    pub server: SocketAddr,
    /// Start a server, and measure it
    #[arg(long, conflicts_with_all = ["server", "encapsulation", "watch"])]
    pub serve: bool,
    /// Kind of SCTP sockets of the server
    #[arg(long, value_enum, requires = "serve")]
    pub sctp_style: Option<SctpStyle>,
    /// Store the bindings in an SQLite file, which is removed at the end
    #[arg(long, requires = "serve")]
    pub durable: bool,
    /// Pin the server to the first core and the load to the second
    #[arg(long, requires = "serve")]
    pub apart: bool,
    /// UDP port of the server that carries SCTP; 0 for SCTP over IP (requires CAP_NET_RAW)
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub encapsulation: u16,
    /// Encryption of SCTP
    #[command(flatten)]
    pub encryption: SctpEncryption,
    /// Domain of the phones
    #[arg(long, value_name = "NAME", default_value = "example.com")]
    pub domain: String,
    /// Number of phones
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub users: u32,
    /// Number of the first phone, so that concurrent runs use different phones
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub first: u32,
    /// Number of sockets, connections or associations that the phones share; with --lifetime open, of
    /// connections that stay open; with dialog and transaction, of addresses at which phones are called
    /// [default: 16 for UDP, 10,000 for open, otherwise 1,000]
    #[arg(long, value_name = "N")]
    pub sources: Option<usize>,
    /// Local addresses of the sources; a link-local one needs its interface, as in fe80::1%eth1 [default: if
    /// the server is in 127.0.0.0/8, 127.0.0.2 to 127.0.0.65, over SCTP to 127.0.0.9]
    #[arg(long, value_name = "ADDRESS,...", value_delimiter = ',')]
    #[serde(with = "addresses")]
    pub local: Vec<Address>,
    /// Operations per second, independently of the responses [default: start one when another ends]
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Number of concurrent operations without --rate
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub outstanding: usize,
    /// Number of processes over which phones, sources and operations are distributed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub processes: u32,
    /// Duration of the measurement in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub time: f64,
    /// Duration of the warm-up before the measurement in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    pub warm_up: f64,
    /// Seconds after which an operation fails
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub timeout: f64,
    /// Expiration of registrations in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub expires: u32,
    /// PEM file with the trusted certificates; required with --transport tls
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Name or address to expect in the server's certificate [default: the address of --server]
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// Password of all phones (users u0, u1, ...), to answer challenges
    #[arg(long, value_name = "TEXT")]
    pub password: Option<String>,
    /// Seconds between keep-alives of each source, which waits 10 s for the response: CRLF over TCP and TLS, STUN
    /// over UDP (RFC 5626), heartbeats over SCTP [default: none]
    #[arg(long, value_name = "SECONDS")]
    pub keep_alive: Option<f64>,
    /// Fraction of operations that are REGISTERs instead of calls, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub renewals: f64,
    /// After the measurement without --rate, offer these multiples of its rate, each for --time, and report the
    /// results
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "rate")]
    pub offer: Vec<f64>,
    #[allow(missing_docs)]
    #[command(flatten)]
    pub preparation: Preparation,
    /// Process ID of the server on this machine, to report the processor time and memory of it and its child
    /// processes
    #[arg(long, value_name = "PID")]
    pub watch: Option<u32>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Writes addresses as text, because a zone has no other form, and reads them.
mod addresses {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use strandline::Address;

    pub(super) fn serialize<S: Serializer>(addresses: &[Address], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(addresses.iter().map(Address::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Address>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

impl Args {
    pub(super) fn sources(&self) -> usize {
        self.sources.unwrap_or(match (self.transport, self.lifetime) {
            (Transport::Udp, _) => 16,
            (_, Lifetime::Open) => 10_000,
            _ => 1000,
        })
    }

    /// Returns the interval of keep-alives, if requested.
    pub(super) fn keep_alive(&self) -> Option<Duration> {
        self.keep_alive.map(Duration::from_secs_f64)
    }

    /// Returns the addresses to send from.
    pub(super) fn local(&self) -> Vec<Address> {
        match self.server.ip() {
            _ if !self.local.is_empty() => self.local.clone(),
            IpAddr::V4(ip) if ip.is_loopback() => {
                // Over SCTP each address is a separate stack.
                let last = if self.transport == Transport::Sctp { 9 } else { 65 };
                (2..=last).map(|last| Address::from([127, 0, 0, last])).collect()
            }
            ip if ip.is_loopback() => vec![ip.into()],
            IpAddr::V4(_) => vec![Ipv4Addr::UNSPECIFIED.into()],
            IpAddr::V6(_) => vec![Ipv6Addr::UNSPECIFIED.into()],
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            bail!("--rate must be more than 0");
        }
        if !self.offer.iter().all(|multiple| *multiple > 0.0 && multiple.is_finite()) {
            bail!("--offer must contain only factors of more than 0");
        }
        let seconds = [self.time, self.timeout, self.warm_up];
        if seconds.iter().any(|time| !(0.0..1e6).contains(time)) || self.time == 0.0 || self.timeout == 0.0 {
            bail!("--time and --timeout must be more than 0, and --warm-up 0 or more");
        }
        if self.first.checked_add(self.users).is_none() {
            bail!("the sum of --first and --users must be at most {}", u32::MAX);
        }
        if self.users < 2 || self.sources() == 0 || self.outstanding == 0 {
            bail!("--users must be at least 2, --sources and --outstanding at least 1");
        }
        if !(1..=64).contains(&self.processes) {
            bail!("--processes must be 1 to 64, not {}", self.processes);
        }
        let processes = self.processes as usize;
        if (self.users as usize) < 2 * processes || self.sources() < processes || self.outstanding < processes
        {
            bail!(
                "with {processes} --processes, --users must be at least 2, --sources and --outstanding at least 1 for each process"
            );
        }
        match (self.transport, &self.ca) {
            (Transport::Tls, None) => {
                bail!(
                    "--transport tls requires --ca with the certificates that the server's certificate chains to"
                )
            }
            (Transport::Tls, Some(_)) => {}
            (_, Some(_)) => bail!("--ca requires --transport tls"),
            (_, None) if self.server_name.is_some() => bail!("--server-name requires --transport tls"),
            (_, None) => {}
        }
        if !(0.0..=1.0).contains(&self.renewals) {
            bail!("--renewals must be a fraction from 0 to 1");
        }
        if !self.serve && (self.durable || self.apart || self.sctp_style.is_some()) {
            bail!("--durable, --apart and --sctp-style require --serve");
        }
        if self.serve && self.transport == Transport::Tls {
            bail!("--serve has no certificate: start strandline sip with one and use --server");
        }
        if self.sctp_style.is_some() && self.transport != Transport::Sctp {
            bail!("--sctp-style requires --transport sctp");
        }
        if self.file.is_some() && self.lifetime != Lifetime::Persistent {
            bail!("--scenario requires --lifetime persistent");
        }
        if let Some(address) = self.local.iter().find(|address| address.lacks_zone()) {
            bail!("--local: {}", ParseAddressError::NoZone(address.ip()));
        }
        if self.keep_alive.is_some_and(|secs| !(0.01..=86_400.0).contains(&secs)) {
            bail!("--keep-alive must be 0.01 to 86400 seconds");
        }
        if self.keep_alive.is_some() && self.lifetime != Lifetime::Persistent {
            bail!("--keep-alive requires --lifetime persistent: other connections are short-lived");
        }
        self.check_lifetime()
    }

    fn check_lifetime(&self) -> Result<()> {
        let (calls, tls) = (self.scenario == Scenario::Call, self.transport == Transport::Tls);
        match self.lifetime {
            Lifetime::Persistent => {}
            Lifetime::Transaction | Lifetime::Open if tls && !calls => {}
            _ if self.transport != Transport::Tcp => {
                bail!(
                    "--lifetime requires --transport tcp; register also allows transaction and open with --transport tls"
                )
            }
            Lifetime::Open if calls => {
                bail!("--lifetime open requires register: calls use dialog, transaction or persistent")
            }
            Lifetime::Dialog if !calls => {
                bail!("--lifetime dialog requires call: REGISTER creates no dialog")
            }
            Lifetime::Open | Lifetime::Dialog | Lifetime::Transaction => {}
        }
        Ok(())
    }
}
