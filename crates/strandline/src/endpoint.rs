//! A one-to-many endpoint.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use strandline_proto::event::{AssociationId as EngineId, Message, SendInfo};
use strandline_proto::time::Time;

use crate::association::Association;
use crate::control::Control;
use crate::error::{BindError, ConnectError, Ended, RecvError, SendError, UnknownAssociation};
use crate::handle::Handle;
use crate::id::AssociationId;
use crate::notification::Notification;
use crate::peer::Peer;
use crate::shard::attempt::Attempt;
use crate::shard::core::Shard;
use crate::shard::held::RECV_MANY_MAX;
use crate::shard::place::Place;
use crate::shard::state::State;
use crate::shard::table::Owner;
use crate::stack::{Stack, StackInner};

/// Slots looked at while a lock is held.
const LIST_STEP: u32 = 4096;

/// Any number of associations on one SCTP port, without a handle for each (the one-to-many style of RFC 6458). Peers
/// that set up an association need not be accepted; sending to an address sets up an association if there is none.
///
/// ```
/// use strandline::{Endpoint, SendInfo, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// let server = Endpoint::bind(&there, 7)?;
/// tokio::spawn(async move {
///     while let Ok((from, message)) = server.recv_from().await {
///         let _ = server.send_to(from, message.data, SendInfo::default()).await;
///     }
/// });
///
/// let client = Endpoint::bind(&here, 0)?;
/// let peer: std::net::SocketAddr = "10.0.0.2:7".parse()?;
/// client.send_to_peer(peer, "hello".into(), SendInfo::default()).await?; // goes with the COOKIE ECHO
/// let (_, echo) = client.recv_from().await?;
/// assert_eq!(echo.data, "hello");
/// # Ok(()) }
/// ```
///
/// Messages of all associations come from [`recv_from`](Self::recv_from); one that sends much doesn't keep out the
/// others, and one that isn't read, because the application reads nothing, closes its own window only. An association
/// that has ended and was read to its end is forgotten; its end is a notification, for those who
/// [ask](Self::notifications).
///
/// Dropping the endpoint shuts down its associations gracefully in the background.
#[derive(Debug)]
pub struct Endpoint {
    stack: Arc<StackInner>,
    socket: u32,
    port: u16,
}

impl Endpoint {
    /// Binds an SCTP port; 0 picks one. Peers can set up associations from then on.
    ///
    /// # Errors
    /// If the port is taken in this stack, or none is left.
    pub fn bind(stack: &Stack, port: u16) -> Result<Self, BindError> {
        let shard = stack.inner.shard(0);
        let (socket, port) = shard.with(|state, _| state.bind(&shard.carrier, port, None))?;
        Ok(Self { stack: Arc::clone(&stack.inner), socket, port })
    }

    /// The SCTP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets up an association and waits until it is established.
    ///
    /// # Errors
    /// If the request makes no sense, the association exists, the peer refuses or doesn't answer.
    ///
    /// # Cancel safety
    /// Dropping the future gives up the set-up.
    pub async fn connect(&self, peer: impl Into<Peer>) -> Result<AssociationId, ConnectError> {
        let request = self.request(&peer.into());
        let id = self.shard().with(|state, now| {
            if state.gone {
                return Err(Ended::StackClosed.into());
            }
            state.connect(now, Owner::Held, request).map_err(ConnectError::from)
        })?;
        let mut handle = Handle::new(Arc::clone(&self.stack), 0, id);
        let established =
            Attempt::new(handle.shard(), Place::Change(id), |state, _| state.poll_established(id));
        established.await?;
        handle.owned = false;
        self.shard().with(|state, _| state.adopt(self.socket, id));
        Ok(handle.id)
    }

    /// Sends a message to an association. Waits while its send buffer is full.
    ///
    /// # Errors
    /// If the message can't be sent: see [`SendError`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it returned, the message was not sent.
    pub async fn send_to(&self, to: AssociationId, mut data: Bytes, info: SendInfo) -> Result<(), SendError> {
        let id = to.id;
        let socket = self.socket;
        let attempt = |state: &mut State, now| {
            if !belongs(state, socket, id) {
                return Poll::Ready(Err(SendError::ShuttingDown));
            }
            state.poll_send(now, id, info, &mut data)
        };
        Attempt::new(self.stack.shard(to.shard), Place::Write(id), attempt).await
    }

    /// Sends a message to a peer. If there is no association with it, one is set up, and the message goes along with
    /// the COOKIE ECHO: one round trip less than connecting first. Returns without waiting for the set-up; if that
    /// fails, [`SendFailed`](Notification::SendFailed) and [`Closed`](Notification::Closed) notifications tell.
    ///
    /// # Errors
    /// If the message can't be sent, or no association can be started.
    ///
    /// # Cancel safety
    /// If the future is dropped before it returned, the message was not sent. An association may have been started.
    pub async fn send_to_peer(
        &self,
        peer: impl Into<Peer>,
        data: Bytes,
        info: SendInfo,
    ) -> Result<AssociationId, SendError> {
        let peer = peer.into();
        let id = self.shard().with(|state, now| self.find_or_connect(state, now, &peer))?;
        let to = AssociationId { shard: 0, id };
        self.send_to(to, data, info).await?;
        Ok(to)
    }

