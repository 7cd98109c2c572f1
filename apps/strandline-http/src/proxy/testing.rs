//! An upstream server with bad manners, proxies before it, and clients, on loopback sockets.

use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use clap::Parser;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONNECTION, HeaderValue, TRAILER, UPGRADE};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use strandline::Stack;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::relay::{Proxy, Routes, Settings};
use super::{ForwardArgs, ReverseArgs, forward, reverse};
use crate::client::Connector;
use crate::files::testing::Folder;
use crate::front::{Front, Listening, Shards};

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = BoxBody<Bytes, BoxError>;

pub(super) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never: Infallible| match never {}).boxed()
}

/// A time-out.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Settings of a proxy without sockets.
pub(super) fn settings() -> Settings {
    Settings {
        name: "proxy".to_owned(),
        log: None,
        requests_max: 1000,
        response_timeout: LIMIT,
        tunnel_timeout: LIMIT,
    }
}

/// A server that is passed to.
pub(super) struct Upstream {
    pub(super) address: SocketAddr,
    /// Requests that arrived.
    pub(super) requests: Arc<AtomicUsize>,
    /// Requests whose body or response was given up by the peer.
    pub(super) given_up: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Counts when it is dropped before `done`.
struct GivenUp(Option<Arc<AtomicUsize>>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Upstream {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (requests, given_up) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, lost) = (Arc::clone(&requests), Arc::clone(&given_up));
        let task = tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                let (counted, lost) = (Arc::clone(&counted), Arc::clone(&lost));
                let service = service_fn(move |request| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    answer(request, Arc::clone(&lost))
                });
                let mut builder = hyper::server::conn::http1::Builder::new();
                builder.auto_date_header(false);
                tokio::spawn(builder.serve_connection(TokioIo::new(tcp), service).with_upgrades());
            }
        });
        Self { address, requests, given_up, task }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Answers by path.
pub(super) async fn answer(
    mut request: Request<Incoming>,
    lost: Arc<AtomicUsize>,
) -> std::result::Result<Response<Body>, BoxError> {
    let path = request.uri().path().to_owned();
    let response = match path.as_str() {
        "/echo" => {
            let mut response = Response::new(request.into_body().map_err(Into::into).boxed());
            response.headers_mut().insert(TRAILER, HeaderValue::from_static("x-sum"));
            response
        }
        "/collect" => Response::new(full(request.into_body().collect().await?.to_bytes())),
        "/head" | "*" => Response::new(full(head(&request))),
        "/never" => {
            let _given_up = GivenUp(Some(lost));
            std::future::pending().await
        }
        "/endless" => {
            let given_up = GivenUp(Some(lost));
            let stream = futures_util::stream::unfold(given_up, |given_up| async move {
                tokio::task::yield_now().await;
                Some((Ok(Frame::data(Bytes::from_static(&[b'x'; 8192]))), given_up))
            });
            Response::new(BodyExt::boxed(StreamBody::new(SyncStream(Box::pin(stream)))))
        }
        "/refuse" => {
            let mut response = Response::new(full("no"));
            *response.status_mut() = StatusCode::EXPECTATION_FAILED;
            response
        }
        "/hop" => {
            let mut response = Response::new(full("hop"));
            for (name, value) in [("connection", "x-secret"), ("x-secret", "1"), ("keep-alive", "1")] {
                response.headers_mut().insert(name, HeaderValue::from_static(value));
            }
            response
        }
        "/socket" => {
            let upgrading = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut socket = TokioIo::new(upgrading.await.unwrap());
                let (mut read, mut write) = tokio::io::split(&mut socket);
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
            let mut response = Response::new(full(""));
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            response
        }
        other => match other.strip_prefix("/size/") {
            Some(size) => Response::new(full(vec![b'x'; size.parse()?])),
            None => Response::new(full(format!("this is {other}"))),
        },
    };
    Ok(response)
}

/// A stream that is never shared.
pub(super) struct SyncStream<S>(pub(super) S);

impl<S: futures_util::Stream + Unpin> futures_util::Stream for SyncStream<S> {
    type Item = S::Item;
    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<S::Item>> {
        std::pin::Pin::new(&mut self.get_mut().0).poll_next(cx)
    }
}

