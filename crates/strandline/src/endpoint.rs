//! One-to-many endpoints.

use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use strandline_proto::endpoint::Connect;
use strandline_proto::error::{ConnectError as Refusal, LocalAddressError};
use strandline_proto::event::{AssociationId as EngineId, Message, SendInfo};
use strandline_proto::zone;

use crate::address::Address;
use crate::association::Association;
use crate::bind::Bind;
use crate::bound::Bound;
use crate::control::Control;
use crate::error::{
    BindError, ConnectError, Ended, RecvError, SendError, TryRecvError, TrySendError, UnknownAssociation,
};
use crate::handle::Handle;
use crate::id::AssociationId;
use crate::notifications::Notifications;
use crate::peer::Peer;
use crate::readiness::Readiness;
use crate::shard::any::{AnyAttempt, At, Finished, try_any};
use crate::shard::attempt::Attempt;
use crate::shard::core::Shard;
use crate::shard::one_to_one::RECV_MANY_MAX;
use crate::shard::passing::try_in_turn;
use crate::shard::place::Place;
use crate::shard::socket::{Kind, Phase};
use crate::shard::state::State;
use crate::shard::table::Owner;
use crate::stack::Stack;

/// Number of table slots visited while a shard's lock is held.
const LIST_STEP: u32 = 4096;

/// A socket with any number of associations on one SCTP port, without a handle for each (the one-to-many style
/// of RFC 6458). Associations that peers set up need not be accepted; sending to an address sets up an
/// association if there is none.
///
/// ```
/// use strandline::{Endpoint, Peer, SendInfo, Stack};
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
/// let peer = Peer::new([10, 0, 0, 2], 7);
/// client.send_to_peer(&peer, "hello".into(), SendInfo::default()).await?; // goes with the COOKIE ECHO
/// let (_, echo) = client.recv_from().await?;
/// assert_eq!(echo.data, "hello");
/// # Ok(()) }
/// ```
///
/// [`recv_from`](Self::recv_from) returns the messages of all associations. An association that sends much
/// doesn't starve the others, and unread messages close only their own association's receive window. An
/// association that has ended is forgotten once all its messages were read; its end is reported as a
/// [notification](Self::notifications).
///
/// Clones are handles to the same endpoint. Dropping the last handle ([`Notifications`] included) shuts down
/// its associations gracefully in the background; [`shutdown_all`](Self::shutdown_all) does so and waits until
/// they have ended.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub(crate) bound: Arc<Bound>,
}

impl Endpoint {
    /// Binds an SCTP port, or a port at some of the stack's addresses ([`Bind`]); port 0 picks one. From then on
    /// peers can set up associations.
    ///
    /// # Errors
    /// If the port is already bound in this stack, no port is left, or an address is not the stack's.
    pub fn bind(stack: &Stack, bind: impl Into<Bind>) -> Result<Self, BindError> {
        Ok(Self { bound: Arc::new(Bound::new(stack, Kind::Many, bind.into())?) })
    }

    /// Adds an address to those that the endpoint is bound to ([`Bind::at`]): associations that are set up
    /// from now on have it. Existing ones keep theirs. A socket without addresses of its own has those of its
    /// stack: [`Stack::add_local_address`].
    ///
    /// # Errors
    /// If the endpoint is not bound to addresses, it has the address or 8 of them, or the address is not unicast.
    pub fn add_local_address(&self, address: impl Into<Address>) -> Result<(), LocalAddressError> {
        self.bound.add_address(address.into().key())
    }

    /// Removes an address from those that the endpoint is bound to, for associations that are set up from now
    /// on. Packets of new ones to it are answered as if nothing listened there.
    ///
    /// # Errors
    /// If the endpoint is not bound to the address, or to no other one.
    pub fn remove_local_address(&self, address: impl Into<Address>) -> Result<(), LocalAddressError> {
        self.bound.remove_address(address.into().key())
    }

