//! Options that the servers of `strandline http` share.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use strandline::encryption::Encryption;
use strandline::{Address, Algorithm, AssociationConfig};
use strandline_tls::{ClientCertificates, OwnFiles, ServerTls};

use super::log::{AccessLog, Format};
use crate::encryption::SctpEncryption;

/// Where a server listens on TCP and SCTP.
#[derive(Debug, Clone, clap::Args)]
pub struct ListenArgs {
    /// Listen on TCP at this address and port: HTTP/1.1 and HTTP/2
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = strandline::socket_address)]
    pub listen: SocketAddr,
    /// Listen on this SCTP port (0: any): HTTP/1.1 on each stream
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    pub sctp: u16,
    /// Carry SCTP in UDP at this address and port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9899", value_parser = strandline::socket_address)]
    pub encapsulation: SocketAddr,
    /// Carry SCTP on raw IP as well, at this address (needs CAP_NET_RAW)
    #[arg(long, value_name = "ADDRESS")]
    pub raw: Option<Address>,
    /// PEM file with a certificate: TCP speaks TLS
    #[arg(long, value_name = "FILE", requires = "key")]
    pub certificate: Option<PathBuf>,
    /// PEM file with the certificate's key
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// Encryption of SCTP
    #[command(flatten)]
    pub encryption: SctpEncryption,
}

/// What a server does with its connections.
#[derive(Debug, Clone, clap::Args)]
pub struct ConnectionArgs {
    /// Append a line for each request to this file (-: standard output). SIGHUP opens it again
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Format of the access log
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "combined")]
    access_log_format: Format,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub metrics: Option<SocketAddr>,
    /// Threads, and engines for SCTP. Default: one for each core
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub shards: Option<u16>,
    /// Maximum TCP connections (more wait) and, separately, maximum streams over all associations (more are reset)
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_max: u32,
    /// SCTP: congestion control of this side's data: rfc9260, cubic, bbr, dctcp or swift. cubic takes no more than
    /// TCP's share of a short queue
    #[arg(long, value_name = "NAME", default_value = Algorithm::Bbr.name())]
    pub(crate) congestion: Algorithm,
    /// Seconds for the head of a request to arrive, idle time included
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub head_timeout: u32,
    /// Write timeout: reset a connection or HTTP/2 stream whose client reads nothing for SECS
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub write_timeout: u32,
    /// Seconds after which an HTTP/2 connection without requests, or an association without connections on its
    /// streams, is closed
    #[arg(long, value_name = "SECS", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub idle_timeout: u32,
    /// Grace period for requests in progress at shutdown
    #[arg(long, value_name = "SECS", default_value_t = 30)]
    pub drain_timeout: u32,
    /// Report the addresses as JSON
    #[arg(long)]
    pub json: bool,
}

/// Addresses and certificates of a server.
#[derive(Debug)]
pub(crate) struct Addresses {
    pub(crate) tcp: SocketAddr,
    pub(crate) sctp: Option<SctpAddresses>,
    pub(crate) tls: Option<ServerTls>,
}

/// Addresses of a server on SCTP.
#[derive(Debug)]
pub(crate) struct SctpAddresses {
    pub(crate) port: u16,
    pub(crate) encapsulation: SocketAddr,
    pub(crate) raw: Option<Address>,
    pub(crate) association: AssociationConfig,
    pub(crate) encryption: Option<Encryption>,
}

impl ListenArgs {
    /// Reads the certificate. `association` has the parameters of associations.
    pub(crate) fn addresses(&self, association: AssociationConfig) -> Result<Addresses> {
        let encryption = self.encryption.load()?;
        ensure!(
            encryption.is_none() || self.raw.is_none(),
            "--raw can't be encrypted: leave out --raw or --sctp-encrypt"
        );
        let sctp = SctpAddresses {
            port: self.sctp,
            encapsulation: self.encapsulation,
            raw: self.raw,
            association,
            encryption,
        };
        let tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let own = OwnFiles { certificate: certificate.clone(), key: key.clone() };
                let tls = ServerTls::new(&own, None, ClientCertificates::None)?;
                Some(tls.with_alpn(&[b"h2", b"http/1.1"]))
            }
            _ => None,
        };
        Ok(Addresses { tcp: self.listen, sctp: Some(sctp), tls })
    }
}

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: u32 = 64 << 10;

/// Limits of connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connections_max: usize,
    pub(crate) head_timeout: Duration,
    pub(crate) write_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) head_bytes_max: u32,
}

impl ConnectionArgs {
    pub(crate) fn limits(&self) -> Limits {
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        Limits {
            connections_max: self.connections_max as usize,
            head_timeout: seconds(self.head_timeout),
            write_timeout: seconds(self.write_timeout),
            idle_timeout: seconds(self.idle_timeout),
            drain_timeout: seconds(self.drain_timeout),
            head_bytes_max: HEAD_BYTES_MAX,
        }
    }

    /// Returns the parameters of associations.
    pub(crate) fn association(&self) -> AssociationConfig {
        AssociationConfig { congestion: self.congestion, ..AssociationConfig::default() }
    }

    /// Opens the access log.
    pub(crate) fn log(&self) -> Result<Option<Arc<AccessLog>>> {
        let Some(path) = &self.access_log else { return Ok(None) };
        let log: io::Result<AccessLog> = AccessLog::open(path, self.access_log_format);
        Ok(Some(Arc::new(log.with_context(|| format!("opening {}", path.display()))?)))
    }
}
