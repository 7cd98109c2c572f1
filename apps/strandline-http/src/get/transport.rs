//! Which transport a request takes.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo};
use strandline::Stack;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower_service::Service;
use url::Url;

use super::dial::{Dial, DialError, Trust};
use super::failure::Failure;
use crate::causes::causes;
use crate::client::Connector;
use crate::front::alt_svc::{self, Announced};
use crate::happy_eyeballs::{ATTEMPT_DELAY, SCTP_WAIT, connected};
use crate::streams::{HttpAssociation, HttpStream, Settings};

/// TCP connections to one server, as browsers have them.
const TCP_MAX: usize = 6;
/// Default port of HTTP.
const PORT: u16 = 80;

/// Associations to a server in one run, each after the one before has ended.
const ASSOCIATIONS_MAX: usize = 3;

/// Time that a server may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// To connect.
    pub(super) connect: Duration,
    /// Until the head of a response.
    pub(super) stall: Duration,
}

/// A client for URLs that name SCTP.
struct OverSctp {
    connector: Connector,
    client: Client<Connector, Empty<Bytes>>,
    patience: Patience,
}

/// A client on the streams of one association. It sets up no other.
#[derive(Clone)]
struct OnAssociation {
    association: HttpAssociation,
    client: Client<Streams, Empty<Bytes>>,
}

/// A connector that opens each connection on a stream of one association.
#[derive(Clone)]
struct Streams(HttpAssociation);

/// What is known of a server's SCTP.
#[derive(Clone)]
enum Sctp {
    Trying,
    Established(Box<OnAssociation>),
    Failed,
}

impl Sctp {
    /// Returns the association, if requests can use it.
    fn usable(&self) -> Option<OnAssociation> {
        match self {
            Self::Established(on) if on.association.is_usable() => Some(OnAssociation::clone(on)),
            _ => None,
        }
    }
}

/// A server that is asked over whichever transport answers first.
struct Origin {
    sctp: watch::Sender<Sctp>,
    tcp: Arc<Semaphore>,
    attempt: Mutex<Attempt>,
}

/// The latest attempt to speak SCTP with a server.
struct Attempt {
    /// SCTP port and UDP port of encapsulation.
    ports: (u16, u16),
    /// The task that sets up the association, and again after it has ended. It ends when this is dropped.
    task: JoinSet<()>,
}

/// Clients for all transports.
pub(super) struct Transports {
    stack: Stack,
    encapsulation_port: u16,
    /// For URLs that name SCTP.
    sctp: OverSctp,
    tcp: Client<Dial, Empty<Bytes>>,
    patience: Patience,
    /// Nothing goes in plain.
    encrypted_only: bool,
    /// Servers by scheme, host and port.
    origins: Mutex<HashMap<(String, String, u16), Arc<Origin>>>,
}

/// A response, and the transport that it comes over.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) carrier: Carrier,
}

/// What carries a response. It is kept until the body was read.
pub(super) enum Carrier {
    /// With the right to one of the connections to the server.
    Tcp {
        _permit: Option<OwnedSemaphorePermit>,
    },
    Tls {
        _permit: Option<OwnedSemaphorePermit>,
    },
    /// With the association, if TCP can take its place.
    Sctp(Option<HttpAssociation>),
}

impl Carrier {
    /// Returns that of a connection to the URL's server.
    fn of_connection(url: &Url, permit: Option<OwnedSemaphorePermit>) -> Self {
        match url.scheme() {
            "https" => Self::Tls { _permit: permit },
            _ => Self::Tcp { _permit: permit },
        }
    }

    /// Returns the name for reports.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Tls { .. } => "tls",
            Self::Sctp(_) => "sctp",
        }
    }

    /// Returns what can take its place after a failure: for an association that has ended or stalls, TCP.
    pub(super) fn replacement(&self, failure: &Failure) -> Option<Choice> {
        match (self, failure) {
            (Self::Sctp(Some(_)), Failure::Stalled(_)) => Some(Choice::Tcp),
            (Self::Sctp(Some(association)), _) if !association.is_usable() => Some(Choice::TcpFirst),
            _ => None,
        }
    }
}

/// Which transports a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Whichever its URL permits.
    Any,
    /// TCP if the scheme is http: an association has ended in the middle of the response. A new one only where TCP is
    /// silent.
    TcpFirst,
    /// TCP alone if the scheme is http: a response over SCTP stalls.
    Tcp,
}