    /// Returns the SCTP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.bound.port
    }

    /// Sets up an association and waits until it is established.
    ///
    /// # Errors
    /// If the request is invalid, the association already exists, the peer refuses or doesn't answer, or the
    /// endpoint is [shutting down](Self::shutdown_all).
    ///
    /// # Cancel safety
    /// Dropping the future abandons the set-up.
    pub async fn connect(&self, peer: impl Into<Peer>) -> Result<AssociationId, ConnectError> {
        let request = self.request(&peer.into())?;
        if self.is_shutting_down() {
            return Err(ConnectError::ShuttingDown);
        }
        let (shard, id) = self.bound.stack.connect(None, request)?;
        let mut handle = Handle::new(Arc::clone(&self.bound.stack), shard, id);
        let established =
            Attempt::new(handle.shard(), Place::Change(id), |state, _| state.poll_established(id));
        established.await?;
        let socket = self.bound.socket(shard).ok_or(ConnectError::ShuttingDown)?;
        if !handle.shard().with(|state, _| state.adopt(socket, id)) {
            // Dropping the handle shuts the association down.
            return Err(ConnectError::ShuttingDown);
        }
        handle.owned = false;
        Ok(handle.id)
    }

    fn is_shutting_down(&self) -> bool {
        let first = self.bound.each().next();
        first.is_none_or(|(_, shard, socket)| shard.with(|state, _| state.is_shutting_down(socket)))
    }

    /// Sends a message to an association. Waits while its send buffer is full.
    ///
    /// # Errors
    /// If the message can't be sent: see [`SendError`].
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent.
    pub async fn send_to(&self, to: AssociationId, mut data: Bytes, info: SendInfo) -> Result<(), SendError> {
        let id = to.id;
        let socket = self.bound.socket(to.shard).ok_or(SendError::ShuttingDown)?;
        let attempt = |state: &mut State, now| {
            if !belongs(state, socket, id) {
                return Poll::Ready(Err(SendError::ShuttingDown));
            }
            state.poll_send(now, id, info, &mut data)
        };
        Attempt::new(self.bound.stack.shard(to.shard), Place::Write(id, info.stream), attempt).await
    }

    /// Sends a message to an association, or returns at once if its send buffer is full.
    ///
    /// ```
    /// use strandline::{Endpoint, Peer, SendInfo, Stack, TrySendError};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// # let server = Endpoint::bind(&there, 7)?;
    /// let endpoint = Endpoint::bind(&here, 0)?;
    /// let id = endpoint.connect(Peer::new([10, 0, 0, 2], 7)).await?;
    /// match endpoint.try_send_to(id, "latest value".into(), SendInfo::default()) {
    ///     Ok(()) => {}
    ///     Err(TrySendError::Full) => println!("the peer is slow: it misses this value"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # assert_eq!(server.recv_from().await?.1.data, "latest value");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`TrySendError::Full`] if the call would have to wait, otherwise the reason why the message can't be
    /// sent.
    pub fn try_send_to(
        &self,
        to: AssociationId,
        mut data: Bytes,
        info: SendInfo,
    ) -> Result<(), TrySendError> {
        let id = to.id;
        let socket = self.bound.socket(to.shard).ok_or(SendError::ShuttingDown)?;
        let sent = self.bound.stack.shard(to.shard).with(|state, now| {
            if belongs(state, socket, id) {
                let message = (info.stream, data.len());
                try_in_turn(state, id, message, |state| state.poll_send(now, id, info, &mut data))
            } else {
                Poll::Ready(Err(SendError::ShuttingDown))
            }
        });
        match sent {
            Poll::Ready(result) => Ok(result?),
            Poll::Pending => Err(TrySendError::Full),
        }
    }

    /// Sends a message to a peer. If there is no association with the peer, one is set up and the message
    /// travels with the COOKIE ECHO, one round trip less than connecting first. Returns without waiting for the
    /// set-up; if that fails, [`SendFailed`](crate::Notification::SendFailed) and
    /// [`Closed`](crate::Notification::Closed) notifications report it.
    ///
    /// # Errors
    /// If the message can't be sent, or no association can be started.
    ///
    /// # Cancel safety
    /// If the future is dropped before it completes, the message was not sent. An association may have been
    /// started.
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

    /// Returns the association with a peer, starting one on its home shard if there is none.
    fn find_or_connect(&self, peer: &Peer) -> Result<AssociationId, SendError> {
        let request = self.request(peer)?;
        let (home, others) = self.bound.stack.homes(&request);
        for (index, shard, socket) in self.bound.each().filter(|(index, ..)| others && *index != home) {
            let state = shard.lock();
            if let Some(id) = self.find(&state, socket, &request) {
                return Ok(AssociationId { shard: index, id });
            }
            if self.known(&state, &request).next().is_some() {
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
            match self.find(state, socket, &request) {
                Some(id) => Ok(id),
                None if state.is_shutting_down(socket) => Err(SendError::ShuttingDown),
                None => {
                    state.connect(now, Owner::OneToMany(socket), request, |_| true).map_err(SendError::from)
                }
            }
        })?;
        Ok(AssociationId { shard: home, id })
    }

    fn find(&self, state: &State, socket: u32, request: &Connect) -> Option<EngineId> {
        self.known(state, request).find(|id| belongs(state, socket, *id))
    }

    /// Associations from this port with the peer, whoever has them.
    fn known(&self, state: &State, request: &Connect) -> impl Iterator<Item = EngineId> {
        let keys = request.remotes.iter().map(|remote| zone::key(*remote));
        keys.filter_map(|key| state.engine.find(self.bound.port, key, request.peer_port))
    }

    fn request(&self, peer: &Peer) -> Result<Connect, Refusal> {
        let remotes = self.bound.stack.remotes(peer)?;
        let (local_port, local) = (self.bound.port, self.bound.local_addresses());
        Ok(Connect { local_port, peer_port: peer.port(), remotes, local, config: None })
    }

    /// Receives the next message of any association. A message too large for the receive buffer arrives in
    /// parts: see [`ends`](Message::ends). After a [`Restarted`](crate::Notification::Restarted) notification the
    /// rest of a message in parts doesn't arrive.
    ///
    /// # Errors
    /// If the stack is gone. [`Ended::ShutDown`] once the endpoint was [shut down](Self::shutdown_all) and
    /// every message was read.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv_from(&self) -> Result<(AssociationId, Message), RecvError> {
        let mut finished = Finished::of(self.bound.stack.shards.len());
        let attempt = |state: &mut State, now, at: At| {
            let received = state.poll_recv_many(now, at.socket);
            finished.unless_all(at, received, |error| *error == RecvError::Ended(Ended::ShutDown))
        };
        let received = AnyAttempt::new(self.bound.everywhere(), Place::ReadMany, attempt).await;
        let (shard, (id, message)) = received?;
        Ok((AssociationId { shard, id }, message))
    }

    /// Receives as [`recv_from`](Self::recv_from) does, or returns at once if no message has arrived.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if the call would have to wait, otherwise the errors of
    /// [`recv_from`](Self::recv_from).
    pub fn try_recv_from(&self) -> Result<(AssociationId, Message), TryRecvError> {
        let mut finished = Finished::of(self.bound.stack.shards.len());
        let received = try_any(self.bound.everywhere(), |state, now, at| {
            let received = state.poll_recv_many(now, at.socket);
            finished.unless_all(at, received, |error| *error == RecvError::Ended(Ended::ShutDown))
        });
        match received {
            Poll::Ready(result) => {
                Ok(result.map(|(shard, (id, message))| (AssociationId { shard, id }, message))?)
            }
            Poll::Pending => Err(TryRecvError::Empty),
        }
    }

    /// Returns an object that waits until a message of any association can be received, without receiving it. It
    /// is also a handle to the endpoint.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness::of_endpoint(Arc::clone(&self.bound))
    }

    /// Receives the next message of the associations on one shard, numbered from 0. Meant for tasks on the
    /// runtime that drives this shard ([`StackBuilder::runtimes`](crate::StackBuilder::runtimes)).
    ///
    /// # Errors
    /// If there is no such shard, or the stack is gone. [`Ended::ShutDown`] once the endpoint was [shut
    /// down](Self::shutdown_all) and every message of that shard was read.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv_on(&self, shard: usize) -> Result<(AssociationId, Message), RecvError> {
        let (index, shard, socket) = self.bound.on(shard).ok_or(RecvError::NoSuchShard(shard))?;
        let attempt = |state: &mut State, now| state.poll_recv_many(now, socket);
        let (id, message) = Attempt::new(shard, Place::ReadMany(socket), attempt).await?;
        Ok((AssociationId { shard: index, id }, message))
    }

    /// Appends the messages that have arrived on any association to `messages`, at most `limit` and at most
    /// 1,024 of them. This is cheaper than receiving small messages one by one. Waits for the first message and
    /// returns how many were appended.
    ///
    /// # Errors
    /// See [`recv_from`](Self::recv_from).
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn recv_many_from(
        &self,
        messages: &mut Vec<(AssociationId, Message)>,
        limit: usize,
    ) -> Result<usize, RecvError> {
        let limit = limit.min(RECV_MANY_MAX);
        let mut finished = Finished::of(self.bound.stack.shards.len());
        let attempt = |state: &mut State, now, at: At| {
            let received = state.poll_recv_many_batch(now, at.socket, limit, |id, message| {
                messages.push((AssociationId { shard: at.shard, id }, message));
            });
            finished.unless_all(at, received, |error| *error == RecvError::Ended(Ended::ShutDown))
        };
        let (_, count) = AnyAttempt::new(self.bound.everywhere(), Place::ReadMany, attempt).await?;
        Ok(count)
    }

    /// Subscribes to the notifications of all associations from now on. All returned handles share one queue.
    #[must_use]
    pub fn notifications(&self) -> Notifications {
        for (_, shard, socket) in self.bound.each() {
            shard.with(|state, _| state.subscribe_many(socket));
        }
        Notifications::new(Arc::clone(&self.bound))
    }

    /// Takes an association out of the endpoint and returns it as a one-to-one handle, which receives any
    /// messages that were not read yet.
    ///
    /// # Errors
    /// If the association has ended and is forgotten, or doesn't belong to this endpoint.
    pub fn peel_off(&self, id: AssociationId) -> Result<Association, UnknownAssociation> {
        let socket = self.bound.socket(id.shard).ok_or(UnknownAssociation)?;
        self.bound.stack.shard(id.shard).with(|state, _| state.peel_off(socket, id.id))?;
        Ok(Association::new(Handle::new(Arc::clone(&self.bound.stack), id.shard, id.id)))
    }

    /// Returns a view of an association that reads its state, sets its parameters, shuts it down or aborts it.
    ///
    /// # Errors
    /// If the association has ended and is forgotten, or doesn't belong to this endpoint.
    pub fn control(&self, id: AssociationId) -> Result<Control<'_>, UnknownAssociation> {
        let socket = self.bound.socket(id.shard).ok_or(UnknownAssociation)?;
        let shard = self.bound.stack.shard(id.shard);
        if belongs(&shard.lock(), socket, id.id) {
            Ok(Control::new(shard, id))
        } else {
            Err(UnknownAssociation)
        }
    }

    /// Returns all associations of the endpoint; the time and memory that this takes are proportional to their
    /// number.
    #[must_use]
    pub fn associations(&self) -> Vec<AssociationId> {
        self.bound.list(|shard, socket, slot| shard.lock().list(socket, slot, LIST_STEP))
    }

    /// Stops accepting associations that peers set up: from now on INITs are answered with an ABORT, and
    /// set-ups in progress fail. Existing associations continue, and the endpoint can still set up associations
    /// itself. The port can be bound again; on raw IP only by this stack.
    ///
    /// ```
    /// use strandline::{Association, Endpoint, Peer, SendInfo, Stack};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// let server = Endpoint::bind(&there, 7)?;
    /// let early = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// server.stop_accepting();
    /// assert!(Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await.is_err());
    /// early.send(b"still here", SendInfo::default()).await?;
    /// assert_eq!(server.recv_from().await?.1.data, "still here");
    /// # Ok(()) }
    /// ```
    pub fn stop_accepting(&self) {
        for (_, shard, socket) in self.bound.each() {
            shard.with(|state, _| state.stop_many(socket, Phase::Stopped));
        }
    }

    /// Shuts all associations down gracefully and waits until each has ended. Queued messages of both sides are
    /// delivered first. From the first poll on, the endpoint takes no new associations, neither the peers' nor
    /// its own. Associations that were [peeled off](Self::peel_off) are not affected.
    ///
    /// The call takes as long as the slowest association. An association ends at the latest when its peer stops
    /// answering
    /// ([`association_retrans_max`](strandline_proto::config::AssociationConfig::association_retrans_max),
    /// during the set-up [`init_retrans_max`](strandline_proto::config::AssociationConfig::init_retrans_max)).
    /// A peer that answers but doesn't read delays the end for as long as it keeps its receive window closed:
    /// put a time-out around the call and [abort](crate::Control::abort) the associations that are left.
    ///
    /// Keep receiving meanwhile, from a clone, if peers may still send. Messages that arrived can also be read
    /// afterwards, but a full receive buffer delays the end. Once every message was read,
    /// [`recv_from`](Self::recv_from) returns [`Ended::ShutDown`], and [`Notifications`] end.
    ///
    /// ```
    /// use strandline::{Association, Endpoint, Peer, SendInfo, Stack};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// let server = Endpoint::bind(&there, 7)?;
    /// let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// client.send(b"hello", SendInfo::default()).await?;
    /// let (id, _) = server.recv_from().await?;
    /// server.send_to(id, "goodbye".into(), SendInfo::default()).await?;
    /// server.shutdown_all().await;
    /// assert_eq!(client.recv().await?.ok_or("end")?.data, "goodbye");
    /// assert_eq!(client.recv().await?, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// The shutdown begins with the first poll and continues if the future is dropped.
    pub async fn shutdown_all(&self) {
        for (_, shard, socket) in self.bound.each() {
            shard.with(|state, _| state.stop_many(socket, Phase::ShuttingDown));
        }
        let end = |shard: &Shard, socket, slot| {
            shard.with(|state, now| state.end_many(now, socket, slot, LIST_STEP))
        };
        loop {
            let left = self.bound.list(end);
            if left.is_empty() {
                return;
            }
            for AssociationId { shard, id } in left {
                let Some(socket) = self.bound.socket(shard) else { continue };
                let ended = |state: &mut State, _| state.poll_ended_many(socket, id);
                Attempt::new(self.bound.stack.shard(shard), Place::Change(id), ended).await;
            }
        }
    }
}

fn belongs(state: &State, socket: u32, id: EngineId) -> bool {
    state.table.get(id).and_then(|entry| entry.owner()) == Some(Owner::OneToMany(socket))
}
