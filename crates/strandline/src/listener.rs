//! One-to-one listeners.

use std::sync::Arc;
use std::task::Poll;

use strandline_proto::error::LocalAddressError;
use strandline_proto::event::AssociationId as EngineId;

use crate::address::Address;
use crate::association::Association;
use crate::bind::Bind;
use crate::bound::Bound;
use crate::error::{AcceptError, BindError, TryAcceptError};
use crate::handle::Handle;
use crate::readiness::Readiness;
use crate::shard::any::{AnyAttempt, At, Finished, try_any};
use crate::shard::attempt::Attempt;
use crate::shard::core::Shard;
use crate::shard::place::Place;
use crate::shard::socket::Kind;
use crate::shard::state::State;
use crate::stack::Stack;

/// Default limit of associations waiting to be accepted, per shard.
const BACKLOG: usize = 4096;

/// Accepts associations on an SCTP port and returns each as a handle of its own (the one-to-one style of RFC
/// 6458).
///
/// ```
/// use strandline::{Association, Listener, Peer, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// let listener = Listener::bind(&there, 0)?;
/// let peer = Peer::new([10, 0, 0, 2], listener.port());
/// let (client, server) = tokio::join!(Association::connect(&here, peer), listener.accept());
/// let (client, server) = (client?.status().ok_or("it ended")?, server?.status().ok_or("it ended")?);
/// assert_eq!(client.peer_port, server.local_port);
/// # Ok(()) }
/// ```
///
/// Dropping the listener closes the port: associations not accepted yet are aborted, accepted ones continue.
#[derive(Debug)]
pub struct Listener {
    bound: Arc<Bound>,
}

impl Listener {
    /// Listens on an SCTP port, or on a port at some of the stack's addresses ([`Bind`]); port 0 picks one.
    ///
    /// # Errors
    /// If the port is already bound in this stack, no port is left, or an address is not the stack's.
    pub fn bind(stack: &Stack, bind: impl Into<Bind>) -> Result<Self, BindError> {
        Self::bind_with_backlog(stack, bind, BACKLOG)
    }

    /// Listens with a limit of associations waiting to be accepted; associations beyond it are aborted. Each
    /// shard of the stack has its own queue with this limit.
    ///
    /// # Errors
    /// See [`bind`](Self::bind).
    pub fn bind_with_backlog(
        stack: &Stack,
        bind: impl Into<Bind>,
        backlog: usize,
    ) -> Result<Self, BindError> {
        Ok(Self { bound: Arc::new(Bound::new(stack, Kind::Listener { backlog }, bind.into())?) })
    }

    /// Adds an address to those that the listener is bound to ([`Bind::at`]): associations that are set up
    /// from now on have it. Existing ones keep theirs. A socket without addresses of its own has those of its
    /// stack: [`Stack::add_local_address`].
    ///
    /// # Errors
    /// If the listener is not bound to addresses, it has the address or 8 of them, or the address is not unicast.
    pub fn add_local_address(&self, address: impl Into<Address>) -> Result<(), LocalAddressError> {
        self.bound.add_address(address.into().key())
    }

    /// Removes an address from those that the listener is bound to, for associations that are set up from now
    /// on. Packets of new ones to it are answered as if nothing listened there.
    ///
    /// # Errors
    /// If the listener is not bound to the address, or to no other one.
    pub fn remove_local_address(&self, address: impl Into<Address>) -> Result<(), LocalAddressError> {
        self.bound.remove_address(address.into().key())
    }

    /// Returns the SCTP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.bound.port
    }

    /// Accepts the next association that a peer set up. The shards are asked in turn.
    ///
    /// # Errors
    /// If the stack is gone, or the listener has [stopped](Self::stop_accepting) and no association is waiting.
    ///
    /// # Cancel safety
    /// Dropping the future loses no association.
    pub async fn accept(&self) -> Result<Association, AcceptError> {
        let mut finished = Finished::of(self.bound.stack.shards.len());
        let attempt = |state: &mut State, _, at: At| {
            let next = state.poll_accept(at.socket);
            finished.unless_all(at, next, |error| *error == AcceptError::Stopped)
        };
        let (shard, id) = AnyAttempt::new(self.bound.everywhere(), Place::Accept, attempt).await?;
        Ok(self.accepted(shard, id))
    }

    /// Accepts as [`accept`](Self::accept) does, or returns at once if no association is waiting.
    ///
    /// # Errors
    /// [`TryAcceptError::Empty`] if the call would have to wait, otherwise the errors of [`accept`](Self::accept).
    pub fn try_accept(&self) -> Result<Association, TryAcceptError> {
        let mut finished = Finished::of(self.bound.stack.shards.len());
        let accepted = try_any(self.bound.everywhere(), |state, _, at| {
            finished.unless_all(at, state.poll_accept(at.socket), |error| *error == AcceptError::Stopped)
        });
        match accepted {
            Poll::Ready(result) => Ok(result.map(|(shard, id)| self.accepted(shard, id))?),
            Poll::Pending => Err(TryAcceptError::Empty),
        }
    }

    /// Returns an object that waits until an association can be accepted, without accepting it. While it exists,
    /// the port stays bound.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        Readiness::of_listener(Arc::clone(&self.bound))
    }

    /// Accepts the next association that a peer set up on one shard, numbered from 0. Meant for tasks on the
    /// runtime that drives this shard ([`StackBuilder::runtimes`](crate::StackBuilder::runtimes)).
    ///
    /// # Errors
    /// If there is no such shard, the stack is gone, or the listener has [stopped](Self::stop_accepting) and no
    /// association is waiting on the shard.
    ///
    /// # Cancel safety
    /// Dropping the future loses no association.
    pub async fn accept_on(&self, shard: usize) -> Result<Association, AcceptError> {
        let (index, shard, socket) = self.bound.on(shard).ok_or(AcceptError::NoSuchShard(shard))?;
        let id = Attempt::new(shard, Place::Accept(socket), |state, _| state.poll_accept(socket)).await?;
        Ok(self.accepted(index, id))
    }

    fn accepted(&self, shard: u16, id: EngineId) -> Association {
        Association::new(Handle::new(Arc::clone(&self.bound.stack), shard, id))
    }

    /// Stops accepting new associations: from now on INITs are answered with an ABORT, and set-ups in progress
    /// fail. Associations that are already established can still be accepted; after them,
    /// [`accept`](Self::accept) returns [`AcceptError::Stopped`]. Accepted associations continue. The port can
    /// be bound again; on raw IP only by this stack.
    ///
    /// ```
    /// use strandline::{AcceptError, Association, Listener, Peer, Stack};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// let listener = Listener::bind(&there, 7)?;
    /// let early = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// # let _early = early;
    /// listener.stop_accepting();
    /// assert!(Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await.is_err());
    /// let accepted = listener.accept().await?;
    /// # let _accepted = accepted;
    /// assert!(matches!(listener.accept().await, Err(AcceptError::Stopped)));
    /// # Ok(()) }
    /// ```
    pub fn stop_accepting(&self) {
        for (_, shard, socket) in self.bound.each() {
            shard.with(|state, _| state.stop_listener(socket));
        }
    }

    /// Returns how many associations were aborted because the backlog was full.
    #[must_use]
    pub fn refused(&self) -> u64 {
        let refused = |(_, shard, socket): (u16, &Arc<Shard>, u32)| {
            shard.lock().sockets.listener(socket).map_or(0, |listener| listener.refused)
        };
        self.bound.each().map(refused).sum()
    }
}