impl OverSctp {
    fn new(connector: Connector, patience: Patience) -> Self {
        let client = Client::builder(TokioExecutor::new()).build(connector.clone());
        Self { connector, client, patience }
    }

    /// Sends a request. If the association ends before the response, it goes out once more on a new one.
    async fn send(
        &self,
        (host, port): (&str, u16),
        request: Request<Empty<Bytes>>,
    ) -> Result<Answer, Failure> {
        let Patience { connect, stall } = self.patience;
        let mut is_repeated = false;
        loop {
            let association = timeout(connect, self.connector.association(host, port)).await;
            let association = association.map_err(|_| Failure::ConnectTimeout(connect))?;
            let association = association.map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Failure::Host(error.to_string()),
                _ => unreachable(&error),
            })?;
            // The request leaves before the association is established, so that a set-up that fails is an error of
            // the request.
            let error = tokio::select! {
                biased;
                answer = timeout(stall, self.client.request(request.clone())) => {
                    match answer.map_err(|_| Failure::Stalled(stall))? {
                        Ok(response) => return Ok(Answer { response, carrier: Carrier::Sctp(None) }),
                        Err(error) => error,
                    }
                }
                () = not_established(&association, connect) => {
                    association.association().abort("not established in time");
                    return Err(Failure::ConnectTimeout(connect));
                }
            };
            if association.is_usable() {
                return Err(failure(&error));
            }
            association.established().await.map_err(|cause| unreachable(&cause))?;
            if is_repeated {
                return Err(failure(&error));
            }
            is_repeated = true;
        }
    }
}

/// Returns if an association isn't established in time, and otherwise never.
async fn not_established(association: &HttpAssociation, limit: Duration) {
    if timeout(limit, association.established()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Returns the failure of an association that can't be set up, where the URL demands one.
fn unreachable(cause: &dyn std::error::Error) -> Failure {
    Failure::Connect(format!("{cause} (a URL with http:// takes TCP where SCTP fails)"))
}

impl OnAssociation {
    fn new(association: HttpAssociation) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        // Whether a request is repeated, and over which transport, is decided here.
        builder.retry_canceled_requests(false);
        Self { client: builder.build(Streams(association.clone())), association }
    }

    /// Sends a request. `None` if the association has ended before the response.
    async fn send(&self, request: Request<Empty<Bytes>>) -> Option<Result<Answer, Failure>> {
        match self.client.request(request).await {
            Ok(response) => {
                let carrier = Carrier::Sctp(Some(self.association.clone()));
                Some(Ok(Answer { response, carrier }))
            }
            Err(error) if self.association.is_usable() => Some(Err(failure(&error))),
            Err(_) => None,
        }
    }
}

impl Service<Uri> for Streams {
    type Response = TokioIo<HttpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        let association = self.0.clone();
        Box::pin(async move { association.open().await.map(TokioIo::new).map_err(io::Error::other) })
    }
}

impl Transports {
    pub(super) fn new(stack: Stack, encapsulation_port: u16, trust: Trust, patience: Patience) -> Self {
        Self {
            sctp: OverSctp::new(connector(stack.clone(), encapsulation_port), patience),
            tcp: Client::builder(TokioExecutor::new()).build(Dial::new(trust, patience.connect)),
            patience,
            stack,
            encapsulation_port,
            encrypted_only: false,
            origins: Mutex::default(),
        }
    }

    /// Refuses URLs with http, also those of redirections and of pages' objects.
    pub(super) fn encrypted_only(self) -> Self {
        Self { encrypted_only: true, ..self }
    }

    fn check_encryption(&self, url: &Url) -> Result<(), Failure> {
        if self.encrypted_only && url.scheme() == "http" {
            let hint = "http:// is not encrypted: use http+sctp:// or https://, or leave out --sctp-encrypt";
            return Err(Failure::Url(hint.to_owned()));
        }
        Ok(())
    }

