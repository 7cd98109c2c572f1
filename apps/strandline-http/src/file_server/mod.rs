//! `strandline http serve`: the files of a directory over TCP and SCTP.

mod log;
mod preface;
mod site;
mod tcp;
#[cfg(test)]
pub(crate) mod testing;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use serde::Serialize;
use strandline::{Address, Listener, OutgoingPorts, RawOptions, Stack};
use strandline_output::outln;
use strandline_tls::{ClientCertificates, OwnFiles, ServerTls};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::log::{AccessLog, Format, LoggedBody, Sender, Transport};
use self::site::{Site, alt_svc};
use self::tcp::Limits;
use crate::files::Files;
use crate::server::{ServeOptions, StreamInfo};

/// `strandline http serve`: without options it listens on 127.0.0.1, on TCP and SCTP.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline http serve DIR                           http://127.0.0.1:8080/ on TCP, SCTP port 8080 in UDP port 9899
  strandline http serve DIR --list --access-log -     listings of directories, and a line for each request
  strandline http serve DIR --listen '[::]:443' --certificate cert.pem --key key.pem
                                                      HTTPS on TCP, HTTP on SCTP
Limits, headers and how clients learn of SCTP: docs/http.md")]
pub struct Args {
    /// The directory to serve
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
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
    /// List directories that have no index.html
    #[arg(long)]
    pub list: bool,
    /// Append a line for each request to this file (-: standard output)
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Format of the access log
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "combined")]
    access_log_format: Format,
    /// TCP connections at the same time; further ones wait
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub connections_max: u32,
    /// Seconds for the head of a request to arrive, idle time included
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub head_timeout: u32,
    /// Seconds after which a connection is closed whose client takes nothing
    #[arg(long, value_name = "SECS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub write_timeout: u32,
    /// Seconds that requests in progress have once the server is told to end
    #[arg(long, value_name = "SECS", default_value_t = 30)]
    pub drain_timeout: u32,
    /// Report the addresses as JSON
    #[arg(long)]
    pub json: bool,
}

/// The addresses on which the server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Listening {
    tcp: SocketAddr,
    tls: bool,
    sctp: u16,
    encapsulation: Option<SocketAddr>,
    raw: Option<String>,
}

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: u32 = 64 << 10;

/// Serves until interrupted.
///
/// # Errors
/// If the directory can't be opened or an address can't be listened on.
pub fn run(args: &Args) -> Result<()> {
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(args))
}

/// Raises the limit of open files as far as permitted.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

async fn serve(args: &Args) -> Result<()> {
    let server = Server::bind(args).await?;
    // Before the addresses are announced: a signal may follow at once.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    print(args, &server.listening)?;
    let (tell, told) = watch::channel(0);
    // The first signal ends the server, a second one at once.
    let count = async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            tell.send_modify(|signals| *signals += 1);
        }
    };
    tokio::select! {
        () = count => Ok(()),
        result = server.run(told) => result,
    }
}

/// A server that listens.
#[derive(Debug)]
struct Server {
    listening: Listening,
    site: Arc<Site>,
    tcp: TcpListener,
    tls: Option<ServerTls>,
    sctp: Vec<Listener>,
    limits: Limits,
    drain_timeout: Duration,
}

