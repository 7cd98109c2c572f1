//! What the servers of `strandline http` have in common: listening on TCP and SCTP, time-outs and limits of
//! connections, the access log, metrics, and signals.

pub(crate) mod alt_svc;
mod args;
mod breakable;
mod http2;
pub(crate) mod log;
mod metrics;
mod preface;
mod replies;
mod shards;
mod tcp;
mod tls;
mod traffic;

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use serde::Serialize;
use strandline::{Listener, OutgoingPorts, RawOptions, Stack};
use strandline_ops::{listen_tcp, not_listening};
use strandline_output::outln;
use strandline_tls::ServerTls;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};

pub(crate) use self::args::{Addresses, Limits, SctpAddresses};
pub use self::args::{ConnectionArgs, ListenArgs};
pub(crate) use self::breakable::{Breakable, Lingering};
use self::log::{AccessLog, Line, Sender, Transport};
pub(crate) use self::shards::Shards;
pub(crate) use self::tls::TlsStream;
use self::traffic::{Counted, Traffic};
use crate::server::{Part, ServeOptions, StreamInfo, serve_on};
use crate::streams::{Budget, Settings};

type BoxError = Box<dyn Error + Send + Sync>;

/// What answers the requests of a server, whatever their transport.
pub(crate) trait Handler: Send + Sync + 'static {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static;

    /// Answers a request.
    fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        sender: Sender,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Notes that a request was answered with this status because its head can't be read.
    fn refused(&self, status: StatusCode, version: Version, sender: Sender);

    /// Waits until nothing is left of requests that were answered, such as tunnels.
    fn drained(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Resets what is left of requests that were answered.
    fn cut(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Returns the stacks whose associations end with this value.
    fn stacks(&self) -> Vec<Stack> {
        Vec::new()
    }

    /// Returns the access log.
    fn access_log(&self) -> Option<&Arc<AccessLog>> {
        None
    }
}

/// The addresses on which a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Listening {
    pub(crate) tcp: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) sctp: Option<u16>,
    /// The fingerprint of the key, if SCTP is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sctp_key: Option<String>,
    pub(crate) encapsulation: Option<SocketAddr>,
    pub(crate) raw: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<SocketAddr>,
}

impl Listening {
    /// Returns the header for responses over TCP that announces SCTP; `None` without SCTP, and if it is
    /// encrypted: clients could not know that.
    pub(crate) fn alt_svc(&self) -> Option<HeaderValue> {
        if self.sctp_key.is_some() {
            return None;
        }
        alt_svc::announce(self.sctp?, self.encapsulation.map(|address| address.port()))
    }

