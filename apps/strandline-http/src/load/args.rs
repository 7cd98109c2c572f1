//! The arguments, and the plan that they describe.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;
use hyper::header::{HeaderName, HeaderValue};
use serde::Serialize;
use strandline::{Algorithm, AssociationConfig};
use strandline_measure::raise_open_files;
use url::Url;

use crate::encryption::SctpEncryption;
use crate::urls;

/// Length of a loop for which neither a number nor a duration is given.
const DURATION_SECS: f64 = 5.0;
/// Connections of an open loop over HTTP/1.1 on TCP.
const OPEN_CONNECTIONS: usize = 100;
/// Streams of an association, and requests at the same time on an HTTP/2 connection.
const STREAMS: u16 = 100;
/// Largest number of requests or sessions.
const NUMBER_MAX: u64 = 1_000_000_000;

/// `strandline load http`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline load http --sessions 50 --rate 25 http://127.0.0.1:8080/
                                                as httperf: 50 connections with a request each, 25 a second
  strandline load http --sessions 5 --rate 25 --burst 10 --streams 10 http+sctp://127.0.0.1:8080/
                                                5 associations with 10 requests at once, each on a stream
  strandline load http --concurrency 32 --duration 10 http://127.0.0.1:8080/
                                                closed loop: as many requests as the server answers
  strandline load http --rate 2000 --schedule poisson --json http+sctp://127.0.0.1:8080/
                                                open loop: independent arrivals, latencies since they were due
Kinds of load, figures and JSON: docs/load-http.md")]
pub struct Args {
    /// http:// for TCP, http+sctp:// for SCTP. Requests take several URLs, all of one server, in turn
    #[arg(value_name = "URL", required = true)]
    pub(super) urls: Vec<String>,
    /// Sessions in all, each with connections of its own [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=NUMBER_MAX))]
    pub(super) sessions: Option<u64>,
    /// Requests of each session [default: one of each burst]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=NUMBER_MAX), conflicts_with_all = ["concurrency", "requests", "duration"])]
    pub(super) session_requests: Option<u64>,
    /// Requests sent at once; several numbers are bursts in turn, of which the last repeats [default: 1]
    #[arg(long, value_name = "NUMBER,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with_all = ["concurrency", "requests", "duration"])]
    pub(super) burst: Vec<u32>,
    /// Seconds between the bursts of a session
    #[arg(long, value_name = "SECS", default_value = "0", value_parser = seconds)]
    pub(super) think: Duration,
    /// Closed loop: requests at the same time
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with_all = ["sessions", "rate"])]
    pub(super) concurrency: Option<u32>,
    /// Sessions a second; without --sessions open loop: requests a second
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Times at which sessions or requests begin
    #[arg(long, value_enum, value_name = "NAME", default_value = "uniform")]
    pub(super) schedule: ScheduleKind,
    /// Seed of the schedule
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(super) seed: u64,
    /// Loops: requests in all
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=NUMBER_MAX), conflicts_with_all = ["sessions", "duration"])]
    pub(super) requests: Option<u64>,
    /// Loops: seconds [default: 5]
    #[arg(long, value_name = "SECS", value_parser = seconds, conflicts_with = "sessions")]
    pub(super) duration: Option<Duration>,
    /// Seconds for each of: connecting, the head of a response, its body; 0 for no limit
    #[arg(long, value_name = "SECS", default_value = "15", value_parser = seconds)]
    pub(super) timeout: Duration,
    /// Transport [default: by the URL's scheme]
    #[arg(long, value_enum, value_name = "NAME")]
    pub(super) transport: Option<Transport>,
    /// Connections or associations, of each session or in all [default: 1; loops over HTTP/1.1 on TCP:
    /// --concurrency or 100]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) connections: Option<u32>,
    /// Streams of an association; requests at the same time on an HTTP/2 connection [default: 100]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) streams: Option<u16>,
    /// HTTP/2 over TCP
    #[arg(long)]
    pub(super) http2: bool,
    /// A connection for each request: over TCP a new one, over SCTP on a stream of the same association
    #[arg(long, conflicts_with = "http2")]
    pub(super) no_keep_alive: bool,
    /// A header of each request; repeat for several
    #[arg(long, value_name = "NAME: VALUE", value_parser = header)]
    pub(super) header: Vec<(HeaderName, HeaderValue)>,
    /// UDP port of the server on SCTP
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub(super) encapsulation_port: u16,
    /// Encryption of SCTP
    #[command(flatten)]
    pub(super) encryption: SctpEncryption,
    /// SCTP: congestion control of this side's data: rfc9260, cubic, bbr, dctcp or swift [default: cubic]
    #[arg(long, value_name = "NAME")]
    pub(super) congestion: Option<Algorithm>,
    /// SCTP: use only RFC 9260, its loss recovery, congestion control, acknowledgements and buffers
    #[arg(long)]
    pub(super) rfc9260: bool,
    /// Report the end of each request
    #[arg(long)]
    pub(super) completions: bool,
    /// Show no progress
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Report as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Transport {
    /// HTTP/1.1 or HTTP/2 over TCP
    Tcp,
    /// HTTP/1.1 on the streams of associations
    Sctp,
}

