//! Which transport a request takes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::TokioExecutor;
use strandline::Stack;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use url::Url;

use super::failure::{Failure, causes};
use crate::client::Connector;
use crate::streams::Settings;

/// TCP connections to one server, as browsers have them.
const TCP_MAX: usize = 6;
/// Time that SCTP has once TCP is refused.
const SCTP_WAIT: Duration = Duration::from_secs(3);
/// Default port of HTTP.
const PORT: u16 = 80;

/// What is known of a server's SCTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sctp {
    Trying,
    Established,
    Failed,
}

/// A server that is asked over whichever transport answers first.
struct Origin {
    sctp: watch::Receiver<Sctp>,
    tcp: Arc<Semaphore>,
}

/// Clients for both transports.
pub(super) struct Transports {
    connector: Connector,
    sctp: Client<Connector, Empty<Bytes>>,
    tcp: Client<HttpConnector, Empty<Bytes>>,
    origins: Mutex<HashMap<(String, u16), Arc<Origin>>>,
}

/// A response, and the transport that it came over.
pub(super) struct Answer {
    pub(super) response: Response<Incoming>,
    pub(super) transport: &'static str,
    /// Keeps the number of TCP connections until the body was read.
    pub(super) _permit: Option<OwnedSemaphorePermit>,
}

impl Transports {
    pub(super) fn new(stack: Stack, encapsulation_port: u16) -> Self {
        let settings = Settings::default().stream_window(4 << 20).buffer_max(64 << 20);
        let connector = Connector::new(stack).settings(settings).encapsulation_port(encapsulation_port);
        let builder = || Client::builder(TokioExecutor::new());
        Self {
            sctp: builder().build(connector.clone()),
            tcp: builder().build_http(),
            connector,
            origins: Mutex::default(),
        }
    }

    /// Sends a request. The scheme http+sctp takes SCTP. The scheme http takes SCTP if that is established
    /// already, otherwise TCP at once; requests beyond six wait for a TCP connection or for SCTP.
    pub(super) async fn send(&self, url: &Url, request: Request<Empty<Bytes>>) -> Result<Answer, Failure> {
        if url.scheme() == "http+sctp" {
            return self.over_sctp(url, request).await;
        }
        let origin = self.origin(url);
        let mut sctp = origin.sctp.clone();
        let permit = tokio::select! {
            biased;
            Ok(_) = sctp.wait_for(|state| *state == Sctp::Established) => None,
            permit = Arc::clone(&origin.tcp).acquire_owned() => permit.ok(),
        };
        let Some(permit) = permit else { return self.over_sctp(url, request).await };
        match self.tcp.request(request.clone()).await {
            Ok(response) => Ok(Answer { response, transport: "tcp", _permit: Some(permit) }),
            Err(error) if error.is_connect() => {
                // TCP is refused: SCTP is waited for.
                let known = sctp.wait_for(|state| *state != Sctp::Trying);
                let state = tokio::time::timeout(SCTP_WAIT, known).await;
                match state.map(|state| state.map(|state| *state)) {
                    Ok(Ok(Sctp::Established)) => self.over_sctp(url, request).await,
                    _ => Err(failure(&error)),
                }
            }
            Err(error) => Err(failure(&error)),
        }
    }

    async fn over_sctp(&self, url: &Url, request: Request<Empty<Bytes>>) -> Result<Answer, Failure> {
        let (host, port) = address(url);
        let association = self.connector.association(&host, port).await;
        let association = association.map_err(|error| Failure::Host(error.to_string()))?;
        match self.sctp.request(request).await {
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

    /// Returns a server. The first request begins to set up an association with it.
    fn origin(&self, url: &Url) -> Arc<Origin> {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let origin = origins.entry(address(url)).or_insert_with_key(|(host, port)| {
            let (tell, sctp) = watch::channel(Sctp::Trying);
            let (connector, host, port) = (self.connector.clone(), host.clone(), *port);
            tokio::spawn(async move {
                let established = match connector.association(&host, port).await {
                    Ok(association) => association.established().await.is_ok(),
                    Err(_) => false,
                };
                drop(connector);
                tell.send_replace(if established { Sctp::Established } else { Sctp::Failed });
                // The state stays readable as long as the origin is.
                tell.closed().await;
            });
            Arc::new(Origin { sctp, tcp: Arc::new(Semaphore::new(TCP_MAX)) })
        });
        Arc::clone(origin)
    }
}

/// Returns a URL's host and port.
fn address(url: &Url) -> (String, u16) {
    (url.host_str().unwrap_or_default().to_owned(), url.port().unwrap_or(PORT))
}

/// Classifies an error of hyper's client.
fn failure(error: &Error) -> Failure {
    let text = causes(error);
    if !error.is_connect() {
        return Failure::Receive(text);
    }
    if text.contains("dns error") || text.contains("lookup") || text.contains("has no address") {
        Failure::Host(text)
    } else {
        Failure::Connect(text)
    }
}