/// The head of a request as lines.
fn head(request: &Request<Incoming>) -> String {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
    }
    text
}

/// A server that answers each connection with the same bytes once a head has arrived, and then ends it.
pub(super) async fn raw_upstream(answer: &'static [u8], resets: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match tcp.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => break,
                }
            }
            tcp.write_all(answer).await.unwrap();
            if resets {
                rustix::net::sockopt::set_socket_linger(&tcp, Some(std::time::Duration::ZERO)).unwrap();
            }
        }
    });
    address
}

#[derive(Debug, Parser)]
struct ReverseProgram {
    #[command(flatten)]
    args: ReverseArgs,
}

#[derive(Debug, Parser)]
struct ForwardProgram {
    #[command(flatten)]
    args: ForwardArgs,
}

/// A proxy that runs.
pub(super) struct Running {
    folder: Folder,
    pub(super) listening: Listening,
    signals: watch::Sender<u32>,
    ended: JoinHandle<Result<()>>,
}

impl Running {
    fn log_of(folder: &Folder) -> String {
        folder.path().join("log").to_str().unwrap().to_owned()
    }

    pub(super) async fn reverse(to: &str, more: &[&str]) -> Self {
        let folder = Folder::new("reverse");
        let log = Self::log_of(&folder);
        let own = ["program", "--to", to, "--listen", "127.0.0.1:0", "--encapsulation", "127.0.0.1:0"];
        let common = ["--sctp", "0", "--name", "proxy", "--access-log", &log];
        let arguments = own.iter().chain(&common).chain(more);
        let args = ReverseProgram::try_parse_from(arguments).unwrap().args;
        Self::run(folder, reverse::bind(&args, Shards::current()).await.unwrap())
    }

    pub(super) async fn forward(more: &[&str]) -> Self {
        Self::forward_named("forward", more).await
    }

    pub(super) async fn forward_named(name: &str, more: &[&str]) -> Self {
        let folder = Folder::new("forward");
        let log = Self::log_of(&folder);
        let own = ["program", "--listen", "127.0.0.1:0", "--name", name];
        let common = ["--access-log", &log, "--access-log-format", "json"];
        let arguments = own.iter().chain(&common).chain(more);
        let args = ForwardProgram::try_parse_from(arguments).unwrap().args;
        Self::run(folder, forward::bind(&args, Shards::current()).await.unwrap())
    }

    fn run<R: Routes>(folder: Folder, (front, proxy): (Front, Arc<Proxy<R>>)) -> Self {
        let listening = front.listening.clone();
        let (signals, told) = watch::channel(0);
        Self { folder, listening, signals, ended: tokio::spawn(front.run(proxy, told)) }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn udp_port(&self) -> u16 {
        self.listening.encapsulation.unwrap().port()
    }

    /// Returns a client that reaches this proxy over SCTP, as if it were the origin.
    pub(super) fn over_sctp(&self) -> Client<Connector, Body> {
        let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
        let connector = Connector::new(stack).encapsulation_port(self.udp_port());
        Client::builder(TokioExecutor::new()).build(connector)
    }

    pub(super) fn sctp_url(&self, path: &str) -> String {
        format!("http+sctp://127.0.0.1:{}{path}", self.listening.sctp.unwrap())
    }

    pub(super) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.listening.tcp).await.unwrap()
    }

    /// Sends bytes over TCP, and returns everything up to the end of the connection.
    pub(super) async fn exchange(&self, request: &str) -> std::io::Result<String> {
        let mut tcp = self.connect().await;
        tcp.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer).await?;
        Ok(String::from_utf8(answer).unwrap())
    }

    /// Ends the proxy, and returns its access log.
    pub(super) async fn end(self) -> String {
        self.signals.send_replace(1);
        self.ended.await.unwrap().unwrap();
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }
}

/// Waits until a counter has a value.
pub(super) async fn until(counter: &AtomicUsize, wanted: usize) {
    while counter.load(Ordering::SeqCst) < wanted {
        tokio::task::yield_now().await;
    }
}
