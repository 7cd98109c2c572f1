//! The stack: its shards, each with a carrier, an engine and the task that drives them.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use strandline_io::Steering;
use strandline_proto::congestion::Algorithm;
use strandline_proto::endpoint::{Connect, KeyChange, LocalAddresses};
use strandline_proto::error::{ConnectError as Refusal, KeyError, LocalAddressError};
use strandline_proto::event::AssociationId as EngineId;
use strandline_proto::stats::{Buffers, EndpointStats};
use strandline_proto::time::Time;
use strandline_proto::zone;

use crate::address::Address;
use crate::encryption::Encryption;
use crate::engine::Engine;
use crate::error::{BindError, ConnectError, Ended, StackError};
use crate::peer::Peer;
use crate::ports::ReservedPorts;
use crate::shard::attempt::Attempt;
use crate::shard::core::Shard;
use crate::shard::place::Place;
use crate::shard::state::State;
use crate::shard::steer;
use crate::shard::table::Owner;

/// Limit of attempts to pick another port when one of the peer's other addresses already has an association
/// from that port on another shard.
const PICKS_MAX: usize = 16;

/// An SCTP stack: one carrier (a UDP socket, raw IP, or an address in an in-memory network) with any number of
/// SCTP ports on it. Clones are handles to the same stack.
///
/// A task on the tokio runtime where the stack was built drives it. Once the last handle (stack, listener,
/// endpoint, association) is dropped, the task delivers what the remaining associations have queued, then ends.
/// Shutting the runtime down ends the task at once, without delivering anything: await
/// [`wait_idle`](Self::wait_idle) first.
///
/// # Shards
///
/// A stack may have several [shards](crate::StackBuilder::shards), usually one for each core. Each shard has
/// its own socket, task and associations, and the kernel delivers the shard's packets to its socket. Peers see
/// one endpoint. Any task can use an association on any shard, but a task on the runtime that drives the shard
/// finds the association's memory in that core's cache and never waits for a lock.
#[derive(Debug, Clone)]
pub struct Stack {
    pub(crate) inner: Arc<StackInner>,
    /// The shard on which this handle starts associations, where possible.
    pub(crate) preferred: Option<u16>,
}

/// Counters of one shard, from [`Stack::shard_stats`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStats {
    /// Packets that the shard's engine processed.
    pub packets_received: u64,
    /// Packets that the shard's engine sent.
    pub packets_sent: u64,
    /// Existing associations, including those that are ending.
    pub associations: usize,
    /// Packets and ICMP messages that arrived on this shard and were handed over to other shards.
    pub handed_over: u64,
    /// Packets and ICMP messages that other shards handed over to this one.
    pub taken_over: u64,
    /// Packets and ICMP messages for this shard that were dropped because its mailbox was full.
    pub handed_over_lost: u64,
    /// How often a task that works with the shard (its driver, or a task that uses its associations) found the
    /// lock held by another such task. Stays 0 if all of them run on one thread.
    pub lock_waits: u64,
    /// How often the lock was contended because a task read statistics (the status of an association, paths,
    /// counters), or because such a reader found it held.
    pub look_waits: u64,
    /// INITs that the shard's engine answered, or refused for their contents.
    pub inits: u64,
    /// INITs that the shard's engine dropped unread because there were too many
    /// ([`EndpointStats::inits_shed`]).
    pub inits_shed: u64,
}

/// State shared by all handles of a stack.
#[derive(Debug)]
pub(crate) struct StackInner {
    first: Arc<Shard>,
    /// All shards by index, the first included.
    pub(crate) shards: Vec<Arc<Shard>>,
    pub(crate) default_port: u16,
    /// How packets are distributed, if there are several shards.
    rule: Option<Arc<Steering>>,
    /// The shard of the next association if nothing else determines it.
    turn: AtomicU32,
    /// On raw IP: the SCTP ports that this stack has reserved.
    reserved: Mutex<Option<ReservedPorts>>,
}