    /// Sends a request. The scheme http+sctp takes SCTP, https takes TCP. The scheme http takes SCTP if that
    /// is established already, otherwise TCP at once; requests beyond six wait for a TCP connection or for
    /// SCTP. If TCP is silent, SCTP takes its place once it is established. If the association ends before
    /// the response, or the response doesn't come in time, it is TCP again.
    pub(super) async fn send(
        &self,
        url: &Url,
        request: Request<Empty<Bytes>>,
        choice: Choice,
    ) -> Result<Answer, Failure> {
        self.check_encryption(url)?;
        if url.scheme() == "http+sctp" {
            let (host, port) = address(url);
            return self.sctp.send((&host, port), request).await;
        }
        let origin = self.origin(url);
        let mut sctp = origin.sctp.subscribe();
        let stall = self.patience.stall;
        let mut choice = choice;
        let early = match choice {
            Choice::Tcp | Choice::TcpFirst => None,
            Choice::Any => tokio::select! {
                biased;
                Some(on) = usable(&mut sctp) => match timeout(stall, on.send(request.clone())).await {
                    Ok(Some(answer)) => return answer,
                    failed => {
                        choice = if failed.is_ok() { Choice::TcpFirst } else { Choice::Tcp };
                        None
                    }
                },
                permit = Arc::clone(&origin.tcp).acquire_owned() => permit.ok(),
            },
        };
        let permit = match early {
            Some(permit) => Some(permit),
            None => Arc::clone(&origin.tcp).acquire_owned().await.ok(),
        };
        let mut over_tcp = request.clone();
        let connection = capture_connection(&mut over_tcp);
        let sending = self.tcp.request(over_tcp);
        tokio::pin!(sending);
        let first = tokio::select! {
            biased;
            answer = timeout(stall, &mut sending) => Err(answer),
            Some(on) = usable_before(connection, &mut sctp, choice) => Ok(on),
        };
        let answer = match first {
            Err(answer) => answer,
            // TCP is silent so far.
            Ok(on) => match timeout(stall, on.send(request.clone())).await {
                Ok(Some(answer)) => return answer,
                Ok(None) | Err(_) => timeout(stall, &mut sending).await,
            },
        };
        match answer.map_err(|_| Failure::Stalled(stall))? {
            Ok(response) => {
                self.learn(&origin, url, response.headers());
                let carrier = Carrier::of_connection(url, permit);
                Ok(Answer { response, carrier })
            }
            Err(error) if error.is_connect() && url.scheme() == "http" => {
                let answer = match usable_or_failed(&mut sctp).await {
                    Some(on) => {
                        timeout(stall, on.send(request)).await.map_err(|_| Failure::Stalled(stall))?
                    }
                    None => None,
                };
                answer.unwrap_or_else(|| Err(failure(&error)))
            }
            Err(error) => Err(failure(&error)),
        }
    }

    /// Returns a server. The first request begins to set up an association with it, unless its scheme is https.
    fn origin(&self, url: &Url) -> Arc<Origin> {
        let (host, port) = address(url);
        let key = (url.scheme().to_owned(), host.clone(), port);
        let mut origins = lock(&self.origins);
        let origin = origins.entry(key).or_insert_with(|| {
            let is_tried = url.scheme() == "http";
            let origin = Origin {
                sctp: watch::Sender::new(if is_tried { Sctp::Trying } else { Sctp::Failed }),
                tcp: Arc::new(Semaphore::new(TCP_MAX)),
                attempt: Mutex::new(Attempt { ports: (0, 0), task: JoinSet::new() }),
            };
            if is_tried {
                self.begin(&origin, host, (port, self.encapsulation_port));
            }
            Arc::new(origin)
        });
        Arc::clone(origin)
    }

    /// Begins to set up an association, unless that was begun with the same ports.
    fn begin(&self, origin: &Origin, host: String, ports: (u16, u16)) {
        let mut attempt = lock(&origin.attempt);
        if attempt.ports == ports {
            return;
        }
        let connector = connector(self.stack.clone(), ports.1);
        let sctp = origin.sctp.clone();
        // Dropping the earlier one ends it, and only then the state is changed.
        let mut task = JoinSet::new();
        std::mem::swap(&mut task, &mut attempt.task);
        drop(task);
        sctp.send_replace(Sctp::Trying);
        attempt.ports = ports;
        attempt.task.spawn(async move {
            for _ in 0..ASSOCIATIONS_MAX {
                let Ok(http) = connector.association(&host, ports.0).await else { break };
                if http.established().await.is_err() {
                    break;
                }
                let association = http.association().clone();
                sctp.send_replace(Sctp::Established(Box::new(OnAssociation::new(http))));
                association.closed().await;
                sctp.send_replace(Sctp::Trying);
            }
            sctp.send_replace(Sctp::Failed);
        });
    }

