//! A one-to-many endpoint.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use strandline_proto::error::ConnectError as Refusal;
use strandline_proto::event::{AssociationId as EngineId, Message, SendInfo};

use crate::association::Association;
use crate::bound::Bound;
use crate::control::Control;
use crate::error::{BindError, ConnectError, Ended, RecvError, SendError, UnknownAssociation};
use crate::handle::Handle;
use crate::id::AssociationId;
use crate::notification::Notification;
use crate::peer::Peer;
use crate::shard::any::{AnyAttempt, At};
use crate::shard::attempt::Attempt;
use crate::shard::held::RECV_MANY_MAX;
use crate::shard::place::Place;
use crate::shard::socket::Kind;
use crate::shard::state::State;
use crate::shard::table::Owner;
use crate::stack::Stack;

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
    bound: Bound,
}

impl Endpoint {
    /// Binds an SCTP port; 0 picks one. Peers can set up associations from then on.
    ///
    /// # Errors
    /// If the port is taken in this stack, or none is left.
    pub fn bind(stack: &Stack, port: u16) -> Result<Self, BindError> {
        Ok(Self { bound: Bound::new(stack, Kind::Many, port)? })
    }

    /// The SCTP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.bound.port
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
        let (shard, id) = self.bound.stack.connect(None, request)?;
        let mut handle = Handle::new(Arc::clone(&self.bound.stack), shard, id);
        let established =
            Attempt::new(handle.shard(), Place::Change(id), |state, _| state.poll_established(id));
        established.await?;
        handle.owned = false;
        if let Some(socket) = self.bound.socket(shard) {
            handle.shard().with(|state, _| state.adopt(socket, id));
        }
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
        let socket = self.bound.socket(to.shard).ok_or(SendError::ShuttingDown)?;
        let attempt = |state: &mut State, now| {
            if !belongs(state, socket, id) {
                return Poll::Ready(Err(SendError::ShuttingDown));
            }
            state.poll_send(now, id, info, &mut data)
        };
        Attempt::new(self.bound.stack.shard(to.shard), Place::Write(id), attempt).await
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
        let to = self.find_or_connect(&peer)?;
        self.send_to(to, data, info).await?;
        Ok(to)
    }

    /// The association with a peer; on which shard it is, or would be, shows the stack.
    fn find_or_connect(&self, peer: &Peer) -> Result<AssociationId, SendError> {
        let request = self.request(peer);
        let (home, others) = self.bound.stack.homes(&request);
        for (index, shard, socket) in self.bound.each().filter(|(index, ..)| others && *index != home) {
            let state = shard.lock();
            if let Some(id) = self.find(&state, socket, peer) {
                return Ok(AssociationId { shard: index, id });
            }
            if self.known(&state, peer).next().is_some() {
                // Peeled off.
                return Err(Refusal::AlreadyExists.into());
            }
        }
        let socket = self.bound.socket(home).ok_or(SendError::ShuttingDown)?;
        let shard = self.bound.stack.shard(home);
        let id = shard.with(|state, now| {
            if state.gone {
                return Err(Ended::StackClosed.into());
            }
            match self.find(state, socket, peer) {
                Some(id) => Ok(id),
                None => {
                    state.connect(now, Owner::Endpoint(socket), request, |_| true).map_err(SendError::from)
                }
            }
        })?;
        Ok(AssociationId { shard: home, id })
    }

    fn find(&self, state: &State, socket: u32, peer: &Peer) -> Option<EngineId> {
        self.known(state, peer).find(|id| belongs(state, socket, *id))
    }

    /// Associations from this port with the peer, whoever has them.
    fn known(&self, state: &State, peer: &Peer) -> impl Iterator<Item = EngineId> {
        let addresses = peer.addresses().iter();
        addresses.filter_map(|address| state.engine.find(self.bound.port, *address, peer.port()))
    }

    fn request(&self, peer: &Peer) -> strandline_proto::endpoint::Connect {
        State::request(peer.port(), self.bound.port, peer.remotes(self.bound.stack.default_port), None)
    }

    /// The next message of any association.
    ///
    /// # Errors
    /// If the stack is gone.
    ///
    /// # Cancel safety
    /// No message is lost if the future is dropped.
    pub async fn recv_from(&self) -> Result<(AssociationId, Message), RecvError> {
        let attempt = |state: &mut State, now, at: At| state.poll_recv_many(now, at.socket);
        let received = AnyAttempt::new(self.bound.everywhere(), Place::ReadMany, attempt).await;
        let (shard, (id, message)) = received?;
        Ok((AssociationId { shard, id }, message))
    }

    /// The next message of the associations on one shard, numbered from 0: for tasks on the runtime that drives it
    /// ([`StackBuilder::runtimes`](crate::StackBuilder::runtimes)).
    ///
    /// # Errors
    /// If there is no such shard, or the stack is gone.
    ///
    /// # Cancel safety
    /// No message is lost if the future is dropped.
    pub async fn recv_on(&self, shard: usize) -> Result<(AssociationId, Message), RecvError> {
        let (index, shard, socket) = self.bound.on(shard).ok_or(RecvError::NoSuchShard(shard))?;
        let attempt = |state: &mut State, now| state.poll_recv_many(now, socket);
        let (id, message) = Attempt::new(shard, Place::ReadMany(socket), attempt).await?;
        Ok((AssociationId { shard: index, id }, message))
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
        let limit = limit.min(RECV_MANY_MAX);
        let attempt = |state: &mut State, now, At { shard, socket }| {
            state.poll_recv_many_batch(now, socket, limit, |id, message| {
                messages.push((AssociationId { shard, id }, message));
            })
        };
        let (_, count) = AnyAttempt::new(self.bound.everywhere(), Place::ReadMany, attempt).await?;
        Ok(count)
    }

    /// Notifications of all associations, from now on. All values that this returns share one queue.
    #[must_use]
    pub fn notifications(&self) -> Notifications<'_> {
        for (_, shard, socket) in self.bound.each() {
            shard.with(|state, _| state.subscribe_many(socket));
        }
        Notifications { endpoint: self }
    }

    /// Takes an association out of the endpoint, as a one-to-one handle. What arrived and was not read yet comes from
    /// that handle.
    ///
    /// # Errors
    /// If the association has ended and is forgotten, or isn't this endpoint's.
    pub fn peel_off(&self, id: AssociationId) -> Result<Association, UnknownAssociation> {
        let socket = self.bound.socket(id.shard).ok_or(UnknownAssociation)?;
        self.bound.stack.shard(id.shard).with(|state, _| state.peel_off(socket, id.id))?;
        Ok(Association::new(Handle::new(Arc::clone(&self.bound.stack), id.shard, id.id)))
    }

    /// Looks at an association, or sets its parameters, shuts it down or aborts it.
    ///
    /// # Errors
    /// If the association has ended and is forgotten, or isn't this endpoint's.
    pub fn control(&self, id: AssociationId) -> Result<Control<'_>, UnknownAssociation> {
        let socket = self.bound.socket(id.shard).ok_or(UnknownAssociation)?;
        let shard = self.bound.stack.shard(id.shard);
        if belongs(&shard.lock(), socket, id.id) {
            Ok(Control::new(shard, id))
        } else {
            Err(UnknownAssociation)
        }
    }

    /// The endpoint's associations: all of them, so it takes time and memory in proportion.
    #[must_use]
    pub fn associations(&self) -> Vec<AssociationId> {
        let mut all = Vec::new();
        for (index, shard, socket) in self.bound.each() {
            let mut from = Some(0);
            while let Some(slot) = from {
                let (some, next) = shard.lock().list(socket, slot, LIST_STEP);
                all.extend(some.into_iter().map(|id| AssociationId { shard: index, id }));
                from = next;
            }
        }
        all
    }
}

fn belongs(state: &State, socket: u32, id: EngineId) -> bool {
    state.table.get(id).and_then(|entry| entry.owner()) == Some(Owner::Endpoint(socket))
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
        let attempt =
            |state: &mut State, _, at: At| state.poll_notification_many(at.socket).map(|item| item.ok_or(()));
        let socket = self.endpoint.bound.everywhere();
        let (shard, item) = AnyAttempt::new(socket, Place::NotificationMany, attempt).await.ok()?;
        Some(match item {
            Ok((id, notification)) => (Some(AssociationId { shard, id }), notification),
            Err(missed) => (None, Notification::Missed(missed)),
        })
    }
}
