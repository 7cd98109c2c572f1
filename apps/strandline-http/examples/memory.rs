//! Measures what associations, connections and requests take of memory on each side, and prints the table of
//! docs/http.md. Client and server are threads that talk over loopback sockets, and every allocation of each
//! is counted.
//!
//! Run with `cargo run --release -p strandline-http --example memory`.
#![allow(clippy::print_stdout, reason = "an example")]

use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use allocation_counter::measure;
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use strandline::{Association, AssociationConfig, Listener, Peer, Stack};
use strandline_http::{HttpAssociation, ServeOptions, Settings, serve};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Associations that the figures are averages of.
const ASSOCIATIONS: usize = 50;
/// Streams of each, all of which are used.
const STREAMS: u16 = 10;
const PORT: u16 = 80;
/// Time after which associations have given back the buffers that they reuse.
const SETTLING: Duration = Duration::from_secs(3);
/// Streams of associations that show what a stream takes that isn't used.
const STREAMS_UNUSED: u16 = 1000;
/// What a server answers with: the path /large has all of it, others have 1 KB.
static BODY: [u8; 1 << 20] = [b'x'; 1 << 20];

/// Bytes that one more of something takes at the client and at the server.
#[derive(Debug, Clone, Copy)]
struct Cost {
    what: &'static str,
    client: i64,
    server: i64,
}

/// The path /wait is never answered.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Error> {
    if request.uri().path() == "/wait" {
        std::future::pending::<()>().await;
    }
    let len = if request.uri().path() == "/large" { BODY.len() } else { 1024 };
    Ok(Response::new(Full::new(Bytes::from_static(&BODY).slice(..len))))
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The server's thread, which counts from one signal to the next.
struct Server {
    udp: SocketAddr,
    phases: mpsc::Sender<oneshot::Receiver<()>>,
    counted: mpsc::Receiver<i64>,
}

impl Server {
    fn start() -> Result<Self, Error> {
        let (phases, next) = mpsc::channel::<oneshot::Receiver<()>>();
        let (told, counted) = mpsc::channel();
        let (ready, bound) = mpsc::channel();
        thread::spawn(move || -> Result<(), Error> {
            let runtime = runtime()?;
            runtime.block_on(async {
                let stack = Stack::builder().udp(([127, 0, 0, 1], 0).into())?;
                ready.send(stack.local_addr().ok_or("no address")?)?;
                let listener = Listener::bind(&stack, PORT)?;
                let options = ServeOptions::default();
                tokio::spawn(serve(listener, service_fn(answer), options, std::future::pending()));
                Ok::<_, Error>(())
            })?;
            while let Ok(end) = next.recv() {
                let counted = measure(|| drop(runtime.block_on(end)));
                told.send(counted.bytes_current)?;
            }
            Ok(())
        });
        Ok(Self { udp: bound.recv()?, phases, counted })
    }
}

/// The client's side.
struct Client {
    server: Server,
    runtime: Runtime,
    stack: Stack,
}

impl Client {
    fn start() -> Result<Self, Error> {
        let (server, runtime) = (Server::start()?, runtime()?);
        let stack = runtime.block_on(async { Stack::builder().udp(([127, 0, 0, 1], 0).into()) })?;
        Ok(Self { server, runtime, stack })
    }

    /// Runs something on this side, and returns its result and what each of `number` things has added on both sides.
    fn count<T>(
        &self,
        what: &'static str,
        number: usize,
        run: impl AsyncFnOnce() -> Result<T, Error>,
    ) -> Result<(T, Cost), Error> {
        let (end, ended) = oneshot::channel();
        self.server.phases.send(ended)?;
        let mut result = None;
        let here = measure(|| {
            result = Some(self.runtime.block_on(async {
                let result = run().await;
                tokio::time::sleep(SETTLING).await;
                result
            }));
        });
        let _ = end.send(());
        let there = self.server.counted.recv()?;
        let each = |bytes: i64| bytes / number as i64;
        let cost = Cost { what, client: each(here.bytes_current), server: each(there) };
        Ok((result.ok_or("nothing ran")??, cost))
    }

