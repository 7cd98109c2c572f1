//! The client's side: a connector for hyper-util's client.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use hyper::Uri;
use hyper_util::rt::TokioIo;
use strandline::encryption::Encryption;
use strandline::{Association, AssociationConfig, Ended, Peer, Stack, StackError};
use tower_service::Service;

use crate::happy_eyeballs::{race, resolve};
use crate::host::port_of;
use crate::streams::{ConnectionError, HttpAssociation, HttpStream, Settings};

/// SCTP port of URIs without one.
const PORT: u16 = 80;
/// Associations to try, one after another, if a plain peer has used up the streams of the one before, or that has
/// just been shut down.
const ATTEMPTS: usize = 3;

/// A connector for [`hyper_util::client::legacy::Client`] that opens each HTTP connection on a free stream. All
/// connections to one host and port share one association, which the first one sets up.
///
/// The URI's port is the SCTP port, 80 if it has none. The scheme is not looked at: `http+sctp` says what is
/// meant. All addresses of a host are tried (RFC 8305). Packets go to the UDP port that
/// [`encapsulation_port`](Self::encapsulation_port) sets.
///
/// # Lifetime of associations
///
/// An association stays as long as a clone of the connector exists, until it has had no connection for
/// [`Settings::idle_timeout`]: hyper-util's client closes idle connections, which frees their streams, but has no word on
/// associations. Without clones it ends once its last connection is closed; the pool of a client that is
/// dropped closes its idle ones. [`Stack::wait_idle`] waits for that. An association that has ended, or whose
/// server has no stream left, is replaced by the next connection to its host.
///
/// An example is at the beginning of the [crate's documentation](crate).
#[derive(Debug, Clone)]
pub struct Connector {
    stack: Stack,
    settings: Settings,
    encapsulation_port: Option<u16>,
    associations: Arc<Mutex<HashMap<(String, u16), Arc<Slot>>>>,
}

/// The association with a host and port. The lock is held while it is set up.
#[derive(Debug, Default)]
struct Slot(tokio::sync::Mutex<Option<HttpAssociation>>);

impl Slot {
    /// Returns whether it has an association that can be used, or will get one.
    fn is_in_use(&self) -> bool {
        self.0.try_lock().map_or(true, |found| found.as_ref().is_some_and(HttpAssociation::is_usable))
    }
}

/// Lets go of an association once it has ended, and with it of its memory.
async fn forget(association: Association, slot: Weak<Slot>) {
    association.closed().await;
    drop(association);
    let Some(slot) = slot.upgrade() else { return };
    let mut slot = slot.0.lock().await;
    if slot.as_ref().is_some_and(|found| !found.is_usable()) {
        *slot = None;
    }
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

    /// Returns a connector with the same stack and settings, and associations of its own.
    pub(crate) fn unshared(self) -> Self {
        Self { associations: Arc::default(), ..self }
    }

    /// Returns the stack.
    pub(crate) const fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Returns the association with a host, in use or new. A new one with a host that has one address isn't established
    /// yet, so that the first request leaves with the COOKIE ECHO. If the host has several, they are tried as RFC 8305
    /// describes, and the association is the one that was established first.
    ///
    /// # Errors
    /// If the host's name can't be resolved, or the association can't be started.
    pub async fn association(&self, host: &str, port: u16) -> io::Result<HttpAssociation> {
        let key = (host.to_ascii_lowercase(), port);
        let slot = {
            let mut known = self.associations.lock().unwrap_or_else(PoisonError::into_inner);
            known.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.is_in_use());
            Arc::clone(known.entry(key).or_default())
        };
        let forgetting = Arc::downgrade(&slot);
        // Connections that are opened meanwhile wait for the same association.
        let mut slot = slot.0.lock().await;
        if let Some(found) = slot.as_ref().filter(|found| found.is_usable()) {
            return Ok(found.clone());
        }
        let addresses = resolve(host, port).await?;
        let association = match addresses.as_slice() {
            [address] => self.start(host, *address, port)?,
            _ => {
                let (connector, host) = (self.clone(), Arc::<str>::from(host));
                race(addresses, move |address| connector.clone().establish(Arc::clone(&host), address, port))
                    .await?
            }
        };
        let association = HttpAssociation::client(association, self.settings.clone());
        *slot = Some(association.clone());
        tokio::spawn(forget(association.association().clone(), forgetting));
        Ok(association)
    }

    fn start(&self, host: &str, address: SocketAddr, port: u16) -> io::Result<Association> {
        Association::start(&self.stack, self.peer(host, address, port), 0, None).map_err(io::Error::other)
    }

    /// Sets up an association with one address. It is aborted if the future is dropped.
    async fn establish(self, host: Arc<str>, address: SocketAddr, port: u16) -> io::Result<Association> {
        let attempt = Attempt(Some(self.start(&host, address, port)?));
        if let Some(association) = &attempt.0 {
            association.established().await.map_err(io::Error::other)?;
        }
        attempt.take().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn peer(&self, host: &str, first: SocketAddr, port: u16) -> Peer {
        let peer = named(Peer::new(strandline::Address::of(first), port), host);
        match self.encapsulation_port {
            Some(udp_port) => peer.encapsulation_port(udp_port),
            None => peer,
        }
    }

    async fn connect(self, uri: Uri) -> io::Result<TokioIo<HttpStream>> {
        let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        let host = uri.host().ok_or_else(|| invalid("the URI names no host"))?;
        let port = port_of(&uri, PORT).ok_or_else(|| invalid("the URI has a malformed host or port"))?;
        let mut attempt = 1;
        loop {
            match self.association(host, port).await?.open().await {
                Ok(stream) => return Ok(TokioIo::new(stream)),
                // The association may have been idle for too long a moment ago.
                Err(
                    ConnectionError::StreamsUsedUp
                    | ConnectionError::ShuttingDown
                    | ConnectionError::Ended(Ended::ShutDown),
                ) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

/// Opens a stack for outgoing associations, whose parameters are given, on any port of all addresses.
pub(crate) fn outgoing_stack(
    config: &AssociationConfig,
    encryption: Option<&Encryption>,
) -> Result<Stack, StackError> {
    let builder = || {
        let builder = Stack::builder().association(config.clone());
        match encryption {
            Some(encryption) => builder.encryption(encryption.clone()),
            None => builder,
        }
    };
    builder().udp(([0_u16; 8], 0).into()).or_else(|_| builder().udp(([0, 0, 0, 0], 0).into()))
}

/// Adds the name by which an encrypted server's key is looked up, if the host isn't an address.
pub(crate) fn named(peer: Peer, host: &str) -> Peer {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<std::net::IpAddr>() {
        Err(_) if !host.is_empty() => peer.named(host),
        _ => peer,
    }
}

/// An association that is aborted unless it is taken.
struct Attempt(Option<Association>);

impl Attempt {
    fn take(mut self) -> Option<Association> {
        self.0.take()
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(association) = self.0.take() {
            association.abort("another address has answered first");
        }
    }
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
