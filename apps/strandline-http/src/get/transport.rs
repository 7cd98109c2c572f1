//! Which transport a request takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{ALT_SVC, HeaderMap};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use strandline::Stack;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use url::Url;

use super::dial::{Dial, DialError, Trust};
use super::failure::{Failure, causes};
use crate::client::Connector;
use crate::front::alt_svc::{self, Announced};
use crate::streams::Settings;

/// TCP connections to one server, as browsers have them.
const TCP_MAX: usize = 6;
/// Time that SCTP has once TCP is refused.
const SCTP_WAIT: Duration = Duration::from_secs(3);
/// Default port of HTTP.
const PORT: u16 = 80;

/// A client for requests over SCTP.
#[derive(Clone)]
struct OverSctp {
    connector: Connector,
    client: Client<Connector, Empty<Bytes>>,
}

/// What is known of a server's SCTP.
#[derive(Clone)]
enum Sctp {
    Trying,
    /// An association is established, to this port.
    Established(Box<OverSctp>, u16),
    Failed,
}

impl Sctp {
    fn established(&self) -> Option<(Box<OverSctp>, u16)> {
        match self {
            Self::Established(client, port) => Some((client.clone(), *port)),
            Self::Trying | Self::Failed => None,
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
    /// The task that sets up the association. It ends when this is dropped.
    task: JoinSet<()>,
}

/// Clients for all transports.
pub(super) struct Transports {
    stack: Stack,
    encapsulation_port: u16,
    /// For URLs that name SCTP.
    sctp: OverSctp,
    tcp: Client<Dial, Empty<Bytes>>,
    /// Servers by scheme, host and port.
    origins: Mutex<HashMap<(String, String, u16), Arc<Origin>>>,
}

/// A response, and the transport that it came over.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) transport: &'static str,
    /// Keeps the number of TCP connections until the body was read.
    pub(super) _permit: Option<OwnedSemaphorePermit>,
}

impl OverSctp {
    fn new(stack: Stack, encapsulation_port: u16) -> Self {
        let settings = Settings::default().stream_window(4 << 20).buffer_max(64 << 20);
        let connector = Connector::new(stack).settings(settings).encapsulation_port(encapsulation_port);
        let client = Client::builder(TokioExecutor::new()).build(connector.clone());
        Self { connector, client }
    }

    async fn send(
        &self,
        (host, port): (&str, u16),
        mut request: Request<Empty<Bytes>>,
    ) -> Result<Answer, Failure> {
        if let Some(uri) = with_port(request.uri(), port) {
            *request.uri_mut() = uri;
        }
        let association = self.connector.association(host, port).await;
        let association = association.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::Host(error.to_string()),
            _ => Failure::Connect(error.to_string()),
        })?;
        match self.client.request(request).await {
            Ok(response) => Ok(Answer { response, transport: "sctp", _permit: None }),
            // The request leaves before the association is established, so that a set-up that fails is an error
            // of the request.
            Err(error) if association.is_usable() => Err(failure(&error)),
            Err(error) => match association.established().await {
                Ok(()) => Err(failure(&error)),
                Err(cause) => Err(Failure::Connect(cause.to_string())),
            },
        }
    }
}

impl Transports {
    pub(super) fn new(stack: Stack, encapsulation_port: u16, trust: Trust) -> Self {
        Self {
            sctp: OverSctp::new(stack.clone(), encapsulation_port),
            tcp: Client::builder(TokioExecutor::new()).build(Dial::new(trust)),
            stack,
            encapsulation_port,
            origins: Mutex::default(),
        }
    }

