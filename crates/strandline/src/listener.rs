//! A one-to-one listener.

use std::sync::Arc;

use crate::association::Association;
use crate::error::{AcceptError, BindError};
use crate::handle::Handle;
use crate::shard::attempt::Attempt;
use crate::shard::place::Place;
use crate::stack::{Stack, StackInner};

/// Associations that wait to be accepted, unless told otherwise.
const BACKLOG: usize = 4096;

/// Accepts associations on an SCTP port, each as a handle of its own (the one-to-one style of RFC 6458).
///
/// ```
/// use strandline::{Association, Listener, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
/// let listener = Listener::bind(&there, 0)?;
/// let peer = ("10.0.0.2".parse()?, listener.port());
/// let (client, server) = tokio::join!(Association::connect(&here, peer), listener.accept());
/// assert_eq!(client?.status().unwrap().peer_port, server?.status().unwrap().local_port);
/// # Ok(()) }
/// ```
///
/// Dropping it closes the port: associations that were not accepted yet are aborted, those that were go on.
#[derive(Debug)]
pub struct Listener {
    stack: Arc<StackInner>,
    socket: u32,
    port: u16,
}

impl Listener {
    /// Listens on an SCTP port; 0 picks one.
    ///
    /// # Errors
    /// If the port is taken in this stack, or none is left.
    pub fn bind(stack: &Stack, port: u16) -> Result<Self, BindError> {
        Self::bind_with_backlog(stack, port, BACKLOG)
    }

    /// Listens, with a limit of associations that wait to be accepted; beyond it they are aborted.
    ///
    /// # Errors
    /// If the port is taken in this stack, or none is left.
    pub fn bind_with_backlog(stack: &Stack, port: u16, backlog: usize) -> Result<Self, BindError> {
        let shard = stack.inner.shard(0);
        let (socket, port) = shard.with(|state, _| state.bind(&shard.carrier, port, Some(backlog)))?;
        Ok(Self { stack: Arc::clone(&stack.inner), socket, port })
    }

    /// The SCTP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next association that a peer set up.
    ///
    /// # Errors
    /// If the stack is gone.
    ///
    /// # Cancel safety
    /// No association is lost if the future is dropped.
    pub async fn accept(&self) -> Result<Association, AcceptError> {
        let socket = self.socket;
        let attempt =
            Attempt::new(self.stack.shard(0), Place::Accept(socket), |state, _| state.poll_accept(socket));
        let id = attempt.await?;
        Ok(Association::new(Handle::new(Arc::clone(&self.stack), 0, id)))
    }

    /// Associations that were aborted because too many waited.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.stack.shard(0).lock().sockets.listener(self.socket).map_or(0, |listener| listener.refused)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stack.shard(0).with(|state, now| state.close_listener(now, self.socket));
    }
}