    /// Prints the addresses below a heading, or as JSON.
    fn print(&self, heading: &str, is_json: bool) -> Result<()> {
        if is_json {
            outln!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        let scheme = if self.tls { "https" } else { "http" };
        outln!("{heading} until interrupted:");
        outln!("  TCP    {scheme}://{}/", self.tcp);
        if let (Some(port), Some(address)) = (self.sctp, self.encapsulation) {
            let encrypted = if self.sctp_key.is_some() { ", encrypted" } else { "" };
            outln!("  SCTP   port {port}, in UDP at {address}{encrypted}");
        }
        if let (Some(port), Some(address)) = (self.sctp, &self.raw) {
            outln!("  SCTP   port {port}, on raw IP at {address}");
        }
        if let Some(key) = &self.sctp_key {
            outln!("  key    {key}");
        }
        if let Some(address) = self.metrics {
            outln!("  metrics at http://{address}/metrics");
        }
        Ok(())
    }
}

/// Sockets that listen.
#[derive(Debug)]
pub(crate) struct Front {
    pub(crate) listening: Listening,
    tcp: TcpListener,
    tls: Option<ServerTls>,
    sctp: Vec<Arc<Listener>>,
    /// The stacks of the listeners.
    stacks: Vec<Stack>,
    limits: Limits,
    shards: Shards,
}

impl Front {
    /// Listens.
    pub(crate) async fn bind(addresses: Addresses, limits: Limits, shards: Shards) -> Result<Self> {
        let tcp = listen_tcp(addresses.tcp, false).and_then(TcpListener::from_std);
        let tcp =
            tcp.map_err(|error| not_listening(&format!("listening on TCP {}", addresses.tcp), error))?;
        let mut listening = Listening {
            tcp: tcp.local_addr()?,
            tls: addresses.tls.is_some(),
            sctp: None,
            sctp_key: None,
            encapsulation: None,
            raw: None,
            metrics: None,
        };
        let (mut sctp, mut stacks) = (Vec::new(), Vec::new());
        if let Some(addresses) = addresses.sctp {
            let runtimes = shards.runtimes();
            let builder = || {
                let builder = Stack::builder().shards(runtimes.len()).runtimes(runtimes.to_vec());
                builder.association(addresses.association.clone())
            };
            let udp = match &addresses.encryption {
                Some(encryption) => builder().encryption(encryption.clone()),
                None => builder(),
            };
            let stack = udp.udp(addresses.encapsulation)?;
            let listener = Listener::bind(&stack, addresses.port)?;
            let port = listener.port();
            sctp.push(Arc::new(listener));
            if let Some(address) = addresses.raw {
                let raw = builder().raw_with(address, RawOptions::default(), OutgoingPorts::default())?;
                sctp.push(Arc::new(Listener::bind(&raw, port)?));
                stacks.push(raw);
            }
            listening.sctp = Some(port);
            listening.sctp_key = addresses.encryption.map(|encryption| encryption.fingerprint().to_string());
            listening.encapsulation = stack.local_addr();
            listening.raw = addresses.raw.map(|address| address.to_string());
            stacks.push(stack);
        }
        Ok(Self { listening, tcp, tls: addresses.tls, sctp, stacks, limits, shards })
    }

    /// Announces the addresses and serves. The first SIGINT or SIGTERM ends the server gracefully; the second one
    /// resets what is in use. SIGHUP opens the access log again.
    pub(crate) async fn run_until_signals<H: Handler>(
        mut self,
        handler: Arc<H>,
        heading: &str,
        connections: &ConnectionArgs,
    ) -> Result<()> {
        // Before the addresses are announced: a signal may follow at once.
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let mut hangup = signal(SignalKind::hangup())?;
        let log = handler.access_log().cloned();
        // The task that serves metrics.
        let tasks = LocalSet::new();
        let traffic = Arc::new(Traffic::default());
        if let Some(address) = connections.metrics {
            let stacks = std::mem::take(&mut self.stacks);
            let sources = metrics::Sources { traffic: Arc::clone(&traffic), stacks, log: log.clone() };
            let listening = metrics::listen(address, sources);
            self.listening.metrics = Some(tasks.run_until(listening).await?);
        }
        let handler = Arc::new(Counted { handler, traffic });
        self.listening.print(heading, connections.json)?;
        let (sender, signals) = watch::channel(0);
        let count = async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {
                        if let Some(log) = &log {
                            log.reopen();
                        }
                        continue;
                    }
                }
                sender.send_modify(|signals| *signals += 1);
            }
        };
        tokio::select! {
            () = tasks.run_until(count) => Ok(()),
            result = self.run(handler, signals) => result,
        }
    }

    /// Serves until the number of signals is 1, and then until requests in progress are answered, their time is
    /// over, or another signal comes. What is still in use then is reset.
    ///
    /// # Errors
    /// If connections or associations can no longer be accepted.
    pub(crate) async fn run<H: Handler>(
        self,
        handler: Arc<H>,
        mut signals: watch::Receiver<u32>,
    ) -> Result<()> {
        let Self { tcp, tls, sctp, limits, shards, .. } = self;
        let (stop, stopping) = watch::channel(());
        let (cut, cutting) = watch::channel(());
        let mut tasks: JoinSet<Result<()>> = JoinSet::new();
        let options = options(limits);
        for listener in sctp {
            for (shard, runtime) in shards.runtimes().iter().enumerate() {
                let (handler, mut stopping) = (Arc::clone(&handler), stopping.clone());
                let mut cutting = cutting.clone();
                let stopped = async move { drop(stopping.changed().await) };
                let cut = async move { drop(cutting.changed().await) };
                let refusing = Arc::clone(&handler);
                let on_refused = Arc::new(move |status, info| {
                    refusing.refused(status, Version::HTTP_11, sender(Some(&info)));
                });
                let part = Part { listener: Arc::clone(&listener), shard: Some(shard), on_refused };
                let serving = serve_on(part, over_sctp(handler), options.clone(), (stopped, cut));
                tasks.spawn_on(async { serving.await.context("accepting associations") }, runtime);
            }
        }
        let runtimes = if shards.is_single() { Vec::new() } else { shards.runtimes().to_vec() };
        let tcp = tcp::Acceptor { listener: tcp, tls, limits, runtimes };
        let serving = tcp.serve(Arc::clone(&handler), stopping, cutting);
        tasks.spawn(async { serving.await.context("accepting TCP connections") });
        let ended = tokio::select! {
            _ = signals.wait_for(|signals| *signals > 0) => None,
            ended = tasks.join_next() => ended,
        };
        drop(stop);
        let mut result = Ok(());
        if let Some(ended) = ended {
            result = ended.map_err(Into::into).and_then(|ended| ended);
        } else {
            let drained = async {
                while tasks.join_next().await.is_some() {}
                handler.drained().await;
            };
            tokio::select! {
                () = drained => {}
                () = tokio::time::sleep(limits.drain_timeout) => {
                    tracing::info!("resetting connections that are still in use");
                }
                _ = signals.wait_for(|signals| *signals > 1) => {}
            }
        }
        drop(cut);
        let closed = async {
            while tasks.join_next().await.is_some() {}
            handler.cut().await;
            let stacks = handler.stacks();
            drop(handler);
            for stack in stacks {
                stack.wait_idle().await;
            }
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, closed).await.is_err() {
            tracing::info!("associations with servers have not ended in time");
        }
        shards.flush().await;
        result
    }
}

