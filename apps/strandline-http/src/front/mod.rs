//! What the servers of `strandline http` have in common: listening on TCP and SCTP, time-outs and limits of
//! connections, the access log, and the end by signals.

pub(crate) mod alt_svc;
mod args;
pub(crate) mod log;
mod preface;
mod shards;
mod tcp;
mod tls;

use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Request, Response};
use serde::Serialize;
use strandline::{Listener, OutgoingPorts, RawOptions, Stack};
use strandline_output::outln;
use strandline_tls::ServerTls;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use self::args::{Addresses, Limits, SctpAddresses};
pub use self::args::{ConnectionArgs, ListenArgs};
use self::log::{Sender, Transport};
pub(crate) use self::shards::Shards;
pub(crate) use self::tls::TlsStream;
use crate::server::{ServeOptions, StreamInfo, serve_on};

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

    /// Waits until nothing is left of requests that were answered, such as tunnels.
    fn drained(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The addresses on which a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Listening {
    pub(crate) tcp: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) sctp: Option<u16>,
    pub(crate) encapsulation: Option<SocketAddr>,
    pub(crate) raw: Option<String>,
}

impl Listening {
    /// Returns the header for responses over TCP that announces SCTP; `None` without SCTP.
    pub(crate) fn alt_svc(&self) -> Option<HeaderValue> {
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
            outln!("  SCTP   port {port}, in UDP at {address}");
        }
        if let (Some(port), Some(address)) = (self.sctp, &self.raw) {
            outln!("  SCTP   port {port}, on raw IP at {address}");
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
    limits: Limits,
    shards: Shards,
}

impl Front {
    /// Listens.
    pub(crate) async fn bind(addresses: Addresses, limits: Limits, shards: Shards) -> Result<Self> {
        let tcp = TcpListener::bind(addresses.tcp).await;
        let tcp = tcp.with_context(|| format!("listening on TCP {}", addresses.tcp))?;
        let mut listening = Listening {
            tcp: tcp.local_addr()?,
            tls: addresses.tls.is_some(),
            sctp: None,
            encapsulation: None,
            raw: None,
        };
        let mut sctp = Vec::new();
        if let Some(addresses) = addresses.sctp {
            let runtimes = shards.runtimes();
            let builder = || Stack::builder().shards(runtimes.len()).runtimes(runtimes.to_vec());
            let stack = builder().udp(addresses.encapsulation)?;
            let listener = Listener::bind(&stack, addresses.port)?;
            let port = listener.port();
            sctp.push(Arc::new(listener));
            if let Some(address) = addresses.raw {
                let raw = builder().raw_with(address, RawOptions::default(), OutgoingPorts::default())?;
                sctp.push(Arc::new(Listener::bind(&raw, port)?));
            }
            listening.sctp = Some(port);
            listening.encapsulation = stack.local_addr();
            listening.raw = addresses.raw.map(|address| address.to_string());
        }
        Ok(Self { listening, tcp, tls: addresses.tls, sctp, limits, shards })
    }

    /// Announces the addresses and serves. The first SIGINT or SIGTERM ends the server gracefully, the second one
    /// at once.
    pub(crate) async fn run_until_signals<H: Handler>(
        self,
        handler: Arc<H>,
        heading: &str,
        is_json: bool,
    ) -> Result<()> {
        // Before the addresses are announced: a signal may follow at once.
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        self.listening.print(heading, is_json)?;
        let (tell, told) = watch::channel(0);
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
            result = self.run(handler, told) => result,
        }
    }

    /// Serves until the number of signals is 1, and then until requests in progress are answered, their time is
    /// over, or another signal comes.
    pub(crate) async fn run<H: Handler>(
        self,
        handler: Arc<H>,
        mut signals: watch::Receiver<u32>,
    ) -> Result<()> {
        let options = ServeOptions {
            head_timeout: self.limits.head_timeout,
            write_timeout: self.limits.write_timeout,
            head_bytes_max: self.limits.head_bytes_max as usize,
            drain_timeout: self.limits.drain_timeout,
            ..ServeOptions::default()
        };
        let (stop, stopping) = watch::channel(());
        let mut tasks = JoinSet::new();
        for listener in self.sctp {
            for (shard, runtime) in self.shards.runtimes().iter().enumerate() {
                let (handler, mut stopping) = (Arc::clone(&handler), stopping.clone());
                let stopped = async move { drop(stopping.changed().await) };
                let listener = Arc::clone(&listener);
                let serving = serve_on(listener, Some(shard), over_sctp(handler), options.clone(), stopped);
                tasks.spawn_on(serving, runtime);
            }
        }
        let tcp = tcp::Acceptor {
            listener: self.tcp,
            tls: self.tls,
            limits: self.limits,
            runtimes: if self.shards.is_single() { Vec::new() } else { self.shards.runtimes().to_vec() },
        };
        tasks.spawn(tcp.serve(Arc::clone(&handler), stopping));
        tokio::select! {
            _ = signals.wait_for(|signals| *signals > 0) => {}
            Some(ended) = tasks.join_next() => anyhow::bail!("a server ended unexpectedly: {ended:?}"),
        }
        drop(stop);
        let drained = async {
            while tasks.join_next().await.is_some() {}
            handler.drained().await;
        };
        tokio::select! {
            () = drained => {}
            () = tokio::time::sleep(self.limits.drain_timeout) => {
                tracing::info!("closing connections that are still in use");
            }
            _ = signals.wait_for(|signals| *signals > 1) => {}
        }
        Ok(())
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
        let info = request.extensions().get::<StreamInfo>();
        let sender = Sender {
            address: info.and_then(|info| info.peer),
            transport: Transport::Sctp,
            stream: info.map(|info| info.stream),
        };
        let answering = Arc::clone(&handler).answer(request, sender);
        async move { Ok::<_, BoxError>(answering.await) }
    })
}

/// Raises the limit of open files as far as permitted.
pub(crate) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