/// Times at which sessions or requests begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ScheduleKind {
    /// Evenly spaced
    Uniform,
    /// Independent of one another
    Poisson,
}

/// A kind of load.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Load {
    Sessions {
        count: u64,
        requests: u64,
        bursts: Vec<u32>,
        think: Duration,
        /// Sessions a second; all begin at once if it is not given.
        rate: Option<f64>,
    },
    Closed {
        concurrency: u32,
        end: End,
    },
    Open {
        rate: f64,
        count: u64,
    },
}

/// The end of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    Requests(u64),
    After(Duration),
}

/// What to do, checked.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) urls: Vec<Url>,
    pub(super) transport: Transport,
    pub(super) load: Load,
    /// Connections or associations of a pool.
    pub(super) connections: usize,
    /// Requests at the same time on a connection or association.
    pub(super) streams: u16,
    /// Time of each stage of a request.
    pub(super) timeout: Option<Duration>,
}

impl Load {
    /// Returns the number of requests, if it is known beforehand.
    pub(super) fn planned(&self) -> Option<u64> {
        match self {
            Self::Sessions { count, requests, .. } => Some(count.saturating_mul(*requests)),
            Self::Closed { end: End::Requests(count), .. } | Self::Open { count, .. } => Some(*count),
            Self::Closed { end: End::After(_), .. } => None,
        }
    }
}

impl Args {
    /// Checks the arguments.
    pub(super) fn plan(&self) -> Result<Plan> {
        let urls = self.urls.iter().map(|text| parse(text)).collect::<Result<Vec<Url>>>()?;
        let first = urls.first().context("a URL is required")?;
        let server =
            |url: &Url| (url.host_str().map(str::to_owned), url.port_or_known_default().or(Some(80)));
        for url in &urls {
            ensure!(server(url) == server(first), "{url} is on another server than {first}");
            ensure!(
                self.transport.is_some() || url.scheme() == first.scheme(),
                "{url} has another scheme than {first}: give --transport"
            );
        }
        let by_scheme = if first.scheme() == "http+sctp" { Transport::Sctp } else { Transport::Tcp };
        let transport = self.transport.unwrap_or(by_scheme);
        self.check(transport)?;
        let load = self.load()?;
        let is_shared = transport == Transport::Sctp || self.http2;
        let connections = match (self.connections, &load) {
            (Some(connections), _) => connections as usize,
            (None, Load::Closed { concurrency, .. }) if !is_shared => *concurrency as usize,
            (None, Load::Open { .. }) if !is_shared => OPEN_CONNECTIONS,
            (None, _) => 1,
        };
        let streams = if is_shared { self.streams.unwrap_or(STREAMS) } else { 1 };
        let timeout = Some(self.timeout).filter(|timeout| !timeout.is_zero());
        let plan = Plan { urls, transport, load, connections, streams, timeout };
        if transport == Transport::Tcp {
            check_descriptors(plan.descriptors(), raise_open_files())?;
        }
        Ok(plan)
    }