impl Drop for StackInner {
    fn drop(&mut self) {
        for shard in &self.shards {
            shard.with(|state, _| {
                state.orphaned = true;
                state.wake_driver();
            });
        }
    }
}

impl StackInner {
    pub(crate) fn new(
        shards: Vec<Arc<Shard>>,
        first: Arc<Shard>,
        default_port: u16,
        rule: Option<Arc<Steering>>,
        reserved: Option<ReservedPorts>,
    ) -> Self {
        let reserved = Mutex::new(reserved);
        Self { first, shards, default_port, rule, turn: AtomicU32::new(0), reserved }
    }

    /// Returns the shard with an index, or the first shard if the index is out of range.
    pub(crate) fn shard(&self, index: u16) -> &Arc<Shard> {
        let found = self.shards.get(usize::from(index));
        // Indexes come from this stack only, so the shard is always found.
        found.unwrap_or(&self.first)
    }

    /// Where packets to a peer are carried to.
    pub(crate) fn remotes(&self, peer: &Peer) -> Result<Vec<SocketAddr>, Refusal> {
        let mut remotes = peer.remotes(self.default_port);
        self.introduce(peer, &remotes);
        let Some(own_zone) = self.first.carrier.own_zone() else { return Ok(remotes) };
        for remote in &mut remotes {
            match remote {
                SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => match own_zone
                {
                    0 => return Err(Refusal::NoZone((*v6.ip()).into())),
                    zone => v6.set_scope_id(zone),
                },
                _ => {}
            }
        }
        Ok(remotes)
    }

    /// Changes local addresses of new associations on all shards. Returns the outcome of the first.
    pub(crate) fn change_local(
        &self,
        change: impl Fn(Time, &mut Engine) -> Result<(), LocalAddressError>,
    ) -> Result<(), LocalAddressError> {
        let mut outcomes =
            self.shards.iter().map(|shard| shard.with(|state, now| change(now, &mut state.engine)));
        outcomes.next().unwrap_or(Ok(()))?;
        // A shard that already follows the host's addresses may be ahead.
        outcomes.for_each(drop);
        Ok(())
    }

    /// With encryption: notes the name by which the user knows a peer.
    fn introduce(&self, peer: &Peer, remotes: &[SocketAddr]) {
        let Some(name) = peer.name() else { return };
        for shard in &self.shards {
            if let Some(secure) = &mut shard.lock().secure {
                remotes.iter().for_each(|remote| secure.set_name(*remote, name));
            }
        }
    }