    /// Sends a request. The scheme http+sctp takes SCTP, https takes TCP. The scheme http takes SCTP if that is
    /// established already, otherwise TCP at once; requests beyond six wait for a TCP connection or for SCTP.
    pub(super) async fn send(&self, url: &Url, request: Request<Empty<Bytes>>) -> Result<Answer, Failure> {
        let (host, port) = address(url);
        if url.scheme() == "http+sctp" {
            return self.sctp.send((&host, port), request).await;
        }
        let origin = self.origin(url);
        let mut sctp = origin.sctp.subscribe();
        let established = async |sctp: &mut watch::Receiver<Sctp>| {
            let found = sctp.wait_for(|state| state.established().is_some()).await;
            found.ok().and_then(|state| state.established())
        };
        let permit = tokio::select! {
            biased;
            Some((client, port)) = established(&mut sctp) => return client.send((&host, port), request).await,
            permit = Arc::clone(&origin.tcp).acquire_owned() => permit.ok(),
        };
        match self.tcp.request(request.clone()).await {
            Ok(response) => {
                self.learn(&origin, url, response.headers());
                let transport = if url.scheme() == "https" { "tls" } else { "tcp" };
                Ok(Answer { response, transport, _permit: permit })
            }
            Err(error) if error.is_connect() && url.scheme() == "http" => {
                // TCP is refused: SCTP is waited for.
                let decided = sctp.wait_for(|state| !matches!(state, Sctp::Trying));
                let state = tokio::time::timeout(SCTP_WAIT, decided).await;
                match state.ok().and_then(|state| state.ok().and_then(|state| state.established())) {
                    Some((client, port)) => client.send((&host, port), request).await,
                    None => Err(failure(&error)),
                }
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
        let over_sctp = OverSctp::new(self.stack.clone(), ports.1);
        let sctp = origin.sctp.clone();
        // Dropping the earlier one ends it, and only then the state is changed.
        let mut task = JoinSet::new();
        std::mem::swap(&mut task, &mut attempt.task);
        drop(task);
        sctp.send_replace(Sctp::Trying);
        attempt.ports = ports;
        attempt.task.spawn(async move {
            let is_established = match over_sctp.connector.association(&host, ports.0).await {
                Ok(association) => association.established().await.is_ok(),
                Err(_) => false,
            };
            let state =
                if is_established { Sctp::Established(Box::new(over_sctp), ports.0) } else { Sctp::Failed };
            sctp.send_replace(state);
        });
    }

    /// Takes note of what a server announces over TCP (RFC 7838). What it announces over TLS isn't used: SCTP would be a
    /// step back to cleartext.
    fn learn(&self, origin: &Origin, url: &Url, headers: &HeaderMap) {
        if url.scheme() != "http" {
            return;
        }
        let values = headers.get_all(ALT_SVC).iter().filter_map(|value| value.to_str().ok());
        match values.filter_map(alt_svc::parse).next() {
            Some(Announced::Sctp { port, udp_port, lifetime }) if !lifetime.is_zero() => {
                let ports = (port, udp_port.unwrap_or(self.encapsulation_port));
                self.begin(origin, address(url).0, ports);
            }
            Some(_) => {
                lock(&origin.attempt).task.abort_all();
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

/// Returns a URI with another port; `None` if it has no authority.
fn with_port(uri: &Uri, port: u16) -> Option<Uri> {
    let mut parts = uri.clone().into_parts();
    let authority = parts.authority?;
    parts.authority = Some(format!("{}:{port}", authority.host()).parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// Classifies an error of hyper's client.
fn failure(error: &Error) -> Failure {
    let text = causes(error);
    if !error.is_connect() {
        return Failure::Receive(text);
    }
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        match cause.downcast_ref::<DialError>() {
            Some(DialError::Host(text)) => return Failure::Host(text.clone()),
            Some(DialError::Connect(text)) => return Failure::Connect(text.clone()),
            Some(DialError::Certificate(text)) => return Failure::Certificate(text.clone()),
            Some(DialError::Tls(text)) => return Failure::Tls(text.clone()),
            Some(DialError::Authorities(text)) => return Failure::Authorities(text.clone()),
            None => next = cause.source(),
        }
    }
    if text.contains("has no address") { Failure::Host(text) } else { Failure::Connect(text) }
}
