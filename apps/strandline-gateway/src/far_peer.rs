//! The peer of an association, as what it asks for is served.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use strandline::{Association, AssociationState, RecvError, RecvStream, SendStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use crate::clock::now;
use crate::config::{Limits, Reverse};
use crate::fair_sharing::FairSharing;
use crate::first_message::WaitingData;
use crate::flows::Flows;
use crate::gateway::{Gateway, Stage};
use crate::peer_identity::PeerIdentity;
use crate::peer_listeners::{PeerListener, PeerListenerGuard, PeerSocket};
use crate::protocol::{Reason, Reply};
use crate::registry::{ConnectionGuard, ConnectionInfo};

/// Time for the first message of a stream.
pub(crate) const OPENING_TIMEOUT: Duration = Duration::from_secs(10);

/// The peer of an association, and what it may do here.
#[derive(Debug)]
pub(crate) struct FarPeer {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) name: Arc<str>,
    /// What rules and limits are about.
    pub(crate) who: PeerIdentity,
    /// Where connections and datagrams lead that it accepts for this side, by token.
    pub(crate) reverses: Vec<Reverse>,
    /// UDP flows of the association.
    pub(crate) flows: Arc<Flows>,
    /// Divides the send buffer of the association among clients.
    pub(crate) sharing: Arc<FairSharing>,
    /// Notified when the peer hands over to another process.
    pub(crate) moved: Notify,
    pub(crate) services: Services,
}

/// What a peer may ask for besides connections, on one association.
#[derive(Debug)]
pub(crate) struct Services {
    pub(crate) listeners: Semaphore,
    pub(crate) reports: Semaphore,
    /// What has come for connections that are not made yet.
    pub(crate) waiting: WaitingData,
}

impl Services {
    pub(crate) fn new(limits: &Limits) -> Self {
        let waiting = ((limits.buffer_mib as usize) << 20) / WAITING_DIVISOR;
        Self {
            listeners: Semaphore::new(LISTENERS_MAX),
            reports: Semaphore::new(1),
            waiting: WaitingData::new(waiting),
        }
    }
}

/// Fraction of the receive buffer for what has come for connections that are not made yet.
const WAITING_DIVISOR: usize = 4;

/// Listeners that one association may hold.
pub(crate) const LISTENERS_MAX: usize = 256;

impl FarPeer {
    /// Adds a connection that the peer has asked for to the registry.
    pub(crate) fn track(
        &self,
        listener: &'static str,
        client: Option<SocketAddr>,
        destination: String,
        stream: u16,
    ) -> ConnectionGuard {
        let about =
            ConnectionInfo { listener, peer: Arc::clone(&self.name), client, destination, is_near: false };
        let tracked = self.gateway.registry.begin(about);
        tracked.entry.set_stream(stream);
        self.limit(&tracked);
        tracked
    }

    /// Adds a connection or flow that comes to a socket at which this side listens for the peer.
    pub(crate) fn track_arrived(
        &self,
        listener: &'static str,
        client: SocketAddr,
        at: SocketAddr,
    ) -> ConnectionGuard {
        let tracked = self.gateway.registry.begin(ConnectionInfo {
            listener,
            peer: Arc::clone(&self.name),
            client: Some(client),
            destination: at.to_string(),
            is_near: true,
        });
        self.limit(&tracked);
        tracked
    }

    /// Lists a socket at which this side listens for the peer, until the returned value is dropped.
    pub(crate) fn list(
        &self,
        listener: &'static str,
        listen: SocketAddr,
        socket: PeerSocket,
    ) -> PeerListenerGuard {
        let peer = Arc::clone(&self.name);
        self.gateway.peer_listeners.add(PeerListener { listener, listen, peer, socket })
    }

    /// Puts a connection under the limit of the peer's bytes.
    pub(crate) fn limit(&self, tracked: &ConnectionGuard) {
        tracked.entry.set_rate(self.gateway.limits.rate(self.who, now()));
    }
}

/// Waits until a peer does not want a listener any more, or can't have it. Returns why.
pub(crate) async fn request_ended(
    gateway: &Gateway,
    association: &Association,
    request: &mut RecvStream,
) -> String {
    let ended = tokio::select! {
        ended = request.recv() => ended,
        () = gateway.reached(Stage::Draining) => return "this gateway takes nothing new any more".to_owned(),
    };
    // Shutting down ends the streams first.
    let is_up = association.status().is_some_and(|status| status.state == AssociationState::Established);
    match ended {
        Err(RecvError::Ended(end)) => format!("the association has ended: {end}"),
        Err(RecvError::Restarted) => "the peer has started again".to_owned(),
        _ if !is_up => "the association is shut down".to_owned(),
        _ => "the peer does not ask for it any more".to_owned(),
    }
}

/// Says whether the socket of a listener has failed whenever that changes, if the peer wants to know. It never ends.
pub(crate) async fn send_states(
    send: &mut SendStream,
    mut has_failed: watch::Receiver<bool>,
    is_wanted: bool,
) -> Infallible {
    while is_wanted && has_failed.changed().await.is_ok() {
        let state = u8::from(*has_failed.borrow_and_update());
        // The request ends if the stream does.
        let _ = send.send(Bytes::copy_from_slice(&[state])).await;
    }
    std::future::pending().await
}

/// Answers that there is no connection.
pub(crate) async fn refuse(mut send: SendStream, reason: Reason, text: String) {
    let reply = Reply::Failed { reason, text: text.into() };
    if send.send(reply.encode().into()).await.is_ok() && send.finish().is_ok() {
        // Dropping the writer doesn't reset what is finished.
        let _ = timeout(OPENING_TIMEOUT, send.finished()).await;
    }
}