    /// On raw IP: reserves a port and lets its packets in.
    pub(crate) fn reserve(&self, port: u16) -> Result<(), BindError> {
        match &mut *self.reserved.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(reserved) => {
                let carriers = self.shards.iter().filter_map(|shard| shard.carrier.raw());
                reserved.reserve(carriers, port)?;
                self.answer_for(&reserved.ranges());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// On raw IP: lets the engine answer packets to these ports, which no other process of the host has.
    pub(crate) fn answer_for(&self, ports: &[RangeInclusive<u16>]) {
        for shard in &self.shards {
            shard.with(|state, _| state.engine.set_reserved_ports(ports.to_vec()));
        }
    }

    /// Returns the home shard of an association from the request's local port, and whether other shards may
    /// have associations with the same peer.
    pub(crate) fn homes(&self, request: &Connect) -> (u16, bool) {
        match &self.rule {
            None => (0, false),
            Some(rule) => {
                let home = home(rule, request, request.local_port);
                (home, self.others_may_know(home, request))
            }
        }
    }

    /// Returns whether another shard may have an association with one of the request's addresses. That is
    /// possible only if a peer has several addresses, or had others: otherwise the association is on its home shard.
    fn others_may_know(&self, shard: u16, request: &Connect) -> bool {
        let elsewhere = |shard: &Arc<Shard>| {
            shard.steer.as_ref().is_some_and(|steer| steer.post().multihomed_elsewhere(steer.index()))
        };
        request.remotes.len() > 1 || elsewhere(self.shard(shard))
    }

    /// Starts an association for a one-to-one handle. A request with a local port goes to its home shard. Other
    /// requests go to the preferred shard, or to the shards in turn, from a port whose home is that shard.
    pub(crate) fn connect(
        &self,
        preferred: Option<u16>,
        request: Connect,
    ) -> Result<(u16, EngineId), ConnectError> {
        let Some(rule) = &self.rule else {
            return Ok((0, self.start(0, request, |_| true)?));
        };
        if request.local_port != 0 {
            let (home, others) = self.homes(&request);
            if others && self.known_elsewhere(home, &request, request.local_port) {
                return Err(Refusal::AlreadyExists.into());
            }
            return Ok((home, self.start(home, request, |_| true)?));
        }
        let places = rule.places();
        let first = preferred
            .unwrap_or_else(|| (self.turn.fetch_add(1, Ordering::Relaxed) % u32::from(places)) as u16);
        let tries = if preferred.is_some() { 1 } else { places };
        for step in 0..tries {
            let shard = (first + step) % places;
            match self.start_on(rule, shard, &request) {
                Err(ConnectError::Request(Refusal::NoPort)) => {}
                started => return Ok((shard, started?)),
            }
        }
        Err(Refusal::NoPort.into())
    }

    /// Starts an association on a shard, from a port whose home is this shard and that no other shard uses with
    /// the same peer.
    fn start_on(&self, rule: &Steering, shard: u16, request: &Connect) -> Result<EngineId, ConnectError> {
        for _ in 0..PICKS_MAX {
            let id = self.start(shard, request.clone(), |port| home(rule, request, port) == shard)?;
            if !self.others_may_know(shard, request) {
                return Ok(id);
            }
            let port = self.shard(shard).lock().engine.status(id).map_or(0, |status| status.local_port);
            if !self.known_elsewhere(shard, request, port) {
                return Ok(id);
            }
            self.shard(shard).with(|state, now| state.orphan(now, id));
        }
        Err(Refusal::NoPort.into())
    }

    fn start(
        &self,
        shard: u16,
        request: Connect,
        allowed: impl Fn(u16) -> bool,
    ) -> Result<EngineId, ConnectError> {
        let shard = self.shard(shard);
        shard.with(|state, now| {
            if state.gone {
                return Err(Ended::StackClosed.into());
            }
            let started = state.connect(now, Owner::OneToOne, request, allowed);
            if let Some(steer) = &shard.steer {
                steer.note_multihomed(&state.engine);
            }
            started.map_err(ConnectError::from)
        })
    }

    /// Returns whether another shard has an association with one of the peer's addresses.
    fn known_elsewhere(&self, here: u16, request: &Connect, local_port: u16) -> bool {
        let others = (0..).zip(&self.shards).filter(|(index, _)| *index != here);
        others.map(|(_, shard)| shard.lock()).any(|state| {
            let known = |remote: &SocketAddr| {
                state.engine.find(local_port, zone::key(*remote), request.peer_port).is_some()
            };
            request.remotes.iter().any(known)
        })
    }
}

fn home(rule: &Steering, request: &Connect, local_port: u16) -> u16 {
    let addresses = request.remotes.iter().map(SocketAddr::ip);
    steer::home(rule, addresses, request.peer_port, local_port)
}

impl Stack {
    /// Returns the carrier's address: IP address and encapsulation port (0 on raw IP).
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.shard(0).carrier.local_address()
    }

    /// Returns the encapsulation port assumed for peers unless a [`Peer`](crate::Peer) names another.
    #[must_use]
    pub fn default_encapsulation_port(&self) -> u16 {
        self.inner.default_port
    }

    /// Returns the counters of the encryption, summed over the shards; `None` if packets are not encrypted.
    #[must_use]
    pub fn encryption_stats(&self) -> Option<strandline_dtls::Stats> {
        let stats = self.inner.shards.iter().map(|shard| {
            let state = shard.look();
            state.secure.as_ref().map(|secure| secure.layer().stats())
        });
        stats.sum()
    }

    /// Replaces the identity and what is trusted; limits stay. The identity is for connections to come.
    /// Associations with peers that are not trusted any more end with the reason.
    ///
    /// # Errors
    /// If packets are not encrypted.
    pub fn replace_encryption(&self, encryption: &Encryption) -> Result<(), StackError> {
        for shard in &self.inner.shards {
            shard.with(|state, now| {
                let State { engine, secure, .. } = state;
                let Some(secure) = secure else {
                    return Err(StackError::Encryption("the stack does not encrypt".to_owned()));
                };
                let replaced = secure.replace(engine, now, shard.observer.as_deref(), encryption);
                state.wake_driver();
                replaced.map_err(|error| StackError::Encryption(error.to_string()))
            })?;
        }
        Ok(())
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.inner.shards.len()
    }

    /// Returns a handle to the same stack that starts associations on one shard, numbered from 0 (modulo the
    /// number of shards), instead of on each in turn. Meant for tasks on the runtime that drives the shard. An
    /// association with a given local port always goes to the shard determined by its ports and the peer's
    /// address.
    #[must_use]
    pub fn on_shard(&self, shard: usize) -> Self {
        let shard = (shard % self.shards().max(1)) as u16;
        Self { inner: Arc::clone(&self.inner), preferred: Some(shard) }
    }

    /// Sets the congestion controller of future associations, incoming and outgoing, on all sockets. It
    /// replaces the one given by [`StackBuilder::association`](crate::StackBuilder::association). Associations
    /// with [their own parameters](crate::Association::connect_with) and existing associations keep theirs;
    /// [`Control::configure`](crate::Control::configure) changes an existing one.
    ///
    /// ```
    /// use strandline::{Algorithm, Stack};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// let stack = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// assert_eq!(stack.congestion(), Algorithm::Cubic);
    /// stack.set_congestion(Algorithm::Bbr);
    /// assert_eq!(stack.congestion(), Algorithm::Bbr);
    /// # Ok(()) }
    /// ```
    pub fn set_congestion(&self, congestion: Algorithm) {
        for shard in &self.inner.shards {
            shard.with(|state, _| state.engine.set_congestion(congestion));
        }
    }

    /// Returns the congestion controller of future associations.
    #[must_use]
    pub fn congestion(&self) -> Algorithm {
        self.inner.shard(0).look().engine.congestion()
    }

    /// Adds an address of this host that peers are told when associations are set up from now on. Existing
    /// ones keep the addresses that their peers know:
    /// [`Control::request_addresses`](crate::Control::request_addresses) changes these. Packets to the
    /// address must arrive at the stack: a UDP socket is bound to all addresses, or the stack is on raw IP.
    ///
    /// ```
    /// use std::net::IpAddr;
    /// use strandline::{Association, Listener, Peer, Stack};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// let (first, second): (IpAddr, IpAddr) = ("10.0.0.2".parse()?, "10.1.0.2".parse()?);
    /// // A host with two addresses, of which peers are told one at first.
    /// let there = Stack::builder().local_addresses([first]).memory(&network, [first, second])?;
    /// let listener = Listener::bind(&there, 7)?;
    /// let before = Association::connect(&here, Peer::new(first, 7)).await?;
    /// there.add_local_address(second)?;
    /// let after = Association::connect(&here, Peer::new(first, 7)).await?;
    /// assert_eq!((before.paths().len(), after.paths().len()), (1, 2));
    /// # drop(listener);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the address is listed already or is not unicast, or there are 8.
    pub fn add_local_address(&self, address: impl Into<Address>) -> Result<(), LocalAddressError> {
        let address = address.into().key();
        self.inner.change_local(|now, engine| LocalAddresses::of(engine).add(now, address))
    }

    /// Removes an address that peers are told when associations are set up. Existing ones keep it. Without
    /// any, peers use the address that packets come from.
    ///
    /// # Errors
    /// If the address is not listed.
    pub fn remove_local_address(&self, address: impl Into<Address>) -> Result<(), LocalAddressError> {
        let address = address.into().key();
        self.inner.change_local(|now, engine| LocalAddresses::of(engine).remove(now, address))
    }

    /// Returns the addresses that peers are told when associations are set up.
    #[must_use]
    pub fn local_addresses(&self) -> Vec<Address> {
        let listed = |state: &mut State, _| LocalAddresses::of(&mut state.engine).list().to_vec();
        self.inner.shard(0).with(listed).into_iter().map(Address::of_key).collect()
    }

    /// Changes the shared keys (RFC 4895) that future associations begin with, on both sides of a set-up. At
    /// first there is only the null key with identifier 0. Those of an existing association are changed by
    /// [`Control::change_key`](crate::Control::change_key), which has an example.
    ///
    /// # Errors
    /// If the key does not exist, or is in use.
    pub fn change_key(&self, change: &KeyChange) -> Result<(), KeyError> {
        let mut shards = self.inner.shards.iter();
        shards.try_for_each(|shard| shard.with(|state, _| change.clone().apply_to_new(&mut state.engine)))
    }

    /// Returns the counters of the stack's packets and associations, summed over the shards.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        let mut sum = EndpointStats::default();
        for shard in &self.inner.shards {
            sum += shard.look().engine.stats();
        }
        sum
    }