impl Server {
    /// Opens the directory and the log, and listens.
    async fn bind(args: &Args) -> Result<Self> {
        let files = Files::open(&args.directory, args.list);
        let files = files.with_context(|| format!("opening {}", args.directory.display()))?;
        let log = match &args.access_log {
            Some(path) => {
                let log = AccessLog::open(path, args.access_log_format);
                Some(Arc::new(log.with_context(|| format!("opening {}", path.display()))?))
            }
            None => None,
        };
        let tls = server_tls(args)?;
        let tcp = TcpListener::bind(args.listen).await;
        let tcp = tcp.with_context(|| format!("listening on TCP {}", args.listen))?;
        let stack = Stack::builder().udp(args.encapsulation)?;
        let listener = Listener::bind(&stack, args.sctp)?;
        let port = listener.port();
        let mut sctp = vec![listener];
        if let Some(address) = args.raw {
            let raw = Stack::builder().raw_with(address, RawOptions::default(), OutgoingPorts::default())?;
            sctp.push(Listener::bind(&raw, port)?);
        }
        let encapsulation = stack.local_addr();
        let listening = Listening {
            tcp: tcp.local_addr()?,
            tls: tls.is_some(),
            sctp: port,
            encapsulation,
            raw: args.raw.map(|address| address.to_string()),
        };
        let alt_svc = alt_svc(port, encapsulation.map(|address| address.port()));
        let site = Arc::new(Site { files, log, alt_svc });
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        let limits = Limits {
            connections_max: args.connections_max as usize,
            head_timeout: seconds(args.head_timeout),
            write_timeout: seconds(args.write_timeout),
            head_bytes_max: HEAD_BYTES_MAX,
        };
        Ok(Self { listening, site, tcp, tls, sctp, limits, drain_timeout: seconds(args.drain_timeout) })
    }

    /// Serves until the number of signals is 1, and then until requests in progress are answered, their time is
    /// over, or another signal comes.
    async fn run(self, mut signals: watch::Receiver<u32>) -> Result<()> {
        let options = ServeOptions {
            head_timeout: self.limits.head_timeout,
            write_timeout: self.limits.write_timeout,
            head_bytes_max: HEAD_BYTES_MAX as usize,
            drain_timeout: self.drain_timeout,
            ..ServeOptions::default()
        };
        let (stop, stopping) = watch::channel(());
        let mut tasks = JoinSet::new();
        let site = Arc::clone(&self.site);
        tasks.spawn(tcp::serve(self.tcp, self.tls, site, self.limits, stopping.clone()));
        for listener in self.sctp {
            let (site, mut stopping) = (Arc::clone(&self.site), stopping.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let response = site.answer(&request, sender_of(&request));
                async move { Ok::<Response<LoggedBody>, io::Error>(response) }
            });
            let told = async move { drop(stopping.changed().await) };
            tasks.spawn(crate::server::serve(listener, service, options.clone(), told));
        }
        tokio::select! {
            _ = signals.wait_for(|signals| *signals > 0) => {}
            Some(ended) = tasks.join_next() => anyhow::bail!("a server ended unexpectedly: {ended:?}"),
        }
        drop(stop);
        tokio::select! {
            () = async { while tasks.join_next().await.is_some() {} } => {}
            () = tokio::time::sleep(self.drain_timeout) => {
                tracing::info!("closing connections that are still in use");
            }
            _ = signals.wait_for(|signals| *signals > 1) => {}
        }
        Ok(())
    }
}

fn server_tls(args: &Args) -> Result<Option<ServerTls>> {
    let (Some(certificate), Some(key)) = (&args.certificate, &args.key) else { return Ok(None) };
    let own = OwnFiles { certificate: certificate.clone(), key: key.clone() };
    let tls = ServerTls::new(&own, None, ClientCertificates::None)?;
    Ok(Some(tls.with_alpn(&[b"h2", b"http/1.1"])))
}

fn print(args: &Args, listening: &Listening) -> Result<()> {
    if args.json {
        outln!("{}", serde_json::to_string(listening)?);
        return Ok(());
    }
    let scheme = if listening.tls { "https" } else { "http" };
    outln!("Serving {} until interrupted:", args.directory.display());
    outln!("  TCP    {scheme}://{}/", listening.tcp);
    if let Some(address) = listening.encapsulation {
        outln!("  SCTP   port {}, in UDP at {address}", listening.sctp);
    }
    if let Some(address) = &listening.raw {
        outln!("  SCTP   port {}, on raw IP at {address}", listening.sctp);
    }
    Ok(())
}

fn sender_of(request: &Request<Incoming>) -> Sender {
    let info = request.extensions().get::<StreamInfo>();
    Sender {
        address: info.and_then(|info| info.peer),
        transport: Transport::Sctp,
        stream: info.map(|info| info.stream),
    }
}

#[cfg(test)]
mod tests;