    fn find_or_connect(&self, state: &mut State, now: Time, peer: &Peer) -> Result<EngineId, SendError> {
        if state.gone {
            return Err(Ended::StackClosed.into());
        }
        let request = self.request(peer);
        let found = peer.addresses().iter().find_map(|address| {
            let id = state.engine.find(self.port, *address, peer.port())?;
            belongs(state, self.socket, id).then_some(id)
        });
        match found {
            Some(id) => Ok(id),
            None => Ok(state.connect(now, Owner::Endpoint(self.socket), request)?),
        }
    }

    fn request(&self, peer: &Peer) -> strandline_proto::endpoint::Connect {
        State::request(peer.port(), self.port, peer.remotes(self.stack.default_port), None)
    }

    /// The next message of any association.
    ///
    /// # Errors
    /// If the stack is gone.
    ///
    /// # Cancel safety
    /// No message is lost if the future is dropped.
    pub async fn recv_from(&self) -> Result<(AssociationId, Message), RecvError> {
        let socket = self.socket;
        let attempt = |state: &mut State, now| state.poll_recv_many(now, socket);
        let (id, message) = Attempt::new(self.shard(), Place::ReadMany(socket), attempt).await?;
        Ok((AssociationId { shard: 0, id }, message))
    }

    /// The next messages of any associations, up to `limit` of them (and 1,024) as far as they have arrived, at the end
    /// of `messages`: cheaper than one by one if they are small. Waits for the first, and returns how many there are.
    ///
    /// # Errors
    /// If the stack is gone.
    ///
    /// # Cancel safety
    /// No message is lost if the future is dropped.
    pub async fn recv_many_from(
        &self,
        messages: &mut Vec<(AssociationId, Message)>,
        limit: usize,
    ) -> Result<usize, RecvError> {
        let (socket, limit) = (self.socket, limit.min(RECV_MANY_MAX));
        let attempt = |state: &mut State, now| {
            state.poll_recv_many_batch(now, socket, limit, |id, message| {
                messages.push((AssociationId { shard: 0, id }, message));
            })
        };
        Attempt::new(self.shard(), Place::ReadMany(socket), attempt).await
    }

    /// Notifications of all associations, from now on. All values that this returns share one queue.
    #[must_use]
    pub fn notifications(&self) -> Notifications<'_> {
        self.shard().with(|state, _| state.subscribe_many(self.socket));
        Notifications { endpoint: self }
    }

    /// Takes an association out of the endpoint, as a one-to-one handle. What arrived and was not read yet comes from
    /// that handle.
    ///
    /// # Errors
    /// If the association has ended and is forgotten, or isn't this endpoint's.
    pub fn peel_off(&self, id: AssociationId) -> Result<Association, UnknownAssociation> {
        self.stack.shard(id.shard).with(|state, _| state.peel_off(self.socket, id.id))?;
        Ok(Association::new(Handle::new(Arc::clone(&self.stack), id.shard, id.id)))
    }

    /// Looks at an association, or sets its parameters, shuts it down or aborts it.
    ///
    /// # Errors
    /// If the association has ended and is forgotten, or isn't this endpoint's.
    pub fn control(&self, id: AssociationId) -> Result<Control<'_>, UnknownAssociation> {
        let shard = self.stack.shard(id.shard);
        if belongs(&shard.lock(), self.socket, id.id) {
            Ok(Control::new(shard, id))
        } else {
            Err(UnknownAssociation)
        }
    }

    /// The endpoint's associations: all of them, so it takes time and memory in proportion.
    #[must_use]
    pub fn associations(&self) -> Vec<AssociationId> {
        let mut all = Vec::new();
        let mut from = Some(0);
        while let Some(slot) = from {
            let (some, next) = self.shard().lock().list(self.socket, slot, LIST_STEP);
            all.extend(some.into_iter().map(|id| AssociationId { shard: 0, id }));
            from = next;
        }
        all
    }

    fn shard(&self) -> &Shard {
        self.stack.shard(0)
    }
}

fn belongs(state: &State, socket: u32, id: EngineId) -> bool {
    state.table.get(id).and_then(|entry| entry.owner()) == Some(Owner::Endpoint(socket))
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shard().with(|state, _| state.close_many(self.socket));
    }
}

/// Notifications of a one-to-many endpoint, from [`Endpoint::notifications`].
#[derive(Debug, Clone, Copy)]
pub struct Notifications<'a> {
    endpoint: &'a Endpoint,
}

impl Notifications<'_> {
    /// The next notification and whose it is. If nobody read them for long and some were lost, their number comes
    /// without an association, as [`Notification::Missed`]. `None` if the stack is gone.
    ///
    /// # Cancel safety
    /// No notification is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<(Option<AssociationId>, Notification)> {
        let socket = self.endpoint.socket;
        let place = Place::NotificationMany(socket);
        let attempt =
            Attempt::new(self.endpoint.shard(), place, |state, _| state.poll_notification_many(socket));
        Some(match attempt.await? {
            Ok((id, notification)) => (Some(AssociationId { shard: 0, id }), notification),
            Err(missed) => (None, Notification::Missed(missed)),
        })
    }
}