    /// Takes note of what a server announces over TCP (RFC 7838). What it announces over TLS isn't used: SCTP
    /// would be a step back to cleartext.
    fn learn(&self, origin: &Origin, url: &Url, headers: &HeaderMap) {
        if url.scheme() != "http" {
            return;
        }
        match alt_svc::of(headers) {
            Some(Announced::Sctp { port, udp_port, lifetime }) if !lifetime.is_zero() => {
                let ports = (port, udp_port.unwrap_or(self.encapsulation_port));
                self.begin(origin, address(url).0, ports);
            }
            Some(_) => {
                // Requests on the association go on. What is announced later is new, even if the ports are
                // those of before.
                let mut attempt = lock(&origin.attempt);
                attempt.task = JoinSet::new();
                attempt.ports = (0, 0);
                origin.sctp.send_replace(Sctp::Failed);
            }
            None => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a URL's host and port.
fn address(url: &Url) -> (String, u16) {
    (url.host_str().unwrap_or_default().to_owned(), url.port_or_known_default().unwrap_or(PORT))
}

/// Returns the connector for a server's port of UDP encapsulation.
fn connector(stack: Stack, encapsulation_port: u16) -> Connector {
    let settings = Settings::default().stream_window(4 << 20).buffer_max(64 << 20);
    Connector::new(stack).settings(settings).encapsulation_port(encapsulation_port)
}

/// Waits for an association that requests can use; `None` if there will be none.
async fn usable(sctp: &mut watch::Receiver<Sctp>) -> Option<OnAssociation> {
    let found = sctp.wait_for(|state| state.usable().is_some()).await;
    found.ok().and_then(|state| state.usable())
}

/// Waits for an association where TCP is refused; `None` if it has failed, or takes too long.
async fn usable_or_failed(sctp: &mut watch::Receiver<Sctp>) -> Option<OnAssociation> {
    let decided = sctp.wait_for(|state| state.usable().is_some() || matches!(state, Sctp::Failed));
    timeout(SCTP_WAIT, decided).await.ok()?.ok()?.usable()
}

/// Waits for an association that a request can use which has no TCP connection after some time; `None` once
/// it has one, or if it is not to use SCTP.
async fn usable_before(
    connection: CaptureConnection,
    sctp: &mut watch::Receiver<Sctp>,
    choice: Choice,
) -> Option<OnAssociation> {
    let usable = async {
        if choice == Choice::Tcp {
            return None;
        }
        tokio::time::sleep(ATTEMPT_DELAY).await;
        usable(sctp).await
    };
    tokio::select! {
        biased;
        () = connected(connection) => None,
        on = usable => on,
    }
}

/// Returns whether an error has one of hyper's that fulfils a condition among its causes.
fn cause_in(error: &Error, is_meant: impl Fn(&hyper::Error) -> bool) -> bool {
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        if cause.downcast_ref().is_some_and(&is_meant) {
            return true;
        }
        next = cause.source();
    }
    false
}

/// Classifies an error of hyper's client.
fn failure(error: &Error) -> Failure {
    let text = causes(error);
    if !error.is_connect() {
        let is_empty = cause_in(error, hyper::Error::is_incomplete_message);
        return if is_empty { Failure::Empty } else { Failure::Receive(text) };
    }
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        match cause.downcast_ref::<DialError>() {
            Some(DialError::Host(text)) => return Failure::Host(text.clone()),
            Some(DialError::Connect(text)) => return Failure::Connect(text.clone()),
            Some(DialError::Certificate(text)) => return Failure::Certificate(text.clone()),
            Some(DialError::Tls(text)) => return Failure::Tls(text.clone()),
            Some(DialError::Authorities(text)) => return Failure::Authorities(text.clone()),
            Some(DialError::Timeout(limit)) => return Failure::ConnectTimeout(*limit),
            None => next = cause.source(),
        }
    }
    if text.contains("has no address") { Failure::Host(text) } else { Failure::Connect(text) }
}

#[cfg(test)]
mod silence;
#[cfg(test)]
mod tests;