    /// Refuses options that the transport doesn't have.
    fn check(&self, transport: Transport) -> Result<()> {
        if transport == Transport::Sctp {
            ensure!(!self.http2, "--http2 requires TCP: a stream of an association carries HTTP/1.1");
            return Ok(());
        }
        let needs_sctp = [(self.congestion.is_some(), "--congestion"), (self.rfc9260, "--rfc9260")];
        for (is_given, name) in needs_sctp {
            ensure!(!is_given, "{name} requires SCTP: use http+sctp:// or --transport sctp");
        }
        ensure!(self.streams.is_none() || self.http2, "--streams requires SCTP or --http2");
        Ok(())
    }

    fn load(&self) -> Result<Load> {
        let duration = self.duration.unwrap_or(Duration::from_secs_f64(DURATION_SECS));
        if let Some(concurrency) = self.concurrency {
            let end = self.requests.map_or(End::After(duration), End::Requests);
            return Ok(Load::Closed { concurrency, end });
        }
        match (self.rate, self.sessions) {
            (Some(rate), None) if self.burst.is_empty() && self.session_requests.is_none() => {
                let count = self.requests.unwrap_or((rate * duration.as_secs_f64()).round() as u64);
                ensure!(
                    (1..=NUMBER_MAX).contains(&count),
                    "--rate for that --duration makes {count} requests: 1 to {NUMBER_MAX} are possible"
                );
                Ok(Load::Open { rate, count })
            }
            (rate, sessions) => {
                ensure!(
                    self.requests.is_none() && self.duration.is_none(),
                    "--requests and --duration end loops: give --concurrency or --rate"
                );
                let bursts = if self.burst.is_empty() { vec![1] } else { self.burst.clone() };
                let requests = self.session_requests.unwrap_or(bursts.iter().copied().map(u64::from).sum());
                let count = sessions.unwrap_or(1);
                Ok(Load::Sessions { count, requests, bursts, think: self.think, rate })
            }
        }
    }

    /// Returns the parameters of associations.
    pub(super) fn association(&self, streams: u16) -> AssociationConfig {
        let base = if self.rfc9260 { AssociationConfig::rfc9260() } else { AssociationConfig::default() };
        AssociationConfig {
            congestion: self.congestion.unwrap_or(base.congestion),
            outbound_streams: streams,
            inbound_streams_max: streams,
            ..base
        }
    }
}

impl Plan {
    /// Returns the number of TCP connections that are certainly open at the same time.
    fn descriptors(&self) -> u64 {
        let pools = match &self.load {
            Load::Sessions { count, rate: None, .. } => *count,
            _ => 1,
        };
        let each = match &self.load {
            Load::Sessions { bursts, .. } => {
                let largest = bursts.iter().copied().max().unwrap_or(1) as usize;
                self.connections.min(largest)
            }
            _ => self.connections,
        };
        pools.saturating_mul(each as u64)
    }
}

/// Refuses more connections than there can be descriptors.
pub(super) fn check_descriptors(connections: u64, most: u64) -> Result<()> {
    ensure!(
        connections <= most,
        "{connections} connections need as many descriptors, and this process may have {most} for them: use \
         fewer connections, or raise the limit (ulimit -n) if that is permitted"
    );
    Ok(())
}

fn parse(text: &str) -> Result<Url> {
    let url = urls::parse(text).map_err(|error| anyhow!("malformed URL {text}: {error}"))?;
    ensure!(
        matches!(url.scheme(), "http" | "http+sctp"),
        "unsupported scheme {}: http:// and http+sctp:// are supported",
        url.scheme()
    );
    ensure!(url.host_str().is_some_and(|host| !host.is_empty()), "{text} has no host");
    ensure!(url.port() != Some(0), "{text}: port 0 can't be connected to");
    Ok(url)
}

fn seconds(text: &str) -> Result<Duration> {
    let seconds: f64 = text.parse().map_err(|_| anyhow!("not a number of seconds"))?;
    ensure!((0.0..=1e6).contains(&seconds), "0 to 1,000,000 seconds are possible");
    Ok(Duration::from_secs_f64(seconds))
}

fn rate(text: &str) -> Result<f64> {
    let rate: f64 = text.parse().map_err(|_| anyhow!("not a number"))?;
    ensure!((1e-3..=1e7).contains(&rate), "0.001 to 10,000,000 a second are possible");
    Ok(rate)
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("expected NAME: VALUE")?;
    Ok((name.trim().parse()?, value.trim().parse()?))
}

#[cfg(test)]
mod tests;
