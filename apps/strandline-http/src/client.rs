//! The client's side: a connector for hyper-util's client.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::rt::TokioIo;
use strandline::{Association, AssociationConfig, Peer, Stack, StackError};
use tower_service::Service;

use crate::streams::{ConnectionError, HttpAssociation, HttpStream, Settings};

/// SCTP port of URIs without one.
const PORT: u16 = 80;
/// Associations to try, one after another, if a plain peer has used up the streams of the one before.
const ATTEMPTS: usize = 3;

/// A connector for [`hyper_util::client::legacy::Client`] that opens each HTTP connection on a free stream. All
/// connections to one host and port share one association, which the first one sets up.
///
/// The URI's port is the SCTP port, 80 if it has none. The scheme is not looked at: `http+sctp` says what is
/// meant. Packets go to the UDP port that [`encapsulation_port`](Self::encapsulation_port) sets.
///
/// An example is at the beginning of the [crate's documentation](crate).
#[derive(Debug, Clone)]
pub struct Connector {
    stack: Stack,
    settings: Settings,
    encapsulation_port: Option<u16>,
    associations: Arc<Mutex<HashMap<(String, u16), HttpAssociation>>>,
}

/// The future of a connection that [`Connector`] opens.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<TokioIo<HttpStream>>> + Send>>;

impl Connector {
    /// Creates a connector that sets up associations from this stack.
    #[must_use]
    pub fn new(stack: Stack) -> Self {
        Self { stack, settings: Settings::default(), encapsulation_port: None, associations: Arc::default() }
    }

    /// Sets the settings of each association.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the UDP port of servers, if it is not the stack's default (9899).
    #[must_use]
    pub fn encapsulation_port(mut self, udp_port: u16) -> Self {
        self.encapsulation_port = Some(udp_port);
        self
    }

    /// Returns the association with a host, in use or new.
    ///
    /// # Errors
    /// If the host's name can't be resolved, or the association can't be started.
    pub async fn association(&self, host: &str, port: u16) -> io::Result<HttpAssociation> {
        let key = (host.to_ascii_lowercase(), port);
        if let Some(found) = self.known(&key) {
            return Ok(found);
        }
        let addresses = resolve(host, port).await?;
        let mut known = self.associations.lock().unwrap_or_else(PoisonError::into_inner);
        // Another connection may have started one meanwhile.
        if let Some(found) = known.get(&key).filter(|found| found.is_usable()) {
            return Ok(found.clone());
        }
        known.retain(|_, association| association.is_usable());
        let association = Association::start(&self.stack, self.peer(addresses, port), 0, None);
        let association = association.map_err(io::Error::other)?;
        let association = HttpAssociation::client(association, self.settings.clone());
        known.insert(key, association.clone());
        Ok(association)
    }

    fn known(&self, key: &(String, u16)) -> Option<HttpAssociation> {
        let known = self.associations.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|found| found.is_usable()).cloned()
    }

    fn peer(&self, first: SocketAddr, port: u16) -> Peer {
        let peer = Peer::new(strandline::Address::of(first), port);
        match self.encapsulation_port {
            Some(udp_port) => peer.encapsulation_port(udp_port),
            None => peer,
        }
    }

    async fn connect(self, uri: Uri) -> io::Result<TokioIo<HttpStream>> {
        let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "the URI names no host");
        let host = uri.host().ok_or_else(invalid)?;
        let port = uri.port_u16().unwrap_or(PORT);
        let mut attempt = 1;
        loop {
            match self.association(host, port).await?.open().await {
                Ok(stream) => return Ok(TokioIo::new(stream)),
                Err(ConnectionError::StreamsUsedUp | ConnectionError::ShuttingDown) if attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

/// Opens a stack for outgoing associations, whose parameters are given, on any port of all addresses.
pub(crate) fn outgoing_stack(config: &AssociationConfig) -> Result<Stack, StackError> {
    let builder = || Stack::builder().association(config.clone());
    builder().udp(([0_u16; 8], 0).into()).or_else(|_| builder().udp(([0, 0, 0, 0], 0).into()))
}

/// Returns the first address of a host.
pub(crate) async fn resolve(host: &str, port: u16) -> io::Result<SocketAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<strandline::Address>() {
        return Ok(address.with_port(port));
    }
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address"));
    tokio::net::lookup_host((host, port)).await?.next().ok_or_else(unknown)
}

impl Service<Uri> for Connector {
    type Response = TokioIo<HttpStream>;
    type Error = io::Error;
    type Future = Connecting;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Connecting {
        Box::pin(self.clone().connect(uri))
    }
}