    async fn associate(&self, streams: u16) -> Result<HttpAssociation, Error> {
        let config = AssociationConfig {
            outbound_streams: streams,
            inbound_streams_max: streams,
            ..AssociationConfig::default()
        };
        let peer = Peer::new(strandline::Address::of(self.server.udp), PORT);
        let peer = peer.encapsulation_port(self.server.udp.port());
        let association = Association::start(&self.stack, peer, 0, Some(Arc::new(config)))?;
        association.established().await?;
        Ok(HttpAssociation::client(association, Settings::default()))
    }

    /// Sets up associations, with a request on each whose connection is closed again.
    async fn associations(&self, streams: u16) -> Result<Vec<HttpAssociation>, Error> {
        let mut all = Vec::with_capacity(ASSOCIATIONS);
        for _ in 0..ASSOCIATIONS {
            let http = self.associate(streams).await?;
            connection(&http).await?;
            all.push(http);
        }
        Ok(all)
    }
}

type Sender = SendRequest<Empty<Bytes>>;

/// Opens a connection on a stream, and sends a request that is answered.
async fn connection(http: &HttpAssociation) -> Result<Sender, Error> {
    let (sender, connection) = handshake(TokioIo::new(http.open().await?)).await?;
    tokio::spawn(connection);
    get(sender, "/").await
}

/// Sends a request, and returns the connection.
async fn get(mut sender: Sender, path: &str) -> Result<Sender, Error> {
    let request = Request::get(path).header("host", "a").body(Empty::new())?;
    let mut body = sender.send_request(request).await?.into_body();
    while let Some(frame) = body.frame().await {
        frame?;
    }
    Ok(sender)
}

/// Measures, and returns the table.
fn costs() -> Result<Vec<Cost>, Error> {
    let client = Client::start()?;
    // The first one of everything sets up what all share.
    let warm_up = async || connection(&client.associate(STREAMS).await?).await.map(drop);
    client.count("warm-up", 1, warm_up)?;

    let few = async || client.associations(STREAMS).await;
    let (associations, association) = client.count("association without connections", ASSOCIATIONS, few)?;
    let many = async || client.associations(STREAMS_UNUSED).await;
    let (_, with_streams) = client.count("stream that was never used", ASSOCIATIONS, many)?;
    let more = i64::from(STREAMS_UNUSED - STREAMS);
    let stream = Cost {
        client: (with_streams.client - association.client) / more,
        server: (with_streams.server - association.server) / more,
        ..with_streams
    };

    let number = ASSOCIATIONS * usize::from(STREAMS);
    let open = async || {
        let mut all = Vec::with_capacity(number);
        for http in &associations {
            for _ in 0..STREAMS {
                all.push(connection(http).await?);
            }
        }
        Ok(all)
    };
    let (senders, idle) = client.count("idle connection on a stream", number, open)?;

    let wait = async || {
        let waiting = senders.into_iter().map(|sender| tokio::spawn(get(sender, "/wait")));
        Ok(waiting.collect::<Vec<JoinHandle<_>>>())
    };
    let (_waiting, request) = client.count("request that waits for its response", number, wait)?;

    let (others, _) = client.count("", 1, async || client.associations(STREAMS).await)?;
    let large = async || {
        let mut all = Vec::with_capacity(ASSOCIATIONS);
        for http in &others {
            all.push(get(connection(http).await?, "/large").await?);
        }
        Ok(all)
    };
    let (_large, after) = client.count("idle connection, after 1 MiB", ASSOCIATIONS, large)?;
    Ok(vec![association, stream, idle, after, request])
}

fn main() -> Result<(), Error> {
    for Cost { what, client, server } in costs()? {
        println!("| {what} | {client} | {server} |");
    }
    Ok(())
}
