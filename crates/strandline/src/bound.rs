//! A port bound on all shards of a stack, which the application uses as one socket.

use std::net::IpAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use strandline_proto::endpoint::{Listen, LocalAddresses};
use strandline_proto::error::{ListenError, LocalAddressError};
use strandline_proto::event::AssociationId as EngineId;
use strandline_proto::time::Time;

use crate::bind::Bind;
use crate::error::BindError;
use crate::id::AssociationId;
use crate::shard::any::Everywhere;
use crate::shard::core::Shard;
use crate::shard::socket::Kind;
use crate::shard::state::State;
use crate::stack::{Stack, StackInner};

/// Limit of attempts to pick another port when a port free on the first shard is taken on another.
const PICKS_MAX: usize = 64;

/// A listener or one-to-many endpoint bound on every shard; dropping it closes them.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) stack: Arc<StackInner>,
    kind: Kind,
    /// The socket's index on each shard where it is bound.
    sockets: Vec<u32>,
    pub(crate) port: u16,
    /// Local addresses of its associations; none for those of the stack.
    addresses: Mutex<Vec<IpAddr>>,
    turn: AtomicUsize,
}

impl Bound {
    /// Binds the port on all shards; port 0 picks one that is free on all of them.
    pub(crate) fn new(stack: &Stack, kind: Kind, bind: Bind) -> Result<Self, BindError> {
        let inner = &stack.inner;
        let (port, addresses) = bind.into_parts();
        for _ in 0..PICKS_MAX {
            let (stack, turn) = (Arc::clone(inner), AtomicUsize::new(0));
            let addresses = Mutex::new(addresses.clone());
            let mut bound = Self { stack, kind, sockets: Vec::new(), port, addresses, turn };
            match inner.shards.iter().try_for_each(|shard| bound.add(shard, port == 0)) {
                Ok(()) => {
                    inner.reserve(bound.port)?;
                    return Ok(bound);
                }
                Err(BindError::Port(ListenError::PortInUse(_))) if port == 0 => {}
                Err(error) => return Err(error),
            }
        }
        Err(ListenError::NoPort.into())
    }

    /// Binds the port on the next shard: on the first shard the requested port (or one that it picks), on
    /// others the same port as on the first.
    fn add(&mut self, shard: &Shard, picks: bool) -> Result<(), BindError> {
        let (port, kind, addresses) = (self.port, self.kind, self.local_addresses());
        let (socket, port) = shard.with(|state, _| {
            if picks && port != 0 && state.engine.uses_port(port) {
                return Err(ListenError::PortInUse(port).into());
            }
            state.bind(kind, Listen { port, addresses })
        })?;
        self.sockets.push(socket);
        self.port = port;
        Ok(())
    }

    /// Returns the local addresses of its associations; none for those of the stack.
    pub(crate) fn local_addresses(&self) -> Vec<IpAddr> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds an address that it is bound to.
    pub(crate) fn add_address(&self, address: IpAddr) -> Result<(), LocalAddressError> {
        self.change(|now, addresses| addresses.add(now, address))
    }

    /// Removes an address that it is bound to.
    pub(crate) fn remove_address(&self, address: IpAddr) -> Result<(), LocalAddressError> {
        self.change(|now, addresses| addresses.remove(now, address))
    }

    fn change(
        &self,
        change: impl Fn(Time, &mut LocalAddresses<'_>) -> Result<(), LocalAddressError>,
    ) -> Result<(), LocalAddressError> {
        let mut own = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        self.stack.change_local(|now, engine| {
            let of_port = LocalAddresses::of_listener(engine, self.port);
            change(now, &mut of_port.ok_or(LocalAddressError::NotBound)?)
        })?;
        let list = |state: &mut State, _| {
            LocalAddresses::of_listener(&mut state.engine, self.port).map(|bound| bound.list().to_vec())
        };
        *own = self.stack.shard(0).with(list).unwrap_or_default();
        Ok(())
    }

    /// Returns the socket's index on a shard.
    pub(crate) fn socket(&self, shard: u16) -> Option<u32> {
        self.sockets.get(usize::from(shard)).copied()
    }

    /// Returns all shards with the socket's index on each.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u16, &Arc<Shard>, u32)> {
        let with_socket = self.stack.shards.iter().zip(&self.sockets);
        (0..).zip(with_socket).map(|(index, (shard, socket))| (index, shard, *socket))
    }

    /// Collects associations of all shards, a few slots at a time: `some` returns the associations and the slot
    /// to continue from.
    pub(crate) fn list(
        &self,
        some: impl Fn(&Shard, u32, u32) -> (Vec<EngineId>, Option<u32>),
    ) -> Vec<AssociationId> {
        let mut all = Vec::new();
        for (index, shard, socket) in self.each() {
            let mut from = Some(0);
            while let Some(slot) = from {
                let (found, next) = some(shard, socket, slot);
                all.extend(found.into_iter().map(|id| AssociationId { shard: index, id }));
                from = next;
            }
        }
        all
    }

    /// Returns one shard with the socket's index on it.
    pub(crate) fn on(&self, shard: usize) -> Option<(u16, &Arc<Shard>, u32)> {
        self.each().nth(shard)
    }

    pub(crate) fn everywhere(&self) -> Everywhere<'_> {
        Everywhere { shards: &self.stack.shards, sockets: &self.sockets, turn: &self.turn }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        for (_, shard, socket) in self.each() {
            shard.with(|state, now| match self.kind {
                Kind::Listener { .. } => state.close_listener(now, socket),
                Kind::Many => state.close_many(socket),
            });
        }
    }
}