/// Time to reset what is in use, and to shut down associations with other servers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the settings of a server on SCTP.
fn options(limits: Limits) -> ServeOptions {
    ServeOptions {
        settings: Settings::default()
            .idle_timeout(limits.idle_timeout)
            .budget(Budget::new(Budget::BYTES_MAX, limits.connections_max)),
        head_timeout: limits.head_timeout,
        write_timeout: limits.write_timeout,
        head_bytes_max: limits.head_bytes_max as usize,
        drain_timeout: limits.drain_timeout,
        ..ServeOptions::default()
    }
}

/// Returns a service for requests on streams.
pub(crate) fn over_sctp<H: Handler>(
    handler: Arc<H>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<H::Body>,
    Error = BoxError,
    Future = impl Future<Output = Result<Response<H::Body>, BoxError>> + Send + 'static,
> + Clone
+ Send
+ Sync
+ 'static {
    service_fn(move |request: Request<Incoming>| {
        let sender = sender(request.extensions().get());
        let answering = Arc::clone(&handler).answer(request, sender);
        async move { Ok::<_, BoxError>(answering.await) }
    })
}

/// Returns the sender of a request on a stream.
fn sender(info: Option<&StreamInfo>) -> Sender {
    Sender {
        address: info.and_then(|info| info.peer),
        transport: Transport::Sctp,
        stream: info.map(|info| info.stream),
    }
}

/// Writes the line of a request whose head can't be read.
pub(crate) fn log_refused(
    status: StatusCode,
    version: Version,
    sender: Sender,
    log: Option<&Arc<AccessLog>>,
) {
    let mut request = Request::new(());
    *request.version_mut() = version;
    if let Ok(unknown) = Method::from_bytes(b"-") {
        *request.method_mut() = unknown;
    }
    if let Some(mut line) = Line::begin(&request, sender, log) {
        line.set_target("-".to_owned());
        line.set_status(status);
        line.set_complete();
    }
}

/// Raises the limit of open files as far as permitted.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests;