    /// Returns the bytes held by the buffers of all associations, and their limits. What waits for readers of
    /// single streams counts as received.
    #[must_use]
    pub fn buffers(&self) -> Buffers {
        let mut sum = Buffers::default();
        for shard in &self.inner.shards {
            let state = shard.look();
            let mut buffers = state.engine.buffers();
            buffers.receive_bytes += state.taken.bytes();
            sum += buffers;
        }
        sum
    }

    /// Returns the counters of each shard, in the order of their indexes. They show the traffic between shards.
    /// Shards share a lock only to hand over packets, and to set up associations that have a given local port
    /// or peers with several or changed addresses, which must not exist twice.
    #[must_use]
    pub fn shard_stats(&self) -> Vec<ShardStats> {
        let stats = |shard: &Arc<Shard>| {
            let (lock_waits, look_waits) = shard.lock_waits();
            let (engine, associations) = {
                let state = shard.look();
                (state.engine.stats(), state.engine.association_count())
            };
            let traffic = shard.steer.as_ref().map(|steer| steer.post().traffic(steer.index()));
            let traffic = traffic.unwrap_or_default();
            ShardStats {
                packets_received: engine.packets_received,
                packets_sent: engine.packets_sent,
                associations,
                handed_over: traffic.sent,
                taken_over: traffic.received,
                handed_over_lost: traffic.lost,
                lock_waits,
                look_waits,
                inits: engine.inits,
                inits_shed: engine.inits_shed,
            }
        };
        self.inner.shards.iter().map(stats).collect()
    }

    /// Returns the number of existing associations, including those that are ending.
    #[must_use]
    pub fn association_count(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.look().engine.association_count()).sum()
    }

    /// Waits until no association is left: everything queued by dropped handles was delivered or abandoned.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on the stack.
    pub async fn wait_idle(&self) {
        let idle = |shard: &Arc<Shard>| {
            let state = shard.look();
            state.table.len() == 0 || state.gone
        };
        // While one shard becomes idle, associations may begin on others.
        while let Some(busy) = self.inner.shards.iter().find(|shard| !idle(shard)) {
            Attempt::new(busy, Place::Idle, |state, _| {
                if state.table.len() == 0 || state.gone {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
        }
    }
}
